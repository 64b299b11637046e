"""`draguard explain xid N`: what a code means, and what would be done about it here."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from draguard.cluster.installation import PolicyInForce, find
from draguard.cluster.policy_file import policy_of
from draguard.connection.errors import sentence
from draguard.connection.kubeconfig import endpoint_of
from draguard.connection.session import add_cluster_flags, client_of, complain
from draguard.exit_status import DONE, WRONG
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from draguard.render.xid_page import sheet
from draguard.trial.xid import known
from kubeapi import clock
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import EndpointError
from remediator.policy.error import PolicyError

EXAMPLES = (
    Example("draguard explain xid 79", "the GPU fell off the bus"),
    Example("draguard explain xid 94 --mig", "on a GPU with MIG slices"),
    Example("draguard explain xid 149", "with the NVLink5 sub-codes"),
    Example("draguard explain xid 95 --policy FILE", "under another policy"),
    Example("draguard explain xid 48 --shipped", "without a cluster"),
)
_DIGITS = 5
"""Far beyond any XID that there is."""
_QUICK = 5.0
"""Seconds for an answer: what a code means can be told without one."""


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 when the policy file cannot be read."""
    parser = teaching(
        "explain",
        "Explain an XID: NVIDIA's catalogue, Draguard's class of fault, and what Draguard would\n"
        "do under the policy in force in the cluster. If no cluster can be reached, the output\n"
        "says so and uses the shipped policy.",
        EXAMPLES,
    )
    parser.add_argument("what", metavar="xid", help="the word `xid`")
    parser.add_argument(
        "code", nargs="?", metavar="N", help="number in the kernel log: NVRM: Xid ...: N"
    )
    parser.add_argument("--mig", action="store_true", help="the GPU has MIG slices")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--policy", type=Path, metavar="FILE", help="instead of the policy in force"
    )
    chosen.add_argument("--shipped", action="store_true", help="use the shipped policy, no cluster")
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    code = _code(parser, options)
    try:
        policy = _policy(options)
    except PolicyError as error:
        for one in error.problems:
            complain("explain", f"{options.policy}: {one}")
        return WRONG
    found = known(code, policy.policy, policy.source, clock.now(), mig=options.mig)
    give(found, options.output, lambda: sheet(found))
    return DONE


def _code(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Return the code that was asked for; ends the program where it is none."""
    given: str = (options.code if options.what == "xid" else options.what) or ""
    number = given if given.isdecimal() and len(given) <= _DIGITS else ""
    if options.what != "xid" or not number:
        parser.error(f"write `draguard explain xid {number or 79}`; the kernel log has the number")
    return int(number)


def _policy(options: argparse.Namespace) -> PolicyInForce:
    if options.policy is not None:
        return PolicyInForce(policy=policy_of(options.policy), source=str(options.policy))
    return PolicyInForce(source="shipped") if options.shipped else _in_force(options)


def _in_force(options: argparse.Namespace) -> PolicyInForce:
    server = ""
    try:
        endpoint = endpoint_of(options.kubeconfig, options.context)
        server = endpoint.server
        client = client_of(endpoint, _QUICK, Client)
        try:
            return find(client, options.namespace).policy
        finally:
            client.close()
    except (EndpointError, ApiError) as error:
        return PolicyInForce(
            source=f"shipped; the policy of a cluster is unknown: {sentence(error, server)}"
        )
