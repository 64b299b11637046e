"""Looks whether what `capabilities` names is there, for `--check`."""

import os
from collections.abc import Callable
from pathlib import Path

from exporter.kube import client_of
from exporter.model.node_health import SourceHealth
from exporter.node.capabilities import Need
from exporter.sensor.kernel_log import pid_namespace
from exporter.sensor.kernel_log.kmsg import AUTO, DEVICE, mode_now, open_log
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from exporter.settings import Settings

_SYS_ADMIN, _SYSLOG = 21, 34
"""Numbers of linux/capability.h."""


def missing(need: Need, settings: Settings) -> str:
    """Say what of a need is missing here, "" when nothing is."""
    return _LOOKS[need](settings)


def _gpu_devices(settings: Settings) -> str:
    if settings.nvml_library_dirs or os.access("/dev/nvidiactl", os.R_OK | os.W_OK):
        return ""
    return "/dev/nvidiactl cannot be opened"


def _kernel_log(settings: Settings) -> str:
    path = DEVICE if settings.kernel_log == AUTO else settings.kernel_log
    try:
        os.close(open_log(path))
    except KernelLogError:
        if _has(_SYSLOG) or (settings.kernel_log == AUTO and kernel_log_mode(settings).up):
            return ""
        return f"{path} cannot be read and CAP_SYSLOG is not there"
    return ""


def kernel_log_mode(settings: Settings) -> SourceHealth:
    """Return how the kernel log is read here, and what that costs."""
    try:
        boot_id = settings.boot_id_file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        boot_id = ""
    return mode_now(settings.kernel_log, settings.journals, boot_id)


def _pod_resources(settings: Settings) -> str:
    socket = settings.pod_resources_socket
    return "" if os.access(socket, os.R_OK | os.W_OK) else f"{socket} is not there or not ours"


def _api_server(settings: Settings) -> str:
    client = client_of(settings)
    if client is None:
        return "no service account and no --kube-server"
    client.close()
    return ""


_LOOKS: dict[Need, Callable[[Settings], str]] = {
    "gpu-devices": _gpu_devices,
    "kernel-log": _kernel_log,
    "sys-admin": lambda _: "" if _has(_SYS_ADMIN) else "CAP_SYS_ADMIN is not there",
    "host-pids": lambda settings: pid_namespace.lacking(settings.proc_dir),
    "pod-resources": _pod_resources,
    "api-server": _api_server,
}


def _has(capability: int) -> bool:
    """Say whether this process has a capability, by its effective set."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> capability & 1)
    return False
