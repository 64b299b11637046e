"""How one exporter process works, as one validated, frozen value (read by `flags`)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from exporter.label_patterns import PatternError, chooser
from exporter.model.device import GPU_DRIVER, gpu_drivers
from exporter.model.given import Ignored, WrittenRow

Role = Literal["sensor", "agent", "run"]


class SettingsError(Exception):
    """A flag that cannot be used; the message names it and says what to write instead."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one exporter process works. Each field with a description is a flag of the same name."""

    role: Role = "run"
    """`sensor` touches the node, `agent` the network, `run` is an agent with its own sensor."""
    node_name: Annotated[
        str, Meta(description="Kubernetes node name; $NODE_NAME or the host name when not given")
    ]
    """Also the Hostname label."""
    listen: Annotated[
        str, Meta(description="where to serve /metrics; without a host at all addresses")
    ] = ":9400"
    """dcgm-exporter's."""
    health_listen: Annotated[
        str,
        Meta(
            description="where to serve /healthz and /readyz once more, without TLS and passwords; "
            "nowhere when empty"
        ),
    ] = ""
    """For probes, which have no client certificate."""
    web_config: Annotated[
        Path | None,
        Meta(description="Prometheus web configuration: TLS, client certificates, basic auth"),
    ] = None
    max_scrapes: Annotated[int, Meta(description="scrapes served at once")] = 16
    """One more is answered with 503."""
    interval: Annotated[float, Meta(description="seconds between samples")] = 30.0
    """dcgm-exporter's default. An XID asks for a sample at once."""
    collectors: Annotated[
        Path | None,
        Meta(
            description="counters file (CSV: field, type, help); without, "
            "/etc/dcgm-exporter/default-counters.csv if it is mounted, else the default set"
        ),
    ] = None
    config_file: Annotated[
        Path | None,
        Meta(description="dcgm-exporter's YAML file: counters, interval, scrapes at once"),
    ] = None
    """Read at the start (`exporter.flags.dcgm_exporter_file`)."""
    devices: Annotated[
        str, Meta(description="which devices: f (all), g[:ids], i[:ids]; ids such as 0,2-4")
    ] = "f"
    switch_devices: Annotated[
        str, Meta(description="NVSwitches and their links, by DCGM: f, g[:ids], i[:ids]")
    ] = "f"
    cpu_devices: Annotated[
        str, Meta(description="CPUs and their cores, by DCGM: f, g[:ids], i[:ids]")
    ] = "f"
    labels: Annotated[
        Literal["drop-in", "lean", "full"],
        Meta(description="labels on device series: drop-in, lean or full"),
    ] = "drop-in"
    """See `exporter.metrics.labels`."""
    max_series: Annotated[
        int, Meta(description="device series on a page; more are dropped and counted")
    ] = 20_000
    old_namespace: Annotated[
        bool, Meta(description="uuid, pod_name, pod_namespace, container_name as labels")
    ] = False
    """dcgm-exporter's `-o`."""
    hostname_label: Annotated[
        Literal["Hostname", "hostname", "none"], Meta(description="Hostname, hostname or none")
    ] = "Hostname"
    """`Hostname` as dcgm-exporter up to 4.8.2, `hostname` as from 4.8.3."""
    replace_blanks_in_model_name: Annotated[
        bool, Meta(description="modelName with - for blanks")
    ] = False
    xid_window: Annotated[float, Meta(description="seconds of DCGM_EXP_XID_ERRORS_COUNT")] = 300.0
    clock_events_window: Annotated[
        float, Meta(description="seconds of DCGM_EXP_CLOCK_EVENTS_COUNT")
    ] = 300.0
    kubernetes: Annotated[
        bool, Meta(description="label each device with the pod and claim that use it")
    ] = True
    """Asks the kubelet and the API server."""
    gpu_drivers: Annotated[
        tuple[str, ...],
        Meta(description="DRA drivers that publish NVIDIA's GPUs, with commas; others are foreign"),
    ] = (GPU_DRIVER,)
    """What a foreign slice says about GPUs counts for nothing."""
    claim_details: Annotated[
        bool, Meta(description="read each claim of the node once: uid, request, admin access")
    ] = True
    pod_labels: Annotated[
        bool, Meta(description="labels of pods on their devices (one pod watch for this node)")
    ] = False
    pod_label_allow: Annotated[
        tuple[str, ...],
        Meta(description="regular expressions (RE2) of pod labels, with commas"),
    ] = ()
    """None: all."""
    pod_uid: Annotated[bool, Meta(description="the pod's UID on device series")] = False
    """By the same pod watch, or from the claim."""
    processes: Annotated[
        bool, Meta(description="shares of pods from the processes on each GPU")
    ] = True
    """Reads which processes use each GPU."""
    pod_log_dir: Annotated[
        Path | None,
        Meta(description="the kubelet's log folder: UIDs of device plugins' pods, for shares"),
    ] = None
    """Its folders name the UIDs of pods that hold a GPU by a device plugin; none: not known."""
    kubernetes_gpu_id_type: Annotated[
        Literal["uid", "device-name"],
        Meta(description="what device plugin ids are: uid or device-name"),
    ] = "uid"
    nvidia_resource_names: Annotated[
        tuple[str, ...], Meta(description="more resource names of device plugins, with commas")
    ] = ()
    pod_resources_socket: Annotated[Path, Meta(description="kubelet PodResources socket")] = Path(
        "/var/lib/kubelet/pod-resources/kubelet.sock"
    )
    dcgm: Annotated[
        str, Meta(description="off, embedded, host:port or unix:///path of a host engine")
    ] = "off"
    dcgm_health: Annotated[bool, Meta(description="set DCGM's health watches")] = True
    """DCGM_EXP_GPU_HEALTH_STATUS shows them."""
    dcgm_library_dir: Annotated[Path | None, Meta(description="folder of libdcgm.so.4")] = None
    """Where the loader does not find it by itself."""
    nvml_library_dir: Annotated[
        str,
        Meta(
            description="folders of libnvidia-ml.so.1, with commas; the first that has it is used"
        ),
    ] = ""
    """Where the loader does not find it by itself."""
    release_file: Annotated[
        Path, Meta(description="names GPUs not to hold open (empty: all) while it is there")
    ] = Path("/run/draguard/release")
    """UUID or bus id, one a line; so that they can be reset or unbound."""
    kernel_log: Annotated[
        Path,
        Meta(
            description="auto (/dev/kmsg, else systemd's journal, else syslog(2)), /dev/kmsg (else "
            "syslog(2)), a folder of systemd's journal, or a file of such records"
        ),
    ] = Path("auto")
    """Chosen anew whenever the journal begins or ends to have the kernel's records."""
    journal_dirs: Annotated[
        str, Meta(description="folders of systemd's journal for --kernel-log=auto, with commas")
    ] = "/var/log/journal,/run/log/journal"
    """None is ever made; they need not be there."""
    boot_id_file: Annotated[Path, Meta(description="file with the boot id")] = Path(
        "/proc/sys/kernel/random/boot_id"
    )
    """Counts begin again with a new boot."""
    pci_devices_dir: Annotated[Path, Meta(description="where the kernel lists PCI devices")] = Path(
        "/sys/bus/pci/devices"
    )
    """The GPUs there are the count that is expected."""
    proc_dir: Annotated[Path, Meta(description="where processes are listed")] = Path("/proc")
    """The cgroup of a GPU process names its pod; needs the host's pids."""
    sensor_socket: Annotated[Path, Meta(description="unix socket between sensor and agent")] = Path(
        "/run/draguard/sensor.sock"
    )
    sample_deadline: Annotated[
        float, Meta(description="seconds after which a vendor call counts as hung")
    ] = 10.0
    """The slowest healthy calls take two."""
    start_deadline: Annotated[
        float, Meta(description="seconds after which nvmlInit counts as hung")
    ] = 60.0
    """It may wake every GPU where no persistence daemon runs."""
    hang_retry: Annotated[
        float, Meta(description="seconds for which a GPU that hung is left out")
    ] = 60.0
    """Doubled each time, to ten minutes."""
    child_memory_limit: Annotated[
        float, Meta(description="MiB that a vendor library's process may take")
    ] = 512.0
    """With more it is started anew."""
    lost_after: Annotated[
        float, Meta(description="seconds a GPU must be missing before it counts as lost")
    ] = 60.0
    report: Annotated[
        bool, Meta(description="write the NodeDeviceHealth; metrics only without")
    ] = True
    report_interval: Annotated[
        float, Meta(description="seconds between reports while nothing changes")
    ] = 900.0
    lease_namespace: Annotated[str, Meta(description="namespace of the agent's Lease")] = (
        "draguard-system"
    )
    """The Lease says that this agent is alive."""
    lease_interval: Annotated[float, Meta(description="seconds between renewals of the Lease")] = (
        60.0
    )
    kube_server: Annotated[
        str, Meta(description="URL of the API server; the pod's service account when not given")
    ] = ""
    kube_token_file: Annotated[str | None, Meta(description="file with the bearer token")] = None
    kube_ca_file: Annotated[
        str | None, Meta(description="file with the API server's CA certificate")
    ] = None
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        Meta(description="DEBUG, INFO, WARNING or ERROR"),
    ] = "INFO"
    log_format: Annotated[Literal["text", "json"], Meta(description="text or json")] = "text"
    parent: Annotated[int, Meta(description="end when this process does (the sensor of `run`)")] = 0
    """Process id, 0 for none. Set by `run` for its own sensor."""
    check: Annotated[
        bool, Meta(description="validate, say what would be collected and what is missing, and end")
    ] = False
    alive: Annotated[
        bool,
        Meta(description="say whether the sensor at --sensor-socket makes progress, and end"),
    ] = False
    """For a liveness probe; hung GPUs and libraries are no reason to say no."""
    counter_rows: tuple[WrittenRow, ...] = ()
    """The rows of `config_file`, where no counters file is named."""
    ignored: tuple[Ignored, ...] = ()
    """What was given and changes nothing; no flag, the reader of flags fills it in."""

    @property
    def nvml_library_dirs(self) -> tuple[str, ...]:
        """In the order in which they are searched."""
        return tuple(folder for folder in self.nvml_library_dir.split(",") if folder)

    @property
    def journals(self) -> tuple[Path, ...]:
        return tuple(Path(folder) for folder in self.journal_dirs.split(",") if folder)

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

_POSITIVE = (
    "interval",
    "sample_deadline",
    "start_deadline",
    "hang_retry",
    "child_memory_limit",
    "lost_after",
    "report_interval",
    "lease_interval",
    "max_series",
    "max_scrapes",
)
_WINDOWS = ("xid_window", "clock_events_window")
"""Of 0 they count nothing, as with dcgm-exporter."""


class Flag(NamedTuple):
    """One setting on the command line."""

    setting: str
    kind: type
    """What its text is read as; `tuple` for words."""
    text: str
    choices: tuple[str, ...] = ()


def _flags() -> Iterator[Flag]:
    for setting, hint in get_type_hints(Settings, include_extras=True).items():
        if get_origin(hint) is Annotated:
            value, meta = get_args(hint)
            options = [option for option in get_args(value) if option is not type(None)]
            if get_origin(value) is Literal:
                yield Flag(setting, str, meta.description, tuple(options))
            elif get_origin(value) is tuple:
                yield Flag(setting, tuple, meta.description)
            else:
                yield Flag(setting, options[0] if options else value, meta.description)


FLAGS = tuple(_flags())


def check(settings: Settings) -> Settings:
    """Return the settings; raises SettingsError for a value that cannot be used."""
    for name in (*_POSITIVE, *_WINDOWS):
        value, may_be_zero = getattr(settings, name), name in _WINDOWS
        if not (value > 0 or (may_be_zero and value == 0)):
            least = "0 or above" if may_be_zero else "above 0"
            raise SettingsError(f"{flag_of(name)} must be {least}, not {value}")
    for flag in FLAGS:
        value, allowed = getattr(settings, flag.setting), flag.choices
        if allowed and value not in allowed:
            raise SettingsError(f"{flag_of(flag.setting)} takes {', '.join(allowed)}, not {value}")
    _check_listen("--listen", settings.listen)
    if settings.health_listen:
        _check_listen("--health-listen", settings.health_listen)
    _check_dcgm(settings.dcgm)
    _check_words(settings)
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


def _check_listen(flag: str, listen: str) -> None:
    _, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"{flag} takes host:port or :port, such as :9400, not {listen}")


def _check_words(settings: Settings) -> None:
    try:
        gpu_drivers(settings.gpu_drivers)
    except ValueError as error:
        raise SettingsError(f"--gpu-drivers {error}") from error
    if settings.role != "sensor":  # which shows no labels, and need not load RE2
        try:
            chooser(settings.pod_label_allow)
        except PatternError as error:
            raise SettingsError(f"--pod-label-allow: {error}") from error


def _check_dcgm(dcgm: str) -> None:
    host, colon, port = dcgm.rpartition(":")
    remote = bool(host and colon and port.isdigit() and int(port) <= 65535)
    if not (dcgm in ("off", "embedded") or dcgm.startswith("unix:///") or remote):
        raise SettingsError(
            f"--dcgm takes off, embedded, host:port or unix:///path of a host engine, not {dcgm}"
        )
