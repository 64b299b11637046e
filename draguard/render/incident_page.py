"""One incident as a page for the user on call: state, repair, affected pods, history. Pure."""

from collections.abc import Iterator
from datetime import datetime

from draguard.cluster.incidents import gpu_index
from draguard.phrases import age, gpu_name, moment, stamp
from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text, Tone, leaf
from remediator.model.claim import ADMIN, EXTENDED_RESOURCE, GANG
from remediator.model.incident import Incident
from remediator.plan import overrides
from remediator.plan.status import NO_SOURCE
from remediator.plan.words import need_of, ours

_VIA = {
    "": "a claim",
    ADMIN: "admin access",
    EXTENDED_RESOURCE: "an extended resource",
    GANG: "its gang (not evicted)",
}
_TONES: dict[str, Tone] = {"NeedsHuman": "bad", "Recovered": "good"}
_DRAIN = "kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"
_UNCORDON = "kubectl uncordon {node}"
_RUNBOOKS = "alerts/runbooks"
_STEPS: dict[str, tuple[str, ...]] = {
    "gpu-reset": (
        "{when}reset it on {node}:",
        "nvidia-smi --gpu-reset -i {uuid}",
    ),
    "node-reboot": ("drain the node, reboot it, uncordon it:", _DRAIN, _UNCORDON),
    "replacement": (
        "drain the node, have the board replaced, uncordon the node:",
        _DRAIN,
        _UNCORDON,
    ),
    "fabric-recovery": ("repair the NVLink fabric of {node}",),
    "diagnosis": (
        "{when}diagnose it on {node}:",
        "dcgmi diag --run 3",
    ),
    "human": (
        "find out why the GPU failed, or have it replaced; then confirm the repair:",
        "draguard confirm-repaired {name} --reason 'new board'",
    ),
}
"""By need; the first line says what, the others are commands."""
_CONFIRM = (
    "then confirm the repair, which no source reports:",
    "draguard confirm-repaired {name} --reason 'repaired, nvidia-smi is well'",
)
_WHEN = {
    "Drained": "the GPU is drained: ",
    "Suspected": "cordon {node}, wait until no pod uses the GPU, then ",
}
"""By phase: when work on the GPU itself may begin. No taint keeps pods from a suspected one."""
_ONCE_DRAINED = "wait until the GPU is drained (phase Drained), then "
_RUNBOOK, _RUNBOOK_UNTAINTED = "DraguardDeviceTainted", "DraguardDeviceNotTainted"
_RUNBOOK_BY_NEED = {"fabric-recovery": "DraguardFabricFault", "human": "DraguardNeedsHuman"}
_NODE_LEVEL = frozenset({"node-reboot", "replacement"})
_BY_PHASE = {
    "Verifying": "nothing: the GPU is healthy; Draguard untaints it after the soak time",
    "Suspected": "nothing yet: Draguard waits for more evidence",
}
_NOTHING = "nothing: no repair is needed"


def incident_page(incident: Incident, now: datetime) -> Iterator[Block]:
    """Give the whole incident, in the order in which a user who is paged needs it."""
    status = incident.status
    yield Facts(tuple(_facts(incident, now)), title=incident.name)
    yield Lines(tuple(repair_steps(incident)), title="What to do")
    yield from _devices(incident)
    for title, holds, more in (
        ("Affected pods", status.scope.affected, status.scope.affected_left_out),
        ("Evicted pods", status.eviction.evicted, status.eviction.evicted_left_out),
    ):
        rows: list[tuple[Text, ...]] = []
        for affected in holds:
            pod = f"{affected.namespace}/{affected.pod}"
            pod = pod if affected.pod else "no pod (the claim stays allocated)"
            claim, via = (
                f"{affected.namespace}/{affected.claim}",
                _VIA.get(affected.via, affected.via),
            )
            rows.append((pod, claim, leaf(affected.device), via, affected.tolerates))
        yield Table(("POD", "CLAIM", "DEVICE", "VIA", "TOLERATES"), tuple(rows), title=title)
        yield Lines((f"and {more} more",) if more else ())
    requested: list[str] = []
    for record in status.policy.intents:
        distance = moment(record.until, now).partition(", ")[2]
        requested.append(overrides.in_words(record) + (f" ({distance})" if distance else ""))
    yield Lines(tuple(requested), title="User overrides")
    yield Lines(status.scope.foreign, title="Changes by others to these devices")
    yield Lines(status.scope.informed, title="NVLink neighbours that may be affected")
    yield Lines(status.fault.evidence, title="Evidence")
    yield Table(
        ("TIME", "AGO", "PHASE", "EVENT"),
        tuple(
            (stamp(line.time), age(line.time, now), line.phase, line.text)
            for line in status.timeline
        ),
        title="Timeline",
    )
    yield Lines(tuple(pause_commands(incident)), title="To pause Draguard on this GPU")


def _facts(incident: Incident, now: datetime) -> Iterator[tuple[str, Text]]:
    status = incident.status
    since = age(status.phase_since, now)
    phase = f"{status.phase or 'not decided yet'}{f', for {since}' if since else ''}"
    yield "phase", Cell(phase, _TONES.get(status.phase, "strong"))
    yield "message", status.message
    yield "GPU", f"{incident.spec.uuid}, {gpu_name(incident.node, gpu_index(incident))}"
    yield (
        "fault",
        f"class {status.fault.fault_class}, cause {status.fault.cause}"
        if status.fault.fault_class
        else "",
    )
    yield "scope", status.scope.summary
    yield "mode", ours(status.policy.mode)
    yield "needs", "" if need_of(status.repair.needs) == "nothing" else ours(status.repair.needs)
    yield "opened", moment(incident.metadata.creation_timestamp, now)
    yield "closed", moment(status.history.closed_at, now)
    yield "healthy", moment(status.recovery.healthy_since, now)
    yield (
        "recurrence",
        f"incident {status.history.recurrence} of this GPU"
        if status.history.recurrence > 1
        else "",
    )
    sticky = "you must confirm its repair" if status.recovery.untaint == "OnConfirmation" else ""
    yield "sticky", sticky if incident.open else ""
    yield "duplicate", f"of {status.history.duplicate_of}" if status.history.duplicate_of else ""


def _devices(incident: Incident) -> Iterator[Block]:
    status = incident.status
    rules = {rule.device: rule for rule in status.scope.rules}
    would = {plan.device: plan.effect for plan in status.scope.would_taint}
    devices = [*(str(target.name) for target in status.scope.devices), *rules, *would]
    rows = tuple(
        (
            device,
            rules[device].effect if device in rules else "no rule",
            would.get(device, ""),
            rules[device].name if device in rules else "",
        )
        for device in dict.fromkeys(devices)
    )
    yield Table(("DEVICE", "RULE", "PLANNED", "NAME"), rows, title="Devices and rules")
    yield Table(
        ("CONDITION", "STATUS", "REASON", "MESSAGE"),
        tuple(
            (c.type, c.status, c.reason, c.message)
            for c in status.conditions
            if c.status != "False"
        ),
        title="Conditions",
    )


def repair_steps(incident: Incident) -> Iterator[str]:
    """Give what a user does to repair the GPU, commands indented, and the runbook."""
    if not incident.open:
        return
    phase, unreported = incident.status.phase, _is_end_unreported(incident)
    human = phase == "NeedsHuman" and not unreported
    need = "human" if human else need_of(incident.status.repair.needs)
    steps = _STEPS.get(need, ("check the GPU:", "nvidia-smi") if unreported else None)
    if steps is None or phase == "Verifying":
        reasons = {one.reason for one in incident.status.conditions if one.status == "True"}
        # What is waited for then are DeviceTaintRules, which the cluster does not serve.
        yield _BY_PHASE.get("" if "RulesNotServed" in reasons else phase, _NOTHING)
        return
    words = {"node": incident.node, "uuid": incident.spec.uuid, "name": incident.name}
    words["when"] = _WHEN.get(phase, _ONCE_DRAINED).format(**words)
    if unreported and incident.status.eviction.drained_at:
        words["when"] = _WHEN["Drained"]
    for step in (steps, _CONFIRM) if unreported else (steps,):
        first, *commands = step
        yield first.format(**words)
        yield from (f"  {command.format(**words)}" for command in commands)
    more = ", docs/handover.md" if need in _NODE_LEVEL else ""
    usual = _RUNBOOK_UNTAINTED if phase == "Suspected" else _RUNBOOK
    runbook = _RUNBOOK_BY_NEED["human"] if unreported else _RUNBOOK_BY_NEED.get(need, usual)
    yield f"runbook: {_RUNBOOKS}/{runbook}.md{more}"


def _is_end_unreported(incident: Incident) -> bool:
    """Whether a user has to confirm a repair that no source reports."""
    return any(
        (condition.type, condition.status, condition.reason) == ("NeedsHuman", "True", NO_SOURCE)
        for condition in incident.status.conditions
    )


def pause_commands(incident: Incident) -> Iterator[str]:
    """Give the commands that pause Draguard on the GPU, or end a pause."""
    if not incident.open:
        return
    in_force = {
        record.kind for record in incident.status.policy.intents if record.state == "InForce"
    }
    if "Hold" in in_force:
        yield f"draguard hold {incident.name} --remove"
    else:
        yield f"draguard hold {incident.name} --until 4h --reason 'a run must end first'"
    if "Ignore" in in_force:
        yield f"draguard ignore {incident.name} --remove"
    else:
        yield f"draguard untaint {incident.name} --until 4h --reason 'a test board'"
