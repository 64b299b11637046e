"""Scenario text to `Scenario` and back.

    [node]
    driver = 580.95.05
    failure = none

    [gpu 0]
    product = NVIDIA H100 80GB HBM3
    uuid = GPU-3c9d...
    minor = 0
    pci = 0000:18:00.0
    serial = 1650000000000
    mig = on
    instance 1 = gi=7 ci=0 profile=1g.10gb start=0 uuid=MIG-77aa...
    process 1 = pid=4711 memory_mib=1024 gi=7 ci=0 type=compute
    link 3 = state=0 replay=12
    failure = hung on nvmlDeviceGetTemperature
    recovery_action = 1
    temperature_c = unsupported

    [events]
    event 1 = gpu=0 type=xid data=94 gi=7 ci=0

Lines that start with `#` are comments. `product` stands above the instances.
The C library (`ini/scenario_parse.c` and its neighbours) reads the same text and
refuses it with the same messages. Pure.
"""

from collections.abc import Iterator, Mapping

from simulator import facts, grammar
from simulator.gpu import Event, Gpu, Instance, Process, Scenario
from simulator.scenario_check import check_events, check_gpu
from simulator.scenario_draft import Draft
from simulator.scenario_words import (
    LineError,
    failure_of,
    instance_id,
    number,
    pairs,
    plain_text,
    whole,
)

_BLANK = " \t\r\n\v\f"


class ScenarioError(Exception):
    """A scenario that cannot be used: `file:line: what is wrong; what to do`."""

    def __init__(self, name: str, line: int, what: str) -> None:
        self.what = what.encode()[: grammar.MAX_COMPLAINT].decode(errors="ignore")
        self.line = line
        super().__init__(f"{name}:{line}: {self.what}")


def parse(text: str, name: str = "scenario.ini") -> Scenario:
    """Read a scenario; raises ScenarioError."""
    reader = _Reader()
    line = 0
    try:
        for line, content in enumerate(text.split("\n"), start=1):
            reader.read(content.strip(_BLANK), line)
        last = line
        for draft in reader.drafts:
            line = draft.line
            check_gpu(draft, reader.drafts[: draft.index])
        line = last
        check_events(reader.scenario.events, len(reader.drafts))
    except LineError as fault:
        raise ScenarioError(name, line, str(fault)) from fault
    reader.scenario.gpus = [draft.gpu() for draft in reader.drafts]
    return reader.scenario


class _Reader:
    """Lines in, a scenario and drafts of its GPUs out."""

    def __init__(self) -> None:
        self.scenario = Scenario()
        self.drafts: list[Draft] = []
        self._section = ""
        self._opened: set[str] = set()
        self._keys: set[str] = set()

    def read(self, line: str, count: int) -> None:
        if not line or line.startswith("#"):
            return
        if line.startswith("[") and line.endswith("]"):
            self._open(line[1:-1].strip(_BLANK), count)
            return
        key, equals, value = line.partition("=")
        if not equals or not key:
            raise LineError("cannot read this line; write [section], key = value or # comment")
        self._set(key.strip(_BLANK), value.strip(_BLANK))

    def _open(self, name: str, count: int) -> None:
        self._keys.clear()
        if name.startswith("gpu "):
            text, expected = name[4:].strip(_BLANK), len(self.drafts)
            if whole(text, grammar.MAX_GPUS - 1) != expected:
                raise LineError(
                    f"section [gpu {text}] is out of order; number GPUs from 0 without gaps, at "
                    f"most {grammar.MAX_GPUS}, here [gpu {expected}]"
                )
            self.drafts.append(Draft(count, expected))
            self._section = "gpu"
            return
        if name not in ("node", "events"):
            raise LineError(f"unknown section [{name}]; use [node], [gpu <number>] or [events]")
        if name in self._opened:
            raise LineError(f"section [{name}] is there twice; join the two")
        self._opened.add(name)
        self._section = name

    def _set(self, key: str, value: str) -> None:
        if self._section != "events" and key in self._keys:
            raise LineError(f'"{key}" is set twice in this section; remove one')
        self._keys.add(key)
        if self._section == "gpu":
            self.drafts[-1].take(key, value)
        elif self._section == "node":
            _set_node(self.scenario, key, value)
        elif self._section == "events":
            self.scenario.events.append(_event(self.scenario, key, value))
        else:
            raise LineError(f'"{key}" stands before any section; put it below [gpu 0]')


def _set_node(scenario: Scenario, key: str, value: str) -> None:
    if key in ("driver", "nvml"):
        setattr(scenario, key, plain_text(key, value))
    elif key == "cuda":
        scenario.cuda = number(key, value, 99999)
    elif key == "count":
        scenario.count = None if value == "none" else number(key, value, 2 * grammar.MAX_GPUS)
    elif key == "failure":
        scenario.failure = failure_of(value)
        kind = scenario.failure.kind
        if kind in (*grammar.WHOLE_FAILURES[1:], "garbage"):
            raise LineError(f"a node cannot be {kind}; use error=<code> on nvmlInitWithFlags")
    else:
        raise LineError(f'unknown setting "{key}" in [node]; use one of: {facts.NODE_KEYS}')


def _event(scenario: Scenario, key: str, value: str) -> Event:
    before = scenario.events[-1].number if scenario.events else 0
    found = whole(key[6:], 2**63 - 1) if key.startswith("event ") else None
    if found is None or found <= before:
        raise LineError(
            f'"{key}" must be "event <number>" with a number above {before}; numbers only grow'
        )
    words = pairs(value, grammar.EVENT_WORDS)
    if len(scenario.events) == grammar.MAX_EVENTS:
        raise LineError(f"more than {grammar.MAX_EVENTS} events; remove the oldest")
    kind = words.get("type", "")
    if kind not in grammar.EVENT_TYPES:
        known = ", ".join(grammar.EVENT_TYPES)
        raise LineError(f'unknown event type "{kind}"; use one of: {known}')
    return Event(
        number=found,
        type=kind,
        gpu=number("gpu", words.get("gpu", ""), grammar.MAX_GPUS - 1),
        data=number("data", words.get("data", "0"), 0xFFFFFFFF),
        gi=instance_id("gi", words.get("gi", "none")),
        ci=instance_id("ci", words.get("ci", "none")),
    )


def render(scenario: Scenario) -> str:
    """Write a scenario as text that `parse` reads back."""
    lines = ["[node]"]
    lines += [f"{key} = {getattr(scenario, key)}" for key in ("driver", "nvml", "cuda", "failure")]
    lines += [] if scenario.count is None else [f"count = {scenario.count}"]
    for index, gpu in enumerate(scenario.gpus):
        lines += ["", f"[gpu {index}]", *_gpu_lines(gpu)]
    events = [
        f"event {event.number} = gpu={event.gpu} type={event.type} data={event.data} "
        f"gi={_id(event.gi)} ci={_id(event.ci)}"
        for event in scenario.events
    ]
    lines += ["", "[events]", *events, ""]
    return "\n".join(lines)


def _gpu_lines(gpu: Gpu) -> Iterator[str]:
    yield f"product = {gpu.product.name}"
    yield from (f"{key} = {getattr(gpu, key)}" for key in ("uuid", "minor", "pci", "serial"))
    for key in ("shown_uuid", "cluster_uuid"):
        if text := getattr(gpu, key):
            yield f"{key} = {text}"
    yield f"mig = {'on' if gpu.mig else 'off'}"
    for n, instance in enumerate(gpu.instances, start=1):
        yield f"instance {n} = {_words(instance)}"
    for n, process in enumerate(gpu.processes, start=1):
        yield f"process {n} = {_words(process)}"
    for n, link in sorted(gpu.links.items()):
        yield f"link {n} = {_numbers(link)}"
    yield f"failure = {gpu.failure}"
    for name, value in gpu.values.items():
        yield f"{name} = {_number(value)}"


def _words(part: Instance | Process) -> str:
    if isinstance(part, Instance):
        return (
            f"gi={part.gi} ci={part.ci} profile={part.profile.name} start={part.start} "
            f"uuid={part.uuid} {_numbers(part.values)}"
        ).rstrip()
    kind = "graphics" if part.graphics else "mps" if part.mps else "compute"
    ids = f"gi={_id(part.gi)} ci={_id(part.ci)}"
    owner = {"pod": part.pod, "container": part.container}
    words = [f"{name}={text}" for name, text in owner.items() if text]
    words = [f"pid={part.pid} memory_mib={part.memory_mib} {ids} type={kind}", *words]
    return " ".join((*words, _numbers(part.values))).rstrip()


def _numbers(values: Mapping[str, int | None]) -> str:
    return " ".join(f"{name}={_number(value)}" for name, value in values.items())


def _number(value: int | None) -> str:
    return grammar.UNSUPPORTED if value is None else str(value)


def _id(value: int | None) -> str:
    return "none" if value is None else str(value)
