"""Whether anybody acts on an answer now: it is written for a remediator, which may not run."""

from draguard.cluster.reading import Reader
from draguard.status.leading import leading
from kubeapi.client import ApiError

NOBODY = "it counts once a remediator runs"


def unheard(reader: Reader) -> str:
    """Say why nobody acts on it for now, "" where somebody leads or that cannot be seen."""
    try:
        objects = reader.objects("leases")
    except ApiError:
        return ""
    silent = leading(objects.leases, objects.at).why
    return f"{silent}: {NOBODY}" if silent else ""
