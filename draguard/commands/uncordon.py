"""`draguard uncordon DEVICE`: take cordons for maintenance away, and nothing else."""

import argparse
from collections.abc import Iterable, Sequence

from draguard.cluster.cordon_rule import device_of, is_maintenance
from draguard.cluster.cordons import RULES, looked_at, take_away
from draguard.cluster.find_device import NAMES, AmbiguousDeviceError, NoDeviceError, meant
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader
from draguard.commands.cordon import NOT_SERVED, published
from draguard.connection.progress import Progress
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.exit_status import DONE, WRONG
from draguard.phrases import count
from draguard.render.cordon_page import taken_away
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from exporter.model.device import Device
from kubeapi.client import Client
from remediator.controller.feature_gates import StatedRule
from remediator.model.taint_rule import GPU, UUID, is_ours

EXAMPLES = (
    Example("draguard uncordon gpu-7/3", "every cordon for maintenance on that GPU"),
    Example("draguard uncordon --all --dry-run", "which cordons for maintenance exist"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 when they are gone; 1 when there was none; 2 when nothing could be asked."""
    parser = teaching(
        "uncordon",
        "Remove cordons that any user has made with `draguard cordon`. Taints of the remediator\n"
        "stay.",
        EXAMPLES,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("device", nargs="?", metavar="DEVICE", help=NAMES)
    which.add_argument("--all", action="store_true", help="every cordon for maintenance")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, change nothing"
    )
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    return asked("uncordon", options, lambda client: _uncordon(client, options))


def _uncordon(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects("any_reports", "slices", "rules")
    if objects.rule_version is None:
        complain("uncordon", NOT_SERVED)
        return WRONG
    cordons = [one for one in objects.rules if is_maintenance(one)]
    try:
        mine = cordons if options.all else named(options.device, cordons, objects)
    except AmbiguousDeviceError as error:
        complain("uncordon", str(error))
        return WRONG
    changed = take_away(client, objects, mine, dry=options.dry_run)
    if mine and not options.dry_run:
        changed = looked_at(client, objects, mine, changed)
    if not changed and not options.all:
        complain(
            "uncordon", f"there is no cordon for maintenance on {options.device!r}{_ours(objects)}"
        )
    else:
        give(changed, options.output, lambda: taken_away(changed))
    hidden = [one for one in objects.unreadable if RULES in one]
    for one in hidden:
        complain("uncordon", f"skipped because this version cannot read them: {one}")
    left = hidden or not (changed or options.all) or any(one.failed for one in changed)
    return WRONG if left else DONE


def _ours(objects: Objects) -> str:
    ours = sum(map(is_ours, objects.rules))
    whose = count(ours, "taint rule belongs", "taint rules belong")
    return f"; {whose} to the remediator: see `draguard incidents`" if ours else ""


def named(word: str, cordons: Iterable[StatedRule], objects: Objects) -> list[StatedRule]:
    """Return the cordons that a word means; where no device goes by it any more, by their marks.

    Raises AmbiguousDeviceError.
    """
    devices: set[Device] = set()
    try:
        found = meant(word, published(objects), objects.reports)
        devices = {one.name for one in found.targets}
    except AmbiguousDeviceError:
        raise
    except NoDeviceError:
        pass  # it may be published no more
    return [one for one in cordons if device_of(one) in devices or _marked(one, word)]


def _marked(one: StatedRule, word: str) -> bool:
    uuids = (one.metadata.labels.get(UUID), one.metadata.labels.get(GPU))
    return word.lower() in {uuid.lower() for uuid in uuids if uuid} or word == str(device_of(one))
