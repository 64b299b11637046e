"""Which entries of kubeconfigs count. What cannot be used is a sentence without secrets."""

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from kubeapi.client import Client
from kubeapi.endpoint import Credentials, Endpoint, EndpointError
from remediator.__main__ import endpoint_of
from remediator.controller.kubeconfig import endpoint
from remediator.settings import parse
from tests.remediator.controller.kubeconfigs import HTTP, HTTPS, Entry, Request, tls_server, written

SECRET = "sesame-0123456789"
TWO = """
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: one, cluster: {server: "http://one.example"}}
- {name: two, cluster: {server: "http://two.example", tls-server-name: api.two.example}}
contexts:
- {name: one, context: {cluster: one, user: u}}
- {name: two, context: {cluster: two, user: u}}
users:
- {name: u, user: {token: t}}
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    file = tmp_path / "two"
    file.write_text(TWO, encoding="utf-8")
    return file


def refused(*files: Path, context: str = "") -> str:
    with pytest.raises(EndpointError) as error:
        endpoint(files, context)
    return str(error.value)


@pytest.mark.parametrize(
    ("context", "server", "name"),
    [("", "http://one.example", None), ("two", "http://two.example", "api.two.example")],
)
def test_the_context_that_is_named_counts(
    two: Path, context: str, server: str, name: str | None
) -> None:
    found = endpoint([two], context)

    assert (found.server, found.token, found.tls_server_name) == (server, "t", name)


def test_a_context_that_is_not_there_is_named_with_a_near_one(two: Path) -> None:
    stated = refused(two, context="tow")

    assert f"kubeconfig {two} has no context 'tow' (did you mean two?)" in stated


MISSING: tuple[tuple[Entry, str], ...] = (
    ({"clusters": []}, "has no cluster 'one', which the context names"),
    ({"users": []}, "has no user 'one', which the context names"),
    ({"clusters": [{"name": "one", "cluster": {}}]}, "has no server"),
    ({"contexts": None}, "has no context 'one'"),
    ({"current-context": ""}, "has no current context"),
    ({"current-context": "", "contexts": [{"context": {}}]}, "(available: none)"),
)


@pytest.mark.parametrize(("change", "why"), MISSING)
def test_an_entry_that_is_missing_is_named(change: Entry, why: str, tmp_path: Path) -> None:
    assert why in refused(written(tmp_path, {"token": "t"}, **change))


def test_a_context_without_a_cluster_spoils_no_other(tmp_path: Path) -> None:
    contexts = [
        {"name": "half", "context": {"cluster": None, "user": None}},
        {"name": "empty", "context": None},
        {"name": "one", "context": {"cluster": "one", "user": "one"}},
    ]

    assert endpoint([written(tmp_path, {"token": "t"}, contexts=contexts)]).token == "t"


@pytest.mark.parametrize(
    "text",
    [
        *("just text", "- 1", "clusters: 3\ncurrent-context: x", "users: {a: b}", "users: [1]"),
        "clusters: [{name: a, cluster: text}]",
        "clusters: [{name: a, cluster: {}}, {cluster: {}}]",
        "clusters: " + "[" * 1000 + "]" * 1000,
    ],
)
def test_what_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text, encoding="utf-8")

    assert f"{file} is not a kubeconfig (" in refused(file)


def test_the_line_of_a_broken_yaml_is_named_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(f'users:\n- name: u\n  user: {{token: "{SECRET}}}\n', encoding="utf-8")

    stated = refused(file)

    assert f"{file} is not a kubeconfig (no YAML in line " in stated
    assert SECRET not in stated


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert f"kubeconfig {tmp_path} cannot be read: [Errno 21]" in refused(tmp_path)
    colon = written(tmp_path, {"token": "t"}, name="a:b")
    assert f"kubeconfig {colon} cannot be read: rename it" in refused(colon)
    latin = tmp_path / "latin"
    latin.write_bytes("# für alle\n".encode("latin-1"))
    assert f"kubeconfig {latin} cannot be read: " in refused(latin)


def test_of_several_files_the_first_wins(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    alone = tmp_path / "alone"
    alone.write_text("current-context: two", encoding="utf-8")
    one = written(tmp_path, {"token": "first"}, name="one")
    other = written(tmp_path, {"token": "second"}, {"server": HTTPS}, name="other")
    named = {"name": "two", "context": {"cluster": "one", "user": "one"}}
    third = written(tmp_path, {"token": "third"}, name="third", contexts=[named])

    assert endpoint([empty, one, other]).token == "first"
    assert endpoint([other, one]).server == HTTPS
    assert endpoint([alone, other, one, third]).token == "second"


def test_paths_of_an_entry_are_relative_to_its_own_file(tmp_path: Path) -> None:
    for place in ("clusters", "users"):
        (tmp_path / place).mkdir()
    for name in ("users/c.pem", "users/k.pem", "clusters/ca.pem"):
        (tmp_path / name).touch()
    login = {"client-certificate": "c.pem", "client-key": "../users/k.pem"}
    ca = {"server": HTTPS, "certificate-authority": "ca.pem"}
    users = written(tmp_path / "users", login, clusters=[])
    clusters = written(tmp_path / "clusters", {}, ca, users=[])

    found = endpoint([clusters, users])

    assert found.ca_file == str(tmp_path / "clusters" / "ca.pem")
    assert found.client_cert_file == str(tmp_path / "users" / "c.pem")
    assert found.client_key_file == str(tmp_path / "users" / "k.pem")


@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_entry_is_an_absent_one(nothing: str | None, tmp_path: Path) -> None:
    """Else an empty CA would have the machine's public authorities trusted."""
    for name in ("ca.pem", "c.pem", "k.pem"):
        (tmp_path / name).touch()
    login = {"client-certificate": "c.pem", "client-key": "k.pem", "token": nothing, "exec": None}
    login |= {"client-certificate-data": nothing, "client-key-data": nothing, "tokenFile": nothing}
    at = {"server": HTTPS, "certificate-authority": "ca.pem", "proxy-url": nothing}
    at |= {"certificate-authority-data": nothing, "tls-server-name": nothing}

    found = endpoint([written(tmp_path, login, at)])

    files = (found.ca_file, found.client_cert_file, found.client_key_file)
    assert files == tuple(str(tmp_path / name) for name in ("ca.pem", "c.pem", "k.pem"))
    assert (found.token, found.proxy, found.tls_server_name) == (None, None, None)


@pytest.mark.parametrize("token", ["", None, "another"])
def test_a_token_file_outranks_a_token(token: str | None, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from the file", encoding="ascii")

    found = Credentials(endpoint([written(tmp_path, {"token": token, "tokenFile": "token"})]))

    assert found.headers() == {"authorization": "Bearer from the file"}


@pytest.mark.parametrize("server", ["HTTPS://127.0.0.1:1", " https://127.0.0.1:1"])
def test_the_servers_ca_counts_however_its_address_is_written(server: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    at = {"server": server, "certificate-authority": "ca.pem"}

    found = endpoint([written(tmp_path, {"token": "t"}, at)])

    assert (found.server, found.ca_file) == (HTTPS, str(tmp_path / "ca.pem"))


@pytest.mark.parametrize(
    ("user", "cluster", "why"),
    [
        ({"client-certificate": "none.pem"}, {}, "File does not exist: "),
        ({"client-certificate-data": "x"}, {}, "no base64"),
        ({"tokenFile": "none"}, {}, "No such file or directory"),
        ({"token": f"{SECRET}\n{SECRET}"}, {}, "the token contains invalid characters"),
        ({"token": "t"}, {"certificate-authority": "/nowhere/ca.crt"}, "/nowhere/ca.crt; check"),
        ({"token": "t"}, {"server": 7}, "an entry has the wrong form"),
        ({"exec": SECRET}, {}, "an entry has the wrong form"),
        ({"username": "u", "password": SECRET}, {}, "user name and password are not supported"),
        ({"auth-provider": {"name": "gcp"}}, {}, "the auth-provider 'gcp' is not supported"),
    ],
)
def test_a_login_that_cannot_be_used_is_a_sentence_without_its_secrets(
    user: Entry, cluster: Entry, why: str, tmp_path: Path
) -> None:
    file = written(tmp_path, user, {"server": HTTPS} | cluster)

    stated = refused(file)

    assert stated.startswith(f"kubeconfig {file}: ")
    assert why in stated
    assert SECRET not in stated


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n", encoding="ascii")
    found = Credentials(endpoint([written(tmp_path, {"tokenFile": "token"})]))
    assert found.headers() == {"authorization": "Bearer first"}

    token.write_text("the second", encoding="ascii")

    assert found.headers() == {"authorization": "Bearer the second"}


@pytest.mark.parametrize("user", [{}, {"token": ""}, {"extensions": []}])
def test_a_user_may_have_no_login(user: Entry, tmp_path: Path) -> None:
    """The server may let anyone read, or treats the caller as anonymous."""
    assert endpoint([written(tmp_path, user)]) == Endpoint(server=HTTP)


def test_the_remediator_acts_as_whom_and_through_what_its_kubeconfig_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not do with all rights what the user gave it fewer for."""
    monkeypatch.setenv("HTTP_PROXY", "http://10.0.0.2:3128")
    limited = {"token": "t", "as": "ana", "as-groups": ["ops"]}
    direct = written(tmp_path, limited, {"server": "http://10.0.0.1"})
    own = written(
        tmp_path, limited, {"server": "http://10.0.0.1", "proxy-url": "http://10.0.0.3"}, "own"
    )

    found = endpoint_of(parse(["--kubeconfig", str(direct)]))

    assert found.impersonation == (("Impersonate-User", "ana"), ("Impersonate-Group", "ops"))
    assert found.proxy == "http://10.0.0.2:3128"
    assert endpoint_of(parse(["--kubeconfig", str(own)])).proxy == "http://10.0.0.3"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[str]:
    def whom(request: Request) -> tuple[int, Entry]:
        return 200, {"caller": request.caller}

    with tls_server(authority, whom) as url:
        yield url


def login_with_certificate(authority: trustme.CA, folder: Path, kind: str) -> Entry:
    own = authority.issue_cert("ana.example", common_name="ana")
    texts = {
        "client-certificate": own.cert_chain_pems[0].bytes(),
        "client-key": own.private_key_pem.bytes(),
    }
    if kind == "data":
        return {f"{key}-data": base64.b64encode(text).decode() for key, text in texts.items()}
    for key, text in texts.items():
        (folder / key).write_bytes(text)
    return {key: key for key in texts}


@pytest.mark.parametrize("kind", ["data", "files"])
def test_a_certificate_logs_in_and_the_servers_is_verified(
    kind: str, authority: trustme.CA, server: str, tmp_path: Path
) -> None:
    user = login_with_certificate(authority, tmp_path, kind)
    pem = base64.b64encode(authority.cert_pem.bytes()).decode()
    at: dict[str, Any] = {"server": server, "certificate-authority-data": pem}
    found = endpoint([written(tmp_path, user, at)])
    unverified = endpoint(
        [written(tmp_path, user, {"server": server, "insecure-skip-tls-verify": True})]
    )

    assert Client(found).get("/whom") == b'{"caller": "ana"}'
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
        Client(unverified).get("/whom")


def test_no_copy_of_a_key_outlives_the_making_of_a_client(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would remove it after a signal."""
    user = login_with_certificate(authority, tmp_path, "data")
    pem = base64.b64encode(authority.cert_pem.bytes()).decode()
    at = {"server": HTTPS, "certificate-authority-data": pem}
    copies = tmp_path / "tmp"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))

    found = endpoint([written(tmp_path, user, at)])
    Client(found).close()

    assert list(copies.iterdir()) == []
    assert found.client_key_data == base64.b64decode(user["client-key-data"])
    assert "PRIVATE" not in repr(found)


def test_a_key_with_a_passphrase_is_named(authority: trustme.CA, tmp_path: Path) -> None:
    """OpenSSL would ask for it, in each program that it is part of."""
    user = login_with_certificate(authority, tmp_path, "files")
    key = load_pem_private_key((tmp_path / "client-key").read_bytes(), None)
    passphrase = BestAvailableEncryption(SECRET.encode())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, passphrase)
    (tmp_path / "client-key").write_bytes(pem)

    with pytest.raises(EndpointError, match=r"client-key is encrypted: give one without a pass"):
        Client(endpoint([written(tmp_path, user, {"server": HTTPS})]))
