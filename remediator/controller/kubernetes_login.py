# pyright: basic
# The `kubernetes` package carries no usable types.
"""The one door to the `kubernetes` package: it reads kubeconfig files and logs in.

It handles tokens, certificates and OIDC. Its errors become messages here. No message repeats what
a file contains, because that may be a secret.
"""

import base64
import binascii
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import yaml

from kubeapi import clock
from kubeapi.endpoint import Endpoint, EndpointError
from remediator.controller.credential_plugin import one_line, run_plugin
from remediator.controller.login_renewal import Renewal, Token
from remediator.controller.saved_login import save_login

_log = logging.getLogger(__name__)
_NOT_LOADED = (
    *("kubernetes", "kubernetes.client"),
    *("oauthlib", "oauthlib.oauth2", "requests_oauthlib"),
)
"""What the package imports before its reader, and only the refresh of an OIDC login uses."""
_PATHS = frozenset({"certificate-authority", "client-certificate", "client-key", "tokenFile"})
_RENEWED = ("id-token", "refresh-token")
_LONGEST = 60.0
"""Seconds that a plugin may take that asks its user nothing."""
_ANSWER = 10.0
"""Seconds that an OIDC provider may be silent."""
_ENDED = "e30.eyJleHAiOjB9.e30"
"""An id-token that has ended, so that the package renews the login in any case."""
_IMPORT = Lock()
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


def _reader() -> Any:
    # One thread at a time: the import replaces entries of `sys.modules` for a moment.
    with _IMPORT:
        return _import_reader()


@cache
def _import_reader() -> Any:
    """Import the reader of kubeconfigs alone: the whole package takes 0.6 s of CPU and 27 MiB.

    During the import, modules that answer to any name take the places of what is not used.
    """
    spec = find_spec("kubernetes")
    if spec is None:
        raise ModuleNotFoundError("No module named 'kubernetes'", name="kubernetes")
    installed = [Path(folder).parent for folder in spec.submodule_search_locations or ()]
    before = _take_out()
    for name in _NOT_LOADED:
        stand_in: Any = ModuleType(name)
        stand_in.__getattr__ = lambda _: object
        stand_in.__path__ = [str(folder.joinpath(*name.split("."))) for folder in installed]
        sys.modules[name] = stand_in
    try:
        return import_module("kubernetes.config.kube_config")
    finally:
        _take_out()
        sys.modules.update(before)


def _take_out() -> dict[str, ModuleType]:
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
    """Read a file. Raises whatever error the package raises."""
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


def log_in(where: str, cluster: Mapping[str, Any], user: Entry, pause: float) -> Endpoint:
    """Log in as a user at a cluster. Raises EndpointError with what to do."""
    settings, token, pems = _log_in_once(where, cluster, user, may_ask=True)
    login, renewal = user.body, None
    if token.text and ("exec" in login or "auth-provider" in login) and not _has_token(login):

        def again() -> Token:
            return _log_in_once(where, cluster, user, may_ask=False)[1]

        renewal = Renewal(token, again, pause)
    return Endpoint(
        server=settings.host,
        token=token.text or None,
        token_file=login.get("tokenFile") if token.text else None,
        renewal=renewal,
        ca_file=settings.ssl_ca_cert,
        tls_server_name=settings.tls_server_name or None,
        client_cert_file=settings.cert_file,
        client_key_file=settings.key_file,
        ca_data=pems.get("certificate-authority"),
        client_cert_data=pems.get("client-certificate"),
        client_key_data=pems.get("client-key"),
        proxy=settings.proxy or None,
    )


def _has_token(login: Mapping[str, Any]) -> bool:
    """Whether the user needs no plugin."""
    return "auth-provider" not in login and bool({"token", "tokenFile"} & login.keys())


def _log_in_once(
    where: str, cluster: Mapping[str, Any], user: Entry, *, may_ask: bool
) -> tuple[_Settings, Token, Mapping[str, bytes]]:
    """Log in; `may_ask` only the first time, when a user may be at the terminal."""
    login, settings, ends = user.body, _Settings(), None
    try:
        provider = login.get("auth-provider")
        if provider and provider.get("name", "oidc") != "oidc":
            raise EndpointError(
                f"the auth-provider {provider['name']!r} is not supported, Kubernetes removed it "
                "in 1.26: use an exec plugin"
            )
        # The package passes over the CA of HTTPS://HOST.
        scheme, colon, rest = cluster["server"].strip().partition(":")
        cluster = {**cluster, "server": f"{scheme.lower()}{colon}{rest}"}
        if ("exec" in login or provider) and not _has_token(login):
            proxy = cluster.get("proxy-url")
            Endpoint(server=cluster["server"], proxy=proxy).refuse_clear_text()
        if "exec" in login and not provider and not _has_token(login):
            given, ends = run_plugin(
                login["exec"], cluster, user.file.parent, may_ask=may_ask, longest=_LONGEST
            )
            login = {key: value for key, value in login.items() if key != "exec"} | given
        entries, pems = {**cluster, **login}, dict[str, bytes]()
        for key in _PATHS:
            if data := entries.get(f"{key}-data"):
                pems[key] = base64.b64decode(data)
                # The package would leave a copy of a key in a file, and read the other entry.
                cluster, login = (_without_entry(each, key) for each in (cluster, login))
        _loader(where, cluster, user._replace(body=login), again=not may_ask).load_and_set(settings)
        token = settings.token()
        if provider:
            ends = _end_of(token)
    except Exception as error:  # noqa: BLE001 - a login runs the code of many packages
        raise EndpointError(f"{where}: {one_line(_error_text(login, error))}") from None
    return settings, Token(token, ends), pems


def _without_entry(entries: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: each for name, each in entries.items() if name not in (key, f"{key}-data")}


def _end_of(token: str) -> datetime | None:
    """Return when an id-token ends. Raises EndpointError if it has ended, or there is none."""
    if not token:
        raise EndpointError("the OIDC login has no valid id-token; log in again")
    claims = token.split(".")[1]
    ends = json.loads(base64.urlsafe_b64decode(claims + -len(claims) % 4 * "=")).get("exp")
    found = None if ends is None else datetime.fromtimestamp(ends, UTC)
    if found is not None and found <= clock.now():
        raise EndpointError(
            "the OIDC login was not renewed: the provider gave no new id-token; log in again"
        )
    return found


def _loader(where: str, cluster: Mapping[str, Any], user: Entry, *, again: bool) -> Any:
    """Return the package's login for these two entries."""
    library, login, save = _reader(), user.body, None
    if "auth-provider" in login:
        library = _oidc_library()
        login, save = _oidc(where, user, again=again)
    content = {
        "clusters": [{"name": "chosen", "cluster": cluster}],
        "users": [{"name": "chosen", "user": login}],
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
    }
    return library.KubeConfigLoader(
        library.ConfigNode("the entry", content),
        active_context="chosen",
        config_base_path="",  # all paths are absolute
        config_persister=save,
    )


@cache
def _oidc_library() -> Any:
    """Import what renews OIDC logins, and bound how long it waits for an answer."""
    from kubernetes.config import kube_config

    library: Any = kube_config

    class Client(library.ApiClient):
        def call_api(self, *args: Any, **more: Any) -> Any:
            return super().call_api(*args, **more | {"_request_timeout": _ANSWER})

    class Session(library.OAuth2Session):
        def request(self, *args: Any, **more: Any) -> Any:
            return super().request(*args, **more | {"timeout": _ANSWER})

    library.ApiClient, library.OAuth2Session = Client, Session
    return library


def _oidc(where: str, user: Entry, *, again: bool) -> tuple[Mapping[str, Any], Callable[[], None]]:
    """Return a login that trusts no false identity provider, and what saves the renewed one.

    Without a CA the package would send the client's secret to any server that is in between.
    """
    import certifi

    known, ended = user.body["auth-provider"]["config"], False
    if again:
        # Another program may have renewed it in the file; what is no longer there serves on.
        before = known["id-token"]
        with suppress(EndpointError, LookupError):
            stored = read(user.file).users[user.name].body["auth-provider"]["config"]
            known.update({key: stored[key] for key in _RENEWED})
        ended = known["id-token"] == before
    login = deepcopy(dict(user.body))
    config = login["auth-provider"]["config"]
    config |= {"id-token": _ENDED} if ended else {}
    config.setdefault("client-secret", "")
    if "idp-certificate-authority-data" not in config:
        trusted = os.environ.get("SSL_CERT_FILE") or certifi.where()
        authority = Path(config.setdefault("idp-certificate-authority", trusted))
        if not (authority.is_file() and authority.stat().st_size):
            raise EndpointError(
                f"the CA of the OIDC provider, {authority}, is missing or empty: correct "
                "idp-certificate-authority"
            )

    first = {key: config.get(key, "") for key in _RENEWED}

    def save() -> None:
        keys = {key: config[key] for key in _RENEWED if key in config}
        if keys == first:  # the package also saves when the provider has failed
            return
        known.update(keys)
        try:
            save_login(user.file, user.name, keys, first["refresh-token"])
        except OSError as error:  # the renewed login serves this run all the same
            _log.warning("%s: the renewed login cannot be saved: %s", where, error)

    return login, save


def _error_text(login: Mapping[str, Any], error: Exception) -> str:
    """Return a message for an error of the package or a library below it."""
    match error:
        case EndpointError():
            return str(error)
        case AttributeError() | TypeError():
            return f"an entry has the wrong form ({error}); correct the file"
        case binascii.Error():
            return f"the data of a certificate or key is no base64 ({error}); correct the file"
    if "auth-provider" in login and type(error).__name__ != "ConfigException":
        why = f"the provider's answer lacks {error}" if isinstance(error, KeyError) else error
        return f"the OIDC login was not renewed: {why}; log in again"
    return f"{error}; check --kubeconfig"
