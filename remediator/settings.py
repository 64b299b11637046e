"""The remediator's settings: flags into one frozen value, validated once."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from exporter.model.device import GPU_DRIVER, GpuDrivers, gpu_drivers
from exporter.model.quiet_parser import QuietParser, add_flags
from remediator.plan.node_condition import HandoverOptions
from remediator.program_settings import ProgramSettings


class Settings(ProgramSettings, frozen=True, kw_only=True):
    """Each field is a flag of the same name, with its description as the help text."""

    policy: Annotated[
        Path | None, Meta(description="policy file (YAML); without one nothing is tainted")
    ] = None
    """Every class is incident-only then."""
    listen: Annotated[
        str, Meta(description="address of /metrics, /healthz, /readyz and /debug/plan")
    ] = "0.0.0.0:9401"
    lease_namespace: Annotated[
        str, Meta(description="namespace of the agents' Leases and of the leader's")
    ] = "draguard-system"
    gpu_drivers: Annotated[
        str, Meta(description="DRA drivers that publish NVIDIA's GPUs, with commas; as the agents'")
    ] = GPU_DRIVER
    """Devices of other drivers are foreign: they are only counted."""
    writes_per_second: Annotated[
        float, Meta(description="writes to the API server in the long run")
    ] = 50.0
    """New taints and deletions first. Twice as many may go at once."""
    stale_after: Annotated[
        float, Meta(description="seconds of silence after which an agent is not believed")
    ] = 150.0
    """Two missed Leases and some slack."""
    resync: Annotated[float, Meta(description="seconds between reconciles of all nodes")] = 60.0
    """Changes are reconciled at once."""
    node_condition_deadline: Annotated[
        float, Meta(description="seconds for which a due repair waits for pods on its node")
    ] = 3600.0
    """Counted from when the repair was needed."""
    leader_elect: Annotated[
        bool, Meta(description="write only while holding the Lease draguard-remediator")
    ] = True
    """Off: there is one replica."""
    node_condition: Annotated[
        bool, Meta(description="set DraguardDeviceRepairNeeded on Nodes (docs/handover.md)")
    ] = False
    """Needs a role of its own."""
    accelerated_hardware_ready: Annotated[
        bool,
        Meta(
            description="with --node-condition: also set AcceleratedHardwareReady, for EKS and "
            "Karpenter"
        ),
    ] = False

    @property
    def drivers(self) -> GpuDrivers:
        return gpu_drivers(self.gpu_drivers.split(","))

    @property
    def handover(self) -> HandoverOptions:
        return HandoverOptions(
            enabled=self.node_condition,
            deadline=timedelta(seconds=self.node_condition_deadline),
            accelerated_hardware_ready=self.accelerated_hardware_ready,
        )

    def find_mistake(self) -> str:
        """Return the first wrong flag and what it may be; "" when all are right."""
        try:
            gpu_drivers(self.gpu_drivers.split(","))
        except ValueError as error:
            return f"--gpu-drivers {error}"
        checks = (
            (self.stale_after <= 0 or self.resync <= 0, "--stale-after and --resync are above 0"),
            (self.node_condition_deadline < 0, "--node-condition-deadline is seconds, 0 or more"),
            (
                self.accelerated_hardware_ready and not self.node_condition,
                "--accelerated-hardware-ready needs --node-condition",
            ),
            (
                self.writes_per_second <= 0,
                "--writes-per-second is above 0; to stop all writes, scale to 0 replicas",
            ),
        )
        own = next((text for wrong, text in checks if wrong), "")
        return own or super().find_mistake()


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line; print usage and exit on a mistake."""
    parser = QuietParser(
        prog="draguard remediator",
        description="Taint failed GPUs and slices, evict their pods, verify the repair, untaint.",
        allow_abbrev=False,
    )
    add_flags(parser, Settings())
    found = Settings(**vars(parser.parse_args(arguments)))
    wrong = found.find_mistake()
    if wrong:
        parser.error(wrong)
    return found
