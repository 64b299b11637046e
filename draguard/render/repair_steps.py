"""What a user does to repair the GPU of an incident, by what it needs. Pure."""

from collections.abc import Iterator

from remediator.model.incident import Incident
from remediator.plan.api_words import need_of

_DRAIN = "kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"
_UNCORDON = "kubectl uncordon {node}"
_RUNBOOKS = "alerts/runbooks"
_STEPS: dict[str, tuple[str, ...]] = {
    "gpu-reset": (
        "wait until the GPU is drained (phase Drained), then reset it on {node}:",
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
        "wait until the GPU is drained (phase Drained), then diagnose it on {node}:",
        "dcgmi diag --run 3",
    ),
    "person": (
        "find out why the GPU failed, or have it replaced; then confirm the repair:",
        "draguard confirm-repaired {name} --reason 'new board'",
    ),
}
"""By need; the first line says what, the others are commands."""
_PAGES = {"fabric-recovery": "DraguardFabricFault", "person": "DraguardNeedsHuman"}
_PAGE = "DraguardDeviceTainted"
_NODE_LEVEL = frozenset({"node-reboot", "replacement"})
_BY_PHASE = {
    "Verifying": "nothing: the GPU is healthy; Draguard untaints it after the soak time",
    "Suspected": "nothing yet: Draguard waits for more evidence",
}


def repair(one: Incident) -> Iterator[str]:
    """Give the steps, the commands among them indented, and where more is written."""
    if not one.open:
        return
    need = "person" if one.status.phase == "NeedsHuman" else need_of(one.status.needs)
    steps = _STEPS.get(need)
    if steps is None or one.status.phase == "Verifying":
        yield _BY_PHASE.get(one.status.phase, "nothing: no repair is needed")
        return
    words = {"node": one.node, "uuid": one.spec.uuid, "name": one.name}
    first, *commands = steps
    yield first.format(**words)
    yield from (f"  {command.format(**words)}" for command in commands)
    yield f"runbook: {_RUNBOOKS}/{_PAGES.get(need, _PAGE)}.md{_hand_over(need)}"


def _hand_over(need: str) -> str:
    return ", docs/handover.md" if need in _NODE_LEVEL else ""


def pause(one: Incident) -> Iterator[str]:
    """Give the commands that pause Draguard on the GPU, or end a pause."""
    if not one.open:
        return
    wanted = {record.kind for record in one.status.intents if record.state == "InForce"}
    if "Hold" in wanted:
        yield f"draguard hold {one.name} --remove"
    else:
        yield f"draguard hold {one.name} --until 4h --reason 'a run must end first'"
    if "Ignore" in wanted:
        yield f"draguard ignore {one.name} --remove"
    else:
        yield f"draguard untaint {one.name} --until 4h --reason 'a test board'"
