"""Kubeconfigs as people really have them, wrong in one thing: a sentence each, and what to do."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.draguard.fleet import Fleet
from tests.draguard.printed import printed
from tests.draguard.test_cli_errors import config, written

Config = dict[str, Any]
Change = Callable[[Config], object]


def user(**login: object) -> Change:
    """Let the first user log in otherwise."""

    def change(config: Config) -> None:
        config["users"][0]["user"] = login

    return change


def cluster(**other: object) -> Change:
    def change(config: Config) -> None:
        config["clusters"][0]["cluster"] |= other

    return change


def exec_plugin(*command: str) -> Change:
    api = "client.authentication.k8s.io/v1"
    plugin = {"apiVersion": api, "command": command[0], "args": command[1:]}
    return user(exec=plugin | {"interactiveMode": "Never"})


def interactive_plugin(config: Config) -> None:
    exec_plugin("sh", "-c", "read line")(config)
    config["users"][0]["user"]["exec"]["interactiveMode"] = "Always"


def without_ca(config: Config) -> None:
    config["clusters"][0]["cluster"].pop("certificate-authority")


def skipping_tls(config: Config) -> None:
    without_ca(config)
    cluster(**{"insecure-skip-tls-verify": True})(config)


def without_context(config: Config) -> None:
    config["current-context"] = ""


def in_plain_http(config: Config) -> None:
    entry = config["clusters"][0]["cluster"]
    entry["server"] = entry["server"].replace("https", "http")


CASES: tuple[tuple[str, Change, tuple[str, ...]], ...] = (
    (
        "a login program that is not there",
        exec_plugin("no-such-login-program"),
        ("the credential plugin 'no-such-login-program' failed", "it is not installed; install it"),
    ),
    (
        "a login that has run out",
        exec_plugin("sh", "-c", "exit 1"),
        ("the credential plugin 'sh' failed", "it ended with status 1", "log in again"),
    ),
    (
        "a login that asks for a password",
        interactive_plugin,
        ("the credential plugin 'sh' needs a terminal", "run the command in one"),
    ),
    (
        "an auth-provider",
        user(**{"auth-provider": {"name": "gcp"}}),
        ("the auth-provider 'gcp' is not supported", "use an exec plugin"),
    ),
    (
        "no credentials",
        user(),
        (
            "the server treats you as system:anonymous",
            "log in, or choose another context with --context",
        ),
    ),
    (
        "a wrong token",
        user(token="x"),
        ("rejected the credentials of the kubeconfig (401)", "log in again"),
    ),
    (
        "no CA",
        without_ca,
        (
            "the certificate of https://127.0.0.1:",
            "with --certificate-authority or in the kubeconfig",
        ),
    ),
    ("no TLS requested", skipping_tls, ("in a kubeconfig is ignored: add the flag",)),
    (
        "a CA that is not there",
        cluster(**{"certificate-authority": "/nowhere/ca.crt"}),
        ("/nowhere/ca.crt", "check --kubeconfig"),
    ),
    ("http for https", in_plain_http, ("requires https: correct its address in the kubeconfig",)),
    (
        "a name that nobody has",
        cluster(server="https://no-such-host.invalid:6443"),
        ("the name does not resolve", "kubectl config current-context"),
    ),
    (
        "no current context",
        without_context,
        ("has no current context", "use-context NAME", "(available: admin, remediator)"),
    ),
)


@pytest.mark.parametrize(
    ("change", "stated"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_a_kubeconfig_that_does_not_work_is_one_sentence_with_its_remedy(
    change: Change,
    stated: tuple[str, ...],
    fleet: Fleet,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """`capfd`: what a library logs or a login program prints would reach the terminal as well."""
    config: Config = yaml.safe_load(Path(fleet.kubeconfig).read_bytes())
    change(config)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")

    words = printed(capfd, "status", "--kubeconfig", str(path), ends=2)

    assert words.startswith("draguard status: ")
    assert words.count("\n") == 1
    assert [word for word in stated if word not in words] == [], words


def test_a_credential_plugin_logs_in(
    fleet: Fleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content: Config = yaml.safe_load(Path(fleet.kubeconfig).read_bytes())
    api = content["users"][0]["user"]["token"]
    status = {"token": api, "expirationTimestamp": "2020-01-01T00:00:00Z"}  # renewed at each look
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    (tmp_path / "answer").write_text(json.dumps(answer | {"status": status}), encoding="utf-8")
    exec_plugin("cat", str(tmp_path / "answer"))(content)
    path = written(tmp_path, "config", content)

    stated = printed(capfd, "incidents", "-o", "name", "--kubeconfig", str(path))

    assert stated == printed(capfd, "incidents", "-o", "name", "--kubeconfig", fleet.kubeconfig)
    assert stated


def test_a_context_that_is_nearly_there_is_suggested(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig, "--context", "remediato")

    assert "has no context 'remediato' (did you mean remediator?)" in printed(
        capsys, "status", *where, ends=2
    )


@pytest.mark.parametrize("text", ["just text", "- a list", "contexts: 7"])
def test_a_file_of_another_kind_is_no_kubeconfig(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")

    assert f"{path} is not a kubeconfig (" in printed(
        capsys, "status", "--kubeconfig", str(path), ends=2
    )


class _Portal(BaseHTTPRequestHandler):
    """What answers in an API server's place before somebody has logged in to the network."""

    status = 200

    def do_GET(self) -> None:
        page = b"<html>please log in</html>"
        self.send_response(self.status)
        self.send_header("location", "https://login.example.com/")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so named there
        """Say nothing."""


class _Redirect(_Portal):
    status = 302


@pytest.fixture
def portal(request: pytest.FixtureRequest) -> Iterator[str]:
    handler: type[_Portal] = request.param
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("portal", [_Portal, _Redirect], indirect=True, ids=["page", "redirect"])
@pytest.mark.parametrize("command", ["status", "incidents", "plan", "doctor", "cleanup --all"])
def test_what_is_no_api_server_is_not_taken_for_one(
    command: str, portal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config(portal, "t"))

    words = printed(capsys, *command.split(), "--kubeconfig", str(path), ends=2)

    assert words.startswith(f"draguard {command.split(maxsplit=1)[0]}: ")
    assert "check that it is the right cluster" in words or "check its address" in words
    assert words.count("\n") == 1
