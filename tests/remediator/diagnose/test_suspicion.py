"""When application XIDs make a GPU suspect, and when they never do."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.diagnose import suspicion
from remediator.diagnose.fault import Healthy, Sick, Unknown
from remediator.diagnose.suspicion import (
    BURST_GAP,
    MAX_PARTS,
    UNKNOWN_OWNER,
    WINDOW,
    Owner,
    Sighting,
    Suspicions,
    with_suspicion,
)
from remediator.diagnose.verdict import verdict
from tests.remediator.builders import RESET, at, gpu, uuid

GPU, OTHER = uuid(0), uuid(1)
HOUR = 3600.0
LATE = at(23 * HOUR)
ALICE, BOB = Owner("team-a", "Job/train"), Owner("team-b", "Job/tune")
CAROL = Owner("team-a", "Job/other")


def saw(
    owner: Owner | frozenset[Owner], hours: float = 0, gpu: str = GPU, code: int = 31
) -> Sighting:
    owners = owner if isinstance(owner, frozenset) else frozenset({owner})
    return Sighting(gpu, code, at(hours * HOUR), owners)


def memory(*sightings: Sighting) -> Suspicions:
    known = Suspicions()
    for sighting in sightings:
        known.add(sighting)
    return known


@pytest.mark.parametrize("code", [13, 31])
def test_errors_that_stay_with_the_gpu_across_owners_and_namespaces(code: int) -> None:
    fault = memory(saw(ALICE, 0, code=code), saw(BOB, 2, code=code)).of(GPU, LATE)

    assert fault is not None
    assert (fault.fault_class, fault.cause) == ("suspect", f"xid-{code}-repeated")
    assert (fault.needs, fault.certain, fault.xid) == ("diagnosis", False, code)
    assert fault.last_seen == at(2 * HOUR)
    assert "2 owners in 2 namespaces" in fault.evidence


@pytest.mark.parametrize(
    "sightings",
    [
        pytest.param([saw(ALICE, n) for n in range(20)], id="one owner, however often"),
        pytest.param([saw(ALICE), saw(CAROL, 2)], id="two owners of one namespace"),
        pytest.param(
            [saw(ALICE), saw(Owner("team-b", "Job/train"), 25)], id="more than a day apart"
        ),
        pytest.param([saw(ALICE), saw(BOB, 2, code=13)], id="of different codes"),
        pytest.param([saw(ALICE), saw(BOB, 2, gpu=OTHER)], id="on different GPUs"),
        pytest.param(
            [saw(ALICE), saw(BOB, 2), saw(ALICE, 3, gpu=OTHER)], id="it moves with its owner"
        ),
        pytest.param(
            [saw(ALICE), saw(BOB, 2), saw(ALICE, 3, gpu=OTHER, code=13)],
            id="it moves with its owner, as the other code",
        ),
        pytest.param([saw(frozenset({ALICE, BOB}), n) for n in range(3)], id="shared device"),
        pytest.param([saw(ALICE), saw(BOB, 0.01)], id="one burst of two owners"),
        pytest.param([saw(ALICE), saw(frozenset[Owner](), 2)], id="nobody"),
        pytest.param([saw(ALICE), saw(UNKNOWN_OWNER, 2)], id="an unknown owner"),
        pytest.param([saw(ALICE), saw(frozenset({BOB, UNKNOWN_OWNER}), 2)], id="one is unknown"),
        pytest.param([saw(ALICE, code=43), saw(BOB, 2, code=43)], id="of a code that is no sign"),
    ],
)
def test_everything_short_of_that_accuses_no_gpu(sightings: list[Sighting]) -> None:
    known = memory(*sightings)

    assert known.of(GPU, LATE) is None
    assert known.of(OTHER, LATE) is None


def test_an_error_on_another_gpu_more_than_a_day_ago_clears_nothing() -> None:
    known = memory(saw(ALICE, gpu=OTHER), saw(ALICE, 25), saw(BOB, 26))

    assert known.of(GPU, at(27 * HOUR)) is not None
    assert memory(saw(ALICE, gpu=OTHER), saw(ALICE, 24), saw(BOB, 25)).of(GPU, LATE) is None


def test_a_shared_device_clears_the_gpu_of_those_who_had_it_there() -> None:
    both = saw(frozenset({ALICE, BOB}), 3, gpu=OTHER)

    assert memory(saw(ALICE), saw(BOB, 2), both).of(GPU, LATE) is None


def test_an_owner_who_is_cleared_leaves_the_others_suspicion() -> None:
    dora = Owner("team-d", "Job/d")
    known = memory(saw(ALICE), saw(BOB, 1), saw(dora, 2), saw(ALICE, 3, gpu=OTHER))
    fault = known.of(GPU, LATE)

    assert fault is not None
    assert "2 owners" in fault.evidence


def test_suspicion_ends_when_a_day_has_passed() -> None:
    known = memory(saw(ALICE), saw(BOB, 2))

    assert known.of(GPU, at(0) + WINDOW) is not None
    assert known.of(GPU, at(1) + WINDOW) is None


def test_three_minutes_of_silence_close_a_burst() -> None:
    gap = BURST_GAP.total_seconds() / HOUR
    assert memory(saw(ALICE), saw(BOB, gap)).of(GPU, LATE) is not None
    assert memory(saw(ALICE), saw(BOB, gap * 0.99)).of(GPU, LATE) is None


def contained(*minutes: float) -> Suspicions:
    """A GPU that had contained errors at these times, whoever held it."""
    return memory(*(saw(frozenset[Owner](), minute / 60, code=94) for minute in minutes))


@pytest.mark.parametrize(
    "minutes",
    [(0, 60, 1400), tuple(range(0, 1440, 20)), (0, 2, 4, 6)],
    ids=["three in a day", "every twenty minutes", "at each start of a program"],
)
def test_contained_errors_that_come_again_and_again_whoever_holds_the_gpu(
    minutes: tuple[float, ...],
) -> None:
    fault = contained(*minutes).of(GPU, LATE)

    assert fault is not None
    assert (fault.fault_class, fault.cause) == ("suspect", "xid-94-repeated")
    assert (fault.needs, fault.certain, fault.xid) == ("diagnosis", False, 94)
    assert fault.last_seen == at(max(minutes) * 60)


@pytest.mark.parametrize(
    "minutes",
    [(0,), (0, 60), (0, 60, 1441), (0, 0.1, 0.2, 1, 60, 60.1)],
    ids=["one", "two", "not in one day", "two that were printed in many lines"],
)
def test_fewer_contained_errors_in_a_day_are_no_sign(minutes: tuple[float, ...]) -> None:
    assert contained(*minutes).of(GPU, at(24 * HOUR)) is None


def test_a_contained_error_on_another_gpu_clears_no_owner() -> None:
    known = memory(saw(ALICE), saw(BOB, 2), saw(ALICE, 3, gpu=OTHER, code=94))

    assert known.of(GPU, LATE) is not None


_OWNERS = st.builds(Owner, st.sampled_from(["n1", "n2"]), st.sampled_from(["Job/a", "Job/b"]))
_SIGHTINGS = st.builds(
    saw,
    st.frozensets(_OWNERS | st.just(UNKNOWN_OWNER), max_size=2),
    st.floats(0, 30, allow_nan=False).map(lambda hours: round(hours, 2)),
    st.sampled_from([GPU, OTHER]),
    st.sampled_from([13, 31, 94]),
)


@given(st.lists(_SIGHTINGS, max_size=12), st.data())
def test_the_order_in_which_nodes_tell_never_matters(
    sightings: list[Sighting], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(sightings))

    for gpu_uuid in (GPU, OTHER):
        assert memory(*sightings).of(gpu_uuid, at(30 * HOUR)) == memory(*shuffled).of(
            gpu_uuid, at(30 * HOUR)
        )


@given(st.lists(_SIGHTINGS, max_size=20))
def test_one_namespace_alone_accuses_nobody(sightings: list[Sighting]) -> None:
    mine = [
        sighting
        for sighting in sightings
        if sighting.code != 94 and {owner.namespace for owner in sighting.owners} <= {"n1", ""}
    ]

    assert memory(*mine).of(GPU, at(30 * HOUR)) is None


def test_endless_names_fill_no_memory() -> None:
    known = Suspicions(gpus=10, owners=10)
    for sighting in (
        *(saw(Owner(f"n{n}", "Job/x"), n * 0.1, gpu=uuid(n % 30)) for n in range(200)),
        *(saw(ALICE, n, gpu=uuid(n)) for n in range(100)),
        *(saw(Owner("n", f"Job/{n}"), n * 0.06) for n in range(300)),
    ):
        known.add(sighting)

    assert known.size() <= 10 * suspicion.MAX_PARTS + 10 * suspicion.MAX_GPUS_OF_OWNER


def test_a_crash_loop_pushes_no_other_owner_out() -> None:
    loop = [saw(ALICE, 1 + n * 0.06) for n in range(300)]

    assert memory(saw(BOB), *loop).of(GPU, at(20 * HOUR)) is not None


def parts(*seconds: float) -> int:
    """Count the parts of bursts that errors of one owner at these times are kept as."""
    known = memory(*(saw(ALICE, moment / HOUR) for moment in seconds))
    return known.size() - 1  # its place


@pytest.mark.parametrize("turn", [1, -1], ids=["in order", "backwards"])
def test_a_burst_of_one_owner_is_kept_as_one_part_however_long(turn: int) -> None:
    assert parts(*(turn * second for second in range(0, 10_000, 179))) == 1
    assert parts(*(turn * second for second in range(0, 1801, 180))) == 11


def test_errors_of_two_owners_at_a_time_are_kept_apart() -> None:
    both = memory(*(saw(owner, n / 60) for n in range(200) for owner in (ALICE, BOB)))

    assert both.size() == 2 + 2


def accusers(*owners: int) -> str:
    """Return what accuses a GPU that owners of these numbers had, one after another."""
    seen = (saw(Owner(f"n{owner}", "Job/x"), n * 0.1) for n, owner in enumerate(owners))
    fault = memory(*seen).of(GPU, LATE)
    assert fault is not None
    return fault.evidence


def test_only_a_full_memory_of_a_gpu_forgets() -> None:
    assert f"{MAX_PARTS} owners" in accusers(*range(MAX_PARTS))


def test_of_more_than_64_owners_a_gpu_keeps_64() -> None:
    assert "under 64 owners" in accusers(*range(64))
    assert "under 64 owners" in accusers(*range(65))


def test_a_full_memory_forgets_the_oldest_burst_of_an_owner_that_has_a_later_one() -> None:
    assert f"{MAX_PARTS} owners" in accusers(*range(7), 7, 7, *range(8, MAX_PARTS))
    assert f"{MAX_PARTS} owners" in accusers(*range(MAX_PARTS), 7)
    assert f"{MAX_PARTS} owners" in accusers(0, *range(MAX_PARTS))


def test_a_full_memory_without_such_an_owner_forgets_the_oldest_burst() -> None:
    """A day later the others still accuse the GPU, and the second oldest is the last to go."""
    numbers = range(MAX_PARTS + 1)
    known = memory(*(saw(Owner(f"n{n}", "Job/x"), n * 0.1) for n in numbers))

    def owners(hours: float) -> int:
        fault = known.of(GPU, at(hours * HOUR))
        return int(fault.evidence.split(" owners")[0].split()[-1]) if fault else 0

    assert owners(24.1) == MAX_PARTS
    assert owners(24.11) == MAX_PARTS - 1


class TestJoined:
    FAULT = memory(saw(ALICE), saw(BOB, 2)).of(GPU, LATE)

    def test_alone_it_makes_a_healthy_gpu_sick(self) -> None:
        assert self.FAULT is not None
        assert with_suspicion(verdict(gpu(0)), self.FAULT) == Sick((self.FAULT,))

    def test_beside_others_it_is_one_more(self) -> None:
        before = verdict(gpu(0, recovery_action=RESET))
        after = with_suspicion(before, self.FAULT)

        assert isinstance(before, Sick)
        assert isinstance(after, Sick)
        assert after.faults == (*before.faults, self.FAULT)

    def test_what_is_unknown_stays_unknown(self) -> None:
        assert with_suspicion(Unknown("why"), self.FAULT) == Unknown("why")

    def test_without_suspicion_nothing_changes(self) -> None:
        healthy = Healthy(at(0) - timedelta(hours=1), "answers")

        assert with_suspicion(healthy, None) is healthy
