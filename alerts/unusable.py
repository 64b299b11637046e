"""Alerts on GPUs that are there and that work cannot use, and on errors that no table knows.

Each is a state in which no source is down and no fault is seen, so that nothing else speaks.
They are tickets: the remediator taints for none of them (docs/alerts.md says why).
"""

from alerts import codes, templates, templates_unusable
from alerts.identity import DEVICE, NODE, of, on
from alerts.rule import Alert, Group
from alerts.subjects import OF_DEVICE, OF_NODE

_JOINED = 3
"""NVML_GPU_FABRIC_STATE_COMPLETED; 0 is a GPU without such a fabric."""
_STATE = of(DEVICE, "draguard_fabric_state")
_STATUS = of(DEVICE, "draguard_fabric_status")
_BY_NODE = f"count by ({', '.join(NODE)})"
_UNKNOWN = codes.of_no_table()
_SEEN = of(NODE, "draguard_gpus_seen")
_OFFERED = 'draguard_gpus_expected{source="resourceslices"}'
_PUBLISHED = of(NODE, _OFFERED)
_MIG_STATE = f'max by ({", ".join(NODE)}) (draguard_node_mig_config{{state!="success"}})'
_MIG_DIFFERS = f"max by ({', '.join(NODE)}) (draguard_node_mig_config_differs_gpus)"
_RESTART = "A restart of the exporter or the driver takes the series away for minutes: no news."

GROUP = Group(
    name="draguard-unusable",
    rules=(
        Alert(
            name="DraguardFabricNotReady",
            severity="warning",
            of=OF_NODE,
            when="GPUs of a node have not registered with their NVLink fabric (not started, or in "
            "progress without an end), or their registration ended with an error.",
            expr=f"{_BY_NODE} (\n{_STATE} > 0 < {_JOINED}\n"
            f"or ({_STATE} == {_JOINED} and {on(DEVICE)} {_STATUS} != 0)\n) > 0",
            wait="15m",
            wait_why="After a boot the Fabric Manager trains the links of all GPUs, which takes "
            "minutes.",
            keep="10m",
            keep_why=_RESTART,
            summary="GPUs have not joined their NVLink fabric.",
            description="GPUs of node {{ $labels.node }} that have not joined their NVLink fabric: "
            "{{ $value }}. Not registered: "
            + templates_unusable.FABRIC_STATES
            + ". With an error: "
            + templates_unusable.FABRIC_ERRORS
            + ". Programs on them fail to start with CUDA error 802, or work without NVLink.",
            next="On node {{ $labels.node }}: is nvidia-fabricmanager active, and of the driver's "
            "version? Restart it; with NVLink racks look at the switch trays' Fabric Manager. Does "
            "one GPU alone not join, reset it.",
        ),
        Alert(
            name="DraguardXidUnknown",
            severity="warning",
            of=OF_DEVICE,
            when="An XID within the hour of which no table of Draguard says what it means for the "
            "GPU.",
            expr=f"max by ({', '.join(DEVICE)}) (\n  time() - "
            + of((*DEVICE, "code"), f"draguard_xid_last_seen_timestamp_seconds{{{_UNKNOWN}}}")
            + " < 3600\n)",
            wait="0s",
            wait_why="One line is the whole event.",
            keep="10m",
            keep_why=_RESTART,
            summary="A GPU had an XID that Draguard does not know.",
            description="No table of Draguard says what it means: "
            + templates.xids(_UNKNOWN)
            + ". The remediator does nothing for it; "
            + templates.RECOVERY
            + ".",
            next="Read NVIDIA's XID catalogue of the driver's release. A hardware error: `draguard "
            "cordon`, then reset the GPU. A newer Draguard may know the code.",
        ),
        Alert(
            name="DraguardGpuOtherDriver",
            severity="warning",
            of=OF_NODE,
            when="PCI lists GPUs of a node that NVIDIA's driver does not have: nouveau, vfio-pci "
            "or another has, or none. Not those that are published for virtual machines or let go "
            "on request.",
            expr=f"{_BY_NODE} (\n{of((*NODE, 'device'), 'draguard_gpu_other_driver')}\n) > 0",
            wait="15m",
            wait_why="A driver that is loaded again or upgraded takes minutes.",
            keep="10m",
            keep_why=_RESTART,
            summary="NVIDIA's driver does not have all GPUs of a node.",
            description="GPUs of node {{ $labels.node }} that NVIDIA's driver does not have: "
            "{{ $value }}, by PCI address and driver: " + templates_unusable.OTHER_DRIVERS + ".",
            next="On node {{ $labels.node }}: `lspci -k -d 10de:`. nouveau has to be blacklisted; "
            "where no driver has the GPU, `dmesg` says why. Given to a virtual machine without the "
            "DRA driver? Silence this for the node.",
        ),
        Alert(
            name="DraguardGpuNotPublished",
            severity="warning",
            of=OF_NODE,
            when="NVML lists more GPUs of a node than the DRA driver publishes in ResourceSlices, "
            "on a node that has published some within the day.",
            expr=f"{_SEEN} - {on(NODE)} {_PUBLISHED} > 0\nand {on(NODE)} "
            + of(NODE, f"max_over_time({_OFFERED}[1d])")
            + " > 0",
            wait="15m",
            wait_why="A DRA driver that starts, and a kubelet that restarts, publish anew within "
            "minutes.",
            keep="10m",
            keep_why=_RESTART,
            summary="A node has GPUs that no pod can be given.",
            description="GPUs of node {{ $labels.node }} that work and are in no ResourceSlice: "
            "{{ $value }}. No pod can claim them by DRA.",
            next="Compare `kubectl get resourceslices` with `nvidia-smi -L` on node "
            "{{ $labels.node }}: a GPU with MIG on and no slices is published by nothing. Then "
            "restart the DRA driver's kubelet plugin there, and read its log.",
        ),
        Alert(
            name="DraguardMigConfigNotApplied",
            severity="warning",
            of=OF_NODE,
            when="The label `nvidia.com/mig.config` of a node asks for a MIG geometry, and "
            "NVIDIA's MIG manager has not called it done (`nvidia.com/mig.config.state`), or GPUs "
            "have other slices than the label says. Needs the remediator.",
            expr=f"{_MIG_STATE} == 1\nor {_MIG_DIFFERS} > 0",
            wait="30m",
            wait_why="The MIG manager waits for pods to end, and may reboot the node.",
            keep="5m",
            keep_why="A remediator that restarts shows nothing until its watches are filled.",
            summary="A node has another MIG geometry than it is to have.",
            description="Node {{ $labels.node }} is asked for a MIG geometry: "
            + templates_unusable.MIG_CONFIG
            + "; GPUs that differ from what its name says: "
            + templates_unusable.MIG_DIFFERS
            + ". Pods that ask for the slices it should have wait.",
            next="`kubectl get node {{ $labels.node }} --show-labels` and the log of the MIG "
            "manager there. It waits for pods that use the GPUs, or failed. Slices made by hand: "
            "set the label anew.",
        ),
    ),
)
