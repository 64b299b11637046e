"""The driver's error records that end in a line break, and what a forger puts behind one.

Every format of an error in NVIDIA's open kernel modules, in all 193 releases from 515.43.04 to
595.45.04, was searched for line breaks. An error is printed with one of its own, which the kernel
takes off. Only XID 136 of GB100 has another one; the closed firmware (GSP) can send any text.
"""

import pytest

from tests.fuzz.quoted_texts import MODES, records, signals

GPU = "NVRM: Xid (PCI:0000:2a:00): "
UNKNOWN = "pid='<unknown>', name=<unknown>, "
ERRORS = [
    (
        "560.28.03",
        "565.77",
        "kernel_nvlink_gb100.c, kernel_rc.c",
        GPU + "136, " + UNKNOWN + "NVLink: Link training failed for links 0x3 (0x4, 0x0, 0x0, 0x0, "
        "0x0, 0x0, 0x0)\n\n",
    ),
    (
        "570.86.15",
        "595.45.04",
        "kernel_nvlink_gb100.c, kernel_rc.c",
        GPU + "136, NVLink: Link training failed for links 0x3 (0x4, 0x0, 0x0, 0x0, 0x0, 0x0, "
        "0x0)\n\n",
    ),
    (
        "525.47.04",
        "595.45.04",
        "kernel_nvlink_gh100.c",
        GPU + "136, NVLink: Link training failed for link 3(0x4, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)\n",
    ),
    (
        "515.43.04",
        "565.77",
        "kernel_gsp.c (_kgspRpcOsErrorLog), a text of the firmware that ends so",
        GPU + "94, pid=7, name=a, Contained: SM (0x1). RST: Yes, D-RST: No\n\n",
    ),
    (
        "570.86.15",
        "595.45.04",
        "kernel_gsp.c (_kgspRpcOsErrorLog), a text of the firmware that ends so",
        GPU + "144, SAW_MVB Fatal XC0 i0 Link 0 (0x00000001 0x00000008 0x00000000)\n\n",
    ),
    (
        "515.43.04",
        "595.45.04",
        "kernel_crashcat_engine.c: the line break is kernel_rc.c's",
        GPU + "120, GSP kernel exception: store access page fault (cause:0xf) @ pc:0x1, "
        "partition:4#0\n",
    ),
    (
        "515.43.04",
        "595.45.04",
        "error_nvswitch.h: a blank in front",
        "nvidia-nvswitch0: SXid (PCI:0000:2a:00.0): 11012, Non-fatal, Link 28 \n",
    ),
    (
        "515.43.04",
        "595.45.04",
        "osapi.c: three lines",
        "NVRM: The NVIDIA GPU 0000:2a:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has"
        "\nNVRM: fallen off the bus and is not responding to commands.\n",
    ),
]
"""First and last release that has it, the file, and the text that it prints."""
TEXTS = [text for *_, text in ERRORS]
FORGED = "NVRM: Xid (PCI:0000:3b:00): 95, forged"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", TEXTS, ids=[f"{row[2]} {row[0]}" for row in ERRORS])
def test_an_error_is_read_however_many_line_breaks_end_it(mode: str, text: str) -> None:
    for end in ("", "\n"):
        [signal] = signals(mode, (text + end).encode(), 1021)
        assert signal.bus_id == "0000:2a:00.0"
        assert not signal.message.endswith((r"\x0a", "\n", " "))
        assert signal.reset == (True if signal.code == 94 else None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", TEXTS, ids=[f"{row[2]} {row[0]}" for row in ERRORS])
def test_a_line_behind_the_empty_one_is_no_record(mode: str, text: str) -> None:
    for between in ("", "\n", "\n\n"):
        for behind in (FORGED, f"{FORGED}\n", f"{FORGED}\n\n{FORGED}\n"):
            found = signals(mode, (text + between + behind).encode(), 1021)
            assert [signal for signal in found if signal.bus_id != "0000:2a:00.0"] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", TEXTS, ids=[f"{row[2]} {row[0]}" for row in ERRORS])
def test_an_empty_line_does_not_hide_who_ends_the_record(mode: str, text: str) -> None:
    for end in ("\n", "\n\n", "\n" * 60):
        for others in (
            ": Can't lookup blockdev",
            "IN=eth0 OUT= MAC=00:16:3e:5f:00:01 SRC=10.0.0.1 ",
        ):
            assert signals(mode, (text + end + others).encode(), 1021) == []


def test_the_kernel_takes_one_line_break_off() -> None:
    """As vprintk_store does (kernel/printk/printk.c); the rest of the table rests on it."""
    [raw] = records("kmsg", TEXTS[1].encode().removesuffix(b"\n"))
    assert raw.endswith(rb"0x0)\x0a" + b"\n")
