"""What was read into checks: agents, their reports, the leader, the policy, versions. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from importlib import metadata

from draguard.cluster.fleet_status import Status, modes_in_words
from draguard.cluster.installation import ACCOUNT, AGENT_ACCOUNT, Installation, Workload
from draguard.cluster.leader import leader_problem
from draguard.cluster.objects import Objects
from draguard.doctor.check import Check, bad, ok, unknown, warn
from draguard.phrases import count, some
from exporter.model.node_health import SCHEMA_VERSION, NodeDeviceHealth
from exporter.model.node_health_words import COST_OF_SYSLOG, UNKNOWN
from remediator.controller.feature_gates import CONDITION, SILENT_AFTER
from remediator.model.incident_status import SCHEMA_VERSION as INCIDENT_SCHEMA
from remediator.model.taint_rule import is_ours
from remediator.policy.remarks import remarks

_RIGHTS = "docs/cli.md, Rights"
_LOGS_READ = {
    "Device": "from /dev/kmsg",
    "Journal": "from systemd's journal",
    "Syslog": "by syslog(2)",
}
_BETTER_LOG = (
    "exporter.kernelLog auto reads systemd's journal where it has the kernel's records; the node's "
    "NodeDeviceHealth says what it lacks (docs/security.md, Modes)"
)
_LOGS = "kubectl -n {namespace} logs -l app.kubernetes.io/name=draguard --prefix"


def running(
    objects: Objects, installed: Installation, found: Status, namespace: str
) -> Iterator[Check]:
    """Check what was read of a cluster at one moment."""
    yield from _agents(found, namespace)
    yield from _sources(objects, found)
    yield from kernel_logs(objects.reports)
    yield from _leader(found, installed, objects.at)
    yield from _policy(found, installed, objects.at)
    yield from _versions(objects, installed)
    yield from _effect(objects)
    yield _stop(objects, namespace)
    yield from (unknown("cluster state", right, _RIGHTS) for right in objects.unseen)
    yield from _unreadable(objects)


def exporter(found: Sequence[Workload], namespace: str, agents: int = 0) -> Iterator[Check]:
    """Judge the DaemonSets of the node agents; `agents`: how many have a Lease without one."""
    if not found and agents:
        leases = count(agents, "agent has a Lease", "agents have Leases")
        yield ok("exporter", f"{leases} here; no DaemonSet: they run another way")
    elif not found:
        remedy = "install the exporter (docs/install.md); without it there is no GPU data"
        yield warn("exporter", f"no DaemonSet in {namespace} uses account {AGENT_ACCOUNT}", remedy)
    for workload in found:
        yield _pool(workload, namespace)


def _pool(found: Workload, namespace: str) -> Check:
    desired, ready = found.status.desired_number_scheduled, found.status.number_ready
    says = f"DaemonSet {found.metadata.name}: ready on {ready} of {desired} nodes"
    if not found.host_pid:
        says += "; per-pod shares (draguard_pod_*) are off (exporter.podShares)"
    if not desired:
        remedy = "its node selector matches no node: see docs/install.md for the labels"
        return warn("exporter", says, remedy)
    if ready < desired:
        remedy = f"kubectl -n {namespace} describe daemonset {found.metadata.name}"
        return bad("exporter", says, remedy)
    return ok("exporter", says)


def _agents(found: Status, namespace: str) -> Iterator[Check]:
    nodes, logs = found.nodes, _LOGS.format(namespace=namespace)
    if nodes is None:
        yield unknown("agents", "unknown which agents report: you may not read reports", _RIGHTS)
        return
    if nodes.unwatched:
        unwatched = count(
            len(nodes.unwatched),
            "node publishes GPUs but has never reported",
            "nodes publish GPUs but have never reported",
        )
        yield bad(
            "agents",
            f"{unwatched}: {some(nodes.unwatched)}",
            "check that the DaemonSet's node selector matches and that its pods run there",
        )
    if nodes.stale:
        unanswered = count(len(nodes.stale), "agent report is stale", "agent reports are stale")
        whose = "its" if len(nodes.stale) == 1 else "their"
        says = f"{unanswered}: {some(nodes.stale)}; the state of {whose} GPUs is unknown"
        yield bad("agents", says, logs)
    if nodes.gone:
        singular, plural = "report belongs to a deleted node", "reports belong to deleted nodes"
        left = count(len(nodes.gone), singular, plural)
        remedy = (
            "the remediator deletes it after a week; now: kubectl delete nodedevicehealths NAME"
        )
        yield warn("agents", f"{left}: {some(nodes.gone)}", remedy)
    if not nodes.unwatched and not nodes.stale:
        if nodes.reporting:
            yield ok("agents", count(nodes.reporting, "node reports", "nodes report"))
        else:
            yield warn("agents", "no node publishes GPUs, and no agent reports", logs)


def _sources(objects: Objects, found: Status) -> Iterator[Check]:
    """Yield a check for each source that is down, with its own message and the nodes."""
    down = {(down_source.node, down_source.source) for down_source in found.sources_down or ()}
    nodes_by_source: dict[tuple[str, str, str], list[str]] = {}
    for report in objects.reports:
        for source in report.status.sources:
            if (report.metadata.name, source.name) in down:
                nodes_by_source.setdefault((source.name, source.reason, source.message), []).append(
                    report.metadata.name
                )
    for (source, reason, message), nodes in sorted(nodes_by_source.items()):
        remedy = message or "run `draguard doctor --node-local` in the sensor container"
        yield bad(f"source {source}", f"{reason} on {some(nodes)}", remedy)
    if not nodes_by_source and found.nodes and found.nodes.reporting:
        yield ok("sources", "all up on reporting nodes")


def kernel_logs(reports: Iterable[NodeDeviceHealth]) -> Iterator[Check]:
    """Yield how the kernel log is read, by mode: on which nodes, and what that costs there."""
    nodes_by_mode: dict[tuple[str, str], list[str]] = {}
    for report in reports:
        for source in report.status.sources:
            if source.name == "kmsg" and source.up:
                mode = (source.via or UNKNOWN, source.reason)
                nodes_by_mode.setdefault(mode, []).append(report.metadata.name)
    for (via, reason), nodes in sorted(nodes_by_mode.items()):
        how = _LOGS_READ.get(via, "in an unknown way")
        says = f"read {how} on {count(len(nodes), 'node', 'nodes')} ({some(nodes)})"
        if via == "Syslog":
            because = f" ({reason})" if reason else ""
            yield warn("kernel log", f"{says}{because}; {COST_OF_SYSLOG} there", _BETTER_LOG)
        elif via in _LOGS_READ:
            yield ok("kernel log", f"{says}; records are whole")
        else:
            yield unknown("kernel log", says, "upgrade the agents there")


def _leader(found: Status, installed: Installation, now: datetime) -> Iterator[Check]:
    about = "remediator"
    why = leader_problem(found.leader, found.leader_renewed, now)
    if not installed.name and (why or found.leader is None):
        yield warn(
            about,
            f"no Deployment uses account {ACCOUNT}",
            "install the remediator (docs/install.md); metrics and reports work without it",
        )
    if found.leader is None:
        yield unknown(about, "the leader is unknown: you may not read Leases", _RIGHTS)
    elif why:
        remedy = (
            "check that its pods are ready: kubectl get pods -A -l app.kubernetes.io/name=draguard"
        )
        yield bad(about, why, remedy)
    else:
        elsewhere = "" if installed.name else "; no Deployment here: it runs another way"
        yield ok(about, f"{found.leader} is the leader{elsewhere}")


def _policy(found: Status, installed: Installation, now: datetime) -> Iterator[Check]:
    policy = installed.policy
    for problem in policy.problems:
        remedy = (
            "correct it (`draguard policy check FILE`); until then the last valid policy applies"
        )
        yield bad("policy", f"{policy.source}: {problem}", remedy)
    if policy.problems:
        return
    if found.policy_doubt:
        yield warn("policy", found.policy_doubt, "if it lasts: read the log of the leader")
    elif found.modes is None:
        yield unknown("policy", found.policy, "docs/cli.md, Rights; docs/install.md, remediator")
    else:
        yield ok("policy", f"{found.policy}; {modes_in_words(found.modes)}")
    for remark in remarks(policy.policy, now, written=policy.written) if policy.known else ():
        yield warn(
            "policy", remark, "see docs/policy.md; `draguard policy check FILE` shows it too"
        )


def _versions(objects: Objects, installed: Installation) -> Iterator[Check]:
    mine = metadata.version("draguard")
    if "reports" in objects.missing:
        yield unknown(
            "versions",
            f"this is {mine}; agent versions are unknown: you may not read reports",
            _RIGHTS,
        )
        return
    agents = {report.status.agent_version for report in objects.reports} - {""}
    odd = sorted(agents - {mine})
    schemas = {report.status.schema_version for report in objects.reports}
    far = sorted(schema for schema in schemas if abs(schema - SCHEMA_VERSION) > 1)
    if far:
        newer = f"reports have schema {far[0]}; this version reads up to {SCHEMA_VERSION + 1}"
        yield bad("versions", newer, "upgrade agents and remediator to the same release")
    if odd:
        yield warn(
            "versions",
            f"this is {mine}, agents are {some(odd)}",
            "finish the upgrade; one release apart is supported meanwhile",
        )
    if not far and not odd:
        images = f"; the remediator's image is {some(installed.images)}" if installed.images else ""
        yield ok("versions", f"{mine}, the same on every agent{images}")


def _effect(objects: Objects) -> Iterator[Check]:
    """Check whether our rules take effect: the eviction controller reports it in each NoExecute."""
    about = "taint rules take effect"
    ours = [r for r in objects.rules if is_ours(r) and r.spec.taint.effect == "NoExecute"]
    before = objects.at - timedelta(seconds=SILENT_AFTER)
    due = [r for r in ours if (since := r.spec.taint.time_added) is not None and since < before]
    unanswered = [
        rule.metadata.name
        for rule in due
        if CONDITION not in {c.type for c in rule.status.conditions or ()}
    ]
    if "rules" in objects.missing:
        yield unknown(about, "you may not read DeviceTaintRules", _RIGHTS)
    elif objects.rule_version is None:
        return  # there are none: a check of its own says so
    elif unanswered and objects.rule_version != "v1alpha3":
        yield bad(
            about,
            f"the eviction controller has not reported on {some(unanswered)} for a minute",
            "enable the gate DRADeviceTaintRules in API server, scheduler and controller manager",
        )
    elif due and not unanswered:
        yield ok(about, "the eviction controller has reported on every NoExecute")
    else:
        yield unknown(
            about,
            "no NoExecute of Draguard is old enough to tell",
            "nothing to do: it is known a minute after the first NoExecute",
        )


def _stop(objects: Objects, namespace: str) -> Check:
    if "stop" in objects.missing:
        return unknown("emergency stop", f"you may not read namespace {namespace}", _RIGHTS)
    if not objects.stopped:
        return ok("emergency stop", "not set")
    remedy = f"to end it: kubectl annotate namespace {namespace} draguard.dev/stop-"
    return warn(
        "emergency stop",
        f"all new restrictions and disruptions are stopped: {objects.stopped}",
        remedy,
    )


def _unreadable(objects: Objects) -> Iterable[Check]:
    for collection in objects.unreadable:
        remedy = "upgrade all components to the same release"
        if "deviceincidents" in collection:
            remedy += (
                ". Nothing is done about the GPU of an incident of an older release "
                f"(status.schemaVersion below {INCIDENT_SCHEMA}), and its taints stay: delete the "
                "incident, and a new one begins from them"
            )
        yield warn("objects", f"{collection} cannot be read by this version", remedy)
