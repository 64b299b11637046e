"""The API server from flags, `$KUBECONFIG`, the home folder or this pod, in kubectl's order.

Several files are merged as kubectl merges them: the first that names a cluster, a
user, a context or the current context wins.
"""

import atexit
import base64
import logging
import os
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
import yaml

from draguard.connection.cluster_flags import NOTHING, Overrides, as_user
from draguard.phrases import did_you_mean, some
from kubeapi.endpoint import Endpoint, EndpointError, in_cluster
from kubeapi.proxy import proxy_from

_STANDARD = Path(".kube") / "config"
"""In the home folder."""
_CERTIFICATE, _KEY = "client-certificate", "client-key"
_AUTHORITY = frozenset({"certificate-authority", "certificate-authority-data"})
_STATIC = frozenset(
    {"token", "tokenFile", _CERTIFICATE, f"{_CERTIFICATE}-data", _KEY, f"{_KEY}-data"}
)
"""Keys of a user that are read here; any other means a login by the `kubernetes` package."""


_AS = frozenset({"as", "as-uid", "as-groups", "as-user-extra"})


class _As(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a user that impersonates another."""

    user: str = msgspec.field(name="as", default="")
    uid: str = msgspec.field(name="as-uid", default="")
    groups: tuple[str, ...] = msgspec.field(name="as-groups", default=())
    extra: dict[str, tuple[str, ...]] = msgspec.field(name="as-user-extra", default={})


class _ContextBody(msgspec.Struct, frozen=True):
    cluster: str | None = ""
    user: str | None = ""
    """A key without a value names nothing, as for kubectl."""


class _Context(msgspec.Struct, frozen=True):
    name: str = ""
    context: _ContextBody | None = None


class _User(msgspec.Struct, frozen=True):
    name: str = ""
    user: dict[str, object] | None = None


class _Cluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: dict[str, object] | None = None


class _Config(msgspec.Struct, frozen=True):
    """A kubeconfig, cut to what is read here."""

    current: str | None = msgspec.field(name="current-context", default=None)
    contexts: tuple[_Context, ...] | None = ()
    users: tuple[_User, ...] | None = ()
    clusters: tuple[_Cluster, ...] | None = ()


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
    found = given.applied(_found(files, context, given))
    # As kubectl: a proxy of the kubeconfig is for this server, whatever the environment says.
    return msgspec.structs.replace(found, proxy=found.proxy or proxy_from(environ, found.server))


def _found(files: Sequence[Path], context: str, given: Overrides) -> Endpoint:
    if files:
        return _chosen(files, context, given)
    if context:
        raise EndpointError(
            f"no kubeconfig found, so there is no context {context!r}; give --kubeconfig"
        )
    if given.server and given.token:
        return Endpoint(server=given.server)
    try:
        return in_cluster()
    except EndpointError as error:
        raise EndpointError(
            "no cluster is configured: ~/.kube/config does not exist, KUBECONFIG is not set, and "
            "this is not a pod with a service account; give --kubeconfig, or --server and --token"
        ) from error


def contexts(kubeconfig: Path | None, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the names of all contexts. Raises EndpointError."""
    configs = [_read(file) for file in _files(kubeconfig, environ)]
    return tuple(dict.fromkeys(each.name for config in configs for each in config.contexts or ()))


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


def _chosen(files: Sequence[Path], context: str, given: Overrides) -> Endpoint:
    configs = [_read(file) for file in files]
    current = next((config.current for config in configs if config.current), "")
    desired = context or current
    contexts = [each for config in configs for each in config.contexts or ()]
    chosen = next((each.context for each in contexts if desired and each.name == desired), None)
    users = (each for config in configs for each in config.users or ())
    user = _entry(each.user for each in users if chosen and each.name == chosen.user)
    where = os.pathsep.join(map(str, files))
    impersonation = _impersonation(where, user)
    clusters = (each for config in configs for each in config.clusters or ())
    cluster = _entry(each.cluster for each in clusters if chosen and each.name == chosen.cluster)
    known = [each.name for each in contexts]
    if chosen is None and context:
        raise _no_context(where, context, known)
    # Given by flags, a kubeconfig need not have them, and no plugin has to log in.
    cluster = {**cluster, "server": given.server} if given.server else cluster
    if given.ca_file is not None or given.insecure:
        cluster = {key: value for key, value in cluster.items() if key not in _AUTHORITY}
    login = {key: value for key, value in user.items() if key not in _AS}
    found = _static(files, cluster, {"token": given.token} if given.token else login)
    if found is None:
        # The library finds the current context of one file; of several, the first that is set wins.
        named = context or (current if len(files) > 1 else "")
        found = _by_library(where, named, desired, known)
    token = (found.token or "").strip()
    if token and not (token.isascii() and token.isprintable()):
        raise EndpointError(
            f"kubeconfig {where}: the token contains invalid characters; log in again"
        )
    stated = cluster.get("proxy-url")
    proxy = stated if isinstance(stated, str) and stated else None
    return msgspec.structs.replace(
        found, token=token or None, proxy=proxy, impersonation=impersonation
    )


def _impersonation(where: str, user: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the headers for the user that an entry acts as. Raises EndpointError.

    What cannot be read is an error: without it the caller would act with all of their own rights.
    """
    keys = {key: value for key, value in user.items() if key in _AS or key.startswith("as-")}
    if not keys:
        return ()
    try:
        found = msgspec.convert(keys, _As)
    except msgspec.ValidationError as error:
        raise EndpointError(f"kubeconfig {where}: impersonation cannot be read: {error}") from error
    headers = [*as_user(found.user, found.groups)]
    headers += [("Impersonate-Uid", found.uid)] if found.uid else []
    headers += [
        (f"Impersonate-Extra-{quote(key, safe='')}", value)
        for key, values in found.extra.items()
        for value in values
    ]
    if not found.user or not all(value.isprintable() for _, value in headers):
        raise EndpointError(f"kubeconfig {where}: impersonation needs `as`, the name of a user")
    return tuple(headers)


def _entry(found: Iterable[dict[str, object] | None]) -> Mapping[str, object]:
    """Return the first entry of a name, an empty one if there is none."""
    return next(iter(found), None) or {}


def _static(
    files: Sequence[Path], cluster: Mapping[str, object], user: Mapping[str, object]
) -> Endpoint | None:
    """Return the endpoint of a token or a certificate; None if the library must read it.

    Importing the `kubernetes` package takes as long as the rest of a command. So it is used only
    for credential plugins and other logins, and for wrong entries, whose error it reports.
    """
    server = cluster.get("server")
    if not user or user.keys() - _STATIC or not isinstance(server, str):
        return None
    folder = Path(files[0]).absolute().parent if len(files) == 1 else None
    secure = server.startswith("https")
    try:
        token = _text(user, "token")
        if "token" not in user and (token_file := _text(user, "tokenFile")):
            token = _path(token_file, folder).read_text(encoding="utf-8")
        return Endpoint(
            server=server.rstrip("/"),
            token=token or None,
            ca_file=_pem(cluster, "certificate-authority", folder) if secure else None,
            tls_server_name=_text(cluster, "tls-server-name") or None,
            client_cert_file=_pem(user, _CERTIFICATE, folder) if secure else None,
            client_key_file=_pem(user, _KEY, folder) if secure else None,
        )
    except (OSError, ValueError):
        return None


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key} is not a text")
    return value


def _path(file: str, folder: Path | None) -> Path:
    """Return the path of an existing file, relative to its kubeconfig. Raises ValueError."""
    if folder is None and not Path(file).is_absolute():
        raise ValueError(f"{file} is relative")
    path = Path(os.path.normpath((folder or Path()) / file))
    try:
        there = path.is_file()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if not there:
        raise ValueError(f"{path} is missing")
    return path


def _pem(entry: Mapping[str, object], key: str, folder: Path | None) -> str | None:
    """Return the file of a certificate or key; if the kubeconfig contains it, a private copy."""
    if f"{key}-data" not in entry:
        file = _text(entry, key)
        return str(_path(file, folder)) if file else None
    content = base64.standard_b64decode(_text(entry, f"{key}-data"))
    if not content:
        return None
    number, name = tempfile.mkstemp()  # only its owner may read it
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(number, "wb") as copy:
        copy.write(content)
    return name


def _by_library(where: str, context: str, desired: str, known: Sequence[str]) -> Endpoint:
    """Let the `kubernetes` package log in, and turn its failures into sentences."""
    from remediator.controller.kubeconfig import endpoint

    with _logged_errors() as logged:
        try:
            found = endpoint(Path(where), context)
        except EndpointError as error:
            if not desired:
                raise EndpointError(
                    f"kubeconfig {where} has no current context: run `kubectl config use-context "
                    f"NAME`, or give --context (available: {some(known) or 'none'})"
                ) from error
            if desired not in known:
                raise _no_context(where, desired, known) from error
            if isinstance(error.__cause__, AttributeError | TypeError):
                raise EndpointError(
                    f"kubeconfig {where}: the login method of context {desired!r} is not "
                    "supported; Kubernetes removed auth-provider in 1.26: use an exec plugin"
                ) from error
            raise
    if logged and not (found.token or found.client_cert_file):
        raise EndpointError(
            f"the credential plugin of kubeconfig {where} failed: {'; '.join(logged)}; "
            "install it, or log in again"
        )
    return found


def _no_context(where: str, desired: str, known: Sequence[str]) -> EndpointError:
    return EndpointError(
        f"kubeconfig {where} has no context {desired!r}{did_you_mean(desired, known)}; "
        "`kubectl config get-contexts` lists its contexts"
    )


@contextmanager
def _logged_errors() -> Generator[list[str]]:
    """Collect what the library logs: it only logs a failed login and raises no error."""
    logged: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: logged.append(record.getMessage())
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield logged
    finally:
        root.removeHandler(handler)
