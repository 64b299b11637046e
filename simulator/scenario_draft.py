"""One `[gpu n]` section while it is read: each setting taken by its own small function.

A draft may still lack what a GPU needs; `simulator.scenario_check` says so. Pure.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from simulator import facts, grammar
from simulator.gpu import HEALTHY, Failure, Gpu, Instance, Process
from simulator.product import PRODUCTS, Product
from simulator.quantities import LINK_VALUES, SLICE_VALUES
from simulator.scenario_words import (
    LineError,
    failure_of,
    instance_id,
    number,
    pairs,
    plain_text,
    reading,
    readings,
)

_PCI = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.0")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_LARGEST = {value.name: value.largest for value in grammar.VALUES}


class Draft(msgspec.Struct):
    """What a section has set so far."""

    line: int
    index: int
    product: Product | None = None
    uuid: str = ""
    minor: int | None = None
    pci: str = ""
    serial: str = ""
    shown_uuid: str = ""
    cluster_uuid: str = ""
    mig: bool = False
    failure: Failure = HEALTHY
    values: dict[str, int | None] = {}
    instances: list[Instance] = []
    processes: list[Process] = []
    links: dict[int, dict[str, int | None]] = {}

    def take(self, key: str, value: str) -> None:
        """Apply one setting; raises LineError."""
        if key in _LARGEST:
            self.values[key] = reading(key, value, _LARGEST[key])
            return
        if key in _READERS:
            setattr(self, key, _READERS[key](value))
            return
        if key == "product":
            self.product = PRODUCTS.get(value)
            if self.product is None:
                raise LineError(f'unknown product "{value}"; use one of: {", ".join(PRODUCTS)}')
            return
        word, numbered, rest = key.partition(" ")
        if word == "link" and numbered:
            link = number("link", rest, grammar.MAX_LINKS - 1)
            self.links[link] = readings(pairs(value, grammar.LINK_WORDS), LINK_VALUES)
            return
        taker = _NUMBERED.get(word) if numbered else None
        if taker is None:
            raise LineError(
                f'unknown setting "{key}" in [gpu {self.index}]; use one of: {facts.GPU_KEYS}'
            )
        taker(self, value)

    def gpu(self) -> Gpu:
        """Return the finished GPU; call it after `scenario_check`."""
        if self.product is None or self.minor is None:
            raise LineError(f"[gpu {self.index}] is not complete")
        fields = msgspec.structs.asdict(self)
        del fields["line"], fields["index"]
        return Gpu(**fields)


def _shaped(key: str, value: str, shape: re.Pattern[str], example: str) -> str:
    if not shape.fullmatch(value):
        raise LineError(f'{key} must look like {example}, not "{value}"')
    return value


def _mig(value: str) -> bool:
    if value not in ("on", "off"):
        raise LineError(f'mig must be on or off, not "{value}"')
    return value == "on"


def _instance(draft: Draft, value: str) -> None:
    words = pairs(value, grammar.INSTANCE_WORDS)
    if len(draft.instances) == grammar.MAX_INSTANCES:
        raise LineError(f"more than {grammar.MAX_INSTANCES} instances; remove some")
    name = words.get("profile", "")
    profile = draft.product.profile(name) if draft.product else None
    if profile is None:
        raise LineError(
            f'unknown profile "{name}"; put product above it and use one of its MIG profiles'
        )
    draft.instances.append(
        Instance(
            profile=profile,
            gi=number("gi", words.get("gi", ""), 127),
            ci=number("ci", words.get("ci", "0"), 127),
            start=number("start", words.get("start", ""), 7),
            uuid=plain_text("uuid", words.get("uuid", "")),
            values=readings(words, SLICE_VALUES),
        )
    )


def _process(draft: Draft, value: str) -> None:
    words = pairs(value, grammar.PROCESS_WORDS)
    if len(draft.processes) == grammar.MAX_PROCESSES:
        raise LineError(f"more than {grammar.MAX_PROCESSES} processes; remove some")
    kind = words.get("type", "compute")
    if kind not in grammar.PROCESS_TYPES:
        raise LineError(f'type must be compute, graphics or mps, not "{kind}"')
    draft.processes.append(
        Process(
            graphics=kind == "graphics",
            mps=kind == "mps",
            pid=number("pid", words.get("pid", ""), 0xFFFFFFFF),
            memory_mib=number("memory_mib", words.get("memory_mib", "0"), 0xFFFFFFFF),
            gi=instance_id("gi", words.get("gi", "none")),
            ci=instance_id("ci", words.get("ci", "none")),
            values=readings(words, grammar.PROCESS_VALUES),
            pod=plain_text("pod", words["pod"]) if "pod" in words else "",
            container=plain_text("container", words["container"]) if "container" in words else "",
        )
    )


_READERS: Mapping[str, Callable[[str], object]] = {
    "uuid": lambda value: plain_text("uuid", value),
    "shown_uuid": lambda value: plain_text("shown_uuid", value),
    "cluster_uuid": lambda value: _shaped(
        "cluster_uuid", value, _UUID, "01234567-89ab-cdef-0123-456789abcdef"
    ),
    "serial": lambda value: plain_text("serial", value),
    "minor": lambda value: number("minor", value, 255),
    "pci": lambda value: _shaped("pci", value, _PCI, "0000:18:00.0"),
    "mig": _mig,
    "failure": failure_of,
}
"""By the field that a setting is kept in."""
_NUMBERED: Mapping[str, Callable[[Draft, str], None]] = {
    "instance": _instance,
    "process": _process,
}
