"""The scenario file: what it may say, and that Python and the C library read it alike."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import board, facts, grammar
from simulator.dcgm_file import DcgmFile
from simulator.gpu import Event, Failure, Gpu, Process, Scenario
from simulator.node import SimulatedNode
from simulator.scenario import ScenarioError, parse, render
from simulator.scenario_file import ScenarioFile
from tests.lab.examples import examples
from tests.simulator.nvml_client import NvmlClient

LIB_RM_VERSION_MISMATCH = 18

GOOD = """\
# two GPUs
[node]
driver = 580.95.05

[gpu 0]
product = NVIDIA H100 80GB HBM3
uuid = GPU-a
minor = 0
pci = 0000:18:00.0
serial = 1
mig = on
instance 1 = gi=7 ci=0 profile=1g.10gb start=0 uuid=MIG-a
instance 2 = gi=1 profile=3g.40gb start=4 uuid=MIG-b gpm_sm=500000
process 1 = pid=7 memory_mib=5 gi=7 sm_util=3 pod=a-b container=c0
link 3 = state=0 replay=12 ecc=unsupported
cluster_uuid = 01234567-89ab-cdef-0123-456789abcdef
shown_uuid = GPU-b

[gpu 1]
product = NVIDIA A100-SXM4-40GB
uuid = GPU-b
minor = 1
pci = 0000:2a:00.0
serial = 2
failure = slow=5 on nvmlDeviceGetName

[events]
event 3 = gpu=1 type=xid data=79
"""

BAD = {
    "a line that is nothing": ("serial = 1", "serial 1"),
    "a setting before any section": ("# two GPUs", "driver = 1"),
    "an unknown section": ("[events]", "[event]"),
    "a section twice": ("[events]", "[node]"),
    "a gap between GPUs": ("[gpu 1]", "[gpu 2]"),
    "a GPU number that is none": ("[gpu 1]", "[gpu one]"),
    "an unknown setting": ("serial = 1", "color = red"),
    "an unknown node setting": ("driver = 580.95.05", "kernel = 6"),
    "a value that is too long to quote": ("minor = 1", f"minor = {'é' * 1000}"),
    "an empty text": ("driver = 580.95.05", "driver ="),
    "a text that is too long": ("serial = 1", f"serial = {'9' * 96}"),
    "a text that is not ASCII": ("serial = 1", "serial = é"),
    "an unknown product": ("NVIDIA A100-SXM4-40GB", "NVIDIA B300"),
    "a bus id without function": ("0000:2a:00.0", "0000:2a:00"),
    "a minor that is no number": ("minor = 1", "minor = -1"),
    "a minor above 255": ("minor = 1", "minor = 256"),
    "a setting twice": ("serial = 2", "serial = 2\nserial = 3"),
    "no uuid": ("\nuuid = GPU-b\n", "\n"),
    "no product": ("product = NVIDIA A100-SXM4-40GB\n", ""),
    "no minor": ("minor = 1\n", ""),
    "no bus id": ("pci = 0000:2a:00.0\n", ""),
    "no serial": ("serial = 2\n", ""),
    "one uuid for two GPUs": ("\nuuid = GPU-b", "\nuuid = GPU-a"),
    "one bus id for two GPUs": ("0000:2a:00.0", "0000:18:00.0"),
    "one minor for two GPUs": ("minor = 1", "minor = 0"),
    "mig neither on nor off": ("mig = on", "mig = yes"),
    "instances without mig": ("mig = on", "mig = off"),
    "an unknown profile": ("profile=1g.10gb", "profile=1g.5gb"),
    "a word without value": ("gi=7 ci=0", "gi=7 ci"),
    "an unknown word": ("gi=7 ci=0", "gi=7 cu=0"),
    "an instance without id": ("gi=7 ci=0 ", ""),
    "an instance without uuid": (" uuid=MIG-a", ""),
    "a placement that does not exist": ("profile=3g.40gb start=4", "profile=3g.40gb start=3"),
    "instances that overlap": ("profile=3g.40gb start=4", "profile=3g.40gb start=0"),
    "one id for two instances": ("gi=1 profile", "gi=7 profile"),
    "one uuid for two instances": ("uuid=MIG-b", "uuid=MIG-a"),
    "a process without pid": ("pid=7 ", ""),
    "a process of an unknown type": ("memory_mib=5", "type=dance"),
    "an unknown failure": ("slow=5 on nvmlDeviceGetName", "broken"),
    "a failure without its number": ("slow=5", "slow"),
    "a failure with a number it has not": ("slow=5", "hung=5"),
    "a failure number that is too large": ("slow=5", "slow=9999999"),
    "a failure on no NVML call": ("on nvmlDeviceGetName", "on everything"),
    "a lost GPU in one call only": ("slow=5 on", "lost on"),
    "a removed node": ("driver = 580.95.05", "failure = removed"),
    "a GPU removed in one call only": ("slow=5 on", "removed on"),
    "an unbound node": ("driver = 580.95.05", "failure = unbound"),
    "a failure on garbage's number": ("slow=5", "garbage=5"),
    "a node that tells garbage": ("driver = 580.95.05", "failure = garbage on nvmlInit"),
    "a count that is no number": ("driver = 580.95.05", "count = many"),
    "a link that is no number": ("link 3", "link three"),
    "a link above all links": ("link 3", "link 18"),
    "a link that the product has not": ("serial = 2", "serial = 2\nlink 12 = state=0"),
    "a link with an unknown word": ("state=0", "speed=0"),
    "a link with a state that does not exist": ("state=0", "state=4"),
    "a slice with a ratio above one": ("gpm_sm=500000", "gpm_sm=1000001"),
    "a process that uses more than all": ("sm_util=3", "sm_util=101"),
    "a process with an empty pod": ("pod=a-b", "pod="),
    "a process with a container's name that is not ASCII": ("container=c0", "container=é"),
    "a cluster that is not a UUID": ("cluster_uuid = 0", "cluster_uuid = x"),
    "a shown UUID that is empty": ("shown_uuid = GPU-b", "shown_uuid ="),
    "a node that is lost": ("driver = 580.95.05", "failure = lost"),
    "an event without number": ("event 3 =", "event ="),
    "an event number that falls": ("data=79", "data=79\nevent 3 = gpu=0 type=xid"),
    "an event of an unknown type": ("type=xid", "type=boom"),
    "an event of a GPU that is not there": ("gpu=1", "gpu=2"),
    "an instance without words": ("gi=7 ci=0 profile=1g.10gb start=0 uuid=MIG-a", ""),
    "an event without GPU": ("gpu=1 ", ""),
    "event data that is no number": ("data=79", "data=many"),
}


def reported_by_python(text: str, path: Path) -> str:
    with pytest.raises(ScenarioError) as reported:
        parse(text, str(path))
    return str(reported.value)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedNode]:
    with SimulatedNode(tmp_path_factory.mktemp("n"), "node-1").create("1xH100") as node:
        yield node


@pytest.fixture(scope="module")
def reader(shared: SimulatedNode) -> Iterator[NvmlClient]:
    with NvmlClient(shared) as client:
        client.ask("nvmlInit()")
        yield client


@pytest.mark.parametrize("what", BAD)
def test_python_and_the_c_library_refuse_with_the_same_words(
    shared: SimulatedNode, reader: NvmlClient, what: str
) -> None:
    old, new = BAD[what]
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    reported = reported_by_python(text, shared.scenario.path)
    shared.scenario.save_text(GOOD)
    assert reader.ask("nvmlDeviceGetCount()") == 2
    shared.scenario.save_text(text)
    assert reader.ask("nvmlDeviceGetCount()") == 2
    assert reader.complaint() == f"{reported}\n"


def test_a_refusal_names_file_and_line_and_what_to_do() -> None:
    reported = reported_by_python(GOOD.replace("minor = 1", "minor = many"), Path("a/scenario.ini"))
    assert reported == ('a/scenario.ini:22: minor must be a whole number from 0 to 255, not "many"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "event 4 = gpu=0 type=xid\n" * 1, None),
        (
            "[events]\n" + "\n".join(f"event {n} = gpu=0 type=xid" for n in range(1, 514)),
            f"more than {grammar.MAX_EVENTS} events",
        ),
    ],
)
def test_the_number_of_events_has_a_limit(text: str, message: str | None) -> None:
    if message is None:
        assert len(parse(text).events) == 2
    else:
        assert message in reported_by_python(text, Path("x"))


def test_the_c_library_reads_what_python_reads(shared: SimulatedNode) -> None:
    shared.scenario.save_text(GOOD)
    with NvmlClient(shared) as nvml:
        nvml.ask("nvmlInit()")
        nvml.ask("g = [nvmlDeviceGetHandleByIndex(i) for i in (0, 1)]")
        assert nvml.ask("[nvmlDeviceGetName(h) for h in g]") == [
            gpu.product.name for gpu in parse(GOOD).gpus
        ]
        mig = "nvmlDeviceGetMigDeviceHandleByIndex(g[0], i)"
        assert nvml.ask(f"[nvmlDeviceGetUUID({mig}) for i in (0, 1)]") == ["MIG-a", "MIG-b"]
        assert nvml.stderr_after_end() == ""


FAILURES = st.one_of(
    st.sampled_from(grammar.WHOLE_FAILURES).map(Failure),
    st.builds(
        Failure,
        st.sampled_from(["hung", "segfault", "garbage"]),
        call=st.sampled_from(["", "nvmlDeviceGetName"]),
    ),
    st.builds(Failure, st.just("error"), st.integers(0, 999), st.just("")),
    st.builds(Failure, st.just("slow"), st.integers(0, 1000), st.just("nvmlDeviceGetCount")),
)
IDS = st.none() | st.integers(0, 127)


def numbers(table: Sequence[grammar.Value]) -> st.SearchStrategy[dict[str, int | None]]:
    names = st.sampled_from([value.name for value in table])
    return st.dictionaries(names, st.none() | st.integers(0, 1), max_size=3)


def process(kind: str) -> st.SearchStrategy[Process]:
    return st.builds(
        Process,
        pid=st.integers(0, 9),
        gi=IDS,
        ci=IDS,
        graphics=st.just(value=kind == "graphics"),
        mps=st.just(value=kind == "mps"),
        pod=st.sampled_from(["", "7d0c1f2e-0000-4000-8000-000000000001"]),
        container=st.sampled_from(["", "c0" * 32]),
        values=numbers(grammar.PROCESS_VALUES),
    )


PROCESSES = st.sampled_from(grammar.PROCESS_TYPES).flatmap(process)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    layouts = draw(st.lists(st.sampled_from(["", "1g.10gb*7", "3g.40gb,1g.20gb"]), max_size=5))
    mig = board.mig_layouts([f"{n}:{layout}" for n, layout in enumerate(layouts) if layout])
    gpus: list[Gpu] = board.gpus_of("n", f"{len(layouts)}xH100", mig) if layouts else []
    for gpu in gpus:
        gpu.failure = draw(FAILURES)
        gpu.values = draw(
            st.dictionaries(st.sampled_from(grammar.VALUE_NAMES), st.none() | st.integers(0, 1))
        )
        gpu.processes = draw(st.lists(PROCESSES, max_size=3))
        gpu.links = draw(st.dictionaries(st.integers(0, 17), numbers(grammar.LINK_VALUES)))
        gpu.shown_uuid = draw(st.sampled_from(["", "GPU-x"]))
        gpu.cluster_uuid = draw(st.sampled_from(["", "01234567-89AB-cdef-0123-456789abcdef"]))
        for instance in gpu.instances:
            instance.values = draw(numbers(grammar.SLICE_VALUES))
    ordered = sorted(draw(st.sets(st.integers(1, 2**60), max_size=4 if gpus else 0)))
    kinds = st.sampled_from(sorted(grammar.EVENT_TYPES))
    events = [
        Event(number=n, gpu=draw(st.integers(0, len(gpus) - 1)), type=draw(kinds), gi=draw(IDS))
        for n in ordered
    ]
    count = draw(st.none() | st.integers(0, 64))
    return Scenario(gpus=gpus, events=events, count=count)


@given(scenarios())
def test_what_is_written_is_read_back(scenario: Scenario) -> None:
    assert parse(render(scenario)) == scenario


@given(st.text(max_size=200) | st.lists(st.sampled_from(GOOD.splitlines())).map("\n".join))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        parse(text)
    except ScenarioError as error:
        assert 1 <= error.line <= text.count("\n") + 1  # noqa: PT017 both ends are allowed


LINES = [str(line) for line in GOOD.splitlines()]
TOKENS = sorted({token for line in LINES for token in re.split(r"([ =:.])", line)})
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(LINES) - 1),
        st.sampled_from(["delete", "repeat", "cut", "swap", "insert"]),
        st.integers(0, 40),
        st.sampled_from(TOKENS) | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    ),
    min_size=1,
    max_size=3,
)


def edited(line: str, kind: str, place: int, text: str) -> list[str]:
    parts = re.split(r"([ =:.])", line)
    parts[place % len(parts)] = text
    return {
        "delete": [],
        "repeat": [line, line],
        "cut": [line[:place]],
        "swap": ["".join(parts)],
        "insert": [line[:place] + text[:50] + line[place:]],
    }[kind]


@settings(max_examples=examples(300), deadline=None)
@given(EDITS)
def test_python_and_the_c_library_agree_on_every_damaged_file(
    shared: SimulatedNode, reader: NvmlClient, edits: list[tuple[int, str, int, str]]
) -> None:
    lines = list(LINES)
    for number, kind, place, token in edits:
        lines[number] = "\n".join(edited(lines[number], kind, place, token))
    shared.scenario.save_text("[gpu 0]\n")
    reader.error_of("nvmlDeviceGetCount()")  # fails when the last edit changed the driver
    assert reader.complaint().endswith("[gpu 0] has no product; add product = ...\n")
    shared.scenario.save_text("\n".join(lines))
    code = reader.error_of("found = nvmlDeviceGetCount()")
    try:
        scenario = shared.scenario.load()
    except ScenarioError as error:
        assert reader.complaint() == f"{error}\n"  # noqa: PT017 both ends are allowed
    else:
        assert not reader.complains()
        if scenario.driver != facts.DEFAULT_DRIVER:
            assert code == LIB_RM_VERSION_MISMATCH
            return
        assert reader.ask("found") == sum(
            gpu.failure.kind not in grammar.NOT_LISTED for gpu in scenario.gpus
        )


def test_an_edit_that_ends_badly_changes_nothing(tmp_path: Path) -> None:
    file = ScenarioFile(tmp_path / "scenario.ini")
    file.save_text(GOOD)
    with pytest.raises(ScenarioError, match="not saved"), file.edit() as scenario:
        scenario.gpus[1].uuid = scenario.gpus[0].uuid
    assert file.path.read_text(encoding="utf-8") == GOOD
    assert [path.name for path in tmp_path.glob("*.ini")] == ["scenario.ini"]


@pytest.mark.parametrize("kind", [ScenarioFile, DcgmFile])
def test_versions_of_one_length_that_follow_at_once_have_times_of_their_own(
    kind: type[ScenarioFile] | type[DcgmFile], tmp_path: Path
) -> None:
    """Else a library that has seen the last but one may take the new one for it."""
    file, times = kind(tmp_path / "file.ini"), set[int]()
    for number in range(100, 200):
        file.save_text(f"version {number}")
        times.add(file.path.stat().st_mtime_ns)
    assert len(times) == 100


def test_a_missing_file_says_to_create_the_node(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="create the node first"):
        ScenarioFile(tmp_path / "scenario.ini").load()


def test_event_numbers_grow_on_when_old_events_are_dropped() -> None:
    scenario = Scenario(gpus=board.gpus_of("n", "1xH100"))
    for code in range(grammar.MAX_EVENTS + 3):
        scenario.add_event(0, "xid", code)
    numbers = [event.number for event in scenario.events]
    assert numbers == list(range(4, grammar.MAX_EVENTS + 4))
