"""How the agent reaches the API server, if it does at all."""

import logging

from exporter.settings import Settings
from kubeapi.client import Client
from kubeapi.endpoint import Endpoint, EndpointError, in_cluster

_log = logging.getLogger(__name__)

_TIMEOUT = 10.0


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
        _log.warning(
            "metrics only, without names from DRA and without reports: %s (--kube-server)", error
        )
        return None
