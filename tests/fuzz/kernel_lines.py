"""What the kernel says: records of /dev/kmsg, the text of syslog(2), NVLink words, cgroup files."""

import re
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import get_args

import msgspec

from exporter.model import nvlink5
from exporter.model.device import normal_bus_id
from exporter.model.signals import Kind, Signal
from exporter.sensor.kernel_log import cgroups, driver_lines
from exporter.sensor.kernel_log.driver_lines import Rejected
from exporter.sensor.kernel_log.record_order import RecordOrder
from exporter.sensor.kernel_log.syslog_text import Line, NewLines, SyslogText
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

BOOT = datetime(2026, 1, 5, 8, tzinfo=UTC)
REAL_LINES = (
    "NVRM: GPU at PCI:0000:3b:00: GPU-2fa81118-6e43-4f7c-9a3f-6d0a3cf5f5a1",
    "NVRM: Xid (0000:03:00): 14, Channel 00000001",
    "NVRM: Xid (PCI:0000:b5:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception "
    "on (GPC 1, TPC 3, SM 0): Out Of Range Address",
    "NVRM: Xid (PCI:0000:b5:00): 31, pid=2079991, name=pt_main_thread, Ch 00000007, intr 00000000. "
    "MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_6 faulted @ 0x7f5a_e7504000. Fault is of type "
    "FAULT_PDE ACCESS_TYPE_VIRT_READ",
    "NVRM: Xid (PCI:0009:01:00): 43, pid=3188489, name=trigger_xid, channel 0x0b00000a",
    "NVRM: Xid (PCI:0009:01:00): 45, pid=3188489, name=train, Ch 00000009 caused by previous "
    "Xid 94",
    "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset "
    "gpu to activate.",
    "NVRM: Xid (PCI:0000:0f:00): 64, pid=57530, Row Remapper Error: (0x00000005d28c03a0) - All "
    "reserved rows for bank are remapped",
    "NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected "
    "on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    "NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus",
    "NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, "
    "D-RST: No",
    "NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:01): 95, pid=7062, Uncontained: LTC TAG (0x2, 0x1). "
    "RST: Yes, D-RST: No",
    "NVRM: Xid (PCI:0000:17:00): 119, pid=15822502, name=nvc:[driver], Timeout after 6s of waiting "
    "for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20802a02 0x8).",
    "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:17:00 (printing 1 of every 30).  "
    "The GPU likely needs to be reset.",
    "NVRM: Xid (PCI:0000:3f:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 "
    "0x00000008 0x00000000 0x00000000 0x00000000 0x00000000)",
    "NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 "
    "0x00000000)",
    "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU "
    "Reset Required)",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025",
    "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
    "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat Timeout "
    "Error (First)",
    "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Severity 1 Engine instance 28 Sub-engine 00",
    "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
)
"""In every form that the drivers have printed, and one of another driver."""
_RAW = tuple(line.encode() for line in REAL_LINES)
_ERRORS = ("xid", "fell-off", "sxid", "rate-limit", "identity", "driver-load")
_PREFIXED = re.compile(rb"(<\d{1,10}>\[ *\d{1,10}\.\d{6}\](?:\[[^\]]{1,40}\])?) ?(.*)", re.DOTALL)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Signal)

Built = tuple[str, int, int | None, int | None]
"""Bus id, code, GPU instance, compute instance that a line was built from."""


def make_record(random: Random) -> bytes:
    line = hostile.mutated(random, random.choice(_RAW), 4, _RAW)
    head = b"%d,%d,%d,-;" % (random.choice((2, 4, 6, 12)), random.randrange(10**6), 12_345_678)
    return hostile.mutated(random, head, 1) + line


def check_record(raw: bytes) -> None:
    signal = _signal(raw)
    renumbered = RecordOrder().renumber(raw)
    if renumbered is not None:
        _same_record(raw, *renumbered)
    if signal is None:
        return
    demand(signal.kind in get_args(Kind) and signal.kind in _ERRORS, "a kind", signal.kind)
    text = raw.decode("utf-8", "replace")
    demand(int(text.partition(",")[0]) >> 3 == 0, "user space is read")
    demand(0 <= signal.code < 1_000_000, "a code that is none", signal.code)
    _printable(signal)
    if signal.kind != "driver-load":
        demand(normal_bus_id(signal.bus_id) == signal.bus_id, "a bus id", signal.bus_id)
        demand(signal.bus_id[-7:-2] in text.lower(), "a bus id from nowhere", signal.bus_id)
    demand(_decoder.decode(_encoder.encode(signal)) == signal, "it does not travel")


def _signal(raw: bytes) -> Signal | None:
    try:
        return driver_lines.understand(driver_lines.split(raw), BOOT)
    except Rejected as error:
        demand(error.reason in ("malformed", "user_space", "quoted"), "a reason", error.reason)
        return None


def _printable(signal: Signal) -> None:
    for stated, longest in ((signal.message, 160), (signal.process, 32), (signal.uuid, 40)):
        demand(len(stated) <= longest and stated.isprintable(), "a text", stated)


def _same_record(raw: bytes, place: int, again: bytes) -> None:
    try:
        before, after = driver_lines.split(raw), driver_lines.split(again)
    except Rejected:
        return
    demand(after.sequence == place, "a place that is none", place)
    same = (before.message, before.facility) == (after.message, after.facility)
    demand(same, "renumbering changes a record", again)


def make_line(random: Random) -> tuple[str, Built]:
    """Build an XID line out of its parts; a process may have any name of 15 bytes."""
    bus = f"{random.randrange(65536):04x}:{random.randrange(256):02x}:{random.randrange(32):02x}"
    gi, ci = (random.choice((None, 0, 5, 13)) for _ in range(2))
    ci = None if gi is None else ci
    place = "" if gi is None else f" GPU-I:{gi:02}"
    place += "" if ci is None else f" GPU-CI:{ci:02}"
    process = "".join(mark for mark in hostile.text(random) if mark not in "\n\r\0")[:15]
    who = random.choice(("", f"pid={random.randrange(10**7)}, name={process}, "))
    code = random.randrange(1024)
    # The driver's own words are shorter than what the kernel cuts (kernel_log/quoted.py).
    line = f"NVRM: Xid (PCI:{bus}{place}): {code}, {who}{hostile.text(random)[:150]}"
    return line.partition("\n")[0], (f"{bus}.0", code, gi, ci)


def check_line(made: tuple[str, Built]) -> None:
    """Whatever a process is called, the error is booked to its GPU, instance and code."""
    line, built = made
    signal = _signal(b"4,1,1,-;" + line.encode())
    reported = None if signal is None else (signal.bus_id, signal.code, signal.gi, signal.ci)
    demand(reported == built, "booked elsewhere", reported)


def make_syslog(random: Random) -> tuple[bytes, bytes, int]:
    """Make a log, what comes after it, and how much of its beginning is gone by then."""
    first = _log(random, random.randrange(8), 1_000_000)
    more = _log(random, random.randrange(5), 3_000_000_000)
    gone = random.choice((0, 0, 0, len(first), random.randrange(len(first) + 1)))
    return first, more, gone


def _log(random: Random, records: int, at: int) -> bytes:
    """Write records as syslog(2) does; users write line breaks into them."""
    stated: list[bytes] = []
    for _ in range(records):
        at += random.choice((0, 1, 17, 900_000))
        head = b"<4>[%5d.%06d] " % divmod(at, 1_000_000)
        quoted = hostile.text(random).encode() + b"\n" + random.choice(_RAW)
        message = random.choice((random.choice(_RAW), hostile.text(random).encode(), quoted))
        stated += [head + line + b"\n" for line in message.split(b"\n")]
    log = b"".join(stated)
    return log if random.randrange(4) else hostile.mutated(random, log, 1) + b"\n"


def check_syslog(made: tuple[bytes, bytes, int]) -> None:
    first, more, gone = made
    reader = SyslogText()
    received = _records(reader.read(first), first)
    later = reader.read(first[gone:] + more)
    again = _records(later, (first[gone:] + more)[-later.size :] if later.size else b"")
    if gone == 0 and more.strip(b"\n"):
        demand(later.lost == "", "lost although all is there", later.lost)
        demand(later.size >= len(more), "less than what is new", later.size)
        places = [line.place for line in received]
        following = [line.place for line in again]
        demand(not places or not following or min(following) > max(places), "reported twice")


def _records(changes: NewLines, text: bytes) -> list[Line]:
    """Each record begins with the first line of its prefix, and no other line is one."""
    found = list(changes.lines)
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    split = [_PREFIXED.fullmatch(line) for line in lines]
    demand(changes.timed == all(split), "times, or none", text)
    if not changes.timed:
        demand(not found, "a record without a time", found)
        return []
    firsts = [next(same) for _, same in groupby((match for match in split if match), itemgetter(1))]
    demand(len(found) == len(firsts), "a line is a record, or none is", len(found), len(firsts))
    places = [line.place for line in found]
    demand(places == sorted(set(places)), "places are not in order", places)
    for received, line in zip(found, firsts, strict=True):
        record = driver_lines.split(received.raw)
        demand(record.sequence == received.place, "another place", record)
        begins = line[2].decode("utf-8", "replace")
        demand(record.message.startswith(begins), "another beginning", record)
    return found


def make_link_words(random: Random) -> tuple[int, str, str]:
    random_word = f"0x{random.getrandbits(32):08x}"
    sort = random.choice(nvlink5.sorts())
    mask, value = random.choice(list((sort.patterns | sort.stronger).values()))
    fitting = f"0x{(random.getrandbits(32) & ~mask & 0xFFFFFFFF) | value:08x}"
    status = random.choice(
        (*(f"0x{word:08x}" for word in sort.statuses), "0x00000000", random_word)
    )
    message = f"{random.choice(sort.units)} Fatal XC0 i0 Link {random.choice((-1, 3, 17, 999))} "
    message += f"({random.choice((fitting, fitting, random_word))} {status} 0x00000000)"
    code = random.choice((sort.code, sort.code, random.randrange(140, 155)))
    raw = hostile.mutated(random, message.encode(), 2, _RAW)
    driver = random.choice(("", "575.57.08", "570.10", "595", "x", hostile.text(random)))
    return code, raw.decode("utf-8", "replace"), driver


def check_link_words(made: tuple[int, str, str]) -> None:
    code, message, driver = made
    found = nvlink5.decode(code, message, driver)
    old, new = (nvlink5.decode(code, message, version) for version in ("500.1", "600.1"))
    either = {decoded for decoded in (old, new) if decoded}
    guessed = nvlink5.decode(code, message, "")
    only = next(iter(either)) if len(either) == 1 else None
    demand(guessed == only, "an unknown driver", guessed)
    known = {"575.57.08": new, "595": new, "570.10": old}
    demand(found == known.get(driver, found), "another layout", found)
    if found is not None:
        actions = {
            action for sort in nvlink5.sorts() for action in (sort.action, sort.stronger_action)
        }
        demand(code in nvlink5.CODES and found in either, "another meaning", found)
        demand(found.action in actions and 0 <= found.reason < 64, "an action", found)


_UID = "d3f7a1b2-0c4e-4f6a-8b1d-2e3f4a5b6c7d"
_CONTAINER = "0123456789abcdef" * 4
_PATHS = (
    f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_UID.replace('-', '_')}"
    f".slice/cri-containerd-{_CONTAINER}.scope",
    f"0::/kubepods/burstable/pod{_UID}/{_CONTAINER}",
    f"12:devices:/kubepods/pod{_UID}/{_CONTAINER}\n0::/",
    f"0::/system.slice/containerd.service/kubepods-pod{_UID.replace('-', '_')}.slice:"
    f"cri-containerd:{_CONTAINER}",
    f"0::/kubepods.slice/kubepods-pod{_UID.replace('-', '')}.slice/crio-{_CONTAINER}.scope/x",
    f"3:pids:/docker/{'f' * 64}\n0::/kubepods/pod{_UID}/{_CONTAINER}\n1:x:/docker/{'e' * 64}",
    f"0::/docker/{'f' * 64}/kubepods/pod{_UID}/{_CONTAINER}/kubepods/pod{_UID}/{'e' * 64}",
    "0::/init.scope",
)
_STAT = b"7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1 2 3"


def make_cgroup(random: Random) -> tuple[bytes, bytes]:
    paths = [path.encode() for path in _PATHS]
    path = hostile.mutated(random, random.choice(paths), 3, paths)
    stat = hostile.mutated(random, _STAT, 3)
    return path, stat + b"9" * random.choice((0, 0, 0, 5000))


def check_cgroup(made: tuple[bytes, bytes]) -> None:
    raw, stat = made
    text = raw.decode("utf-8", "replace")
    found = cgroups.placement(text)
    plain = text.lower().replace("_", "-")
    demand(not found.pod_uid or found.pod_uid in plain, "a pod from nowhere", found)
    demand(bool(found.pod_uid) or not found.container_id, "a container of no pod", found)
    if found.container_id:
        behind = [line.partition(found.pod_uid)[2] for line in plain.splitlines()]
        demand(any(found.container_id in path for path in behind), "of another pod", found)
    demand(len(found.container_id) in (0, 64), "a container", found)
    begun = cgroups.start_time(stat)
    demand(begun is None or begun >= 0, "a time that is none", begun)


TARGETS = (
    Target("kernel-record", 99, make_record, check_record),
    Target("xid-line", 60, make_line, check_line),
    Target("syslog", 50, make_syslog, check_syslog),
    Target("nvlink5", 40, make_link_words, check_link_words),
    Target("cgroup", 50, make_cgroup, check_cgroup),
)
