"""What the exporter needs of its surroundings, and what is missing without it. Pure data.

Each row is one switch: take it away and exactly what the row says goes missing.
"""

from typing import Literal

import msgspec

Need = Literal["gpu-devices", "kernel-log", "sys-admin", "host-pids", "pod-resources", "api-server"]


class Capability(msgspec.Struct, frozen=True):
    """One need, of the sensor (on the node) or of the agent (on the network)."""

    need: Need
    of: Literal["sensor", "agent"]
    shows: str
    """What there is to see with it."""
    remedy: str


CAPABILITIES: tuple[Capability, ...] = (
    Capability(
        "gpu-devices",
        "sensor",
        "every family of a GPU or slice, NVML's events, the recovery action",
        "run on a node with NVIDIA's driver, in a container with the NVIDIA runtime and "
        "NVIDIA_VISIBLE_DEVICES=all",
    ),
    Capability(
        "kernel-log",
        "sensor",
        "XIDs that NVML never reports (62, 79, 119, 120), SXids, the driver's own words",
        "give the sensor /dev/kmsg, CAP_SYSLOG, or the folder of systemd's journal",
    ),
    Capability(
        "sys-admin",
        "sensor",
        # nvml.h asks for root or an administrator of nvmlDeviceGetSramEccErrorStatus; NVIDIA's open
        # kernel module (580) takes for one who has this capability, whatever the user: NV_IS_SUSER
        # in kernel-open/common/inc/nv-linux.h.
        "whether the SRAM error threshold is exceeded (NVML reports it only to callers with "
        "CAP_SYS_ADMIN), and DCGM_FI_PROF_* by DCGM on GPUs older than Hopper",
        "give the sensor CAP_SYS_ADMIN, which user 0 alone is not; or do without: SRAM errors are "
        "counted all the same",
    ),
    Capability(
        "host-pids",
        "sensor",
        "draguard_pod_* families: which processes are on a GPU, and of which pod each is",
        "set exporter.podShares in the chart, or hostPID: true; the host's /proc is not "
        "enough: the driver reports the processes of the caller's PID namespace; if hostPID is "
        "set, the node is a container, and it is not possible",
    ),
    Capability(
        "pod-resources",
        "sensor",
        "pod, namespace, container and claim of each device",
        "mount the kubelet's pod-resources folder, or name the socket with --pod-resources-socket; "
        "it is root's, so run the sensor as user 0",
    ),
    Capability(
        "api-server",
        "agent",
        "names of DRA devices, uid and request of claims, the NodeDeviceHealth report",
        "give the agent a service account (or --kube-server); metrics go on without",
    ),
)
