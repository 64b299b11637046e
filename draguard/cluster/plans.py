"""The decisions of this moment: made here from a fresh reading, or read from a remediator."""

from collections.abc import Container, Iterator, Mapping

import msgspec

from draguard.cluster.decide import Deciding
from draguard.cluster.installation import PolicyInForce, find_installation
from draguard.cluster.leader import Leader, leader_of
from draguard.cluster.objects import Objects
from draguard.cluster.policy_in_force import judged
from draguard.cluster.reading import WATCHED, Reader
from draguard.connection.errors import forbidden
from draguard.connection.progress import Progress
from draguard.connection.session import client_of
from draguard.phrases import some
from kubeapi.client import UNREADABLE, ApiError, Client
from kubeapi.endpoint import Endpoint
from remediator.controller.debug_plan import MOST, Page, node_plan
from remediator.controller.node_pods import NodePods
from remediator.model.pod import PodFacts

PATH = "/debug/plan"
_QUICK = 10.0
"""Seconds for a page of a process that has it in memory."""
HERE = (
    "Computed here by the remediator's own code, from the current objects of the API server. Only "
    "a running remediator knows recent changes of the policy, a driver or an agent (which defer "
    "evictions for a while) and its count of application XIDs; query it with --url."
)


class UnknownPolicyError(Exception):
    """The policy in force cannot be read; the message says why, and what to give instead."""


class Plans(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    """What decided, and what that leaves out."""
    policy: str
    policy_problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What could not be read."""
    unreadable: tuple[str, ...] = ()
    """As in `Objects`; also among the remarks."""
    page: Page


def of_remediator(url: str, node: str) -> Plans:
    """Read the plan of a remediator. Raises ApiError, EndpointError."""
    client = client_of(Endpoint(server=url.removesuffix("/").removesuffix(PATH)), _QUICK, Client)
    try:
        body = client.get(PATH, {"format": "json", **({"node": node} if node else {})})
        page = msgspec.json.decode(body, type=Page)
    except UNREADABLE as error:
        raise ApiError(f"{url}{PATH} is not a remediator's plan ({error})") from error
    finally:
        client.close()
    return Plans(source=f"The remediator at {url}: {page.role}.", policy="its own", page=page)


def decided_here(
    client: Client,
    namespace: str,
    node: str,
    policy: PolicyInForce | None,
    among: Container[str] | None = None,
) -> Plans:
    """Decide from the cluster as it is, about one node, or the affected ones `among` some.

    Raises ApiError, NotInstalledError, UnknownPolicyError.
    """
    installed = find_installation(client, namespace)
    pods, unlisted = NodePods(client), dict[str, str]()

    def pods_of(node: str) -> tuple[PodFacts, ...] | None:
        found = pods.list_pods(node)
        if found is None:
            unlisted[node] = forbidden(pods.why_unlisted(node))
        return found

    with Progress() as progress:
        objects = Reader(client, namespace, progress.read).objects(*WATCHED)
        chosen, doubt = _chosen(policy, installed.policy, leader_of(objects.leases, objects.at))
        progress.says("deciding")
        deciding = Deciding(objects, installed.settings.stale_after)
        affected = (each for each in deciding.affected_nodes() if among is None or each in among)
        nodes = [node] if node else list(affected)
        decisions = deciding.decisions(nodes[:MOST], chosen.policy, pods_of)
        plans = tuple(node_plan(decision, everything=bool(node)) for decision in decisions)
    return Plans(
        source=HERE,
        policy=chosen.source,
        policy_problems=chosen.problems,
        remarks=(*([doubt] if doubt else ()), *_remarks(objects, unlisted)),
        unreadable=objects.unreadable,
        page=Page(
            cluster=installed.settings.cluster_name,
            at=objects.at,
            role="local",
            nodes=plans,
            left_out=len(nodes[MOST:]),
        ),
    )


def known_nodes(client: Client, namespace: str) -> frozenset[str]:
    """Return the nodes that a report, an incident or a rule names."""
    with Progress() as progress:
        reader = Reader(client, namespace, progress.read)
        objects = reader.objects("reports", "incidents", "rules")
    return Deciding(objects, 1.0).cache.nodes()


def _chosen(
    given: PolicyInForce | None, found: PolicyInForce, leader: Leader
) -> tuple[PolicyInForce, str]:
    """Return the policy to decide with, and how the leader's may differ from it.

    Raises UnknownPolicyError: a plan by a policy that nothing obeys would mislead.
    """
    if given is not None:
        return given, ""
    policy = judged(found, leader)
    if policy.policy is None:
        problems = "".join(f"; {problem}" for problem in found.problems)
        raise UnknownPolicyError(
            f"the policy in force is unknown, so its plan is: {policy.source}{problems}. Give a "
            "policy with --policy FILE or --shipped, or query the remediator with --url"
        )
    return PolicyInForce(policy=policy.policy, source=policy.source), policy.doubt


def _remarks(objects: Objects, unlisted: Mapping[str, str]) -> Iterator[str]:
    if not objects.rule_version:
        yield "this cluster serves no DeviceTaintRules: nothing is tainted or evicted"
    if objects.stopped:
        yield f"emergency stop: {objects.stopped}"
    yield from (f"not read: {right}" for right in objects.unseen)
    for why in dict.fromkeys(unlisted.values()):
        nodes = some(node for node, reason in unlisted.items() if reason == why)
        lacking = f"the pods of {nodes} cannot be listed"
        yield f"{lacking}, so none of them counts as evicted or gone: {why}"
    for collection in objects.unreadable:
        yield f"skipped because this version cannot read them: {collection}"
