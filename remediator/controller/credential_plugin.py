"""Credential plugins (`exec` of a kubeconfig): programs that print a token or a certificate.

A plugin may ask its user on the terminal, where there is one. No message quotes its answer.
"""

import base64
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kubeapi.endpoint import EndpointError

_LONGEST = 300
_FOR_PLUGINS = (
    *("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"),
    "certificate-authority-data",
)
"""Keys of the cluster for a plugin that requests them, as kubectl gives them."""
_CONFIG = "client.authentication.k8s.io/exec"
_NOTHING = "its answer is no ExecCredential with a token, or a certificate and its key"


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Plugin(msgspec.Struct, frozen=True, rename="camel"):
    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[_Variable, ...] = ()
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    provide_cluster_info: bool = False


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    status: _Status


def run_plugin(
    entry: object, cluster: Mapping[str, Any], folder: Path, *, may_ask: bool, longest: float
) -> tuple[dict[str, str], datetime | None]:
    """Run a plugin; return the entries of a user that it gives, and when they end.

    `folder` has the kubeconfig. Raises EndpointError with what to do.
    """
    try:
        plugin = msgspec.convert(entry, _Plugin)
    except msgspec.ValidationError as error:
        why = f"an entry has the wrong form (exec: {error}); correct the file"
        raise EndpointError(why) from None
    # Without a terminal a plugin would take what is meant for the command, as its `yes`.
    terminal = may_ask and sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise EndpointError(
            f"the credential plugin {plugin.command!r} needs a terminal: run the command in one"
        )
    try:
        asks = terminal and plugin.interactive_mode != "Never"
        info = _info(plugin, cluster, interactive=asks)
        shows = may_ask and sys.stderr is not None and sys.stderr.isatty()
        printed = _run(plugin, folder, info, None if asks else longest, shows=shows)
        answer = _decode(printed, plugin)
    except _PluginError as error:
        name = f"the credential plugin {plugin.command!r}"
        raise EndpointError(f"{name} failed: {error}; {error.remedy}") from None
    pems = {
        "client-certificate-data": answer.client_certificate_data,
        "client-key-data": answer.client_key_data,
    }
    given = {key: base64.b64encode(pem.encode()).decode() for key, pem in pems.items() if pem}
    given |= {"token": answer.token} if answer.token else {}
    return given, answer.expiration_timestamp


class _PluginError(Exception):
    def __init__(self, why: str, remedy: str = "run it by hand, or log in again") -> None:
        super().__init__(why)
        self.remedy = remedy


def _run(plugin: _Plugin, folder: Path, info: str, longest: float | None, *, shows: bool) -> bytes:
    """Run a plugin and return its output; without a time limit it reads from the terminal."""
    command, asks = plugin.command, longest is None
    found = shutil.which(str(folder / command) if "/" in command else command)
    if found is None or not Path(found).is_absolute():  # not what lies in the working directory
        raise _PluginError("it is not installed", plugin.install_hint or "install it")
    environ = os.environ | {each.name: each.value for each in plugin.env}
    environ["KUBERNETES_EXEC_INFO"] = info
    try:
        with subprocess.Popen(
            [command, *plugin.args],
            executable=found,
            stdin=None if asks else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if shows else subprocess.PIPE,
            env=environ,
            start_new_session=not asks,
        ) as process:
            try:
                printed, stated = process.communicate(timeout=longest)
            except BaseException:
                with suppress(ProcessLookupError):
                    # Its whole process group: a child of it may hold its output open.
                    os.kill(process.pid if asks else -process.pid, signal.SIGKILL)
                raise
    except subprocess.TimeoutExpired:
        raise _PluginError(f"it did not end within {longest:g} s") from None
    except OSError as error:
        raise _PluginError(str(error)) from None
    if process.returncode:
        why = "it ended with an error, which it has printed"
        if not shows:
            text = one_line(stated.decode(errors="replace"))[-_LONGEST:]
            why = f"it ended with status {process.returncode}: {text or 'it has printed no error'}"
        raise _PluginError(why)
    return printed


def one_line(text: str) -> str:
    """Return text that can forge no second line of a log, and control no terminal."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _info(plugin: _Plugin, cluster: Mapping[str, Any], *, interactive: bool) -> str:
    """Return the input of a plugin, as JSON. Raises EndpointError if the CA cannot be read."""
    spec: dict[str, object] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        known = {key: cluster[key] for key in _FOR_PLUGINS if key in cluster}
        authority = cluster.get("certificate-authority")
        if authority and "certificate-authority-data" not in known:
            try:
                pem = Path(authority).read_bytes()
            except OSError as error:
                raise EndpointError(f"the CA cannot be read: {error}; check --kubeconfig") from None
            known["certificate-authority-data"] = base64.b64encode(pem).decode()
        for each in cluster.get("extensions", ()):
            if each["name"] == _CONFIG:
                known["config"] = each["extension"]
        spec["cluster"] = known
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _decode(printed: bytes, plugin: _Plugin) -> _Status:
    try:
        answer = msgspec.json.decode(printed, type=_Answer)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _PluginError(f"its answer is no ExecCredential ({error})") from None
    if answer.api_version != plugin.api_version:
        raise _PluginError(
            f"it does not answer in {plugin.api_version}, which the kubeconfig requires"
        )
    found = answer.status
    pair = bool(found.client_certificate_data), bool(found.client_key_data)
    if pair[0] != pair[1] or not (found.token or pair[0]):
        raise _PluginError(_NOTHING)
    return found
