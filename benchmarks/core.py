"""How much of the decision core one fault goes through, and how large the core is.

The scenario is always the same: XID 79 and the loss of one GPU of two, with one running pod that
uses it, from the first report to the stored NoExecute. Two decisions are counted: the one that
opens the incident and taints, and after the settle time the one that evicts. There is nothing
else: `decide_node` and a store in memory. `python -m benchmarks.core` also lists the files.
"""

import ast
import importlib
import inspect
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import FrameType

import msgspec

import remediator
from benchmarks.figures import Figure, Section
from benchmarks.replay.ours import enforced
from benchmarks.table import table
from exporter.model.device import GPU_DRIVER, Device
from exporter.model.node_health import (
    GpuHealth,
    Inventory,
    NodeHealth,
    RecoveryAction,
    SourceHealth,
    XidRecord,
)
from exporter.model.resource_slices import SliceDevice
from remediator.model.claim import (
    Allocation,
    Claim,
    ClaimMeta,
    ClaimStatus,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
)
from remediator.model.node import NodeFacts
from remediator.model.pod import PodFacts
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.node_decision import decide_node
from remediator.plan.view import (
    AgentView,
    Fleet,
    GpuPlace,
    NodeView,
    SliceView,
    StoreView,
    UsageView,
)
from remediator.step_store import StepStore

T0 = datetime(2026, 1, 5, 12, tzinfo=UTC)
BOOT = T0 - timedelta(hours=5)
NODE = "node-a"
SICK, HEALTHY = 0, 1
DECISIONS = 20
"""More than the scenario needs."""
CORE = ("remediator.plan", "remediator.diagnose")
"""What is counted."""
MODEL = "remediator.model"


class Entered(msgspec.Struct):
    """What was entered of some folders."""

    files: set[str] = msgspec.field(default_factory=set[str])
    """By any frame, that of a lambda too."""
    calls: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter[tuple[str, str]])
    """By file and qualified name, how often a function was called that `def` has made."""


@contextmanager
def entries(folders: Iterable[Path]) -> Generator[Entered]:
    """Count what is called in the modules of some folders."""
    inside = tuple(f"{folder}/" for folder in folders)
    entered = Entered()
    begun = set[FrameType]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(inside):
            return
        entered.files.add(code.co_filename)
        # `<lambda>`, `<genexpr>` and their like are read where they stand: no place to jump to.
        # A generator is "called" again whenever it goes on.
        if code.co_name.startswith("<") or frame in begun:
            return
        entered.calls[code.co_filename, code.co_qualname] += 1
        if code.co_flags & inspect.CO_GENERATOR:
            begun.add(frame)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(before)


def play() -> tuple[Entered, Entered]:
    """Return what is entered by the decision that opens and taints, and by the one that evicts.

    Between them the loop decides again when something was stored, else at the wake-up.
    """
    stored, policy, now = StepStore(), enforced(), T0
    found = list[Entered]()
    for _ in range(DECISIONS):
        view = _view(stored, now)
        fleet = Fleet(rules=view.stored.rules, incidents=view.stored.incidents, places=view.places)
        with entries(folders_of(CORE)) as entered:
            decision = decide_node(view, fleet, policy, now)
        found.append(entered)
        for step in decision.steps:
            stored.take(step, now)
        effects = [rule.effect for rule in stored.rules.values()]
        if len(found) == 1 and (effects != ["NoSchedule"] or not stored.incidents):
            raise RuntimeError(f"the first decision does not open and taint: {decision.sentence}")
        if effects == ["NoExecute"]:
            return found[0], found[-1]
        if not decision.steps:
            if decision.wake_at is None:
                raise RuntimeError(f"has nothing to do and no wake-up: {decision.sentence}")
            now = decision.wake_at
    raise RuntimeError(f"no NoExecute after {DECISIONS} decisions")


def _view(stored: StepStore, now: datetime) -> NodeView:
    """Return the node as it is at one moment of the scenario."""
    gpus = (_gpu(SICK), _gpu(HEALTHY))
    pod = PodFacts(namespace="team", name="train-0", uid="u-train-0", claims=("claim-0",))
    held = DeviceAllocation((DeviceResult(GPU_DRIVER, NODE, f"gpu-{SICK}"),))
    reserved = (ConsumerReference(pod.name, "pods", pod.uid),)
    place = GpuPlace(node=NODE, pools=frozenset({f"{GPU_DRIVER}/{NODE}"}))
    return NodeView(
        node=NODE,
        agent=AgentView(
            report=NodeHealth(
                boot_id="boot-1",
                observed_at=T0,
                content_hash="as-seen",
                sources=tuple(SourceHealth(name=name, state="Up") for name in ("nvml", "kmsg")),
                gpus=gpus,
                inventory=Inventory(seen=1, on_bus=1, set_aside=0),
            ),
            renewals=(now,) * RENEWALS_NEEDED,
            behind=timedelta(),
        ),
        slices=SliceView(
            inventory=tuple(
                SliceDevice(
                    device=Device(GPU_DRIVER, NODE, f"gpu-{gpu.minor}"),
                    kind="gpu",
                    uuid=gpu.uuid,
                    pci_bus_id=gpu.pci_bus_id,
                    node=NODE,
                )
                for gpu in gpus
            ),
        ),
        stored=StoreView(
            incidents=tuple(stored.incidents.values()),
            rules=tuple(stored.rules.values()),
        ),
        usage=UsageView(
            claims=(
                Claim(
                    ClaimMeta(name="claim-0", namespace=pod.namespace),
                    ClaimStatus(Allocation(held), reserved),
                ),
            ),
            pods=(pod,),
        ),
        facts=NodeFacts(name=NODE, uid="uid-node", conditions=()),
        nodes_known=True,
        places={gpu.uuid: place for gpu in gpus},
    )


def _gpu(index: int) -> GpuHealth:
    """Return a GPU of the report; the sick one is off the bus, and NVML cannot reach it."""
    healthy = GpuHealth(
        uuid=f"GPU-a000000{index}-0000-0000-0000-000000000000",
        presence="Present",
        presence_since=BOOT,
        pci_bus_id=f"0000:{index + 1:02x}:00.0",
        minor=index,
        mig_mode="Disabled",
        recovery_action=RecoveryAction(support="Supported", value=0, since=BOOT, observed_at=T0),
        epoch_started=BOOT,
    )
    if index != SICK:
        return healthy
    return msgspec.structs.replace(
        healthy,
        presence="Lost",
        presence_since=T0,
        recovery_action=RecoveryAction(),
        xids=(
            XidRecord(code=79, count=1, first_seen=T0, last_seen=T0, epoch=1, sources=("kmsg",)),
        ),
    )


def folders_of(packages: Iterable[str]) -> list[Path]:
    return [Path(path) for name in packages for path in importlib.import_module(name).__path__]


def modules_of(packages: Iterable[str]) -> Mapping[str, Path]:
    """Return the files of packages by the name of their module, without empty `__init__`s."""
    root = Path(remediator.__file__).parents[1]
    files = (file for folder in folders_of(packages) for file in sorted(folder.rglob("*.py")))
    return {
        ".".join(file.relative_to(root).with_suffix("").parts): file
        for file in files
        if file.read_text(encoding="utf-8").strip()
    }


def lines_of_code(source: str) -> int:
    """Return the number of lines that are no blank, comment or docstring."""
    beside = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in beside and token.type != tokenize.ENDMARKER
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str()), lineno=int(first), end_lineno=int(last)):
                lines -= {*range(first, last + 1)}
            case _:
                pass
    return len(lines)


def levels_of_imports(modules: Mapping[str, Path]) -> int:
    """Return how many modules the longest chain of imports among them has."""

    @cache
    def level(name: str) -> int:
        return 1 + max(map(level, _imported(modules[name]) & modules.keys()), default=0)

    return max(map(level, modules), default=0)


def _imported(file: Path) -> set[str]:
    return {
        name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }


def largest_struct(modules: Iterable[str]) -> tuple[int, str]:
    """Return the most fields of one struct, and its name."""
    structs = {
        member
        for name in modules
        for _, member in inspect.getmembers(importlib.import_module(name), inspect.isclass)
        if issubclass(member, msgspec.Struct) and member.__module__ == name
    }
    return max((len(struct.__struct_fields__), struct.__name__) for struct in structs)


def measure() -> Section:
    play()  # tables that are read once are read here
    taints, evicts = play()
    modules = modules_of(CORE)
    fields, struct = largest_struct(modules)

    def code(packages: Iterable[str]) -> int:
        files = modules_of(packages).values()
        return sum(lines_of_code(file.read_text(encoding="utf-8")) for file in files)

    def one(what: str, value: int, budget: str = "", *, part: bool = False) -> Figure:
        return Figure(what=what, unit="", values=(value,), budget=budget, digits=0, part=part)

    files, calls = taints.files | evicts.files, taints.calls + evicts.calls
    return Section(
        "The decision core: an XID 79 with the loss of a GPU that a pod uses",
        (
            one("files of plan and diagnose that are entered", len(files), "15"),
            one("calls of their functions", calls.total(), "300"),
            one("by the decision that opens and taints", taints.calls.total(), part=True),
            one("by the decision that evicts", evicts.calls.total(), part=True),
            one("different functions", len(calls), part=True),
            one("modules of plan and diagnose", len(modules), "24"),
            one("levels of imports", levels_of_imports(modules), part=True),
            one("lines of code", code(CORE), part=True),
            one("lines of code with model", code((*CORE, MODEL)), "5,000", part=True),
            one(f"fields of the largest struct, {struct}", fields, "15"),
        ),
        ("comprehensions, lambdas and generator expressions are not counted as calls",),
    )


def main() -> int:
    play()
    taints, evicts = play()
    calls = Counter[str]()
    for (file, _), times in (taints.calls + evicts.calls).items():
        calls[file] += times
    for file in sorted(taints.files | evicts.files, key=lambda file: -calls[file]):
        print(f"{calls[file]:6}  {Path(file).relative_to(Path(remediator.__file__).parent)}")
    print(f"\n{table([measure()])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
