"""Whether a line that begins as a driver's is another part of the kernel's, that quotes a user.

The kernel prints texts that users choose, and some of its messages begin with one: the source of a
mount, the prefix of a firewall's rule. Such a text can be a whole line of the driver's. What the
kernel adds behind it is not the user's, and the driver writes nothing like it:

- the end of the message, as other subsystems write it (net/netfilter/nf_log_syslog.c,
  net/bridge/netfilter/ebt_log.c, fs/super.c);
- where the text is so long that the kernel cuts the end off, the length (kernel/printk/printk.c);
- where syslog(2) leaves it out, for a text of many lines, the line breaks.

The name of a process is a user's too, in the driver's own lines: it is left out of the search, so
that nobody hides an error by a name. Pure.
"""

import re

LINE_END = r"\x0a"
"""How /dev/kmsg writes the end of a line within a message (Documentation/ABI/testing/dev-kmsg)."""

_SHORTEST_CUT = 900
"""Bytes. Kernels cut a message at 973 to 1021, by their version; the driver's longest line known
has 250 with its process."""
_NAME = re.compile(r"(?<=, name=)(?:\\x[0-9a-f]{2}|.){0,15}(?=, )")
"""A process has a name of 15 bytes at most (TASK_COMM_LEN), and the driver's words follow it."""
_ANOTHERS = re.compile(
    r"(?:^|[ ,]|\\x0a)(?:OUT|PHYSIN|PHYSOUT|MAC|MACSRC|MACDST|MACPROTO|SRC|DST|PROTO)="
    r"|\bMAC source = |\bARP HTYPE="
    r"|: Can't (?:open|lookup) blockdev"
)


OWN = ("NVRM: ", "nvidia-nvswitch")
"""Beginnings of the drivers' lines."""
_MOST_OWN = 2
"""Lines of theirs that syslog_text may have joined to one of the same microsecond."""


def is_quoted(message: str) -> bool:
    """Return whether a possible XID or SXid line is a quotation; pass it with trailing blanks."""
    if len(message.encode("utf-8", "replace")) >= _SHORTEST_CUT:
        return True
    words = _NAME.sub("", message, count=1)
    more = words.split(LINE_END)[1:]
    if len(more) > _MOST_OWN or not all(line.startswith(OWN) for line in more):
        return True
    return _ANOTHERS.search(words) is not None


def ends_at(message: str, at: int) -> bool:
    """Return whether the driver's line ends at `at`; only for lines that have a single form."""
    rest = message[at:]
    return (not rest.strip() or rest.startswith(LINE_END)) and not is_quoted(message)
