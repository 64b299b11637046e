"""`draguard uncordon DEVICE...`: remove cordons for maintenance, and nothing else."""

import argparse
from collections.abc import Iterable, Sequence
from functools import partial

from draguard.cluster.cordon_rule import device_of, is_maintenance
from draguard.cluster.cordons import RULES, uncordon_all, verified
from draguard.cluster.find_device import (
    NAMES,
    AmbiguousDeviceError,
    NoDeviceError,
    find_devices,
)
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader
from draguard.cluster.stored_incidents import rule_names
from draguard.commands.cordon import NOT_SERVED
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.progress import Progress
from draguard.connection.session import print_error, run_with_client
from draguard.exit_status import DONE, PROBLEM
from draguard.phrases import count
from draguard.render.cordon_page import uncordon_page
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from exporter.model.device import Device
from kubeapi.client import Client
from remediator.controller.feature_gates import StatedRule
from remediator.model.taint_rule import GPU, UUID, is_ours

EXAMPLES = (
    Example("draguard uncordon gpu-7/3", "every cordon for maintenance on that GPU"),
    Example("draguard uncordon --node gpu-7", "those of every GPU of a node"),
    Example("draguard uncordon --all --dry-run", "which cordons for maintenance exist"),
)


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "uncordon",
        "Remove cordons that any user has made with `draguard cordon`. Taints of the remediator\n"
        "stay.",
        EXAMPLES,
    )
    taught.usage = f"{taught.prog} (DEVICE... | --node NAME | --all) [FLAGS]"
    taught.add_argument("devices", nargs="*", metavar="DEVICE", help=NAMES)
    taught.add_argument("--node", default="", metavar="NAME", help="those of every GPU of a node")
    taught.add_argument("--all", action="store_true", help="every cordon for maintenance")
    taught.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, change nothing"
    )
    add_output_flag(taught, names=True)
    add_cluster_flags(taught)
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0 if they are gone; 1 if there was none; 2 without access."""
    flags = parser()
    options = flags.parse_args(arguments)
    if bool(options.devices or options.node) == options.all:
        flags.error("name devices, a node with --node, or all of them with --all")
    return run_with_client("uncordon", options, lambda client: _uncordon(client, options))


def _uncordon(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects("any_reports", "slices", "rules")
    if objects.rule_version is None:
        print_error("uncordon", NOT_SERVED)
        return PROBLEM
    every = [rule for rule in objects.rules if is_maintenance(rule)]
    try:
        cordons, without = (every, []) if options.all else _found(options, every, objects)
    except AmbiguousDeviceError as error:
        print_error("uncordon", str(error))
        return PROBLEM
    changed = uncordon_all(client, objects, cordons, dry=options.dry_run)
    if cordons and not options.dry_run:
        changed = verified(client, objects, cordons, changed)
    for word in without:
        ours = sum(map(is_ours, objects.rules))
        whose = count(ours, "taint rule belongs", "taint rules belong")
        hint = f"; {whose} to the remediator: see `draguard incidents`" if ours else ""
        print_error("uncordon", f"there is no cordon for maintenance on {word!r}{hint}")
    if changed or not without:
        names = rule_names(each.rule for each in changed if not each.failed)
        page = partial(uncordon_page, changed)
        print_result(changed, options.output, page, "CordonChangeList", names)
    hidden = [collection for collection in objects.unreadable if RULES in collection]
    for collection in hidden:
        print_error("uncordon", f"skipped because this version cannot read them: {collection}")
    left = hidden or without or any(each.failed for each in changed)
    return PROBLEM if left else DONE


def _found(
    options: argparse.Namespace, every: Sequence[StatedRule], objects: Objects
) -> tuple[list[StatedRule], list[str]]:
    """Return the cordons of all words and the node, each once, and the words without one.

    Raises AmbiguousDeviceError.
    """
    found: dict[str, StatedRule] = {}
    without: list[str] = []
    for word in dict.fromkeys(options.devices):
        cordons = named_cordons(word, every, objects)
        found |= {cordon.metadata.name: cordon for cordon in cordons}
        without += [] if cordons else [word]
    if options.node:
        cordons = node_cordons(options.node, every, objects)
        found |= {cordon.metadata.name: cordon for cordon in cordons}
        without += [] if cordons else [options.node]
    return list(found.values()), without


def node_cordons(node: str, cordons: Iterable[StatedRule], objects: Objects) -> list[StatedRule]:
    """Return the cordons of what a node publishes or has published: a pool has its node's name."""
    devices = {part.device for part in objects.published() if part.node == node}
    return [
        cordon
        for cordon in cordons
        if (device := device_of(cordon)) in devices or (device is not None and device.pool == node)
    ]


def named_cordons(word: str, cordons: Iterable[StatedRule], objects: Objects) -> list[StatedRule]:
    """Return the cordons of a device; if it is no longer published, by their labels.

    Raises AmbiguousDeviceError.
    """
    devices: set[Device] = set()
    try:
        found = find_devices(word, objects.published(), objects.reports)
        devices = {target.name for target in found.targets}
    except AmbiguousDeviceError:
        raise
    except NoDeviceError:
        pass

    def labelled(cordon: StatedRule) -> bool:
        uuids = (cordon.metadata.labels.get(UUID), cordon.metadata.labels.get(GPU))
        return word.lower() in {uuid.lower() for uuid in uuids if uuid}

    return [
        cordon
        for cordon in cordons
        if (device := device_of(cordon)) in devices or word == str(device) or labelled(cordon)
    ]
