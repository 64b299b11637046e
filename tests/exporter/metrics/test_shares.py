"""Who uses how much of a shared device: processes to pods, and memory of claims."""

from typing import Any

from exporter.agent.join.claims import Holder
from exporter.model.readings import ClaimDevice, GpuReading, MigReading, ProcessReading
from tests.exporter.metrics.pages import held, holder, rendered, snapshot, values
from tests.exporter.worlds import gpu, seen

MEMORY = "draguard_pod_memory_used_bytes"
SM = "draguard_pod_sm_utilization_ratio"
DECLARED = "draguard_claim_memory_declared_bytes"
USED = "draguard_claim_memory_used_bytes"
GIB = 1 << 30


def process(pid: int, pod_uid: str = "", **fields: Any) -> ProcessReading:
    return ProcessReading(pid=pid, pod_uid=pod_uid, **fields)


def owner(pod: str, **fields: object) -> Holder:
    return holder(pod, pod_uid=f"uid-{pod}", **fields)


def pods(reading: GpuReading, *owners: Holder, family: str = MEMORY) -> dict[str, float]:
    what = snapshot(seen(reading), holders=held(GPU_1=owners))
    return values(rendered(what).get(family, []), "pod")


def test_each_pod_on_a_shared_gpu_has_the_sum_of_its_processes() -> None:
    reading = gpu(
        1,
        processes=(
            process(1, "uid-a", memory=GIB, sm_util=30),
            process(2, "uid-a", memory=GIB, sm_util=20),
            process(3, "uid-b", memory=5 * GIB, sm_util=1),
        ),
    )
    owners = owner("a"), owner("b")
    assert pods(reading, *owners) == {"a": 2 * GIB, "b": 5 * GIB}
    assert pods(reading, *owners, family=SM) == {"a": 0.5, "b": 0.01}


def test_a_pod_without_processes_uses_nothing() -> None:
    reading = gpu(1, processes=(process(1, "uid-a", memory=GIB, sm_util=30),))
    assert pods(reading, owner("a"), owner("b")) == {"a": GIB, "b": 0}
    assert pods(gpu(1, processes=()), owner("a"), family=SM) == {"a": 0}


def test_what_is_not_known_is_not_zero() -> None:
    assert pods(gpu(1), owner("a")) == {}
    assert pods(gpu(1, processes=()), holder("a")) == {}
    nameless = gpu(1, processes=(process(1, memory=GIB), process(2, "uid-b", memory=1)))
    assert pods(nameless, owner("a"), owner("b")) == {"b": 1}
    half_read = gpu(1, processes=(process(1, "uid-a", memory=GIB), process(2, "uid-a")))
    assert pods(half_read, owner("a")) == {}


def test_a_device_in_use_without_a_process_has_processes_that_nobody_sees() -> None:
    hidden = gpu(1, fb_used=40 * GIB, processes=())
    assert pods(hidden, owner("a")) == {}
    assert pods(hidden, owner("a"), family=SM) == {}
    idle = gpu(1, fb_used=600 << 20, processes=())
    assert pods(idle, owner("a")) == {"a": 0}
    part = MigReading(uuid="MIG-3", gi=3, ci=0, profile="1g.10gb", fb_used=4 * GIB)
    busy = gpu(1, mig=True, instances=(part,), processes=())
    found = rendered(snapshot(seen(busy), holders=held(MIG_3=(owner("a"),))))
    assert MEMORY not in found


def test_who_only_looks_on_has_no_share() -> None:
    reading = gpu(1, processes=())
    assert pods(reading, owner("a"), owner("monitor", admin=True)) == {"a": 0}


def test_two_containers_of_a_pod_are_one_share() -> None:
    reading = gpu(1, processes=(process(1, "uid-a", memory=GIB),))
    assert pods(reading, owner("a"), owner("a", container="side")) == {"a": GIB}


def test_on_mig_processes_count_for_their_slice_and_sm_time_is_not_known() -> None:
    parts = tuple(
        MigReading(uuid=f"MIG-{gi}", gi=gi, ci=0, profile="1g.10gb", fb_used=gi << 20)
        for gi in (3, 5)
    )
    reading = gpu(
        1,
        mig=True,
        instances=parts,
        processes=(process(1, "uid-a", gi=3, ci=0, memory=7),),
    )
    what = snapshot(seen(reading), holders=held(MIG_3=(owner("a"),), MIG_5=(owner("a"),)))
    found = rendered(what)
    assert values(found[MEMORY], "GPU_I_ID") == {"3": 7, "5": 0}
    assert SM not in found


# --- memory of claims


def claimed(claim: str, pod: str, declared: int | None = None, share: str = "") -> Holder:
    device = ClaimDevice(claim, "team", "gpu.nvidia.com", "node-a", "gpu-0", share_id=share)
    return owner(pod, dra=device, declared_memory=declared, claim_uid=f"uid-of-{claim}")


def memory(reading: GpuReading, *owners: Holder) -> tuple[dict[str, float], dict[str, float]]:
    found = rendered(snapshot(seen(reading), holders=held(GPU_1=owners)))
    return tuple(values(found.get(name, []), "dra_claim_name") for name in (DECLARED, USED))  # pyright: ignore[reportReturnType] - two names, two values


def test_a_claim_alone_uses_what_its_device_uses() -> None:
    declared, used = memory(gpu(1, fb_used=3 * GIB), claimed("x", "a", declared=80 * GIB))
    assert declared == {"x": 80 * GIB}
    assert used == {"x": 3 * GIB}


def test_claims_that_share_a_device_are_distinguished_by_their_pods_processes() -> None:
    reading = gpu(
        1,
        fb_used=9 * GIB,
        processes=(
            process(1, "uid-a", memory=GIB),
            process(2, "uid-b", memory=2 * GIB),
            process(3, "uid-c", memory=4 * GIB),
        ),
    )
    owners = claimed("x", "a", 8 * GIB), claimed("x", "b", 8 * GIB), claimed("y", "c", 16 * GIB)
    declared, used = memory(reading, *owners)
    assert declared == {"x": 8 * GIB, "y": 16 * GIB}
    assert used == {"x": 3 * GIB, "y": 4 * GIB}


def test_a_pod_with_two_claims_on_one_device_could_be_using_either() -> None:
    reading = gpu(1, fb_used=9, processes=(process(1, "uid-a", memory=GIB),))
    declared, used = memory(reading, claimed("x", "a", 8), claimed("y", "a", 16))
    assert declared == {"x": 8, "y": 16}
    assert used == {}


def test_without_processes_shared_claims_have_no_used_memory() -> None:
    _declared, used = memory(gpu(1, fb_used=9), claimed("x", "a", 8), claimed("y", "b", 16))
    assert used == {}
