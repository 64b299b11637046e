"""Device plugin ids of every grammar, against a node with a whole GPU and one in slices."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.model.hardware import Hardware, LiveGpu, LiveSlice
from exporter.model.plugin_ids import certainly_gpu, parse, possibly_gpu, uuids

BARE = "b8ea3855-276c-c9cb-b366-c6fa655957c5"
PART = "5b696ac1-c323-589e-a082-e6045e980bf4"
NODE = Hardware(
    (
        LiveGpu(uuid=f"GPU-{BARE}", number=0),
        LiveGpu(
            uuid="GPU-2",
            number=5,
            slices=(
                LiveSlice(uuid=f"MIG-{PART}", gi=3, ci=0),
                LiveSlice(uuid="MIG-b", gi=4, ci=0),
                LiveSlice(uuid="MIG-c", gi=4, ci=1),
            ),
        ),
    )
)


def found(text: str, hardware: Hardware = NODE) -> tuple[tuple[str, ...], str] | None:
    meant = parse(text)
    return (uuids(meant, hardware), meant.replica) if meant else None


@pytest.mark.parametrize(
    ("text", "expected", "replica"),
    [
        (f"GPU-{BARE}", (f"GPU-{BARE}",), ""),
        (f"GPU-{BARE}::3", (f"GPU-{BARE}",), "3"),
        (f"GPU-{BARE}::", (f"GPU-{BARE}",), ""),
        (BARE, (f"GPU-{BARE}",), ""),
        (f"{BARE}::2", (f"GPU-{BARE}",), "2"),
        (PART, (f"MIG-{PART}",), ""),
        (f"MIG-{PART}", (f"MIG-{PART}",), ""),
        (f"MIG-{PART}::0", (f"MIG-{PART}",), "0"),
        ("MIG-11111111-2222-3333-4444-555555555555", (), ""),
        (f"GPU-{BARE}-3", (), ""),
        ("MIG-GPU-2/3/0", (f"MIG-{PART}",), ""),
        ("MIG-GPU-2/4/1::7", ("MIG-c",), "7"),
        ("MIG-GPU-2/9/0", (), ""),
        ("nvidia0", (f"GPU-{BARE}",), ""),
        ("nvidia0/vgpu1", (f"GPU-{BARE}",), "1"),
        ("5/vgpu0", ("GPU-2",), "0"),
        ("5/vgpu", ("GPU-2",), ""),
        ("nvidia5/gi3", (f"MIG-{PART}",), ""),
        ("nvidia5/gi3/vgpu12", (f"MIG-{PART}",), "12"),
        ("nvidia5/gi4", ("MIG-b", "MIG-c"), ""),
        ("nvidia5/gi9", (), ""),
        ("nvidia1", (), ""),
        ("00000000-276c-c9cb-b366-c6fa655957c5", (), ""),
    ],
)
def test_an_id_leads_to_the_hardware_it_names(
    text: str, expected: tuple[str, ...], replica: str
) -> None:
    assert found(text) == (expected, replica)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "GPU-",
        "::1",
        "GPU-1::x",
        "GPU 1",
        'GPU-1"',
        "nvidia",
        "nvidia0/gi",
        "nvidia0/gi3/",
        "nvidia0::1",
        "nvidia\u0660",
        "0000:3b:00.2",
        "eth0",
        "MIG-GPU-2/3",
        "GPU-1\n",
        "GPU-" + "x" * 200,
    ],
)
def test_an_id_of_no_known_grammar_is_not_guessed(text: str) -> None:
    assert found(text) is None


def test_while_no_hardware_is_known_a_uuid_is_believed() -> None:
    assert found("GPU-1", Hardware()) == (("GPU-1",), "")


def test_two_gpus_that_claim_one_number_are_neither() -> None:
    twice = Hardware((LiveGpu(uuid="GPU-1", number=0), LiveGpu(uuid="GPU-2", number=0)))
    assert found("nvidia0", twice) == ((), "")


@pytest.mark.parametrize(
    ("resource", "certain", "possible"),
    [
        ("nvidia.com/gpu", True, True),
        ("nvidia.com/gpu.shared", True, True),
        ("nvidia.com/mig-1g.10gb", True, True),
        ("nvidia.com/a100", False, True),
        ("nvidia.com/gpus", False, True),
        ("team.example/gpu", True, True),
        ("vendor.com/nic", False, False),
        ("cpu", False, False),
    ],
)
def test_resources_are_distinguished(resource: str, certain: bool, possible: bool) -> None:
    more = ("team.example/gpu",)
    assert (certainly_gpu(resource, more), possibly_gpu(resource, more)) == (certain, possible)


NAMES = {
    f"GPU-{BARE}": (BARE, "0"),
    "GPU-2": ("GPU-2", "5"),
    f"MIG-{PART}": (PART, "GPU-2", "5"),
    "MIG-b": ("MIG-b", "GPU-2", "5"),
    "MIG-c": ("MIG-c", "GPU-2", "5"),
}
"""By UUID on the node: what names the device, one of its slices or its GPU."""
IDS = (
    rf"((GPU-|MIG-)?({BARE}|{PART}|2|b|c)|MIG-GPU-[23]/[34]/[01]"
    r"|(nvidia)?[0-5](/gi[345])?(/vgpu[01]?)?)(::[0-9]?)?"
)


@given(st.text(max_size=60) | st.from_regex(IDS, fullmatch=True))
@example(f"MIG-{PART}::3")
@example("nvidia5/gi4")
def test_any_id_is_read_or_refused_and_never_leads_to_what_is_not_named(text: str) -> None:
    leads = found(text)
    for uuid in leads[0] if leads else ():
        assert any(name in text for name in NAMES[uuid])
