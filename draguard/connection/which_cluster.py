"""Which API server, and as whom: flags, `$KUBECONFIG`, the home folder or this pod, as kubectl."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from draguard.connection.cluster_flags import NOTHING, Overrides
from kubeapi.endpoint import Endpoint, EndpointError, in_cluster
from kubeapi.proxy import proxied

_STANDARD = Path(".kube") / "config"
"""In the home folder."""


def endpoint_of(
    kubeconfig: Path | None,
    context: str,
    environ: Mapping[str, str] = os.environ,
    given: Overrides = NOTHING,
) -> Endpoint:
    """Return the API server and the identity. Raises EndpointError saying what to do."""
    if given.groups and not given.user:
        raise EndpointError("--as-group needs --as USER")
    if given.ca_file is not None and given.insecure:
        raise EndpointError(
            "--certificate-authority does not go with --insecure-skip-tls-verify: remove one"
        )
    files = _files(kubeconfig, environ)
    if given.server and given.token and kubeconfig is None:
        # As kubectl: with address and token no file of $KUBECONFIG has to exist.
        files = [file for file in files if os.access(file, os.F_OK)]
    return proxied(given.applied(_found(files, context, given)), environ)


def context_names(
    kubeconfig: Path | None, environ: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return all contexts, for completion: without the library, and so without its checks."""
    import yaml

    read = (yaml.safe_load(file.read_bytes()) for file in _files(kubeconfig, environ))
    return tuple(dict.fromkeys(each["name"] for config in read for each in config["contexts"]))


def _found(files: Sequence[Path], context: str, given: Overrides) -> Endpoint:
    if files:
        from remediator.controller.kubeconfig import endpoint

        own_ca = given.ca_file is not None or given.insecure
        return endpoint(files, context, server=given.server, token=given.token, own_ca=own_ca)
    if context:
        raise EndpointError(
            f"no kubeconfig found, so there is no context {context!r}; give --kubeconfig"
        )
    if given.server:
        if given.token:
            return Endpoint(server=given.server)
        # Not the token of this pod: it is for the pod's own cluster.
        raise EndpointError("--server needs a login: give --token or --kubeconfig")
    try:
        return in_cluster()
    except EndpointError as error:
        raise EndpointError(
            "no cluster is configured: ~/.kube/config does not exist, KUBECONFIG is not set, and "
            "this is not a pod with a service account; give --kubeconfig, or --server and --token"
        ) from error


def _files(kubeconfig: Path | None, environ: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        # As with kubectl, a missing file is no error unless all of them are missing.
        return [file for file in named if os.access(file, os.F_OK)] or named[:1]
    try:
        standard = Path.home() / _STANDARD
        return [standard] if os.access(standard, os.F_OK) else []
    except RuntimeError:
        return []  # a user without a home, as in many containers
    except OSError as error:
        raise EndpointError(f"cannot read ~/.kube/config: {error}") from error
