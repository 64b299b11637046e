"""Short ways to write down a node, its GPUs and what happened to them."""

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from exporter.model.device import Device
from exporter.model.last_published import last_published, published_device
from exporter.model.node_health import (
    GpuHealth,
    Inventory,
    MigInstance,
    NodeHealth,
    RecoveryAction,
    SourceHealth,
    XidRecord,
)
from exporter.model.node_health_words import mig_mode, reset_request
from exporter.model.resource_slices import SliceDevice
from kubeapi.types import ObjectMeta
from remediator.diagnose.fault import Fault, FaultClass, Verdict
from remediator.model.incident import Incident, IncidentSpec, incident_name, with_intent
from remediator.model.incident_status import (
    EVICTION_BLOCKED,
    DeviceEvictions,
    IncidentStatus,
    RepairRequest,
    ScopeStatus,
    Target,
)
from remediator.model.intent import Intent, Kind
from remediator.model.taint_rule import EVICTING, Effect, Rule
from remediator.plan.board import (
    RENEWALS_NEEDED,
    Agent,
    Board,
    BoardRules,
    Machine,
    Presence,
    Users,
)
from remediator.plan.spending import Spending
from remediator.plan.stages import Course, CourseKind, Deferral, Demanded, Granted
from remediator.plan.steps import Step
from remediator.plan.view import AgentView, Fleet, NodeView, SliceView
from remediator.policy.table import SHIPPED, Limits, Policy, Row
from remediator.step_store import StepStore

T0 = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
BOOT = T0 - timedelta(hours=5)
NODE = "node-a"
DRIVER = "gpu.nvidia.com"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def uuid(index: int, node: str = NODE) -> str:
    return f"GPU-{node[-1]}{index:07x}-0000-0000-0000-000000000000"


def slice_uuid(index: int, gi: int) -> str:
    return f"MIG-{index:08x}-0000-0000-0000-{gi:012x}"


def action(value: int = 0, since: float = -3600, observed: float = 0) -> RecoveryAction:
    return RecoveryAction(
        support="Supported", value=value, since=at(since), observed_at=at(observed)
    )


RESET = action(1, 1, 1)
"""The driver asks for a reset, a second after T0."""
SLICE_5 = "gpu-0-mig-1g10gb-19-4"
ALL_SEVEN = {f"gpu-0-mig-1g10gb-19-{start}" for start in range(7)}
"""Names of the slices of `mig_gpu(0)`; GPU instance 5 is the one at start 4."""
ALWAYS_CONFIRMED = (datetime.max.replace(tzinfo=UTC),) * RENEWALS_NEEDED
"""Renewals by an agent that has confirmed its report whenever that is requested."""
NO_ACTION_FIELD = RecoveryAction(support="Unsupported", observed_at=T0)
LASTS = Intent(by="ana", reason="a test board")
"""Without an end."""


def until(seconds: float) -> Intent:
    return Intent(until=at(seconds), by="ana", reason="a run must end first")


def xid(  # noqa: PLR0917 - a table of facts
    code: int,
    seen: float = 0,
    gi: int | None = None,
    reset: bool | None = None,
    count: int = 1,
    epoch: int = 1,
    sources: tuple[str, ...] = ("kmsg", "nvml"),
) -> XidRecord:
    return XidRecord(
        code=code,
        count=count,
        first_seen=at(seen),
        last_seen=at(seen),
        gi=gi,
        reset_request=reset_request(at_once=reset, after_drain=None),
        epoch=epoch,
        sources=sources,
    )


def gpu(
    index: int = 0,
    *xids: XidRecord,
    node: str = NODE,
    mig: bool | None = False,
    **fields: object,
) -> GpuHealth:
    standard = GpuHealth(
        uuid=uuid(index, node),
        presence="Present",
        presence_since=BOOT,
        pci_bus_id=f"0000:{index + 1:02x}:00.0",
        minor=index,
        mig_mode=mig_mode(mig),
        recovery_action=action(),
        epoch_started=BOOT,
        xids=xids,
    )
    return msgspec.structs.replace(standard, **fields)


def dead(index: int = 0, **fields: object) -> GpuHealth:
    """A GPU off the bus: the line, and NVML that cannot reach it."""
    lost = gpu(
        index, xid(79), presence="Lost", presence_since=at(0), recovery_action=RecoveryAction()
    )
    return msgspec.structs.replace(lost, **fields)


def mig_gpu(index: int = 0, *xids: XidRecord, slices: int = 7, **fields: object) -> GpuHealth:
    instances = tuple(
        MigInstance(
            uuid=slice_uuid(index, gi),
            gi=gi,
            ci=0,
            profile="1g.10gb",
            gi_profile_id=19,
            placement_start=gi - 1,
            placement_size=1,
        )
        for gi in range(1, slices + 1)
    )
    one = gpu(index, *xids)
    return msgspec.structs.replace(one, mig_mode="Enabled", instances=instances, **fields)


def published(health: GpuHealth, node: str = NODE) -> tuple[SliceDevice, ...]:
    """What NVIDIA's driver publishes for a GPU: itself, or each static slice."""
    if not health.instances:
        name = Device(DRIVER, node, f"gpu-{health.minor}")
        return (
            SliceDevice(
                device=name, kind="gpu", uuid=health.uuid, pci_bus_id=health.pci_bus_id, node=node
            ),
        )
    return tuple(
        SliceDevice(
            device=Device(
                DRIVER,
                node,
                f"gpu-{health.minor}-mig-1g10gb-{part.gi_profile_id}-{part.placement_start}",
            ),
            kind="mig",
            uuid=part.uuid,
            parent_uuid=health.uuid,
            profile=part.profile,
            pci_bus_id=health.pci_bus_id,
            node=node,
        )
        for part in health.instances
    )


def report(*gpus: GpuHealth, **fields: object) -> NodeHealth:
    """A report of a node with no other GPUs on its bus."""
    present = sum(health.presence == "Present" for health in gpus)
    standard = NodeHealth(
        boot_id="boot-1",
        observed_at=T0,
        content_hash="as-seen",
        sources=(SourceHealth(name="nvml", state="Up"), SourceHealth(name="kmsg", state="Up")),
        gpus=gpus,
        inventory=Inventory(seen=present, on_bus=present, set_aside=0),
    )
    return msgspec.structs.replace(standard, **fields)


_GROUPS: dict[type[msgspec.Struct], tuple[str, ...]] = {
    NodeView: ("agent", "slices", "stored", "usage"),
    IncidentStatus: (
        *("fault", "scope", "stay", "eviction"),
        *("repair", "recovery", "policy", "history"),
    ),
}
T = TypeVar("T", bound=msgspec.Struct)


def repair_request(
    since: datetime, *, insists: bool = True, need: str = "NodeReboot", **fields: Any
) -> RepairRequest:
    """A repair of node a that may be requested; `insists`: for a class that may evict."""
    standard = RepairRequest(
        since_time=since,
        first_time=since,
        deadline_start_time=since if insists else None,
        need=need,
        node=NODE,
    )
    return with_fields(standard, **fields)


def with_fields(struct: T, **fields: Any) -> T:
    """Return the same struct with other fields; of a view or a status, those of its groups do."""
    for name in _GROUPS.get(type(struct), ()):
        group = fields.get(name, getattr(struct, name))
        mine = {key: fields.pop(key) for key in group.__struct_fields__ if key in fields}
        if mine:
            fields[name] = msgspec.structs.replace(group, **mine)
    return msgspec.structs.replace(struct, **fields)


def make_status(**fields: Any) -> IncidentStatus:
    """Return the status of an incident; fields of its groups are enough."""
    return with_fields(IncidentStatus(), **fields)


def evictions(
    start: datetime | None, attempt: datetime | None = None, device: str = f"{DRIVER}/{NODE}/gpu-0"
) -> tuple[DeviceEvictions, ...]:
    """Evictions from one device, as an incident records them."""
    return (DeviceEvictions(device, 1, start, attempt),)


def view(*gpus: GpuHealth, node: str = NODE, **fields: object) -> NodeView:
    devices = tuple(device for health in gpus for device in published(health, node))
    standard = NodeView(
        node=node,
        agent=AgentView(report=report(*gpus), renewals=ALWAYS_CONFIRMED),
        slices=SliceView(inventory=devices),
    )
    return with_fields(standard, **fields)


def last_named(health: GpuHealth, node: str = NODE) -> GpuHealth:
    """Return a GPU as it is reported with the names that it was published under last."""
    names = tuple(map(published_device, published(health, node)))
    return msgspec.structs.replace(health, last_published=names)


def driver_away(*gpus: GpuHealth, node: str = NODE, **fields: object) -> NodeView:
    """A node whose DRA driver is away: its slices are gone, and its report has their names."""
    seen = report(*(last_named(health, node) for health in gpus))
    away = last_published(seen, node)
    standard = view(node=node, report=seen, last_published=away)
    return with_fields(standard, **fields)


def report_with(seen: NodeView, **fields: object) -> NodeHealth:
    """Return the report of a view with other fields."""
    assert seen.agent.report is not None
    return msgspec.structs.replace(seen.agent.report, **fields)


def fault(fault_class: FaultClass = "gpu", cause: str = "xid-95", **fields: object) -> Fault:
    standard = Fault(fault_class=fault_class, cause=cause, last_seen=T0, evidence="")
    return msgspec.structs.replace(standard, **fields)


def rule(
    index: int = 0, effect: Effect = "NoSchedule", *, node: str = NODE, **fields: object
) -> Rule:
    """The rule on a whole GPU, before the API server has it."""
    board = uuid(index, node)
    standard = Rule(
        device=Device(DRIVER, node, f"gpu-{index}"),
        effect=effect,
        fault="gpu",
        cause="xid-95",
        incident=incident_name(board, 1),
        uuid=board,
        gpu=board,
        node=node,
    )
    return msgspec.structs.replace(standard, **fields)


def incident(
    index: int = 0,
    number: int = 1,
    *,
    node: str = NODE,
    device: str = "",
    made: float = 0,
    **status: object,
) -> Incident:
    """An incident of a whole GPU, as it is stored; `made` in seconds after T0."""
    board = uuid(index, node)
    name = incident_name(board, number)
    target = Target(DRIVER, node, device or f"gpu-{index}", board)
    standard = make_status(
        fault_class="gpu",
        cause="xid-95",
        phase="Tainted",
        mode="Enforce",
        message="NoSchedule",
        scope=ScopeStatus("whole GPU", (target,)),
    )
    return Incident(
        ObjectMeta(name=name, uid=f"uid-{name}", resource_version="1", creation_timestamp=at(made)),
        IncidentSpec(node, board),
        with_fields(standard, **status),
    )


def policy(limits: Limits | None = None, **fields: object) -> Policy:
    """Every class enforced, with short times, unless a field says otherwise."""
    standard: dict[str, object] = {
        "mode": "enforce",
        "settle": timedelta(seconds=3),
        "soak": timedelta(seconds=600),
    }
    rows: tuple[Row, ...] = tuple(
        msgspec.structs.replace(row, **(standard | fields)) for row in SHIPPED
    )
    return Policy(rows=rows, limits=limits or Limits())


def soaking(fault_class: FaultClass, seconds: float) -> Policy:
    """Return a policy by which one class has another soak, and no user is needed."""
    standard = policy(sticky=False)
    longer = timedelta(seconds=seconds)
    rows = tuple(
        msgspec.structs.replace(row, soak=longer) if row.fault_class == fault_class else row
        for row in standard.rows
    )
    return msgspec.structs.replace(standard, rows=rows)


def _blocked_by(incident: Incident) -> str:
    """Return why pods that are left leave no more by what is done, "" while they may."""
    reasons = [
        condition.reason
        for condition in incident.status.conditions
        if (condition.type, condition.status) == (EVICTION_BLOCKED, "True")
    ]
    return next(iter(reasons), "")


def _waits(incident: Incident) -> bool:
    """Whether evictions of an incident are not requested, or for longer than the policy gives."""
    return incident.status.eviction.started_at is None or bool(_blocked_by(incident))


_PARTS = {"agent": Agent, "rules": BoardRules, "users": Users, "presence": Presence}


def make_board(verdict: Verdict, index: int = 0, **fields: Any) -> Board:
    """Return the board of a GPU; a field of its machine, rules, users or presence is enough."""
    parts: dict[str, Any] = {
        part: kind(**{name: fields.pop(name) for name in kind.__struct_fields__ if name in fields})
        for part, kind in _PARTS.items()
    }
    ours: dict[str, Any] = {
        name: fields.pop(name) for name in Machine.__struct_fields__ if name in fields
    }
    ours = {"node": NODE, "agent": parts.pop("agent")} | ours
    fields = {"uuid": uuid(index), "verdict": verdict} | parts | fields
    return Board(machine=Machine(**ours), **fields)


def make_demanded(
    gpu: str = "", *rules: Rule, kind: CourseKind = "stands", **demanded: Any
) -> Demanded:
    course = Course(kind=kind, reason="a test")
    return Demanded(uuid=gpu or uuid(0), course=course, rules=rules, **demanded)


def make_granted(
    gpu: str = "",
    *rules: Rule,
    kind: CourseKind = "stands",
    deferral: Deferral | None = None,
    evicts: tuple[Device, ...] = (),
    call: Deferral | None = None,
    **demanded: Any,
) -> Granted:
    """Return what is granted to a GPU, and what was demanded; the rules are the same."""
    demand = make_demanded(gpu, *rules, kind=kind, **demanded)
    deferrals = (deferral,) if deferral else ()
    return Granted(demanded=demand, rules=rules, deferrals=deferrals, evicts=evicts, call=call)


class Stored(StepStore):
    """What an API server would hold, with what tests do to it and read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Step] = []

    def take(self, step: Step, now: datetime) -> None:
        self.taken.append(step)
        super().take(step, now)

    def intend(self, kind: Kind, intent: Intent | None, name: str = "") -> None:
        """Write what a user wants into an incident, the only one, as kubectl would."""
        stored = self.incidents[name] if name else self.incident
        self.put_incident(with_intent(stored, kind, intent))

    def loses_status(self, name: str) -> None:
        """An incident is restored, or applied, without its status."""
        stored = self.incidents[name]
        self.put_incident(Incident(stored.metadata, stored.spec))

    def over(self, seen: NodeView) -> NodeView:
        """Return a view with what is stored here in it."""
        stored = msgspec.structs.replace(
            seen.stored,
            rules=tuple(self.rules.values()),
            incidents=tuple(self.incidents.values()),
        )
        return msgspec.structs.replace(seen, stored=stored)

    def fleet(self) -> Fleet:
        """Return the cluster as it would be, were this store all of it."""
        return Fleet(rules=tuple(self.rules.values()), incidents=tuple(self.incidents.values()))

    def evicting(self) -> set[str]:
        """Return the GPUs that are being evicted from: not those whose incident has seen it end."""
        over = {
            (record.uid, record.effect)
            for incident in self.incidents.values()
            for record in incident.status.scope.rules
            if incident.open
            and (
                incident.status.stay.node_gone_since
                or (incident.status.eviction.drained_at and incident.status.eviction.empty_since)
                or (record.effect == "Evict" and _waits(incident))
                or _blocked_by(incident) == "PodsStay"
            )
        }
        moving = [rule for rule in self.rules.values() if rule.effect in EVICTING]
        return {rule.gpu for rule in moving if (rule.uid, rule.effect) not in over}

    def fleet_evicts(self, seconds: float = 0) -> int:
        """Return how many GPUs the budgets count as evicting."""
        return Spending(self.fleet(), at(seconds)).count("evict", "cluster", "")

    def effects(self) -> dict[str, str]:
        return {rule.device.device: rule.effect for rule in self.rules.values()}

    @property
    def incident(self) -> Incident:
        """The only incident."""
        (only,) = self.incidents.values()
        return only
