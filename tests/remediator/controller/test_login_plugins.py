"""Credential plugins, which are real programs: what they give, and how they fail."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import trustme

from kubeapi.client import Client
from kubeapi.endpoint import EndpointError
from remediator.controller.credential_plugin import run_plugin
from remediator.controller.kubeconfig import endpoint
from tests.remediator.controller.kubeconfigs import HTTPS, Entry, Request, tls_server, written

API = "client.authentication.k8s.io/v1"


def answer(api: str = API, **status: object) -> str:
    return json.dumps({"apiVersion": api, "kind": "ExecCredential", "status": status})


def plugin(folder: Path, script: str, **more: Any) -> Entry:
    """Return a user who logs in with a shell script."""
    program = folder / "log-in"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return {"exec": {"apiVersion": API, "command": str(program)} | more}


def saying(folder: Path, text: str, **more: Any) -> Entry:
    """Return a user whose login program prints what is in a file."""
    (folder / "answer").write_text(text, encoding="utf-8")
    return plugin(folder, f"cat {folder}/answer", **more)


@pytest.mark.parametrize("api", ["v1", "v1beta1"])
def test_its_token_is_used(api: str, tmp_path: Path) -> None:
    version = f"client.authentication.k8s.io/{api}"
    user = saying(tmp_path, answer(version, token="t"), apiVersion=version)

    assert endpoint([written(tmp_path, user)]).token == "t"


def test_it_gets_its_arguments_its_environment_and_the_cluster(tmp_path: Path) -> None:
    script = f"echo \"$1 $NAME $KUBERNETES_EXEC_INFO\" >{tmp_path}/got; echo '{answer(token='t')}'"
    more = {"args": ["a b"], "env": [{"name": "NAME", "value": "ana"}], "provideClusterInfo": True}

    endpoint([written(tmp_path, plugin(tmp_path, script, **more), {"tls-server-name": "n"})])

    got = (tmp_path / "got").read_text(encoding="utf-8")
    assert got.startswith("a b ana {")
    assert json.loads(got.removeprefix("a b ana "))["spec"]["cluster"]["tls-server-name"] == "n"


def test_a_program_beside_the_kubeconfig_is_found(tmp_path: Path) -> None:
    user = saying(tmp_path, answer(token="t"), command="./log-in")

    assert endpoint([written(tmp_path, user)]).token == "t"


def test_it_runs_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arguments may be paths, as `kubectl` gives them."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "relative").write_text(answer(token="t"), encoding="utf-8")
    monkeypatch.chdir(tmp_path / "work")

    user = plugin(tmp_path, "cat $1", args=["relative"])

    assert endpoint([written(tmp_path, user)]).token == "t"


def test_one_that_lies_in_the_working_directory_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = saying(tmp_path, answer(token="planted"), command="log-in")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")

    assert "it is not installed" in refused(written(tmp_path, user))


def test_it_gets_the_cas_text_and_the_configuration_that_is_for_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("the CA", encoding="utf-8")
    script = f"echo $KUBERNETES_EXEC_INFO >{tmp_path}/got; echo '{answer(token='t')}'"
    config = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    at = {"server": HTTPS, "certificate-authority": "ca.pem", "extensions": [config]}

    endpoint([written(tmp_path, plugin(tmp_path, script, provideClusterInfo=True), at)])

    got = json.loads((tmp_path / "got").read_text(encoding="utf-8"))["spec"]["cluster"]
    expected = {"server": HTTPS, "certificate-authority-data": "dGhlIENB"}
    assert got == expected | {"config": {"audience": "a"}}


def test_it_may_give_a_token_without_an_end_and_a_certificate(tmp_path: Path) -> None:
    pems = {"clientCertificateData": "c", "clientKeyData": "k"}
    status = answer(token="t", expirationTimestamp=None, **pems)

    found = endpoint([written(tmp_path, saying(tmp_path, status), {"server": HTTPS})])

    assert found.token == "t"
    assert (found.client_cert_data, found.client_key_data) == (b"c", b"k")


def test_it_reads_nothing_that_is_meant_for_the_command(tmp_path: Path) -> None:
    """As the `yes` to a question of the command."""
    script = f"cat >{tmp_path}/read; echo '{answer(token='t')}'"
    file = written(tmp_path, plugin(tmp_path, script, interactiveMode="IfAvailable"))
    program = (
        "import pathlib, sys\n"
        "from remediator.controller.kubeconfig import endpoint\n"
        "endpoint([pathlib.Path(sys.argv[1])])\n"
        "print(sys.stdin.readline())\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program, file],
        input="yes\n",
        capture_output=True,
        text=True,
        check=True,
    )

    assert (ran.stdout.strip(), (tmp_path / "read").read_bytes()) == ("yes", b"")


def test_one_that_hangs_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    user = plugin(tmp_path, f"sleep 1000 & echo $! >{tmp_path}/started; wait")

    with pytest.raises(EndpointError, match=r"log-in' failed: it did not end within 1 s; run it"):
        run_plugin(user["exec"], {}, tmp_path, may_ask=True, longest=1.0)

    child = Path("/proc") / (tmp_path / "started").read_text(encoding="utf-8").strip() / "stat"
    while child.exists() and ") Z " not in child.read_text(encoding="utf-8"):
        sleep(0.01)


def test_its_certificate_is_used(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("ana.example", common_name="ana")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    pems = {
        "clientCertificateData": own.cert_chain_pems[0].bytes().decode(),
        "clientKeyData": own.private_key_pem.bytes().decode(),
    }

    def whom(request: Request) -> tuple[int, Entry]:
        return 200, {"caller": request.caller}

    with tls_server(authority, whom) as url:
        cluster = {"server": url, "certificate-authority": "ca.pem"}
        found = endpoint([written(tmp_path, saying(tmp_path, answer(**pems)), cluster)])

        assert Client(found).get("/whom") == b'{"caller": "ana"}'


NONE = "its answer is no ExecCredential with a token, or a certificate and its key"


def refused(file: Path) -> str:
    with pytest.raises(EndpointError) as error:
        endpoint([file])
    return str(error.value)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo session expired >&2; exit 3", "it ended with status 3: session expired"),
        ("echo '[Errno 2] x' >&2; exit 1", "it ended with status 1: [Errno 2] x"),
        (
            "printf 'a\\n2026 CRITICAL forged\\033[2J' >&2; exit 1",
            "it ended with status 1: a 2026 CRITICAL forged [2J;",
        ),
        ("true", "its answer is no ExecCredential (Input data was truncated)"),
    ],
)
def test_one_that_fails_is_named_with_what_it_says(script: str, why: str, tmp_path: Path) -> None:
    file = written(tmp_path, plugin(tmp_path, script))

    stated = refused(file)

    assert f"kubeconfig {file}: the credential plugin '{tmp_path}/log-in' failed: {why}" in stated
    assert stated.endswith("; run it by hand, or log in again")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("please log in", "no ExecCredential (JSON is malformed"),
        ("[]", "no ExecCredential (Expected `object`"),
        ("{}", "no ExecCredential (Object missing required field `apiVersion`)"),
        ("7", "no ExecCredential (Expected `object`"),
        (answer().replace("{}", "null"), "no ExecCredential (Expected `object`"),
        (answer("other/v1", token="t"), f"it does not answer in {API}"),
        (answer(), NONE),
        (answer(token=""), NONE),
        (answer(token="t", expirationTimestamp="soon"), "no ExecCredential (Invalid RFC3339"),
        (answer(clientCertificateData="x"), NONE),
    ],
)
def test_one_that_answers_nonsense_is_named(text: str, why: str, tmp_path: Path) -> None:
    stated = refused(written(tmp_path, saying(tmp_path, text)))

    assert f"the credential plugin '{tmp_path}/log-in' failed: " in stated
    assert why in stated


@pytest.mark.parametrize(
    ("more", "remedy"), [({}, "install it"), ({"installHint": "apt install it"}, "apt install it")]
)
def test_one_that_is_not_installed_says_how_to_install_it(
    more: Entry, remedy: str, tmp_path: Path
) -> None:
    login = {"exec": {"apiVersion": API, "command": "no-such-login-program"} | more}

    with pytest.raises(EndpointError) as error:
        endpoint([written(tmp_path, login)])

    assert str(error.value).endswith(
        f"the credential plugin 'no-such-login-program' failed: it is not installed; {remedy}"
    )


def test_a_file_that_is_missing_is_no_fault_of_the_plugin(tmp_path: Path) -> None:
    cluster = {"server": HTTPS, "certificate-authority": "none.pem"}

    with pytest.raises(EndpointError, match=r"File does not exist: \S+/none.pem; check"):
        endpoint([written(tmp_path, saying(tmp_path, answer(token="t")), cluster)])


def test_one_that_needs_a_terminal_is_not_started_without_one(tmp_path: Path) -> None:
    """It would wait for input that cannot come, and no user would see its question."""
    user = plugin(tmp_path, f"touch {tmp_path}/started; read line", interactiveMode="Always")

    with pytest.raises(EndpointError, match=r"log-in' needs a terminal: run the command in one"):
        endpoint([written(tmp_path, user)])

    assert not (tmp_path / "started").exists()


def test_none_is_started_for_a_server_without_tls(tmp_path: Path) -> None:
    """Its token would be for anyone on the way."""
    user = plugin(tmp_path, f"touch {tmp_path}/started; echo '{answer(token='t')}'")

    with pytest.raises(EndpointError, match=r"http://10\.0\.0\.1 has no TLS, so no token is sent"):
        endpoint([written(tmp_path, user, {"server": "http://10.0.0.1"})])

    assert not (tmp_path / "started").exists()


def on_terminal(file: Path, types: str, stdout: int | None = None) -> str:
    """Log in on a pseudo terminal; returns all that is written there."""
    script = (
        "import pathlib, sys\n"
        "from kubeapi.endpoint import EndpointError\n"
        "from remediator.controller.kubeconfig import endpoint\n"
        "try:\n"
        "    print('token', endpoint([pathlib.Path(sys.argv[1])]).token)\n"
        "except EndpointError as error:\n"
        "    print(error)\n"
    )
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script, file],
        stdin=its,
        stdout=its if stdout is None else stdout,
        stderr=its,
    ):
        os.close(its)
        os.write(ours, types.encode())
        stated = b""
        with suppress(OSError):  # how a terminal says that its other end was closed
            while piece := os.read(ours, 65536):
                stated += piece
        os.close(ours)
    return stated.decode().replace("\r\n", "\n")


def test_on_a_terminal_it_may_ask(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(answer(token="$LINE"), encoding="utf-8")
    script = f'echo Password? >&2; read LINE; sed "s/.LINE/$LINE/" {tmp_path}/answer'
    user = plugin(tmp_path, script, interactiveMode="Always")

    stated = on_terminal(written(tmp_path, user), "sesame\n")

    assert "Password?" in stated
    assert "token sesame" in stated


def test_its_question_is_seen_where_the_output_goes_into_a_pipe(tmp_path: Path) -> None:
    """As with `| less`."""
    script = f"echo Password? >&2; read LINE; echo $LINE >{tmp_path}/typed; exit 1"
    file = written(tmp_path, plugin(tmp_path, script, interactiveMode="Always"))

    assert on_terminal(file, "sesame\n", subprocess.DEVNULL).count("Password?") == 1
    assert (tmp_path / "typed").read_text(encoding="utf-8") == "sesame\n"


def test_on_a_terminal_its_own_words_are_not_repeated(tmp_path: Path) -> None:
    stated = on_terminal(written(tmp_path, plugin(tmp_path, "echo expired >&2; exit 1")), "")

    assert stated.startswith("expired\n")
    assert "log-in' failed: it ended with an error, which it has printed; run it" in stated
