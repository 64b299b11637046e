"""What the remediator's own judgement makes of one GPU now."""

from draguard.cluster.decide import Deciding
from draguard.cluster.reading import Reader
from kubeapi.client import ApiError
from remediator.diagnose.fault import Healthy, Sick, Unknown
from remediator.model.incident import Incident
from remediator.plan.case import Case
from remediator.plan.view import cases
from remediator.settings import parse

_JUDGED_BY = ("reports", "slices", "claims", "rules", "incidents", "leases", "nodes")


def judged(reader: Reader, incident: Incident) -> Case | None:
    """Judge the GPU of an incident; None where too little may be read to judge at all.

    Raises ApiError where the server does not answer.
    """
    try:
        objects = reader.objects(*_JUDGED_BY, spared=("leases", "nodes"))
    except ApiError as error:
        if error.status is None:
            raise
        return None
    view = Deciding(objects, parse([]).stale_after).view(incident.node)
    return next((one for one in cases(view) if one.uuid == incident.spec.uuid), None)


def verdict_in_words(case: Case | None) -> str:
    if case is None:
        return "unknown: you may not read its report and its devices"
    match case.verdict:
        case Sick(faults):
            return f"sick: {'; '.join(dict.fromkeys(one.evidence for one in faults))}"
        case Healthy():
            return f"healthy: {case.verdict.evidence}"
        case Unknown():
            return f"unknown: {case.verdict.why}"
