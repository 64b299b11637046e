"""Foreign devices change nothing that a command prints, and no command taints one."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from draguard.__main__ import main
from draguard.cluster.leader import drivers_of
from exporter.model.device import NVIDIAS, GpuDrivers
from kubeapi.lease import Lease, LeaseMeta, leases
from kubeapi.resources import NODES
from remediator.controller.agents import DRIVERS as NOTE
from remediator.controller.agents import LEASE_NAME
from tests.chain.scene import LEASES
from tests.draguard.fleet import Fleet, boards
from tests.draguard.printed import masked, printed
from tests.lab.cluster import RULES
from tests.lab.foreign import DRIVERS, Board, foreign_slices

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
WITHOUT_GPUS = "node-of-network-cards"
FOREIGN = f"{DRIVERS[0]}/node-a/gpu-0"
Run = Callable[..., str]


@pytest.fixture
def run(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_(*words: str, ends: int = 0) -> str:
        (command, *rest), where = words, ("--kubeconfig", fleet.kubeconfig)
        return masked(printed(capsys, command, *where, *rest, ends=ends))

    return run_


@pytest.fixture
def foreign(fleet: Fleet) -> Iterator[Callable[[], None]]:
    """Publish the slices of four foreign drivers, which name all boards, on every node."""
    names: list[str] = []
    client = fleet.cluster.client
    fleet.cluster.player.add_node(WITHOUT_GPUS)
    # A container runtime that the doctor would find too old for GPUs.
    info = {"status": {"nodeInfo": {"containerRuntimeVersion": "containerd://1.6.0"}}}
    client.merge_patch(f"{NODES}/{WITHOUT_GPUS}/status", info)

    def publish() -> None:
        known = [Board(one.uuid, one.pci_bus_id) for gpus in boards().values() for one in gpus]
        for node in (*boards(), WITHOUT_GPUS):
            for name, body in foreign_slices(node, known[:3], counters=False).items():
                client.create(SLICES, body)
                names.append(name)

    yield publish
    main(["uncordon", "--all", "--kubeconfig", fleet.kubeconfig])
    for name in names:
        client.delete(f"{SLICES}/{name}")
    client.delete(f"{NODES}/{WITHOUT_GPUS}")


@contextmanager
def noted(fleet: Fleet, drivers: str) -> Generator[None]:
    """Let the leader's Lease record a list of drivers."""
    path = f"{leases(LEASES)}/{LEASE_NAME}"
    fleet.cluster.client.merge_patch(path, {"metadata": {"annotations": {NOTE: drivers}}})
    try:
        yield
    finally:
        fleet.cluster.client.merge_patch(path, {"metadata": {"annotations": {NOTE: None}}})


COMMANDS = {
    "status": ("status",),
    "the plan": ("plan",),
    "a whole node": ("cordon", "--node", "node-a", "--reason", "x", "--dry-run"),
    "a GPU by its number": ("cordon", "node-c/0", "--reason", "x", "--dry-run"),
    "words to complete": ("__complete", "cordon", ""),
    "nodes to complete": ("__complete", "cordon", "--node", ""),
}


def test_what_commands_print_is_the_same_beside_foreign_slices(
    run: Run, foreign: Callable[[], None], fleet: Fleet
) -> None:
    with noted(fleet, "gpu.nvidia.com"):
        before = {name: run(*words) for name, words in COMMANDS.items()}
        doctor = run("doctor", ends=1)
        foreign()

        assert {name: run(*words) for name, words in COMMANDS.items()} == before
        assert run("doctor", ends=1) == doctor


def test_where_the_list_is_only_assumed_every_command_that_needs_it_says_so_once(
    run: Run, foreign: Callable[[], None], capsys: pytest.CaptureFixture[str], fleet: Fleet
) -> None:
    foreign()
    assumed = (
        "not read: the list of gpuDrivers (no leader has recorded it): gpu.nvidia.com is assumed"
    )

    for name in ("status", "the plan", "a whole node"):
        assert run(*COMMANDS[name]).count(assumed) == 1
    assert run("doctor", ends=1).count(assumed.removeprefix("not read: ")) == 1
    main(["cordon", FOREIGN, "--reason", "x", "--kubeconfig", fleet.kubeconfig])
    assert capsys.readouterr().err.count(assumed) == 1


def test_gpus_of_a_driver_in_the_leaders_list_are_counted(
    run: Run, foreign: Callable[[], None], fleet: Fleet
) -> None:
    def gpus() -> str:
        return next(line for line in run("status").splitlines() if line.startswith("GPUs"))

    foreign()
    plain = gpus()
    with noted(fleet, f"gpu.nvidia.com,{DRIVERS[0]}"):
        # Its boards are published twice now, so it is unknown whose they are.
        assert gpus() != plain
    assert gpus() == plain


def test_a_cordon_of_a_node_taints_no_foreign_device(
    run: Run, foreign: Callable[[], None], fleet: Fleet
) -> None:
    foreign()
    run("cordon", "--node", "node-a", "--reason", "boards")
    rules = msgspec.json.decode(fleet.cluster.client.get(RULES))["items"]

    assert {rule["spec"]["deviceSelector"]["driver"] for rule in rules} == NVIDIAS


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((FOREIGN,), f"{DRIVERS[0]} is not among this installation's gpuDrivers"),
        (("--node", WITHOUT_GPUS), f"node '{WITHOUT_GPUS}' publishes no GPU"),
    ],
)
def test_a_foreign_device_cannot_be_cordoned(
    words: tuple[str, ...],
    sentence: str,
    foreign: Callable[[], None],
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
) -> None:
    foreign()
    where = ("--kubeconfig", fleet.kubeconfig)

    assert main(["cordon", *words, "--reason", "x", *where]) == 1
    assert sentence in capsys.readouterr().err


def test_the_leaders_list_counts_and_a_cordon_outlasts_it(
    run: Run, foreign: Callable[[], None], fleet: Fleet
) -> None:
    foreign()
    with noted(fleet, f"gpu.nvidia.com,{DRIVERS[0]}"):
        stated = run("cordon", FOREIGN, "--reason", "x")
        assert re.search(rf"^{re.escape(FOREIGN)}  \S*  NoSchedule", stated, re.MULTILINE)
    assert "uncordoned" in run("uncordon", FOREIGN)


@pytest.mark.parametrize(
    ("notes", "drivers"),
    [
        ({}, frozenset[str]()),
        ({NOTE: "gpu.example.com"}, frozenset({"gpu.example.com"})),
        ({NOTE: "gpu.nvidia.com,gpu.example.com"}, NVIDIAS | {"gpu.example.com"}),
        ({NOTE: "gpu.nvidia.com,no driver"}, NVIDIAS),
        ({NOTE: ""}, frozenset[str]()),
        ({NOTE: "no driver"}, frozenset[str]()),
    ],
)
def test_a_lease_records_the_list_of_its_leader(notes: dict[str, str], drivers: GpuDrivers) -> None:
    assert drivers_of(Lease(LeaseMeta(annotations=notes))) == drivers
    assert drivers_of(None) == frozenset()
