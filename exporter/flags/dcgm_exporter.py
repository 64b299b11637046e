"""dcgm-exporter's flags and environment names (4.8.4), and what becomes of each here. Pure data."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Alias(NamedTuple):
    """One flag that means a setting of ours under another name."""

    flag: str
    short: str
    setting: str
    read: Callable[[str], Any]


class Variable(NamedTuple):
    """One environment name that means a setting of ours."""

    name: str
    setting: str
    read: Callable[[str], Any]


class Unused(NamedTuple):
    """One flag that means nothing here, and what to use instead."""

    flag: str
    env: str
    instead: str
    takes_value: bool = False
    refused: bool = False
    """Going on without it would silently show something else than was requested."""
    silent: bool = False
    """What it asks for is always so."""
    default: str = ""
    """The value that dcgm-exporter has by itself, which asks for nothing."""
    short: str = ""


TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")
"""What Go's strconv.ParseBool takes, and nothing else."""


def yes(text: str) -> bool:
    """Read true or false as Go does; raises ValueError."""
    if text not in (*TRUE, *FALSE):
        raise ValueError("write true or false")
    return text in TRUE


def words(text: str) -> tuple[str, ...]:
    """Read words with commas between; blanks around them are none of them, as in dcgm-exporter."""
    return tuple(stripped for word in text.split(",") if (stripped := word.strip()))


def _milliseconds(text: str) -> float:
    return int(text) / 1000


def _host_engine(text: str) -> str:
    address = text.removeprefix("tcp://")
    # nv-hostengine's own port, where none is said.
    return address if ":" in address else f"{address}:5555"


def _no_hostname(text: str) -> str:
    return "none" if yes(text) else "Hostname"


def _debug(text: str) -> str:
    return "DEBUG" if yes(text) else "INFO"


BOOLEAN = frozenset({yes, _no_hostname, _debug})
"""What reads flags that stand alone, or with `=true` or `=false` behind them."""

_ITS_ROWS = "the default counters are its rows"
DEFAULT_COUNTERS = Path("/etc/dcgm-exporter/default-counters.csv")
"""What their exporter reads when no file is named."""
THEIR_COUNTERS: Mapping[Path, str] = {
    DEFAULT_COUNTERS: _ITS_ROWS,
    Path("/etc/dcgm-exporter/dcp-metrics-included.csv"): _ITS_ROWS,
    Path("/etc/dcgm-exporter/1.x-compatibility-metrics.csv"): "the default counters are shown, "
    "under their DCGM_FI_* names and not under the lower-case ones of 1.x",
}
"""Counters files of dcgm-exporter's image, which arguments name, and what is said where one is
not here; the first two have the same 26 rows."""

OWN = frozenset(
    {
        ("collectors", "f"),
        ("config-file", ""),
        ("kubernetes", "k"),
        ("devices", "d"),
        ("switch-devices", "s"),
        ("cpu-devices", "p"),
        ("log-format", ""),
        ("kubernetes-gpu-id-type", ""),
        ("nvidia-resource-names", ""),
        ("replace-blanks-in-model-name", ""),
    }
)
"""Their flags that ours are called as, too."""

ALIASES: tuple[Alias, ...] = (
    Alias("address", "a", "listen", str),
    Alias("collect-interval", "c", "interval", _milliseconds),
    Alias("remote-hostengine-info", "r", "dcgm", _host_engine),
    Alias("use-old-namespace", "o", "old_namespace", yes),
    Alias("rbmn", "rbmn", "replace_blanks_in_model_name", yes),
    Alias("web-config-file", "", "web_config", Path),
    Alias("no-hostname", "n", "hostname_label", _no_hostname),
    Alias("debug", "", "log_level", _debug),
    Alias("xid-count-window-size", "x", "xid_window", _milliseconds),
    Alias("clock-events-count-window-size", "", "clock_events_window", _milliseconds),
    Alias("kubernetes-enable-pod-labels", "", "pod_labels", yes),
    Alias("kubernetes-enable-pod-uid", "", "pod_uid", yes),
    Alias("kubernetes-pod-label-allowlist-regex", "", "pod_label_allow", words),
    Alias("max-concurrent-scrapes", "", "max_scrapes", int),
    Alias("pod-resources-kubelet-socket", "", "pod_resources_socket", Path),
)

_P = "DCGM_EXPORTER_"

ENVIRONMENT: tuple[Variable, ...] = (
    Variable(f"{_P}LISTEN", "listen", str),
    Variable(f"{_P}INTERVAL", "interval", _milliseconds),
    Variable(f"{_P}COLLECTORS", "collectors", Path),
    Variable(f"{_P}CONFIG_FILE", "config_file", Path),
    Variable(f"{_P}DEVICES_STR", "devices", str),
    Variable(f"{_P}OTHER_DEVICES_STR", "switch_devices", str),
    Variable(f"{_P}CPU_DEVICES_STR", "cpu_devices", str),
    Variable("DCGM_REMOTE_HOSTENGINE_INFO", "dcgm", _host_engine),
    Variable(f"{_P}KUBERNETES", "kubernetes", yes),
    Variable(f"{_P}KUBERNETES_ENABLE_POD_LABELS", "pod_labels", yes),
    Variable(f"{_P}KUBERNETES_ENABLE_POD_UID", "pod_uid", yes),
    Variable(f"{_P}KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", "pod_label_allow", words),
    Variable(f"{_P}KUBERNETES_GPU_ID_TYPE", "kubernetes_gpu_id_type", str),
    Variable("NVIDIA_RESOURCE_NAMES", "nvidia_resource_names", words),
    Variable("DCGM_POD_RESOURCES_KUBELET_SOCKET", "pod_resources_socket", Path),
    Variable(f"{_P}USE_OLD_NAMESPACE", "old_namespace", yes),
    Variable(f"{_P}NO_HOSTNAME", "hostname_label", _no_hostname),
    Variable(f"{_P}REPLACE_BLANKS_IN_MODEL_NAME", "replace_blanks_in_model_name", yes),
    Variable(f"{_P}XID_COUNT_WINDOW_SIZE", "xid_window", _milliseconds),
    Variable(f"{_P}CLOCK_EVENTS_COUNT_WINDOW_SIZE", "clock_events_window", _milliseconds),
    Variable(f"{_P}WEB_CONFIG_FILE", "web_config", Path),
    Variable(f"{_P}MAX_CONCURRENT_SCRAPES", "max_scrapes", int),
    Variable(f"{_P}LOG_FORMAT", "log_format", str),
    Variable(f"{_P}DEBUG", "log_level", _debug),
)

UNUSED: tuple[Unused, ...] = (
    Unused(
        "configmap-data",
        f"{_P}CONFIGMAP_DATA",
        "mount the ConfigMap as a folder and name its file with --collectors; it is read again "
        "when it changes",
        takes_value=True,
        refused=True,
        default="none",
        short="m",
    ),
    Unused(
        "hpc-job-mapping-dir",
        "DCGM_HPC_JOB_MAPPING_DIR",
        "HPC job files are not read",
        takes_value=True,
    ),
    Unused(
        "fake-gpus",
        f"{_P}USE_FAKE_GPUS",
        "run the simulator (docs/simulator.md)",
        refused=True,
    ),
    Unused(
        "web-systemd-socket",
        f"{_P}SYSTEMD_SOCKET",
        "name the address with --listen",
        refused=True,
    ),
    Unused("enable-pprof", f"{_P}ENABLE_PPROF", "/debug shows the state; for profiles use py-spy"),
    Unused("dump-enabled", f"{_P}DUMP_ENABLED", "/debug shows the same while it runs"),
    Unused("dump-directory", f"{_P}DUMP_DIRECTORY", "see /debug", takes_value=True),
    Unused("dump-retention", f"{_P}DUMP_RETENTION", "see /debug", takes_value=True),
    Unused("dump-compression", f"{_P}DUMP_COMPRESSION", "see /debug"),
    Unused("enable-dcgm-log", f"{_P}ENABLE_DCGM_LOG", "set __DCGM_DBG_LVL for the sensor"),
    Unused(
        "dcgm-log-level",
        f"{_P}DCGM_LOG_LEVEL",
        "set __DCGM_DBG_LVL for the sensor",
        takes_value=True,
    ),
    Unused(
        "container-labels",
        f"{_P}CONTAINER_LABELS",
        "labels of containers are not read; those of pods are (--pod-labels)",
    ),
    Unused(
        "container-runtime-socket",
        "DCGM_CONTAINER_RUNTIME_SOCKET",
        "the container runtime is not queried",
        takes_value=True,
    ),
    Unused(
        "web-read-timeout",
        f"{_P}WEB_READ_TIMEOUT",
        "a request has five seconds",
        takes_value=True,
    ),
    Unused(
        "web-write-timeout",
        f"{_P}WEB_WRITE_TIMEOUT",
        "an answer has ten seconds",
        takes_value=True,
    ),
    Unused(
        "kubernetes-virtual-gpus",
        "KUBERNETES_VIRTUAL_GPUS",
        "shares of pods are draguard_pod_* families (--processes with the host's pids, and "
        "--pod-log-dir for device plugins; the chart's exporter.podShares); no device series is "
        "split",
    ),
    Unused("kubernetes-enable-dra", "KUBERNETES_ENABLE_DRA", "always on", silent=True),
    Unused("disable-startup-validate", "DISABLE_STARTUP_VALIDATE", "see --check", silent=True),
    Unused(
        "enable-gpu-bind-unbind-watch",
        f"{_P}ENABLE_GPU_BIND_UNBIND_WATCH",
        "always on",
        silent=True,
    ),
    Unused(
        "gpu-bind-unbind-poll-interval",
        f"{_P}GPU_BIND_UNBIND_POLL_INTERVAL",
        "the driver reports it",
        takes_value=True,
        silent=True,
    ),
    Unused(
        "watch-max-keep-age",
        f"{_P}WATCH_MAX_KEEP_AGE",
        "DCGM keeps what one look needs",
        takes_value=True,
    ),
    Unused(
        "watch-max-keep-samples",
        f"{_P}WATCH_MAX_KEEP_SAMPLES",
        "DCGM keeps what one look needs",
        takes_value=True,
    ),
    Unused(
        "health-require-gpus",
        f"{_P}HEALTH_REQUIRE_GPUS",
        "/readyz answers once there is something to show; GPUs that are missing are an alert",
    ),
    Unused("enable-exporter-metrics", f"{_P}ENABLE_EXPORTER_METRICS", "always on", silent=True),
)
