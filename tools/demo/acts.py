"""The acts of the demo: for each, its device, what is done to it, and what must follow.

Acts build on each other, and each begins with the rules that the one before left.
"""

from collections.abc import Callable

import msgspec

from tools.demo import expectations as must
from tools.demo.expectations import Expectation
from tools.demo.picture import Picture, Seat
from tools.demo.stage import GPUS, Stage

BURST = {13: 5, 31: 5, 43: 5, 45: 5}
"""Application XIDs, and how often each comes."""
NAMED_AFTER = 0.2
"""Seconds from a kernel line without instance to the NVML event that names it."""


class NoTargetError(Exception):
    """No device fits an act; the message says what was looked for."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    tells: str
    """What happens now, one sentence; `{device}`, `{node}` and `{pod}` as in expectations."""
    target: Callable[[Picture, Seat | None], Seat]
    """Choose the device, given the cluster and the target of the act before."""
    play: Callable[[Stage, Seat], None]
    expects: tuple[Expectation, ...]
    lasts: float = 0.0
    """Seconds for which the expectations must go on to hold: for acts where nothing may happen."""
    patience: float = 60.0
    """Seconds beyond the policy's soak time after which an expectation has failed."""


def busy_gpu(now: Picture, _last: Seat | None) -> Seat:
    return _first(now, lambda seat: not seat.is_slice, "a GPU in use")


def busy_slice(now: Picture, _last: Seat | None) -> Seat:
    return _first(now, lambda seat: seat.is_slice, "a MIG slice in use")


def gpu_of_full_node(now: Picture, _last: Seat | None) -> Seat:
    """A GPU whose seven neighbours are in use, too."""
    nodes = {seat.node for seat in now.seats}
    full = {
        node
        for node in nodes
        if all(seat.holder and not seat.is_slice for seat in now.seats if seat.node == node)
    }
    return _first(now, lambda seat: seat.node in full and seat.number == 3, "a node in full use")


def same_device(now: Picture, last: Seat | None) -> Seat:
    found = now.seat(last.name) if last else None
    if found is None:
        raise NoTargetError("the device of the act before is not published any more")
    return found


def _first(now: Picture, fits: Callable[[Seat], bool], what: str) -> Seat:
    for seat in now.seats:
        if seat.holder and not seat.effect and fits(seat):
            return seat
    raise NoTargetError(f"there is no {what.removeprefix('a ')} to begin with")


def burst(stage: Stage, target: Seat) -> None:
    place = stage.place(target.uuid)
    for code, count in BURST.items():
        for _ in range(count):
            place.node.inject_xid(place.number, code, pid=4711, process="python3")


def contained_error(stage: Stage, target: Seat) -> None:
    place = stage.place(target.uuid)
    instance = place.instance
    if instance is None:
        raise NoTargetError(f"{target.name} is no slice")
    place.node.inject_xid(
        place.number, 94, gi=instance.gi, ci=instance.ci, reset=False, nvml_delay=NAMED_AFTER
    )


def off_the_bus(stage: Stage, target: Seat) -> None:
    place = stage.place(target.uuid)
    place.node.lose(place.number)
    place.node.inject_xid(place.number, 79)


def repair(stage: Stage, target: Seat) -> None:
    place = stage.place(target.uuid)
    place.node.heal(place.number)


def one_more_pod(stage: Stage, _target: Seat) -> None:
    stage.scale("train", GPUS)


ACTS = (
    Act(
        title="a burst of application errors",
        tells=f"{sum(BURST.values())} XIDs {', '.join(map(str, BURST))} hit {{device}}, in use by "
        "{pod}: bugs of the program, not of the GPU",
        target=busy_gpu,
        play=burst,
        expects=(
            Expectation("/metrics and the report count each XID once", must.counted(BURST)),
            Expectation("nothing is done: no incident, no rule, no pod moves", must.untouched),
        ),
        lasts=3.0,
    ),
    Act(
        title="a contained error in one MIG slice",
        tells="XID 94 (RST: No) on the GPU of {device}; which slice it was only NVML tells, "
        f"{NAMED_AFTER * 1000:.0f} ms later",
        target=busy_slice,
        play=contained_error,
        expects=(
            Expectation(
                "{device} alone is tainted, NoSchedule before NoExecute", must.tainted_in_order
            ),
            Expectation(
                "{pod} alone is evicted; the other slices keep their pods", must.only_target_moved
            ),
            Expectation("a replacement runs on another slice", must.replaced),
            Expectation(
                "the incident goes from Tainted to Recovered",
                must.phases("Tainted", "Evicting", "Recovered"),
            ),
            Expectation("the slice is untainted after the soak time", must.untainted),
        ),
    ),
    Act(
        title="a GPU falls off the bus",
        tells="XID 79 and {device} is lost, under {pod}",
        target=gpu_of_full_node,
        play=off_the_bus,
        expects=(
            Expectation(
                "{device} alone is tainted, NoSchedule before NoExecute", must.tainted_in_order
            ),
            Expectation(
                "{pod} alone is evicted; its 7 neighbours on {node} stay", must.only_target_moved
            ),
            Expectation("a replacement runs elsewhere", must.replaced),
            Expectation(
                "the incident is Drained",
                must.phases("Tainted", "Evicting", "Drained"),
            ),
            Expectation("the taint stays", must.still_tainted),
        ),
    ),
    Act(
        title="the GPU is repaired",
        tells="{device} answers again; Draguard wants to see it healthy for the soak time",
        target=same_device,
        play=repair,
        expects=(
            Expectation(
                "the recovery is verified, then believed", must.phases("Verifying", "Recovered")
            ),
            Expectation("the taint stands for the whole soak time", must.soaked),
            Expectation("no rule is left", must.untainted),
            Expectation("no pod moves", must.stayed),
        ),
    ),
    Act(
        title="and is used again",
        tells="one training pod more, and the only free GPU is {device}",
        target=same_device,
        play=one_more_pod,
        expects=(Expectation("the new pod runs on {device}", must.used_again),),
    ),
)
