"""What is true of one GPU: Sick(faults), Healthy(evidence) or Unknown(why).

The rules, in the order of the design's safety argument:

- The recovery action is the best source (`readings`). Reported after an XID, it shows
  whether the fault stands; 0 ends it. Where the driver has no such field, the catalogue decides,
  and recovery is a new epoch (reset, reboot, driver load) without a further error in it, or a
  user's word that the GPU is repaired. That word ends no present state and nothing that came later.
  It also stands for a field that cannot be read for long: nothing else would ever end the fault.
- Application XIDs, information and unknown codes are never a fault (`xid_faults`, `xid_table`).
  Some that repeat on one GPU make it suspect (`suspicion`).
- A contained error is over as soon as it is written: its process is dead. Its slice is drained and
  watched all the same; that is `gpu_decision`.
- A change of epoch alone is neither a fault nor, while the GPU does not answer, the end of one.
- Lowered clocks (thermal, power brake) are no fault of a device: alerts show them.
- Health needs a GPU that answers and a recovery action that was read of late and in this epoch.
  Anything short of that, without a fault, is Unknown.

`policy` decides what is done about it. Pure.
"""

from datetime import timedelta

from exporter.model.node_health import GpuHealth
from remediator.diagnose import links, readings, xid_faults
from remediator.diagnose.fault import (
    NO_SURROUNDINGS,
    Healthy,
    Sick,
    Surroundings,
    Unknown,
    Verdict,
    or_unknown,
)

OLD_READING = timedelta(minutes=5)
"""A recovery action read this long before the report was made proves nothing about now. Agents
of 0.1.0 do not say that they can no longer read it."""


def verdict(gpu: GpuHealth, around: Surroundings = NO_SURROUNDINGS, unusable: str = "") -> Verdict:
    """Diagnose one GPU from its node's report.

    `unusable` is the reason why the report cannot be believed at all.
    """
    if unusable:
        return Unknown(unusable)
    judged = _judge(gpu, around)
    # The user's word ends the wait for a reading. It makes no fault more certain: an error that
    # came after it is judged by what is read.
    silent = around.repaired and readings.unread_for_long(gpu, around.reported_at)
    if silent and isinstance(judged, Unknown):
        return _judge(readings.without_action(gpu, around.reported_at), around)
    return judged


@or_unknown
def _judge(gpu: GpuHealth, around: Surroundings) -> Verdict:
    gap = _gap(gpu, around)
    faults = (
        *readings.action_faults(gpu, around),
        *readings.absence_faults(gpu, around),
        *readings.memory_faults(gpu),
        *links.faults(gpu, around),
        *xid_faults.faults(gpu, around),
    )
    standing = [fault for fault in faults if fault.ended is None]
    if gpu.omitted:
        # In the parts that the agent could not write a fault may hide.
        gap = f"the report on {gpu.uuid} is incomplete: without {', '.join(gpu.omitted)}"
    if any(fault.fault_class != "pending" for fault in standing) or (standing and gap):
        return Sick(faults)
    if gap:
        return Unknown(gap)
    over = tuple(fault for fault in faults if fault.ended is not None)
    # Health begins with the last of these: a date that is too late only makes the soak longer.
    starts = [gpu.presence_since]
    starts += [fault.ended for fault in over if fault.ended is not None]
    starts += [since for since in (gpu.recovery_action.since, gpu.epoch_started) if since]
    starts += xid_faults.contained_errors(gpu, around)
    evidence = "answers, and nothing speaks against it (there is no recovery action to read)"
    if gpu.recovery_action.supported:
        evidence = "answers, and the driver requests no recovery action"
    healthy = Healthy(max(starts), evidence, over)
    # A row remap that waits for a reset nearly always comes with a contained error, and must not
    # keep its slice tainted until that reset: so what is true without it is returned, too.
    return Sick(faults, healthy) if standing else healthy


def _gap(gpu: GpuHealth, around: Surroundings) -> str:
    """Return what is missing for a statement of health, "" when nothing is."""
    action = gpu.recovery_action
    read, supported = action.observed_at, action.supported
    if gpu.presence != "Present":
        return f"{gpu.uuid} does not answer: {gpu.presence_reason or gpu.presence}"
    if supported is None or (supported and action.value is None) or read is None:
        return f"the recovery action of {gpu.uuid} could not be read"
    aged = around.reported_at is not None and around.reported_at - read > OLD_READING
    if aged or action.unread_since is not None:
        return f"the recovery action of {gpu.uuid} was last read some time before the report"
    if supported and gpu.epoch_started is not None and read < gpu.epoch_started:
        return f"the recovery action of {gpu.uuid} was last read before the GPU was reset"
    if not supported and around.up("kmsg") is False:
        return f"nothing but XIDs speaks of {gpu.uuid}, and the kernel log cannot be read"
    return ""
