"""Which claim is read when."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.join import claim_queue
from exporter.agent.join.claim_details import claims_held
from exporter.agent.join.claim_queue import ClaimQueue, Failure, Held
from exporter.model.claim_objects import ClaimDetail, ClaimKey, ResultDetail
from exporter.model.device import NVIDIAS
from exporter.model.readings import ClaimDevice, ContainerDevices

UID = "5b696ac1-c323-589e-a082-e6045e980bf4"
KEY = ClaimKey("team", "claim", UID)
OTHER = ClaimKey("team", "other", "")
DEVICE = ResultDetail(driver="gpu.nvidia.com", pool="node-a", device="gpu-0")
POD = Held(frozenset({"pod"}), frozenset({("gpu.nvidia.com", "node-a", "gpu-0")}))
DOWN = Failure("Unreachable", "no answer")


def detail(*pods: str, uid: str = UID, allocated: bool = True, group: str = "") -> ClaimDetail:
    return ClaimDetail(
        uid=uid,
        results=(DEVICE,) if allocated else (),
        pods=tuple((name, f"uid-{name}") for name in pods),
        pod_groups=(group,) if group else (),
    )


def also(pod: str) -> Held:
    return Held(POD.pods | {pod}, POD.devices)


def requested(queue: ClaimQueue, now: float) -> ClaimKey | None:
    return queue.next(now)[0]


def test_each_claim_is_read_once() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD, OTHER: POD}, 10.0)
    for _ in range(2):
        key = requested(queue, 10.0)
        assert key is not None
        queue.got(key, detail("pod"), 10.0)
    assert queue.next(10.0) == (None, None)
    queue.want({KEY: POD, OTHER: POD}, 999.0)
    assert queue.next(999.0) == (None, None)
    assert set(queue.details()) == {KEY, OTHER}


def test_what_nobody_holds_is_forgotten_and_read_again_when_it_comes_back() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail("pod"), 0.0)
    queue.want({}, 1.0)
    assert (queue.details(), queue.next(1.0)) == ({}, (None, None))
    queue.got(KEY, detail("pod"), 1.0)
    queue.failed(KEY, DOWN, 1.0)
    assert (queue.details(), queue.failures()) == ({}, ())
    queue.want({KEY: POD}, 2.0)
    assert requested(queue, 2.0) == KEY


def test_a_claim_without_allocation_is_read_again_ever_more_rarely() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail(allocated=False), 0.0)
    assert queue.next(0.0) == (None, 1.0)
    queue.got(KEY, detail(allocated=False), 1.0)
    assert queue.next(1.0) == (None, 2.0)
    for _ in range(20):
        queue.got(KEY, detail(allocated=False), 5.0)
    assert queue.next(5.0) == (None, 300.0)
    queue.got(KEY, detail("pod"), 400.0)
    assert queue.next(400.0) == (None, None)


def test_another_claim_of_the_same_name_is_not_taken_and_requested_again() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail("pod", uid="another"), 0.0)
    assert (queue.details(), queue.next(0.0)) == ({}, (None, 1.0))


def test_a_pod_that_joins_a_shared_claim_has_it_read_again() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail("pod", "second"), 0.0)
    queue.want({KEY: also("second")}, 1.0)
    assert queue.next(1.0) == (None, None)
    queue.want({KEY: also("third")}, 2.0)
    assert requested(queue, 2.0) == KEY
    assert queue.details() == {KEY: detail("pod", "second")}


def test_a_claim_that_was_allocated_anew_is_read_again() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail("pod"), 0.0)
    moved = Held(POD.pods, frozenset({("gpu.nvidia.com", "node-a", "gpu-1")}))
    queue.want({KEY: moved}, 20.0)
    assert requested(queue, 20.0) == KEY
    queue.got(KEY, detail("pod"), 20.0)
    assert queue.next(20.0) == (None, 1.0), "the server may be behind the kubelet"
    queue.want({KEY: POD}, 21.0)
    queue.got(KEY, detail("pod"), 21.0)
    assert queue.next(21.0) == (None, None)


def test_the_pods_of_a_group_are_not_looked_for() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail(group="gang"), 0.0)
    assert queue.next(0.0) == (None, None)


def test_a_failure_waits_as_long_as_the_server_says_and_keeps_what_is_known() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail("pod"), 0.0)
    queue.want({KEY: also("new")}, 1.0)
    queue.failed(KEY, DOWN, 1.0, after=30.0)
    assert queue.failures() == ((KEY, DOWN),)
    assert queue.next(1.0) == (None, 30.0)
    assert queue.details() == {KEY: detail("pod")}
    queue.got(KEY, detail("pod", "new"), 31.0)
    assert queue.failures() == ()


def test_details_are_the_same_object_until_they_change() -> None:
    queue = ClaimQueue()
    queue.want({KEY: POD}, 0.0)
    queue.got(KEY, detail("pod"), 0.0)
    before = queue.details()
    queue.want({KEY: POD}, 5.0)
    queue.got(KEY, detail("pod"), 6.0)
    assert queue.details() is before


def test_more_claims_than_a_node_can_hold_are_counted_and_left_out() -> None:
    queue = ClaimQueue()
    many = {ClaimKey("team", f"claim-{n}"): POD for n in range(claim_queue.MOST + 3)}
    queue.want(many, 0.0)
    assert queue.overflow == 3


def test_what_is_held_of_a_claim_are_its_pods_and_all_its_gpus() -> None:
    def holds(pod: str, *devices: tuple[str, str]) -> ContainerDevices:
        held = (ClaimDevice("claim", "team", driver, "node-a", name) for driver, name in devices)
        return ContainerDevices("team", pod, "main", tuple(held))

    ours, nic = "gpu.nvidia.com", ("nic.example", "eth0")
    containers = (holds("a", (ours, "gpu-0"), nic), holds("b", (ours, "gpu-1")))
    devices = {(ours, "node-a", "gpu-0"), (ours, "node-a", "gpu-1")}
    assert claims_held(containers, NVIDIAS) == {
        ClaimKey("team", "claim"): Held(frozenset({"a", "b"}), frozenset(devices))
    }


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["want", "forget", "got", "failed", "unallocated"]),
        st.sampled_from([KEY, OTHER]),
        st.floats(0.0, 400.0),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_queue_never_spins_and_never_leaves_a_held_claim_unread(
    steps: list[tuple[str, ClaimKey, float]],
) -> None:
    queue = ClaimQueue()
    held: dict[ClaimKey, Held] = {}
    now = 0.0
    for what, key, seconds in steps:
        now += seconds
        if what in ("want", "forget"):
            held = {**held, key: POD} if what == "want" else {k: held[k] for k in held if k != key}
            queue.want(held, now)
        elif what == "failed":
            queue.failed(key, DOWN, now)
        else:
            queue.got(key, detail("pod", allocated=what == "got"), now)
        if what in ("failed", "unallocated"):
            assert requested(queue, now) != key
        assert set(queue.details()) <= set(held)
        unread = set(held) - set(queue.details())
        assert not unread or queue.next(now)[1] is not None
