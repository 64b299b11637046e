"""`draguard plan`: what the remediator would do now, and why."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from draguard.cluster.installation import PolicyInForce, policy_of_file
from draguard.cluster.nodes_by_label import NoNodeError, add_selector_flag, selected_nodes
from draguard.cluster.plans import (
    Plans,
    UnknownPolicyError,
    decided_here,
    known_nodes,
    of_remediator,
)
from draguard.connection.cluster_flags import add_all_namespaces_flag, add_cluster_flags
from draguard.connection.session import print_error, run_with_client
from draguard.connection.watch import add_watch_flag, watch
from draguard.exit_status import DONE, NO_ACCESS, PROBLEM
from draguard.phrases import did_you_mean
from draguard.render.changes import Changes
from draguard.render.formats import add_output_flag
from draguard.render.help_text import Example, teaching
from draguard.render.plan_page import plan_page
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import EndpointError
from remediator.policy.error import PolicyError

_URL = "http://10.0.3.7:9401"
EXAMPLES = (
    Example("draguard plan", "all nodes with an open incident, a taint rule or a sick GPU"),
    Example("draguard plan --node gpu-7", "all GPUs of one node, healthy ones too"),
    Example("draguard plan --policy new.yaml", "what another policy would do"),
    Example(f"draguard plan --url {_URL}", "the plan of a running remediator"),
)


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "plan",
        "Show what the remediator would do now for each GPU with an incident, and why. Nothing is\n"
        "written. Needs no remediator and no port-forward: it runs the remediator's code here.",
        EXAMPLES,
    )
    taught.add_argument("--node", default="", metavar="NAME", help="all GPUs of one node")
    add_selector_flag(taught)
    chosen = taught.add_mutually_exclusive_group()
    chosen.add_argument(
        "--policy", type=Path, metavar="FILE", help="use this file instead of the policy in force"
    )
    chosen.add_argument("--shipped", action="store_true", help="use the shipped policy")
    chosen.add_argument("--url", default="", help="show the plan of this remediator")
    add_all_namespaces_flag(taught)
    add_watch_flag(taught)
    add_output_flag(taught)
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} [--policy FILE | --shipped | --url URL] [FLAGS]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0; 1 for no such node or policy file, or a plan without some objects; 2: no access."""
    options = parser().parse_args(arguments)
    if options.url and options.watch:
        parser().error("--watch does not go with --url")
    if options.selector and (options.node or options.url):
        parser().error("--selector does not go with --node or --url")
    changes = Changes(options.output, "Plan")
    if options.url:
        try:
            return _show(of_remediator(options.url, options.node), changes)
        except EndpointError:
            print_error("plan", f"{options.url!r} is not a URL of a remediator, such as {_URL}")
            return NO_ACCESS
        except ApiError as error:
            why = f"{options.url}: {error}; check that it is a remediator's --listen address"
            print_error("plan", why)
            return NO_ACCESS
    try:
        policy = PolicyInForce(source="shipped") if options.shipped else None
        policy = policy_of_file(options.policy) if options.policy is not None else policy
    except PolicyError as error:
        for problem in error.problems:
            print_error("plan", f"{options.policy}: {problem}")
        return PROBLEM

    def decide(client: Client) -> int:
        look = partial(_decide, client, options, policy, changes)
        return watch("plan", client, look, again=options.watch)

    return run_with_client("plan", options, decide)


def _decide(
    client: Client, options: argparse.Namespace, policy: PolicyInForce | None, changes: Changes
) -> int:
    known = known_nodes(client, options.namespace) if options.node else frozenset[str]()
    if options.node and options.node not in known:
        near = did_you_mean(options.node, known)
        why = f"no report, incident or taint rule for a node {options.node!r}{near}"
        print_error("plan", why)
        return PROBLEM
    try:
        among = selected_nodes(client, options.selector) if options.selector else None
        found = decided_here(client, options.namespace, options.node, policy, among)
        return _show(found, changes)
    except (UnknownPolicyError, NoNodeError) as error:
        print_error("plan", str(error))
        return PROBLEM


def _show(plans: Plans, changes: Changes) -> int:
    steady = tuple(msgspec.structs.replace(node, wake=None) for node in plans.page.nodes)
    changes.show(plans, lambda: plan_page(plans), plans.page.at, apart=(steady, plans.remarks))
    return PROBLEM if plans.unreadable else DONE
