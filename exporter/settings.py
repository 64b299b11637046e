"""How one exporter process works, as one validated, frozen value (read by `flags`)."""

import os
import re
from pathlib import Path
from typing import Literal

import msgspec

from exporter.model.given import Ignored, WrittenRow

Role = Literal["sensor", "agent", "run"]


class SettingsError(Exception):
    """A flag that cannot be used; the message names it and says what to write instead."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one exporter process works."""

    role: Role = "run"
    """`sensor` touches the node, `agent` the network, `run` is an agent with its own sensor."""
    node_name: str
    """Name of the Kubernetes node; also the Hostname label. Default: $NODE_NAME, the host name."""
    listen: str = "0.0.0.0:9400"
    """Where the agent serves /metrics; 9400 is dcgm-exporter's port."""
    sensor_socket: Path = Path("/run/draguard/sensor.sock")
    """Unix socket between sensor and agent."""
    kernel_log: Path = Path("/dev/kmsg")
    """/dev/kmsg (syslog(2) stands in where it does not open), or a growing file of such records."""
    boot_id_file: Path = Path("/proc/sys/kernel/random/boot_id")
    """The kernel's name for this boot; counts begin again with a new one."""
    pod_resources_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    """The kubelet's PodResources socket."""
    nvml_library_dir: Path | None = None
    """Folder of libnvidia-ml.so.1, where the loader does not find it by itself."""
    release_file: Path = Path("/run/draguard/release")
    """Names GPUs (UUID or bus id, one a line; empty: all) that are not held open while it is there,
    so that they can be reset or unbound."""
    pci_devices_dir: Path = Path("/sys/bus/pci/devices")
    """Where the kernel lists PCI devices; the GPUs there are the count that is expected."""
    proc_dir: Path = Path("/proc")
    """Where the cgroup of a GPU process is read, which names its pod; needs the host's pids."""
    processes: bool = True
    """Whether to read which processes use each GPU, for the shares of pods."""
    pod_log_dir: Path | None = None
    """Folder of the kubelet's logs of pods, whose names tell the UIDs of pods that hold a GPU by a
    device plugin, for their shares; none: not known."""
    dcgm: str = "off"
    """`off`, `embedded`, `host:port` or `unix:///path` of an nv-hostengine."""
    dcgm_library_dir: Path | None = None
    """Folder of libdcgm.so.4, where the loader does not find it by itself."""
    dcgm_health: bool = True
    """Whether to set DCGM's health watches, which DCGM_EXP_GPU_HEALTH_STATUS shows."""
    collectors: Path | None = None
    """The counters file (CSV of DCGM field, type, help); none: the default set of 26."""
    config_file: Path | None = None
    """dcgm-exporter's YAML file, read at the start (`exporter.flags.dcgm_exporter_file`)."""
    counter_rows: tuple[WrittenRow, ...] = ()
    """The rows of `config_file`, where no counters file is named."""
    labels: Literal["drop-in", "lean", "full"] = "drop-in"
    """Which labels ride on device series (`exporter.metrics.labels`)."""
    max_series: int = 20_000
    """Device series on a page; more are dropped and counted."""
    old_namespace: bool = False
    """dcgm-exporter's `-o`: uuid, pod_name, pod_namespace and container_name."""
    hostname_label: Literal["Hostname", "hostname", "none"] = "Hostname"
    """`Hostname` as dcgm-exporter up to 4.8.2, `hostname` as from 4.8.3."""
    replace_blanks_in_model_name: bool = False
    xid_window: float = 300.0
    """Seconds of DCGM_EXP_XID_ERRORS_COUNT."""
    clock_events_window: float = 300.0
    """Seconds of DCGM_EXP_CLOCK_EVENTS_COUNT."""
    devices: str = "f"
    """dcgm-exporter's device selection: f, g[:ids], i[:ids]; ids such as 0,2-4."""
    switch_devices: str = "f"
    """The same for NVSwitches (g) and their links (i), which DCGM tells where rows name them."""
    cpu_devices: str = "f"
    """The same for CPUs (g) and their cores (i)."""
    kubernetes: bool = True
    """Whether to ask the kubelet and the API server who holds what."""
    claim_details: bool = True
    """Whether to read each claim that a pod here holds once (uid, request, admin access)."""
    pod_labels: bool = False
    """Whether labels of pods ride on their devices (one pod watch for this node)."""
    pod_label_allow: tuple[str, ...] = ()
    """Regular expressions of pod labels that may ride; none: all."""
    pod_uid: bool = False
    """Whether the pod's UID rides on device series (the same watch, or the claim)."""
    kubernetes_gpu_id_type: Literal["uid", "device-name"] = "uid"
    nvidia_resource_names: tuple[str, ...] = ()
    """More resource names of device plugins that are NVIDIA's."""
    web_config: Path | None = None
    """Prometheus web configuration: TLS, client certificates, basic auth."""
    max_scrapes: int = 16
    """Scrapes served at once; one more is answered with 503."""
    interval: float = 30.0
    """Seconds between samples, as dcgm-exporter's default. An XID asks for one at once."""
    sample_deadline: float = 10.0
    """Seconds after which one NVML call counts as hung; the slowest healthy ones take two."""
    start_deadline: float = 60.0
    """The same for nvmlInit, which may wake every GPU where no persistence daemon runs."""
    child_memory_limit: float = 512.0
    """MiB that the process of one vendor library may take before it is started anew."""
    hang_retry: float = 60.0
    """Seconds for which a GPU that hung is left out; doubled each time, to ten minutes."""
    lost_after: float = 60.0
    """Seconds for which a live NVML must not list a GPU until it counts as lost."""
    report: bool = True
    """Whether to write the NodeDeviceHealth; metrics only without."""
    report_interval: float = 900.0
    """Seconds between reports while nothing changes."""
    lease_namespace: str = "draguard-system"
    """Namespace of the Lease that says that this agent is alive."""
    lease_interval: float = 60.0
    """Seconds between renewals of the Lease."""
    kube_server: str = ""
    """URL of the API server; default: the pod's own service account."""
    kube_token_file: str | None = None
    kube_ca_file: str | None = None
    parent: int = 0
    """Process id that the sensor ends with; 0 for none. Set by `run` for its own sensor."""
    log_level: str = "INFO"
    log_format: Literal["text", "json"] = "text"
    ignored: tuple[Ignored, ...] = ()
    """What was given and changes nothing; no flag, the reader of flags fills it in."""
    check: bool = False
    """Validate the settings, say what would be collected and what is missing, and end."""

    def one_line(self) -> str:
        """Return the settings as `name=value`, for the log."""
        values = msgspec.structs.asdict(self)
        return " ".join(
            f"{name}={value}"
            for name, value in values.items()
            if value is not None and name not in FOUND
        )


FOUND = frozenset({"ignored", "counter_rows"})
"""What is no setting of its own but was found in others; the log has it elsewhere."""

_CHOICES = {
    "log_level": ("DEBUG", "INFO", "WARNING", "ERROR"),
    "log_format": ("text", "json"),
    "labels": ("drop-in", "lean", "full"),
    "hostname_label": ("Hostname", "hostname", "none"),
    "kubernetes_gpu_id_type": ("uid", "device-name"),
}
_POSITIVE = (
    "interval",
    "sample_deadline",
    "start_deadline",
    "hang_retry",
    "child_memory_limit",
    "lost_after",
    "report_interval",
    "lease_interval",
    "xid_window",
    "clock_events_window",
    "max_series",
    "max_scrapes",
)


def check(settings: Settings) -> Settings:
    """Return the settings; raises SettingsError for a value that cannot be used."""
    for name in _POSITIVE:
        value = getattr(settings, name)
        if not value > 0:
            raise SettingsError(f"{flag_of(name)} must be above 0, not {value}")
    for name, allowed in _CHOICES.items():
        value = getattr(settings, name)
        if value not in allowed:
            raise SettingsError(f"{flag_of(name)} takes {', '.join(allowed)}, not {value}")
    _check_listen(settings.listen)
    _check_dcgm(settings.dcgm)
    for pattern in settings.pod_label_allow:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(
                f"--pod-label-allow: {pattern!r} is no regular expression: {error}"
            ) from error
    if len(os.fsencode(settings.sensor_socket)) > 107:
        raise SettingsError(
            f"--sensor-socket is longer than the 107 bytes a unix socket's path may have: "
            f"{settings.sensor_socket}"
        )
    if settings.kube_token_file and not settings.kube_server:
        raise SettingsError("--kube-token-file needs --kube-server")
    return settings


def flag_of(name: str) -> str:
    """Return how a setting is written on the command line."""
    return "--" + name.replace("_", "-")


def _check_listen(listen: str) -> None:
    _, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError(
            f"--listen takes host:port or :port, such as 0.0.0.0:9400, not {listen}"
        )


def _check_dcgm(dcgm: str) -> None:
    host, colon, port = dcgm.rpartition(":")
    remote = bool(host and colon and port.isdigit() and int(port) <= 65535)
    if not (dcgm in ("off", "embedded") or dcgm.startswith("unix:///") or remote):
        raise SettingsError(
            f"--dcgm takes off, embedded, host:port or unix:///path of a host engine, not {dcgm}"
        )
