# pyright: basic
# The kubernetes client's configuration loader carries no usable types.
"""A kubeconfig into an `Endpoint`; the one door to the `kubernetes` package here."""

from pathlib import Path

import yaml
from kubernetes import client, config

from kubeapi.endpoint import Endpoint, EndpointError


def endpoint(path: Path, context: str = "") -> Endpoint:
    """Read a context, "" for the current one. Raises EndpointError with what is wrong."""
    found = client.Configuration()
    try:
        config.load_kube_config(str(path), context or None, client_configuration=found)
    except (
        *(config.ConfigException, OSError, yaml.YAMLError),
        *(TypeError, AttributeError, ValueError),  # of a file that is no mapping
    ) as error:
        raise EndpointError(f"kubeconfig {path}: {error}; check --kubeconfig") from error
    token = str(
        found.api_key.get("BearerToken", found.api_key.get("authorization", ""))
    ).removeprefix("Bearer ")
    return Endpoint(
        server=found.host,
        token=token or None,
        ca_file=found.ssl_ca_cert,
        tls_server_name=found.tls_server_name or None,
        client_cert_file=found.cert_file,
        client_key_file=found.key_file,
    )
