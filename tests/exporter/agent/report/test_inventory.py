"""GPUs that should be there against GPUs that are."""

from exporter.agent.report import ledger
from exporter.agent.report.inventory import other_drivers
from exporter.agent.report.ledger import Published
from exporter.model.node_health import Inventory
from tests.exporter.worlds import (
    BUS,
    START,
    gpu,
    mig_gpu,
    seen,
    unseen,
    with_bus,
    with_drivers,
)

FRESH = ledger.begin("boot-1", "1", START)
PLACES = tuple(BUS[f"GPU-{number}"] for number in (1, 2, 3))
OFFERED = Published(
    frozenset({"GPU-1", "GPU-2", "GPU-3"}), {BUS[f"GPU-{n}"]: f"GPU-{n}" for n in (1, 2, 3)}
)


def taken(observation: object, published: Published | None = None) -> Inventory:
    return ledger.observe(FRESH, observation, published=published).inventory  # type: ignore[arg-type]


def test_a_whole_node_misses_nothing() -> None:
    found = taken(with_bus(seen(gpu(1), mig_gpu(2), gpu(3)), *PLACES), OFFERED)
    assert found == Inventory(seen=3, on_bus=3, set_aside=0, published=3)


def test_a_gpu_that_nvml_never_listed_is_missing_by_its_bus_id() -> None:
    found = taken(with_bus(seen(gpu(1), gpu(2)), *PLACES))
    assert (found.seen, found.on_bus, found.missing) == (2, 3, PLACES[2:])


def test_a_gpu_that_is_only_published_is_missing_by_its_uuid_or_where_it_was_published() -> None:
    assert taken(seen(gpu(1), gpu(2)), OFFERED).missing == PLACES[2:]
    nowhere = Published(OFFERED.uuids, {})
    assert taken(seen(gpu(1), gpu(2)), nowhere).missing == ("GPU-3",)


def test_a_lost_gpu_is_missing() -> None:
    assert taken(with_bus(seen(gpu(1), gpu(2, lost=True)), *PLACES[:2])).missing == PLACES[1:2]


def test_a_gpu_for_virtual_machines_unbound_or_let_go_is_set_aside() -> None:
    vfio = Published(frozenset({"GPU-1"}), vfio=frozenset(PLACES[2:]))
    found = taken(with_bus(seen(gpu(1), gpu(2, released=True)), *PLACES), vfio)
    assert (found.seen, found.set_aside, found.missing) == (1, 2, ())
    found = taken(with_bus(seen(gpu(1), gpu(2)), *PLACES, unbound=PLACES[2:]))
    assert (found.seen, found.set_aside, found.missing) == (2, 1, ())


def test_a_gpu_that_was_set_aside_is_not_lost_because_the_bus_is_not_read_any_more() -> None:
    report = ledger.observe(FRESH, with_bus(seen(gpu(1), gpu(2)), *PLACES[:2]))
    unbound = with_bus(seen(gpu(2), seconds=30), *PLACES[:2], unbound=PLACES[:1])
    report = ledger.observe(report, unbound)
    for seconds in (60, 120, 180, 240):
        report = ledger.observe(report, seen(gpu(2), seconds=seconds))
    (aside,) = [found for found in report.gpus if found.uuid == "GPU-1"]
    assert (aside.presence, aside.presence_reason) == ("Unknown", "SetAside")


BOTH_FORMS = Published(OFFERED.uuids, OFFERED.by_bus, vfio=frozenset(PLACES))
"""As the driver publishes GPUs that no claim holds, where it offers them to virtual machines."""


def test_a_gpu_that_is_published_in_both_forms_is_missing_like_any_other() -> None:
    found = taken(with_bus(seen(gpu(1), gpu(2)), *PLACES), BOTH_FORMS)
    assert (found.set_aside, found.missing) == (0, PLACES[2:])


def test_a_gpu_that_is_published_in_both_forms_is_lost_like_any_other() -> None:
    report = ledger.observe(FRESH, with_bus(seen(gpu(1), gpu(2)), *PLACES[:2]))
    for seconds in (30, 60, 90):
        look = with_bus(seen(gpu(2), seconds=seconds), *PLACES[:2])
        report = ledger.observe(report, look, published=BOTH_FORMS)
    assert [(health.uuid, health.presence) for health in report.gpus] == [
        ("GPU-1", "Lost"),
        ("GPU-2", "Present"),
    ]


def test_while_nvml_is_down_nobody_counts_and_nothing_is_missing() -> None:
    before = ledger.observe(FRESH, with_bus(seen(gpu(1), gpu(2), gpu(3)), *PLACES))
    found = ledger.observe(before, with_bus(unseen(30), *PLACES), published=OFFERED).inventory
    assert found == Inventory(seen=None, on_bus=3, set_aside=0, published=3)


def test_a_pci_list_that_names_no_known_gpu_is_no_count() -> None:
    found = taken(with_bus(seen(gpu(1)), "0000:77:00.0"))
    assert (found.on_bus, found.set_aside, found.missing) == (None, None, ())


def test_where_drivers_are_hidden_no_gpu_is_set_aside_for_the_lack_of_one() -> None:
    found = taken(with_bus(seen(gpu(1), gpu(2)), *PLACES, unbound=PLACES))
    assert (found.set_aside, found.missing) == (0, PLACES[2:])


def test_two_gpus_with_one_uuid_are_two_gpus() -> None:
    found = taken(with_bus(seen(gpu(1), gpu(1, bus_id=PLACES[1])), *PLACES[:2]))
    assert (found.seen, found.missing) == (2, ())


DRIVERS = {PLACES[1]: "nouveau", PLACES[2]: ""}


def test_a_gpu_that_another_driver_or_none_has_is_named_with_it() -> None:
    found = with_drivers(with_bus(seen(gpu(1)), *PLACES), DRIVERS)
    assert other_drivers(found, None) == DRIVERS
    assert other_drivers(with_drivers(with_bus(unseen(), *PLACES), DRIVERS), OFFERED) == DRIVERS


def test_a_gpu_for_virtual_machines_or_let_go_may_have_another_driver() -> None:
    away = {PLACES[1]: "vfio-pci", PLACES[2]: "vfio-pci"}
    found = with_drivers(with_bus(seen(gpu(1), gpu(2, released=True)), *PLACES), away)
    assert other_drivers(found, Published(vfio=frozenset(PLACES[2:]))) == {}
    assert other_drivers(found, OFFERED) == {PLACES[2]: "vfio-pci"}
    unbound = with_drivers(with_bus(seen(gpu(1)), *PLACES), {PLACES[2]: ""})
    assert other_drivers(unbound, Published(vfio=frozenset(PLACES[2:]))) == {}


def test_a_gpu_in_both_forms_is_for_virtual_machines_once_a_driver_for_them_has_it() -> None:
    found = with_drivers(with_bus(seen(gpu(1)), *PLACES), {PLACES[1]: "vfio-pci", PLACES[2]: ""})
    assert other_drivers(found, BOTH_FORMS) == {PLACES[2]: ""}


def test_where_drivers_or_the_bus_are_hidden_no_other_driver_is_named() -> None:
    hidden = dict.fromkeys(PLACES, "")
    assert other_drivers(with_drivers(with_bus(seen(gpu(1)), *PLACES), hidden), None) == {}
    elsewhere = with_drivers(with_bus(seen(gpu(1)), "0000:77:00.0"), {"0000:77:00.0": "nouveau"})
    assert other_drivers(elsewhere, None) == {}
