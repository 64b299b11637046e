"""Whether a line that begins as a driver's is another part of the kernel's, that quotes a user.

The kernel prints texts that users choose, and some of its messages begin with one: the source of a
mount, the prefix of a firewall's rule. Such a text can be a whole line of the driver's. What the
kernel adds behind it is not the user's, and the driver writes nothing like it:

- the end of the message, as other subsystems write it (net/netfilter/nf_log_syslog.c,
  net/bridge/netfilter/ebt_log.c, fs/super.c);
- where the text is so long, or has so many lines, that the kernel cuts the end off, the size
  (kernel/printk/printk.c).

The name of a process is a user's too, in the driver's own lines: it is left out of the search and
its line breaks are none, so that nobody hides an error by a name. Pure.
"""

import re

LINE_END = r"\x0a"
"""How /dev/kmsg writes the end of a line within a message (Documentation/ABI/testing/dev-kmsg)."""

_SHORTEST_CUT = 900
"""Bytes. Kernels cut a message at 973 to 1021, by their version; the driver's longest line known
has 250 with its process."""
_HEAD = 40
"""Bytes that syslog(2) writes in front of a line at most: it counts them for what it cuts."""
NAME = r"(?:(?>\\x[0-9a-f]{2}|.)){0,15}(?=, )"
"""A process has a name of 15 bytes at most (TASK_COMM_LEN), with any marks in it; a comma and the
driver's words follow. So it ends at the last comma that it can reach: what follows there is the
driver's for certain."""
_NAME = re.compile(rf"(?<=, name=){NAME}")
_ANOTHERS = re.compile(
    r"(?:^|[ ,]|\\x0a)(?:OUT|PHYSIN|PHYSOUT|MAC|MACSRC|MACDST|MACPROTO|SRC|DST|PROTO)="
    r"|\bMAC source = |\bARP HTYPE="
    r"|: Can't (?:open|lookup) blockdev"
)

OWN = ("NVRM: ", "nvidia-nvswitch")
"""Beginnings of the drivers' lines."""


def lines_of(message: str) -> list[str]:
    """Return the lines of a message; line breaks in a process's name end none."""
    _, end = _name_in(message)
    first, *more = message[end:].split(LINE_END)
    return [message[:end] + first, *more]


def is_quoted(message: str) -> bool:
    """Return whether a possible XID or SXid line is a quotation; pass it with trailing blanks.

    The driver ends some of its records with an empty line.
    """
    _, *more = lines_of(message)
    return is_anothers(message) or any(line and not line.startswith(OWN) for line in more)


def is_anothers(message: str) -> bool:
    """Return the same for lines of which others than the first may be records of their own."""
    begin, end = _name_in(message)
    size = len(message.encode("utf-8", "replace")) + _HEAD * (len(lines_of(message)) - 1)
    return size >= _SHORTEST_CUT or bool(_ANOTHERS.search(message[:begin] + message[end:]))


def ends_at(message: str, at: int) -> bool:
    """Return whether the driver's line ends at `at`; only for lines that have a single form."""
    rest = message[at:]
    return (not rest.strip() or rest.startswith(LINE_END)) and not is_quoted(message)


def _name_in(message: str) -> tuple[int, int]:
    """Return where the first line has a process's name."""
    name = _NAME.search(message)
    if name is None or LINE_END in message[: name.start()]:
        return 0, 0
    return name.span()
