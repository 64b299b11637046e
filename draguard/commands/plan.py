"""`draguard plan`: what the remediator would do now, and why."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from draguard.cluster.installation import PolicyInForce
from draguard.cluster.plans import Plans, decided_here, known_nodes, of_remediator
from draguard.cluster.policy_file import policy_of
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.exit_status import DONE, UNASKED, WRONG
from draguard.nearest import did_you_mean
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from draguard.render.plan_page import sheet
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import EndpointError
from remediator.policy.error import PolicyError

EXAMPLES = (
    Example("draguard plan", "all nodes with an open incident, a taint rule or a sick GPU"),
    Example("draguard plan --node gpu-7", "all GPUs of one node, healthy ones too"),
    Example("draguard plan --policy new.yaml", "what another policy would do"),
    Example("draguard plan --url http://10.0.3.7:9401", "the plan of a running remediator"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 when there is no such node or policy file; 2 when nothing could be asked."""
    parser = teaching(
        "plan",
        "Show what the remediator would do now for each GPU with an incident, and why. Nothing is\n"
        "written. Needs no remediator and no port-forward: the command runs the same code.",
        EXAMPLES,
    )
    parser.add_argument("--node", default="", metavar="NAME", help="all GPUs of one node")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--policy", type=Path, metavar="FILE", help="instead of the policy in force"
    )
    chosen.add_argument("--url", default="", help="show the plan of this remediator")
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    if options.url:
        return _ask(options)
    try:
        policy = _policy(options.policy)
    except PolicyError as error:
        for one in error.problems:
            complain("plan", f"{options.policy}: {one}")
        return WRONG
    return asked("plan", options, lambda client: _decide(client, options, policy))


def _policy(file: Path | None) -> PolicyInForce | None:
    if file is None:
        return None
    return PolicyInForce(policy=policy_of(file), source=str(file))


def _decide(client: Client, options: argparse.Namespace, policy: PolicyInForce | None) -> int:
    known = known_nodes(client, options.namespace) if options.node else frozenset[str]()
    if options.node and options.node not in known:
        meant = did_you_mean(options.node, known)
        complain("plan", f"no report, incident or taint rule for a node {options.node!r}{meant}")
        return WRONG
    return _tell(decided_here(client, options.namespace, options.node, policy), options)


def _ask(options: argparse.Namespace) -> int:
    try:
        return _tell(of_remediator(options.url, options.node), options)
    except (ApiError, EndpointError) as error:
        complain(
            "plan", f"{options.url}: {error}; check that it is a remediator's --listen address"
        )
        return UNASKED


def _tell(plans: Plans, options: argparse.Namespace) -> int:
    give(plans, options.output, lambda: sheet(plans))
    return DONE
