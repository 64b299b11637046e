"""Alerts on GPUs that exist but that pods cannot use, and on unknown XIDs.

In each of these states no source is down and no fault is seen, so no other alert fires.
They are tickets: the remediator taints for none of them (see docs/alerts.md).
"""

from alerts import codes, templates, templates_unusable
from alerts.identity import DEVICE, NODE, of, on
from alerts.rule import Alert, Group
from alerts.subjects import OF_DEVICE, OF_NODE
from alerts.thresholds import FABRIC_JOINED, NEW_ERROR

_STATE = of(DEVICE, "draguard_fabric_state")
_STATUS = of(DEVICE, "draguard_fabric_status")
_BY_NODE = f"count by ({', '.join(NODE)})"
_UNKNOWN = codes.of_no_table()
_SEEN = of(NODE, "draguard_gpus_seen")
_OFFERED = 'draguard_gpus_expected{source="resourceslices"}'
_PUBLISHED = of(NODE, _OFFERED)
_MIG_STATE = f'max by ({", ".join(NODE)}) (draguard_node_mig_config{{state!="success"}})'
_MIG_DIFFERS = f"max by ({', '.join(NODE)}) (draguard_node_mig_config_differs_gpus)"
_RESTART = "A restart of the exporter or the driver interrupts the series for minutes."

GROUP = Group(
    name="draguard-unusable",
    rules=(
        Alert(
            name="DraguardFabricNotReady",
            severity="warning",
            of=OF_NODE,
            when="GPUs of a node have not registered with their NVLink fabric (not started, or in "
            "progress for too long), or their registration ended with an error.",
            expr=f"{_BY_NODE} (\n{_STATE} > 0 < {FABRIC_JOINED}\n"
            f"or ({_STATE} == {FABRIC_JOINED} and {on(DEVICE)} {_STATUS} != 0)\n) > 0",
            wait="15m",
            wait_why="After a boot the Fabric Manager needs minutes to train all links.",
            keep="10m",
            keep_why=_RESTART,
            summary="GPUs have not joined their NVLink fabric.",
            description="GPUs of node {{ $labels.node }} that have not joined their NVLink fabric: "
            "{{ $value }}. Not registered: "
            + templates_unusable.FABRIC_STATES
            + ". With an error: "
            + templates_unusable.FABRIC_ERRORS
            + ". Programs on them fail to start with CUDA error 802, or run without NVLink.",
            next="Check on node {{ $labels.node }} that nvidia-fabricmanager is active and matches "
            "the driver's version, and restart it. In NVLink racks, check the switch trays' Fabric "
            "Manager. If only one GPU does not join, reset it.",
        ),
        Alert(
            name="DraguardXidUnknown",
            severity="warning",
            of=OF_DEVICE,
            when="An XID within the last hour that no table of Draguard classifies.",
            expr=f"max by ({', '.join(DEVICE)}) (\n  time() - "
            + of((*DEVICE, "code"), f"draguard_xid_last_seen_timestamp_seconds{{{_UNKNOWN}}}")
            + f" < {NEW_ERROR}\n)",
            wait="0s",
            wait_why="One log line is the whole event.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU had an XID that is unknown to Draguard.",
            description="Draguard does not classify this XID: "
            + templates.xids(_UNKNOWN)
            + ". The remediator takes no action; "
            + templates.RECOVERY
            + ".",
            next="Read NVIDIA's XID catalog for the driver's release. For a hardware error: "
            "`draguard cordon`, or cordon node {{ $labels.node }}, then reset the GPU. A newer "
            "Draguard may know the code.",
        ),
        Alert(
            name="DraguardGpuOtherDriver",
            severity="warning",
            of=OF_NODE,
            when="PCI lists GPUs of a node that are not bound to NVIDIA's driver, but to nouveau, "
            "vfio-pci, another driver or none. Not GPUs that are published for virtual machines or "
            "released on request.",
            expr=f"{_BY_NODE} (\n{of((*NODE, 'device'), 'draguard_gpu_other_driver')}\n) > 0",
            wait="15m",
            wait_why="A driver reload or upgrade takes minutes.",
            keep="10m",
            keep_why=_RESTART,
            summary="GPUs of a node are not bound to NVIDIA's driver.",
            description="GPUs of node {{ $labels.node }} that are not bound to NVIDIA's driver: "
            "{{ $value }}, by PCI address and driver: " + templates_unusable.OTHER_DRIVERS + ".",
            next="Check `lspci -k -d 10de:` on node {{ $labels.node }}. Blacklist nouveau. If no "
            "driver is bound, `dmesg` shows why. If the GPU is passed to a virtual machine without "
            "the DRA driver, silence this alert for the node.",
        ),
        Alert(
            name="DraguardGpuNotPublished",
            severity="warning",
            of=OF_NODE,
            when="NVML lists more GPUs of a node than the DRA driver publishes in ResourceSlices, "
            "on a node that published some within the last day.",
            expr=f"{_SEEN} - {on(NODE)} {_PUBLISHED} > 0\nand {on(NODE)} "
            + of(NODE, f"max_over_time({_OFFERED}[1d])")
            + " > 0",
            wait="15m",
            wait_why="After a restart of the DRA driver or kubelet, publishing takes minutes.",
            keep="10m",
            keep_why=_RESTART,
            summary="A node has GPUs that no ResourceSlice publishes.",
            description="Working GPUs of node {{ $labels.node }} that are in no ResourceSlice: "
            "{{ $value }}. No pod can claim them by DRA.",
            next="Compare `kubectl get resourceslices` with `nvidia-smi -L` on node "
            "{{ $labels.node }}: a GPU with MIG enabled and no slices is not published. Then "
            "restart the DRA driver's kubelet plugin there, and read its log.",
        ),
        Alert(
            name="DraguardMigConfigNotApplied",
            severity="warning",
            of=OF_NODE,
            when="The label `nvidia.com/mig.config` of a node requests a MIG geometry, but "
            "NVIDIA's MIG manager does not report success (`nvidia.com/mig.config.state`), or GPUs "
            "have other slices than the label requests. Needs the remediator.",
            expr=f"{_MIG_STATE} == 1\nor {_MIG_DIFFERS} > 0",
            wait="30m",
            wait_why="The MIG manager waits for pods to end, and may reboot the node.",
            keep="5m",
            keep_why="A restarted remediator exports no metrics until its caches are synced.",
            summary="A node does not have its requested MIG geometry.",
            description="MIG geometry requested of node {{ $labels.node }}: "
            + templates_unusable.MIG_CONFIG
            + "; GPUs that differ from the requested geometry: "
            + templates_unusable.MIG_DIFFERS
            + ". Pods that request these slices stay pending.",
            next="Check `kubectl get node {{ $labels.node }} --show-labels` and the log of the MIG "
            "manager there. It waits for pods that use the GPUs, or failed. For slices made by "
            "hand: set the label again.",
        ),
    ),
)
