"""Which cluster is meant, in kubectl's order: flags, `$KUBECONFIG`, the home folder, this pod.

Several files are merged as kubectl merges them: the first that names a cluster, a
user, a context or the current context wins.
"""

import logging
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import yaml

from draguard.phrases import did_you_mean, some
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
            raise EndpointError(
                f"no kubeconfig found, so there is no context {context!r}; give --kubeconfig"
            )
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
    try:
        standard = Path.home() / _STANDARD
        return [standard] if standard.exists() else []
    except RuntimeError:
        return []  # a user without a home, as in many containers
    except OSError as error:
        raise EndpointError(f"cannot read ~/.kube/config: {error}") from error


def _of_this_pod() -> Endpoint:
    try:
        return in_cluster()
    except EndpointError as error:
        raise EndpointError(
            "no cluster is configured: ~/.kube/config does not exist, KUBECONFIG is not set, and "
            "this is not a pod with a service account; give --kubeconfig"
        ) from error


class _Choice(msgspec.Struct, frozen=True):
    user: str = ""


class _Context(msgspec.Struct, frozen=True):
    name: str = ""
    context: _Choice | None = None


class _User(msgspec.Struct, frozen=True):
    name: str = ""
    user: dict[str, object] | None = None


class _Config(msgspec.Struct, frozen=True):
    """A kubeconfig, cut to what is read here."""

    current: str | None = msgspec.field(name="current-context", default=None)
    contexts: tuple[_Context, ...] | None = ()
    users: tuple[_User, ...] | None = ()


def _current(files: Sequence[Path]) -> str:
    """Return the context that the first file to name one names, "" when none does."""
    named = [_read(one).current for one in files]
    return next((one for one in named if one), "")


def _read(file: Path) -> _Config:
    try:
        return msgspec.convert(yaml.safe_load(file.read_bytes()) or {}, _Config)
    except FileNotFoundError as error:
        raise EndpointError(
            f"kubeconfig {file} does not exist; give another one with --kubeconfig"
        ) from error
    except msgspec.ValidationError as error:
        raise EndpointError(
            f"{file} is not a kubeconfig ({error}); give another one with --kubeconfig"
        ) from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise EndpointError(f"kubeconfig {file} cannot be read: {error}") from error


def _chosen(files: Sequence[Path], context: str) -> Endpoint:
    from remediator.controller.kubeconfig import endpoint

    where = os.pathsep.join(map(str, files))
    _refuse_impersonation(files, context or _current(files))
    with _overheard() as said:
        try:
            found = endpoint(Path(where), context)
        except EndpointError as error:
            raise _sentence(files, context, error) from error
    if said and not (found.token or found.client_cert_file):
        raise EndpointError(
            f"the credential plugin of kubeconfig {where} failed: {'; '.join(said)}; "
            "install it, or log in again"
        )
    return _with_sound_token(found, where)


def _refuse_impersonation(files: Sequence[Path], context: str) -> None:
    """Refuse what would be done with more rights than kubectl does it with."""
    configs = [_read(one) for one in files if one.exists()]
    contexts = (one for config in configs for one in config.contexts or ())
    name = next((one.context.user for one in contexts if one.context and one.name == context), "")
    users = (one for config in configs for one in config.users or ())
    nothing: Mapping[str, object] = {}
    said = next((one.user for one in users if one.user and one.name == name), nothing)
    if any(key == "as" or key.startswith("as-") for key in said):
        raise EndpointError(
            f"the user {name!r} of the kubeconfig impersonates another user (as), which is not "
            "supported: choose another context with --context"
        )


def _with_sound_token(found: Endpoint, where: str) -> Endpoint:
    token = (found.token or "").strip()
    if token and not (token.isascii() and token.isprintable()):
        raise EndpointError(
            f"kubeconfig {where}: the token contains invalid characters; log in again"
        )
    return msgspec.structs.replace(found, token=token or None)


@contextmanager
def _overheard() -> Generator[list[str]]:
    """Gather what the kubeconfig's library logs: a login that failed is no error to it."""
    said: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: said.append(record.getMessage())
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield said
    finally:
        root.removeHandler(handler)


def _sentence(files: Sequence[Path], context: str, error: EndpointError) -> EndpointError:
    where = os.pathsep.join(map(str, files))
    known = [one.name for file in files if file.exists() for one in _read(file).contexts or ()]
    wanted = context or _current(files)
    if not wanted:
        return EndpointError(
            f"kubeconfig {where} has no current context: run `kubectl config use-context NAME`, "
            f"or give --context (available: {some(known) or 'none'})"
        )
    if wanted not in known:
        return EndpointError(
            f"kubeconfig {where} has no context {wanted!r}{did_you_mean(wanted, known)}; "
            "`kubectl config get-contexts` lists its contexts"
        )
    if isinstance(error.__cause__, AttributeError | TypeError):
        return EndpointError(
            f"kubeconfig {where}: the login method of context {wanted!r} is not supported; "
            "Kubernetes removed auth-provider in 1.26: use an exec plugin"
        )
    return error
