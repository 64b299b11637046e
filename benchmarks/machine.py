"""The machine in one line, because a figure without it means nothing."""

import os
import platform
from pathlib import Path

from kubeapi import clock


def machine() -> str:
    """Return cores, processor, memory, kernel, Python, date and load."""
    processor = _field("/proc/cpuinfo", "model name") or platform.machine()
    memory_gib = float(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20
    load = os.getloadavg()
    return (
        f"{clock.now():%Y-%m-%d %H:%M} UTC; {os.cpu_count()} cores, {processor}, "
        f"{memory_gib:.0f} GiB; {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}; load {load[0]:.1f} (1 min), {load[1]:.1f} (5 min)"
    )


def _field(file: str, name: str) -> str:
    for line in Path(file).read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
