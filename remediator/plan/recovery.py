"""When an incident may end: after verified recovery, or when its GPU is not there any more.

Recovery is soaked (`soak`). It is the GPU's as a whole: a fault that stands, however mild, is a
fault, so a suspicion of a day keeps what a worse fault has tainted. Only what waits for a reset,
and is observed by policy, does not keep the slice of a contained error tainted. Pure.
"""

from datetime import datetime, timedelta

import msgspec

from exporter.model.node_health import GpuHealth
from remediator.diagnose import ends, readings
from remediator.diagnose.fault import OVER_AT_ONCE, Fault, Healthy, Sick, Unknown
from remediator.model.incident import Incident
from remediator.model.incident_status import IncidentStatus
from remediator.model.intent import Intent, IntentRecord
from remediator.plan.board import Board
from remediator.plan.clocks import (
    is_machine_gone,
    missing_since,
    stay_at_signal,
    stay_of,
    stay_of_machine,
    unknown_since,
)
from remediator.plan.words import days
from remediator.policy.table import Policy

NODE_GONE_FOR = timedelta(days=7)
"""After this a node that is gone is taken not to come back under its name with the same board."""

NOT_SERVED = "DeviceTaintRules are not served, so it is unknown whether its rules still exist"
REPAIR_TAKES = timedelta(hours=1)
"""For so long after its taint a GPU may be repaired before a user is needed to say so."""
_END_WITHOUT_RESET = frozenset({"fabric", *OVER_AT_ONCE})


def without_pending(board: Board, policy: Policy) -> Board:
    """Return the board without what waits for a reset, where it holds back the end of another.

    A contained error comes with a row remap nearly always, and a remap may wait for weeks. The GPU
    is sound until the reset: where the policy only observes such a remap, in each pool, no taint of
    a fault that ends without a reset need wait for it. Where a reset was needed, a remap that still
    waits shows that there was none. It gets an incident of its own when this one is closed.
    """
    places = [board.place.within(*pool) for pool in board.place.pools] or [board.place]
    observed = not any(policy.row("pending", place).restricts for place in places)
    others = {
        incident.status.fault.fault_class for incident in board.incidents if incident.open
    } - {"pending", ""}  # "": it was opened just now
    if not observed or not others or not others <= _END_WITHOUT_RESET:
        return board
    if not isinstance(board.verdict, Sick) or board.verdict.but_pending is None:
        return board
    return msgspec.structs.replace(board, verdict=board.verdict.but_pending)


def why_unknown(board: Board, incident: Incident, confirmed: Intent | None = None) -> str:
    """Return why nothing may change, "" when enough is known.

    A report without an earlier error proves nothing: an agent may have lost it. So the end of each
    fault of the incident must be seen, where no recovery action covers it; a user who confirms the
    repair replaces that.
    """
    if isinstance(board.verdict, Unknown):
        return board.verdict.why
    gpu, status = board.gpu, incident.status
    if not isinstance(board.verdict, Healthy) or gpu is None or confirmed:
        return ""
    reset = was_reset(board, gpu, status)
    whys = (ends.why_not_ended(gpu, end, reset=reset) for end in status.fault.awaited_ends)
    return next(filter(None, whys), "")


def end_unreported(
    board: Board, incident: Incident, confirmed: Intent | None, now: datetime
) -> str:
    """Return why a user is needed before a taint can end, as no source will report more.

    "" while one may. Unknown heals nothing, so such a taint would stand for ever.
    """
    gpu, status, why = board.gpu, incident.status, ""
    until = _repaired_until(board, status, now)
    if until is None or now < until:
        return ""
    if gpu is None or gpu.presence != "Present":
        return "a user must look: its node was rebooted, and it has not answered for an hour"
    match board.verdict:
        case Healthy():
            why = why_unknown(board, incident, confirmed)
        # Until what NVML reads now is over, nothing is repaired.
        case Sick(faults) if not (board.boot_id and all(map(_ends_by_word, faults))):
            pass
        case _:
            if silent := readings.no_action_read(gpu, board.reported_at):
                why = f"{silent}, so no source reports that {status.fault.cause} is over"
    return f"only a user can say that it is repaired (spec.repairConfirmed): {why}" if why else ""


def _ends_by_word(fault: Fault) -> bool:
    """Whether a fault is over, or would be by a user's word."""
    return fault.ended is not None or (
        fault.xid is not None and fault.fault_class not in _WITH_MORE_TO_SAY
    )


def is_word_needed(board: Board, incident: Incident) -> bool:
    """Whether a GPU that is healthy by a user's word would be unknown without it."""
    unread = board.gpu is not None and readings.unread_for_long(board.gpu, board.reported_at)
    return unread or bool(why_unknown(board, incident))


def word_needed_at(board: Board, status: IncidentStatus, now: datetime) -> datetime | None:
    """Return when a user will be needed, as nothing reports the end of a fault."""
    gpu = board.gpu
    answers = gpu is not None and gpu.presence == "Present"
    silent = not answers or (gpu and readings.no_action_read(gpu, board.reported_at))
    return _repaired_until(board, status, now) if silent else None


def _repaired_until(board: Board, status: IncidentStatus, now: datetime) -> datetime | None:
    """Return until when a tainted GPU may be repaired, None while that is not known.

    Of one that does not answer: after a reboot that has not brought it back, by a report that is
    believed.
    """
    since = status.eviction.tainted_at
    if board.gpu is None or board.gpu.presence != "Present":
        rebooted = stay_of_machine(board).new_boot(stay_at_signal(status))
        waits = rebooted and board.machine.believed and isinstance(board.verdict, Unknown)
        since = unknown_since(status, now) if waits else None
    tainted = any(rule.effect != "None" for rule in board.rules.stored)
    return since + REPAIR_TAKES if since and tainted else None


_WITH_MORE_TO_SAY = frozenset({"suspect", "memory"})
"""Classes of which XIDs end by more than a user's word: a day must pass, or NVML be read."""


def was_reset(board: Board, gpu: GpuHealth, status: IncidentStatus) -> bool:
    """Whether the GPU was reset, or its node rebooted, after the last signal."""
    stay, before = stay_of(board), stay_at_signal(status)
    if stay.new_boot(before) or stay.new_epoch(before):
        return True
    # An agent that has lost its state counts epochs from the start again: then the date of the
    # epoch proves the reset.
    begun, signal = gpu.epoch_started, status.fault.seen_through
    return begun is not None and signal is not None and begun > signal


def unseen_rules(board: Board) -> str:
    """Return why it is unknown whether its rules are gone, "" where none stood when last seen.

    Without DeviceTaintRules an incident is all that there is, and it may end. But rules that it has
    made are stored, and taint a recovered GPU again as soon as they are served.
    """
    stood = board.rules.unseen or any(
        incident.open and incident.status.scope.rules for incident in board.incidents
    )
    return "" if board.rules.served or not stood else NOT_SERVED


def proof(board: Board) -> str:
    evidence = board.verdict.evidence if isinstance(board.verdict, Healthy) else ""
    return f"recovery verified: {evidence}, for the whole soak time"


def gone_until(board: Board, incident: Incident) -> datetime | None:
    """Return when a node that is gone will have been gone for long enough."""
    since = incident.status.stay.node_gone_since
    return since + NODE_GONE_FOR if since and is_machine_gone(board, incident.status) else None


def end_without_recovery(
    board: Board, incident: Incident, confirmed: IntentRecord | None, now: datetime
) -> str:
    """Return why an incident ends without verified recovery, "" while it goes on."""
    until = gone_until(board, incident)
    # By a wrong clock the week may seem over at once.
    if until is not None and now >= until and not board.trust.refusal("end a clock"):
        what = "" if board.machine.gone else "the machine of "
        return f"{what}node {incident.node} has been gone for {days(NODE_GONE_FOR)}"
    if (
        confirmed is not None
        and is_taken_out(board)
        and _is_of_removal(confirmed, board, incident, now)
    ):
        return f"the GPU is no longer there, and {confirmed.by} confirmed the repair"
    other = other_board(board, incident.status)
    return f"another board is in its place: {other}" if other else ""


def _is_of_removal(
    confirmed: IntentRecord, board: Board, incident: Incident, now: datetime
) -> bool:
    """Whether a user confirmed that a GPU was taken out, and not a repair after which it is lost.

    One that is on the bus, or that another driver holds, is not out.
    """
    roster = board.machine.roster
    if roster is None or roster.complete is False:
        return False
    missing = missing_since(board, incident.status, now)
    return missing is None or confirmed.seen_time >= missing


def other_board(board: Board, status: IncidentStatus) -> str:
    """Return the UUID of the board that was put in the place of this one, "" while none is proven.

    Names and numbers are given anew at each boot, so a device name proves nothing: where a
    board is gone, the next one gets its name. Proof is a GPU in the same PCI slot that the
    node did not have before, while NVML lists every GPU on the bus: a board that is added can
    get the number of one that is still there and does not answer.
    """
    roster = board.machine.roster
    if (
        roster is None
        or status.stay.siblings is None
        or not is_taken_out(board)
        or not roster.complete
    ):
        return ""
    new = sorted(roster.slots.keys() - {board.uuid, *status.stay.siblings})
    here = (
        uuid
        for uuid in new
        if status.stay.pci_bus_id and roster.slots[uuid] == status.stay.pci_bus_id
    )
    return next(here, "")


def is_taken_out(board: Board) -> bool:
    """Whether a fresh report of the node no longer lists a GPU, and no other node does."""
    seen = board.presence
    readable = board.machine.believed and board.machine.nvml_up
    return readable and not (seen.reported or seen.elsewhere or seen.published)


def repair_seen(board: Board, status: IncidentStatus, signal: datetime | None) -> str:
    """Return what shows that a repair of a GPU is under way, "" while nothing does.

    Compared with the boot and the epoch of the last new signal; `signal` is the youngest one, and
    one that is new now shows that nothing is repaired.
    """
    if signal != status.fault.seen_through:
        return ""
    stay, before = stay_of(board), stay_at_signal(status)
    if stay.new_boot(before):
        return f"reboot seen: boot {stay.boot_id[:13]}"
    if stay.new_epoch(before):
        return f"reset seen: epoch {stay.epoch}"
    return "the GPU is away" if is_taken_out(board) else ""
