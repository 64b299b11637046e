"""Templates for GPUs that exist but that pods cannot use: which, and why."""

from alerts.identity import NODE
from alerts.templates import listed, queried

_NONE = "none now"
_UUID = "{{ $one.Labels.UUID }}"


def _fabric(family: str, condition: str) -> str:
    """Return a query for the GPUs of a node by a value of their fabric."""
    places = (f"{family}{{cluster=%[1]q,{label}=%[2]q}}" for label in ("Hostname", "node"))
    return queried(f"max by (UUID) ({' or '.join(places)}) {condition}", *NODE)


FABRIC_STATES = listed(
    _fabric("draguard_fabric_state", "> 0 < 3"),
    "UUID",
    _UUID + " ({{ if eq $one.Value 1.0 }}not started{{ else }}in progress{{ end }})",
    _NONE,
)
FABRIC_ERRORS = listed(
    _fabric("draguard_fabric_status", "!= 0"),
    "UUID",
    _UUID + " (nvmlReturn_t {{ $one.Value }})",
    _NONE,
)

OTHER_DRIVERS = listed(
    queried(
        "max by (device, driver) (draguard_gpu_other_driver{cluster=%[1]q,node=%[2]q} "
        "or draguard_gpu_other_driver{cluster=%[1]q,instance=%[2]q})",
        *NODE,
    ),
    "device",
    "{{ $one.Labels.device }} ({{ $one.Labels.driver }})",
    _NONE,
)

MIG_CONFIG = listed(
    queried("max by (config, state) (draguard_node_mig_config{cluster=%q,node=%q})", *NODE),
    "config",
    "{{ $one.Labels.config }} (state {{ $one.Labels.state }})",
    "unknown",
)
_DIFFERS = queried("max(draguard_node_mig_config_differs_gpus{cluster=%q,node=%q})", *NODE)
MIG_DIFFERS = (
    f"{{{{ with {_DIFFERS} }}}}{{{{ (index . 0).Value }}}}{{{{ else }}}}unknown{{{{ end }}}}"
)
