"""`draguard explain xid N`: what a code means, and what would be done about it here."""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from draguard.cluster.installation import PolicyInForce, find_installation, policy_of_file
from draguard.cluster.listing import PAGE, raw_items
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.errors import sentence
from draguard.connection.session import client_of, endpoint_of_flags, print_error
from draguard.exit_status import DONE, PROBLEM
from draguard.program_name import spelled
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from draguard.render.xid_page import xid_page
from draguard.trial.kernel_log import ASSUMED, KernelLog, kernel_log_of
from draguard.trial.xid import known
from exporter.model.node_health import NodeDeviceHealth
from kubeapi import clock
from kubeapi.client import UNREADABLE, ApiError, Client
from kubeapi.discovery import served
from kubeapi.endpoint import EndpointError
from kubeapi.resources import REPORTS
from kubeapi.versions import GROUP, RULE_VERSIONS
from remediator.policy.error import PolicyError

EXAMPLES = (
    Example("draguard explain xid 79", "the GPU fell off the bus"),
    Example("draguard explain xid 94 --mig", "on a GPU with MIG slices"),
    Example("draguard explain xid 149", "with the NVLink5 sub-codes"),
    Example("draguard explain xid 95 --policy FILE", "under another policy"),
    Example("draguard explain xid 48 --shipped", "without a cluster"),
)
_DIGITS = 5
"""More than any XID has."""
_QUICK = 5.0
"""Seconds for an answer: a code can be explained without one."""


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "explain",
        "Explain an XID: NVIDIA's catalogue, Draguard's class of fault, and what Draguard would\n"
        "do under the policy in force in the cluster. If no cluster can be reached, the output\n"
        "says so and uses the shipped policy.",
        EXAMPLES,
    )
    taught.add_argument("what", metavar="xid", help="the word `xid`; it may be left out")
    taught.add_argument(
        "code", nargs="?", metavar="N", help="number in the kernel log: NVRM: Xid ...: N"
    )
    taught.add_argument("--mig", action="store_true", help="the GPU has MIG slices")
    chosen = taught.add_mutually_exclusive_group()
    chosen.add_argument(
        "--policy", type=Path, metavar="FILE", help="use this file instead of the policy in force"
    )
    chosen.add_argument("--shipped", action="store_true", help="use the shipped policy, no cluster")
    add_output_flag(taught)
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} xid [N] [FLAGS]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 if the policy file cannot be read."""
    options = parser().parse_args(arguments)
    word, code = options.what, options.code
    given: str = (code if word == "xid" else word if code is None else "") or ""
    number = given if given.isdecimal() and len(given) <= _DIGITS else ""
    if not number:
        parser().error(
            spelled(f"write `draguard explain xid {number or 79}`; the kernel log has the number")
        )
    try:
        here = (
            _Here(policy=policy_of_file(options.policy))
            if options.policy is not None
            else _Here(policy=PolicyInForce(source="shipped"))
            if options.shipped
            else _of_cluster(options)
        )
    except PolicyError as error:
        for problem in error.problems:
            print_error("explain", f"{options.policy}: {problem}")
        return PROBLEM
    found = known(
        int(number),
        here.policy.policy,
        here.policy.source,
        clock.now(),
        mig=options.mig,
        log=here.log,
        rules_served=here.rules_served,
    )
    print_result(found, options.output, lambda: xid_page(found), "XidExplanation")
    return DONE


class _Here(msgspec.Struct, frozen=True, kw_only=True):
    """What decides in a cluster; without one, what is assumed."""

    policy: PolicyInForce
    log: KernelLog = ASSUMED
    rules_served: bool = True


def _of_cluster(options: argparse.Namespace) -> _Here:
    """Return the policy of the cluster, how its nodes read the kernel log, and what it serves.

    If the policy cannot be read, it is the shipped one, with the reason.
    """
    server = ""
    try:
        endpoint = endpoint_of_flags(options)
        server = endpoint.server
        client = client_of(endpoint, min(_QUICK, options.request_timeout), Client)
        try:
            here = _Here(policy=find_installation(client, options.namespace).policy)
            with suppress(ApiError):
                version = served(client, GROUP, "devicetaintrules", RULE_VERSIONS)
                here = msgspec.structs.replace(here, rules_served=version is not None)
            with suppress(ApiError, *UNREADABLE):
                # One page of reports: in a large cluster, more would not change the answer.
                page = islice(raw_items(client, REPORTS), PAGE)
                log = kernel_log_of(msgspec.json.decode(raw, type=NodeDeviceHealth) for raw in page)
                here = msgspec.structs.replace(here, log=log)
            return here
        finally:
            client.close()
    except (EndpointError, ApiError) as error:
        why = f"shipped; the policy of a cluster is unknown: {sentence(error, server)}"
        return _Here(policy=PolicyInForce(source=why))
