# pyright: basic
# The `kubernetes` package carries no usable types.
"""The one door to the `kubernetes` package: it reads kubeconfig files and logs in.

Tokens, certificates, credential plugins and OIDC are its work. Its errors end here as sentences.
No sentence repeats what a file contains: that may be a secret.
"""

import binascii
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import yaml

from kubeapi.endpoint import Endpoint, EndpointError
from remediator.controller.saved_login import save_login

_log = logging.getLogger(__name__)
_NOT_LOADED = (
    *("kubernetes", "kubernetes.client"),
    *("oauthlib", "oauthlib.oauth2", "requests_oauthlib"),
)
"""What the package imports before its reader, and only the refresh of an OIDC login uses."""
_PATHS = frozenset({"certificate-authority", "client-certificate", "client-key", "tokenFile"})
_RENEWED = ("id-token", "refresh-token")
_PAUSE = 10.0
"""Seconds between two looks whether a login must be renewed: a plugin that fails takes its time."""
_ANOTHER = "give another one with --kubeconfig"


class Entry(NamedTuple):
    """A cluster, user or context of a kubeconfig; its paths are absolute."""

    body: Mapping[str, Any]
    file: Path = Path()
    name: str = ""


Entries = Mapping[str, Entry]
"""By name."""


class Kubeconfig(NamedTuple):
    current: str = ""
    clusters: Entries = {}
    users: Entries = {}
    contexts: Entries = {}


class _Settings:
    """What the package fills in for its own client."""

    host = ""
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    tls_server_name: str | None = None
    proxy: str | None = None
    refresh_api_key_hook: Any = None

    def __init__(self) -> None:
        self.api_key: dict[str, str] = {}

    def token(self) -> str:
        """Return the bearer token, "" for none. Raises EndpointError for another login."""
        kind, _, token = self.api_key.get("BearerToken", "").partition(" ")
        if kind == "Basic":
            raise EndpointError(
                "user name and password are not supported, Kubernetes removed them in 1.19: use a "
                "token, a certificate or an exec plugin"
            )
        token = token.strip()
        if token and not (token.isascii() and token.isprintable()):
            raise EndpointError("the token contains invalid characters; log in again")
        return token


@cache
def _reader() -> Any:
    """Import the reader of kubeconfigs alone: the whole package takes 0.6 s of CPU and 27 MiB.

    During the import, modules that answer to any name take the places of what is not used.
    """
    spec = find_spec("kubernetes")
    if spec is None:
        raise ModuleNotFoundError("No module named 'kubernetes'", name="kubernetes")
    installed = [Path(folder).parent for folder in spec.submodule_search_locations or ()]
    before = _taken_out()
    for name in _NOT_LOADED:
        stand_in: Any = ModuleType(name)
        stand_in.__getattr__ = lambda _: object
        stand_in.__path__ = [str(folder.joinpath(*name.split("."))) for folder in installed]
        sys.modules[name] = stand_in
    try:
        return import_module("kubernetes.config.kube_config")
    finally:
        _taken_out()
        sys.modules.update(before)


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in _NOT_LOADED]
    return {name: sys.modules.pop(name) for name in names}


def read(file: Path) -> Kubeconfig:
    """Read a file. Raises EndpointError with what to do."""
    if os.pathsep in str(file):
        raise EndpointError(f"kubeconfig {file} cannot be read: rename it to one without a colon")
    try:
        return _content(file)
    except FileNotFoundError as error:
        raise EndpointError(f"kubeconfig {file} does not exist; {_ANOTHER}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise EndpointError(f"{file} is not a kubeconfig (no YAML{line}); {_ANOTHER}") from None
    except (OSError, ValueError) as error:
        raise EndpointError(f"kubeconfig {file} cannot be read: {error}; {_ANOTHER}") from error
    except (_reader().ConfigException, AttributeError, LookupError, TypeError, RecursionError):
        raise EndpointError(
            f"{file} is not a kubeconfig (it needs lists of named clusters, users and contexts); "
            f"{_ANOTHER}"
        ) from None


def _content(file: Path) -> Kubeconfig:
    """Read a file. Raises whatever the package stumbles over."""
    if file.stat().st_size == 0 and file.is_file():
        return Kubeconfig()  # as for kubectl
    merger, file = _reader().KubeConfigMerger(str(file)), file.absolute()
    found: dict[str, dict[str, Entry]] = {"clusters": {}, "users": {}, "contexts": {}}
    for kind, entries in found.items():
        for node in merger.config.value[kind]:
            body = _without_empty(node.value.get(kind.removesuffix("s")) or {})
            body |= {key: str(file.parent / body[key]) for key in _PATHS & body.keys()}
            if "tokenFile" in body:
                body.pop("token", None)
            if name := node.value.get("name"):
                entries[str(name)] = Entry(body, file, str(name))
    return Kubeconfig(str(merger.config.value.get("current-context") or ""), **found)


def _without_empty(body: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out entries without a value: for kubectl they are absent, for the package they count.

    An empty `as` stays, and is refused: it limits rights.
    """
    return {
        key: _without_empty(value) if isinstance(value, dict) else value
        for key, value in body.items()
        if key == "as" or value not in ("", None)
    }


def log_in(
    where: str, cluster: Mapping[str, Any], user: Entry, clock: Callable[[], float]
) -> Endpoint:
    """Log in as a user at a cluster. Raises EndpointError with what to do."""
    login, settings = user.body, _Settings()
    ends = bool(login.get("exec") or login.get("auth-provider"))
    try:
        _refuse_unsupported(login)
        # The package passes over the CA of HTTPS://HOST.
        scheme, colon, rest = cluster["server"].strip().partition(":")
        cluster = {**cluster, "server": f"{scheme.lower()}{colon}{rest}"}
        if ends:
            proxy = cluster.get("proxy-url")
            Endpoint(server=cluster["server"], proxy=proxy).refuse_clear_text()
        loader = _loader(where, cluster, user)
        with _logged_errors() as errors:
            loader.load_and_set(settings)
        token = settings.token()
    except Exception as error:  # noqa: BLE001 - a login runs the code of many packages
        raise EndpointError(f"{where}: {_not_done(login, error)}") from None
    if errors or (ends and not (token or settings.cert_file)):
        raise EndpointError(f"{where}: {_failed(login, errors)}")
    # Not for OIDC, whose end only the whole login knows.
    renew = settings.refresh_api_key_hook
    if "auth-provider" in login:
        renew = partial(_renew_oidc, where, cluster, user)
    return Endpoint(
        server=settings.host,
        token=token or None,
        token_file=login.get("tokenFile") if token else None,
        renewal=_Renewal(where, login, settings, renew, clock) if ends and token else None,
        ca_file=settings.ssl_ca_cert,
        tls_server_name=settings.tls_server_name or None,
        client_cert_file=settings.cert_file,
        client_key_file=settings.key_file,
        proxy=settings.proxy or None,
    )


def _refuse_unsupported(login: Mapping[str, Any]) -> None:
    """Refuse what the package would pass over without a word, or what nobody could type."""
    provider, plugin = login.get("auth-provider") or {}, login.get("exec") or {}
    if provider.get("name", "oidc") != "oidc":
        raise EndpointError(
            f"the auth-provider {provider['name']!r} is not supported, Kubernetes removed it in "
            "1.26: use an exec plugin"
        )
    needs_terminal = plugin.get("interactiveMode") == "Always"
    if needs_terminal and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise EndpointError(
            f"the credential plugin {plugin.get('command')!r} needs a terminal: run the command in "
            "one, without a pipe"
        )


def _loader(where: str, cluster: Mapping[str, Any], user: Entry) -> Any:
    """Return the package's login for these two entries."""
    library, login, save = _reader(), user.body, None
    if "auth-provider" in login:
        from kubernetes.config import kube_config as library

        login, save = _oidc(where, user)
    content = {
        "clusters": [{"name": "chosen", "cluster": cluster}],
        "users": [{"name": "chosen", "user": login}],
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
    }
    return library.KubeConfigLoader(
        library.ConfigNode("the entry", content),
        active_context="chosen",
        config_base_path=str(user.file.parent),  # where a plugin runs
        config_persister=save,
    )


def _oidc(where: str, user: Entry) -> tuple[Mapping[str, Any], Callable[[], None]]:
    """Return a login that trusts no false identity provider, and what saves the renewed one.

    Without a CA the package would send the client's secret to any server that is in between.
    """
    import certifi

    login = deepcopy(dict(user.body))
    config = login["auth-provider"]["config"]
    config.setdefault("client-secret", "")
    if "idp-certificate-authority-data" not in config:
        trusted = os.environ.get("SSL_CERT_FILE") or certifi.where()
        authority = Path(config.setdefault("idp-certificate-authority", trusted))
        if not (authority.is_file() and authority.stat().st_size):
            raise EndpointError(
                f"the CA of the OIDC provider, {authority}, is missing or empty: correct "
                "idp-certificate-authority"
            )

    used = config.get("refresh-token", "")

    def save() -> None:
        keys = {key: config[key] for key in _RENEWED if key in config}
        user.body["auth-provider"]["config"].update(keys)
        try:
            save_login(user.file, user.name, keys, used)
        except OSError as error:  # the renewed login serves this run all the same
            _log.warning("%s: the renewed login cannot be saved: %s", where, error)

    return login, save


def _renew_oidc(where: str, cluster: Mapping[str, Any], user: Entry, settings: _Settings) -> None:
    """Log in with what is in the file now: another program may have renewed it there.

    What was last in the file serves on where it no longer is.
    """
    with suppress(EndpointError, LookupError):
        stored = read(user.file).users[user.name].body["auth-provider"]["config"]
        config = user.body["auth-provider"]["config"]
        config.update({key: stored[key] for key in _RENEWED})
    _loader(where, cluster, user).load_and_set(settings)


def _not_done(login: Mapping[str, Any], error: Exception) -> str:
    """Say what the package or a library below it raised: never what a plugin did."""
    match error:
        case EndpointError():
            return str(error)
        case AttributeError() | TypeError():
            return f"an entry has not the form that it must have ({error}); correct the file"
        case binascii.Error():
            return f"the data of a certificate or key is no base64 ({error}); correct the file"
    if "auth-provider" in login and type(error).__name__ != "ConfigException":
        why = f"the provider's answer lacks {error}" if isinstance(error, KeyError) else error
        return f"the OIDC login was not renewed: {why}; log in again"
    return f"{error}; check --kubeconfig"


def _failed(login: Mapping[str, Any], errors: Sequence[str]) -> str:
    """Say why a login gave nothing, and what to do."""
    plugin = login.get("exec")
    if not plugin:
        return "the OIDC login has no valid id-token; log in again"
    why, remedy = "; ".join(errors), "run it by hand, or log in again"
    if why.startswith("[Errno 2]"):
        why, remedy = "it is not installed", plugin.get("installHint") or "install it"
    elif why.endswith("no attribute 'strip'"):  # the package gave stderr to the terminal
        why = "it ended with an error, which it has printed"
    elif not why.startswith(("exec:", "[Errno", "Invalid kube-config")):
        why = "its answer is no ExecCredential with a token or a certificate"
    return f"the credential plugin {plugin.get('command')!r} failed: {why}; {remedy}"


@contextmanager
def _logged_errors() -> Generator[list[str]]:
    """Collect what the package logs: it only logs a failed plugin and raises no error."""
    logged: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        logged.append(record.getMessage())
        return False

    logging.root.addFilter(keep)
    try:
        yield logged
    finally:
        logging.root.removeFilter(keep)


class _Renewal:
    """The token of a login that ends: the package renews it five minutes before.

    One thread renews it, the others go on with the last one. It serves until it expires.
    """

    def __init__(
        self,
        where: str,
        login: Mapping[str, Any],
        settings: _Settings,
        renew: Callable[[_Settings], None],
        clock: Callable[[], float],
    ) -> None:
        self._where, self._login, self._settings, self._renew = where, login, settings, renew
        self._clock, self._next, self._one = clock, clock() + _PAUSE, Lock()
        self._token = settings.token()

    def __call__(self) -> str:
        if self._clock() >= self._next and self._one.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._next = self._clock() + _PAUSE
                self._one.release()
        return self._token

    def _look(self) -> None:
        try:
            with _logged_errors() as errors:
                self._renew(self._settings)
            self._token = self._settings.token() or self._token
            why = _failed(self._login, errors) if errors else ""
        except Exception as error:  # noqa: BLE001 - a login runs the code of many packages
            why = _not_done(self._login, error)
        if why:
            _log.warning("%s: %s", self._where, why)
