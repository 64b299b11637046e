"""Whether the confirmation of a repair can have an effect now. Pure."""

from draguard.cluster.one_gpu import verdict_in_words
from remediator.diagnose.fault import Healthy, Sick
from remediator.model.incident import Incident
from remediator.plan import recovery
from remediator.plan.api_words import need_of
from remediator.plan.case import Case


def refusal(incident: Incident, case: Case | None) -> str:
    """Say why a confirmation would change nothing, "" when it would.

    It counts for a board that was taken out, and for a GPU that is not sick and whose
    recovery needs more than the soak time.
    """
    if case is not None and recovery.taken_out(case):
        return ""
    if case is not None and isinstance(case.verdict, Sick):
        return f"the GPU is still {verdict_in_words(case)}; repair it first"
    if not _waits(incident, case):
        return (
            f"{incident.name} needs no confirmation (phase {incident.status.phase}): "
            "the GPU is untainted automatically once it is healthy for the soak time"
        )
    return ""


def _waits(incident: Incident, case: Case | None) -> bool:
    status = incident.status
    asked = any((one.type, one.status) == ("NeedsHuman", "True") for one in status.conditions)
    sticky = status.untaint == "OnConfirmation"
    if sticky or asked or status.phase == "NeedsHuman" or need_of(status.needs) == "person":
        return True
    if case is None or not isinstance(case.verdict, Healthy):
        return False
    # Healthy, and nothing but a user's word can say that the fault is over.
    return bool(recovery.unknown(case, incident)) or not case.confirmable
