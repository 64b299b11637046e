"""What the page makes of it all: hostile names and values through the renderer, strictly read."""

from collections.abc import Mapping
from random import Random
from typing import Any, get_args

import msgspec

from exporter.agent.join.claims import Holder, Holders
from exporter.metrics import counters, debug_page, fields
from exporter.metrics.labels import Options, Preset
from exporter.metrics.render import page
from exporter.metrics.snapshot import Shown
from exporter.metrics.windows import Place, WindowCounts
from exporter.model.node_health import SourceHealth
from exporter.model.readings import (
    ClaimDevice,
    DcgmEntity,
    DcgmReading,
    GpuReading,
    Hang,
    HealthFinding,
    LinkReading,
    MigReading,
    NvmlReading,
    Observation,
    PeerReading,
    ProcessReading,
    Values,
)
from tests.exporter.metrics import pages
from tests.exporter.worlds import START, at
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

_FIELDS = tuple(fields.table())
_COUNTER_TYPES = get_args(counters.CounterType)
_encoder = msgspec.msgpack.Encoder()


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one page is made of."""

    seen: Observation
    holders: Holders
    rows: tuple[str, ...]
    options: Options
    windows: WindowCounts
    max_series: int
    agent: SourceHealth


def make_world(random: Random) -> World:
    gpus = tuple(_gpu(random, index) for index in range(random.randrange(4)))
    uuids = [gpu.uuid for gpu in gpus]
    uuids += [part.uuid for gpu in gpus for part in gpu.instances or ()]
    sources = (SourceHealth(name="nvml", state="Up", message=hostile.text(random)),)
    reading = NvmlReading(at=START, driver_version=hostile.text(random), gpus=gpus, took=0.25)
    seen = Observation(
        at=START,
        sources=sources,
        nvml=reading,
        hang=random.choice((None, Hang(hostile.text(random), 1, hostile.text(random)))),
        dcgm=_dcgm(random, uuids),
        pci_gpus=tuple(_bus(index) for index in range(random.randrange(6))),
        rejected={hostile.text(random): 1, "malformed": 2},
    )
    by_uuid = {
        uuid: tuple(_holder(random) for _ in range(random.randrange(3)))
        for uuid in random.sample(uuids, len(uuids) // 2)
    }
    counted: dict[Place, dict[int, int]] = {
        (uuid, None, None): {hostile.whole(random): 1} for uuid in uuids[:1]
    }
    return World(
        seen=seen,
        holders=Holders(by_uuid, (_holder(random),), (("not_live", hostile.text(random)),)),
        rows=tuple(_row(random) for _ in range(random.randrange(12))),
        options=_options(random),
        windows=WindowCounts(counted, {uuid: {"hw_slowdown": 1} for uuid in uuids[:1]}),
        max_series=random.choice((0, 3, 50, 20_000, 20_000)),
        agent=SourceHealth(name=hostile.text(random), state="Down", reason="Down"),
    )


def _bus(index: int) -> str:
    return f"0000:{index:02x}:00.0"


def _gpu(random: Random, index: int) -> GpuReading:
    parts = tuple(
        MigReading(
            uuid=hostile.name(random, f"MIG-{index}-{number}"),
            gi=random.randrange(3),
            ci=number,
            profile=hostile.name(random, "1g.10gb", "1c.3g.40gb"),
            fb_used=hostile.whole(random),
            values=_values(random),
        )
        for number in range(random.choice((0, 0, 1, 3)))
    )
    return GpuReading(
        index=index,
        uuid=hostile.name(random, f"GPU-{index}"),
        bus_id=random.choice((_bus(index), _bus(index), "")),
        serial=hostile.text(random),
        minor=index,
        product=hostile.name(random, "NVIDIA H100 80GB HBM3"),
        mig=bool(parts),
        instances=parts or None,
        fb_used=hostile.whole(random),
        slowdown=hostile.whole(random),
        values=_values(random),
        links=tuple(
            LinkReading(link=link, up=random.choice((None, True, False)), values=_values(random))
            for link in range(random.choice((0, 0, 2)))
        ),
        peers=(PeerReading(1 - index, hostile.whole(random)),) if index < 2 else (),
        processes=(ProcessReading(pid=7, memory=1, sm_util=5, pod_uid="uid-0"),),
        lost=random.randrange(12) == 0,
        hung_call=random.choice(("", "", "", hostile.text(random))),
        recovery_supported=True,
        recovery_action=random.choice((0, 1, 99)),
        error=hostile.text(random),
    )


def _values(random: Random) -> Values:
    """Return values as they may come over the wire: also what NVML's own checks refuse."""
    makers = (hostile.number, hostile.text)
    return {
        random.choice(_FIELDS): random.choice(makers)(random) for _ in range(random.randrange(6))
    }


def _dcgm(random: Random, uuids: list[str]) -> DcgmReading | None:
    if random.randrange(2):
        return None
    entities = tuple(
        DcgmEntity(
            uuid=uuid,
            gi=random.choice((None, 0, 1)),
            link=random.choice((None, 0)),
            values=_values(random),
        )
        for uuid in uuids
    )
    found = HealthFinding(
        uuid=random.choice((*uuids, "GPU-0")),
        watch=hostile.name(random, "PCIE", "MEM"),
        health=20,
        error_code=hostile.name(random, "DCGM_FR_PCI_REPLAY_RATE"),
        severity=hostile.name(random, "MONITOR"),
        category=hostile.name(random, "HARDWARE_PCIE"),
    )
    health = random.choice((None, (found, found)))
    return DcgmReading(at=START, entities=entities, health=health, unsupported=(1001, 70_000))


def _holder(random: Random) -> Holder:
    claim = ClaimDevice(
        hostile.name(random, "train-gpu"),
        hostile.name(random, "team"),
        hostile.name(random, "gpu.nvidia.com"),
        hostile.name(random, "node-a"),
        hostile.name(random, "gpu-0"),
        hostile.text(random),
    )
    return Holder(
        namespace=hostile.name(random, "team"),
        pod=hostile.name(random, "train-0"),
        container=hostile.name(random, "main"),
        dra=random.choice((None, claim)),
        resource=hostile.text(random),
        replica=hostile.text(random),
        pod_uid=hostile.name(random, "uid-0"),
        request=hostile.text(random),
        profile=hostile.text(random),
        admin=random.choice((None, True, False)),
        declared_memory=random.choice((None, hostile.whole(random))),
        pod_labels=tuple(
            (hostile.name(random, "app", "app.kubernetes.io/name"), hostile.text(random))
            for _ in range(random.randrange(4))
        ),
        device_id=hostile.text(random),
        bus_id=random.choice(("", _bus(9))),
    )


def _row(random: Random) -> str:
    field = fields.table()[random.choice(_FIELDS)]
    stated = hostile.text(random).translate({10: " ", 13: " ", 0: " ", 34: "'"})
    kind = random.choice((*_COUNTER_TYPES, "gauge", "gauge", "label"))
    return f'{field.name}, {kind}, "{stated}"'


def _options(random: Random) -> Options:
    return Options(
        preset=random.choice(get_args(Preset)),
        old_namespace=random.random() < 0.3,
        hostname_label=random.choice(("Hostname", "hostname", "none")),
        replace_blanks=random.random() < 0.3,
        pod_uid=random.random() < 0.5,
    )


def check_world(world: World) -> None:
    """Render the page; it must read strictly in both forms, and no name may land elsewhere."""
    _encoder.encode(world.seen)
    rows = counters.parse("\n".join(world.rows).encode(), "counters.csv")
    shown = Shown(counters=rows, options=world.options, max_series=world.max_series)
    what = pages.snapshot(
        world.seen,
        node="node-a",
        at=at(30),
        holders=world.holders,
        windows=world.windows,
        shown=shown,
        agent_sources=(world.agent,),
        join_misses={hostile.TEXTS[7]: 1},
    )
    series = pages.read(page(what))
    allowed = _allowed(world)
    for family, samples in series.items():
        for labels, _ in samples:
            _nothing_elsewhere(family, labels, allowed)
    demand(all(line.isprintable() for line in debug_page.debug_page(what).split("\n")), "debug")


def _nothing_elsewhere(
    family: str, labels: Mapping[str, str], allowed: Mapping[str, set[str]]
) -> None:
    for name, value in labels.items():
        known = allowed.get(name)
        demand(known is None or value in known, f"a value under the wrong key in {family}", name)
        demand(value, "an empty label", name)


def _allowed(world: World) -> dict[str, set[str]]:
    """Return what may stand under each label, from what went in."""
    gpus = world.seen.nvml.gpus if world.seen.nvml else ()
    parts = [part for gpu in gpus for part in gpu.instances or ()]
    every = [*(holder for by in world.holders.by_uuid.values() for holder in by)]
    every += world.holders.elsewhere
    claims = [holder.dra for holder in every if holder.dra]
    hung = {world.seen.hang.uuid} if world.seen.hang else set[str]()
    uuids = {gpu.uuid for gpu in gpus} | hung | set(world.holders.by_uuid)
    # A report keeps 96 characters of what NVML says.
    products = {name for gpu in gpus for name in (gpu.product, gpu.product[:96])}
    products |= {name.replace(" ", "-") for name in products}
    pods, namespaces = {holder.pod for holder in every}, {holder.namespace for holder in every}
    containers = {holder.container for holder in every}
    profiles = {name for part in parts for name in (part.profile, part.profile[:96])}
    profiles |= {profile.partition("c.")[2] for profile in profiles}
    return {
        "UUID": uuids,
        "uuid": uuids,
        "gpu_uuid": uuids,
        "modelName": products,
        "model_name": products,
        "GPU_I_PROFILE": profiles,
        "GPU_I_ID": {"0", "1", "2"},
        "GPU_CI_ID": {"0", "1", "2"},
        "pod": pods,
        "pod_name": pods,
        "namespace": namespaces,
        "pod_namespace": namespaces,
        "container": containers,
        "container_name": containers,
        "vgpu": {holder.replica for holder in every},
        "pod_uid": {holder.pod_uid for holder in every},
        "dra_claim_name": {device.claim for device in claims},
        "dra_claim_namespace": {device.claim_namespace for device in claims},
        "dra_driver_name": {device.driver for device in claims},
        "dra_pool_name": {device.pool for device in claims},
        "dra_device_name": {device.device for device in claims},
        "Hostname": {"node-a"},
        "hostname": {"node-a"},
    }


def make_names(random: Random) -> Any:
    """Make the names on one device, held by one pod."""
    return tuple(hostile.text(random) for _ in range(6)), _options(random)


def check_names(made: Any) -> None:
    """Every name comes out of the page as it went in, under its own key."""
    (uuid, product, pod, namespace, container, replica), options = made
    holder = Holder(namespace=namespace, pod=pod, container=container, replica=replica)
    gpu = GpuReading(index=0, uuid=uuid, product=product, values={150: 40})
    seen = Observation(at=START, nvml=NvmlReading(at=START, gpus=(gpu,)))
    shown = Shown(counters=_ONE, options=options)
    holders = Holders({uuid: (holder,)})
    series = pages.read(page(pages.snapshot(seen, holders=holders, shown=shown)))
    ((labels, value),) = series["DCGM_FI_DEV_GPU_TEMP"]
    lean = options.preset == "lean"
    expected = {
        options.named("UUID"): uuid,
        "modelName": "" if lean else options.model(product),
        options.named("pod"): "" if lean else pod,
        options.named("namespace"): "" if lean else namespace,
        options.named("container"): "" if lean else container,
        "vgpu": "" if lean else replica,
    }
    reported = {name: labels.get(name, "") for name in expected}
    demand(value == 40 and reported == expected, "another name", reported)


_ONE = counters.parse(b"DCGM_FI_DEV_GPU_TEMP, gauge, C", "counters.csv")
TARGETS = (
    Target("page", 20, make_world, check_world),
    Target("page-names", 10, make_names, check_names),
)
