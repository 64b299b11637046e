"""Which cluster is meant, in kubectl's order: flags, `$KUBECONFIG`, the home folder, this pod.

Several files are merged as kubectl merges them: the first that names a cluster, a
user, a context or the current context wins.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from kubeapi.endpoint import Endpoint, EndpointError, in_cluster

_STANDARD = Path(".kube") / "config"
"""In the home folder."""


def endpoint_of(
    kubeconfig: Path | None, context: str, environ: Mapping[str, str] = os.environ
) -> Endpoint:
    """Return where the API server is, and who asks. Raises EndpointError saying what to do."""
    files = _files(kubeconfig, environ)
    if not files:
        if context:
            raise EndpointError(f"there is no kubeconfig to look for the context {context!r} in")
        return _of_this_pod()
    current = _current(files)
    return _chosen(files, context or (current if len(files) > 1 else ""))


def _files(kubeconfig: Path | None, environ: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(one) for one in environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    if named:
        # As with kubectl, a file that is named and not there is no mistake, but all of them are.
        return [one for one in named if one.exists()] or named[:1]
    standard = Path.home() / _STANDARD
    return [standard] if standard.exists() else []


def _of_this_pod() -> Endpoint:
    try:
        return in_cluster()
    except EndpointError as error:
        raise EndpointError(
            "there is no cluster to ask: ~/.kube/config is not there, KUBECONFIG is not set, and "
            "this is no pod with a service account; give --kubeconfig"
        ) from error


def _current(files: Sequence[Path]) -> str:
    """Return the context that the first file to name one names, "" when none does."""
    named = [_context_of(one) for one in files]
    return next((one for one in named if one), "")


def _context_of(file: Path) -> str:
    try:
        said: object = yaml.safe_load(file.read_bytes())
    except FileNotFoundError as error:
        raise EndpointError(
            f"kubeconfig {file} is not there; give another one by --kubeconfig"
        ) from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise EndpointError(f"kubeconfig {file} cannot be read: {error}") from error
    named = said.get("current-context") if isinstance(said, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - whatever the file holds
    return named if isinstance(named, str) else ""


def _chosen(files: Sequence[Path], context: str) -> Endpoint:
    from remediator.hands.kubeconfig import endpoint

    try:
        return endpoint(Path(os.pathsep.join(map(str, files))), context)
    except EndpointError as error:
        raise _sentence(files, context, error) from error


def _sentence(files: Sequence[Path], context: str, error: EndpointError) -> EndpointError:
    where = os.pathsep.join(map(str, files))
    if context and repr(context).strip("'\"") in str(error) and "contexts" in str(error):
        return EndpointError(
            f"kubeconfig {where} has no context {context!r}; "
            "`kubectl config get-contexts` lists those that it has"
        )
    return error
