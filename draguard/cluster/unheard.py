"""Whether a remediator acts on an intent now: it is written for one, which may not run."""

from draguard.cluster.leader import leading
from draguard.cluster.reading import Reader
from kubeapi.client import ApiError

LATER = "takes effect once a remediator runs"


def unheard(reader: Reader) -> str:
    """Say why no remediator acts on it for now, "" where one leads or that cannot be seen."""
    try:
        objects = reader.objects("leases")
    except ApiError:
        return ""
    silent = leading(objects.leases, objects.at).why
    return f"{silent}; {LATER}" if silent else ""
