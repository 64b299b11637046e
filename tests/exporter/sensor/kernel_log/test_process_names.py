"""The name of a process stands in the driver's lines, and changes no word of the driver's."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.model import nvlink5
from exporter.model.signals import Signal
from tests.fuzz.quoted_texts import MODES, signals

WORDS = {
    13: "Graphics Exception: ESR 0x505730=0x506000f 0x505734=0x4",
    31: "Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_6 faulted @ 0x7f5a",
    43: "channel 0x0b00000a",
    45: "Ch 00000009 caused by previous Xid 94",
    62: "",
    74: "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: CE User Channel (0x9). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x1). RST: Yes, D-RST: No",
    136: "NVLink: Link training failed for links 0x3 (0x4, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)\n",
    140: "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:1, LTC:0",
    144: "SAW_MVB Fatal XC0 i0 Link 0 (0x00000001 0x00000008 0x00000000 0x00000000)",
    145: "RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 0x00000008 0x00000000)",
    149: "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000)",
    150: "MSE Degraded Fatal (0x00000000 0xffffffff)",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}
"""What the drivers print behind the name; nothing where the firmware sent no text."""
DRIVERS = ("570.133.20", "595.45.04", "")
NAMES = [
    "a, (0x1 0x4)",
    "a, b",
    ", , , , , , , ,",
    ", ",
    "a, (0x0 ",
    "a, to 0x0 (",
    "caused by, X",
    "\nNVRM: Xid (PCI",
    "\nnvidia-nvswitc",
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
    "a\n: Can't open",
    "a\nIN=b OUT=",
    "MSE, (0x0,0x0)",
    r"\x2c\x20(0x0)",
    "é, é, é, é",
    "\x1b[2J, \x85, \xa0",
    "a,",
    "a, pid=1, name=",
]


def cut(name: str) -> str:
    """Return it as the kernel keeps it: 15 bytes, without the character that is cut in two."""
    return name.partition("\0")[0].encode("utf-8", "ignore")[:15].decode("utf-8", "ignore")


def read(mode: str, code: int, name: str, pid: str) -> Signal:
    line = f"NVRM: Xid (PCI:0000:2a:00): {code}, pid={pid}, name={name}, {WORDS[code]}"
    [signal] = signals(mode, line.encode(), 1021)
    return signal


def meaning(signal: Signal) -> dict[str, Any]:
    """Return all of a signal that anything is decided by, and what a line of NVLink says."""
    named = ("kind", "bus_id", "code", "gi", "ci", "pid", "reset", "drain_reset", "fatal", "link")
    facts: dict[str, Any] = {field: getattr(signal, field) for field in named}
    facts["cause"] = signal.caused_by
    facts["action"] = signal.recovery_to
    facts["unfinished"] = signal.unfinished
    facts["sorts"] = [nvlink5.decode(signal.code, signal.message, driver) for driver in DRIVERS]
    return facts


def check(mode: str, code: int, name: str) -> None:
    for pid in ("7", "'<unknown>'", "-1"):
        reported, plain = read(mode, code, name, pid), read(mode, code, "python3", pid)
        assert meaning(reported) == meaning(plain), (name, reported)
        if code in nvlink5.CODES or code == 154:
            assert reported.message == WORDS[code]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", WORDS)
def test_no_name_that_was_thought_of_changes_what_an_error_is(mode: str, code: int) -> None:
    for name in NAMES:
        check(mode, code, cut(name))


@example(144, "a, (0x1 0x4)", "kmsg")
@example(154, "\nNVRM: Xid (", "syslog")
@given(
    st.sampled_from(sorted(WORDS)),
    st.one_of(
        st.text(max_size=15),
        st.text(st.sampled_from(", ()0x14\n\\a:=OUTIN"), max_size=15),
        st.tuples(st.text(max_size=5), st.sampled_from(NAMES)).map("".join),
    ),
    st.sampled_from(MODES),
)
def test_no_name_at_all_changes_what_an_error_is(code: int, name: str, mode: str) -> None:
    check(mode, code, cut(name))


def test_the_words_decide_so_that_the_comparison_proves_something() -> None:
    assert read("kmsg", 154, "a", "7").recovery_to == 1
    assert read("kmsg", 95, "a", "7").reset
    assert read("kmsg", 45, "a", "7").caused_by == 94
    assert all(nvlink5.decode(code, WORDS[code], "") for code in (145, 150))


def test_a_name_without_words_behind_it_is_no_word_of_the_drivers() -> None:
    """The kernel has none of more than 15 bytes: there the words cannot be told from it."""
    line = "NVRM: Xid (PCI:0000:2a:00): 154, pid=7, name=sixteen-or-more, " + "x" * 5
    [signal] = signals("kmsg", line.replace("more", "more-bytes").encode(), 1021)
    assert (signal.code, signal.message, signal.recovery_to) == (154, "", None)
