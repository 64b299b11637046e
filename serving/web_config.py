"""The web configuration that Prometheus' own exporters take: TLS, client certificates, users.

The one door to YAML here. Paths in it are relative to the file. What this server
cannot do is refused with a sentence, never passed over: a wrong guess would open
a door.
"""
# pyright: basic
# YAML is untyped until msgspec has checked it.

import re
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from serving.message import ConfigError

ClientAuth = Literal[
    "NoClientCert",
    "RequestClientCert",
    "RequireAnyClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
]
Version = Literal["TLS10", "TLS11", "TLS12", "TLS13"]

_UNREADABLE = (
    yaml.YAMLError,
    msgspec.ValidationError,
    # YAML may be nested as deep as its author likes.
    RecursionError,
    # What PyYAML lets through of values that are not of their tag, such as `!!int ""`.
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    OverflowError,
)
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""A field name (RFC 9110, section 5.6.2)."""
_BCRYPT = re.compile(r"\$2[aby]\$[0-9]{2}\$[./0-9A-Za-z]{53}")
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert")
_OLD = ("TLS10", "TLS11")


class WebConfigError(ConfigError):
    """The file cannot be used."""


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tls_server_config`."""

    cert_file: str
    key_file: str
    client_auth_type: ClientAuth = "NoClientCert"
    client_ca_file: str = ""
    client_allowed_sans: tuple[str, ...] = ()
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    """Go's names, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; of TLS 1.2 alone."""
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = ()


class HttpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`http_server_config`; HTTP/2 is never spoken here, whatever it says."""

    http2: bool = True
    headers: dict[str, str] = {}


class WebConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. Users are names with bcrypt hashes."""

    tls_server_config: Tls | None = None
    http_server_config: HttpServer = HttpServer()
    basic_auth_users: dict[str, str] = {}


def read(path: Path) -> WebConfig:
    """Read a file; raises WebConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WebConfigError(f"{path} cannot be read: {error}") from error
    return parse(text, path)


def parse(text: str, path: Path) -> WebConfig:
    """Return what a file says, with its paths made absolute; raises WebConfigError."""
    try:
        raw = yaml.safe_load(text)
        config = msgspec.convert(raw or {}, WebConfig)
    except _UNREADABLE as error:
        raise WebConfigError(f"{path}: {' '.join(str(error).split())}") from error
    try:
        _check(config)
    except ValueError as error:
        raise WebConfigError(f"{path}: {error}") from None
    return _with_paths(config, path.parent)


def _check(config: WebConfig) -> None:
    for user, digest in config.basic_auth_users.items():
        if not _BCRYPT.fullmatch(digest):
            raise ValueError(
                f"basic_auth_users: the password of {user!r} is not a bcrypt hash; make one with "
                "`htpasswd -nBC 10 USER`"
            )
    for name, value in config.http_server_config.headers.items():
        if not _HEADER.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise ValueError(f"http_server_config.headers: {name!r} cannot be sent as a header")
    tls = config.tls_server_config
    if tls is not None:
        _check_tls(tls)


def _check_tls(tls: Tls) -> None:
    if "\0" in tls.cert_file + tls.key_file + tls.client_ca_file:
        raise ValueError("no file has a zero byte in its name; correct cert_file and key_file")
    if tls.client_auth_type in _UNVERIFIED:
        raise ValueError(
            f"client_auth_type {tls.client_auth_type} accepts certificates without verifying them; "
            "use RequireAndVerifyClientCert"
        )
    verifies = tls.client_auth_type != "NoClientCert"
    if verifies != bool(tls.client_ca_file):
        raise ValueError("client_ca_file and a client_auth_type that verifies need each other")
    if tls.client_allowed_sans and tls.client_auth_type != "RequireAndVerifyClientCert":
        raise ValueError("client_allowed_sans needs client_auth_type RequireAndVerifyClientCert")
    if tls.min_version in _OLD or tls.max_version in _OLD:
        raise ValueError("TLS10 and TLS11 are not supported; use TLS12 or TLS13")
    if tls.min_version > tls.max_version:
        raise ValueError("min_version is above max_version")
    if tls.curve_preferences:
        raise ValueError("curve_preferences cannot be set here; leave it out")


def _with_paths(config: WebConfig, folder: Path) -> WebConfig:
    tls = config.tls_server_config
    if tls is None:
        return config
    absolute = {
        name: str(folder / getattr(tls, name))
        for name in ("cert_file", "key_file", "client_ca_file")
        if getattr(tls, name)
    }
    return msgspec.structs.replace(
        config, tls_server_config=msgspec.structs.replace(tls, **absolute)
    )
