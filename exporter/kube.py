"""How the agent reaches the API server, if it does at all, and why it gets no answer."""

import logging

from exporter.settings import Settings
from kubeapi.client import Client
from kubeapi.endpoint import Endpoint, EndpointError, in_cluster

_log = logging.getLogger(__name__)

_TIMEOUT = 10.0
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 429: "RateLimited"}


def client_of(settings: Settings) -> Client | None:
    """Return a client by the flags, else by the pod's service account, else None."""
    if settings.kube_server:
        endpoint = Endpoint(
            server=settings.kube_server,
            token_file=settings.kube_token_file,
            ca_file=settings.kube_ca_file,
        )
        return Client(endpoint, timeout=_TIMEOUT)
    try:
        return Client(in_cluster(), timeout=_TIMEOUT)
    except EndpointError as error:
        _log.warning("metrics only, without names from DRA and without reports: %s", error)
        return None


def reason_of(status: int | None) -> str:
    """Return the reason of a source whose request ended with this HTTP status, None for none.

    A role that is missing must not be looked for in the network.
    """
    return _REASONS.get(status or 0, "Unreachable")
