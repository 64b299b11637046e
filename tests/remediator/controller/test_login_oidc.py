"""OIDC logins against an identity provider with TLS on this machine."""

import base64
import json
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import trustme
import yaml

from kubeapi import clock
from kubeapi.endpoint import Credentials, EndpointError
from remediator.controller import kubernetes_login
from remediator.controller.kubeconfig import endpoint
from tests.remediator.controller.kubeconfigs import Entry, Request, tls_server, written
from tests.remediator.controller.test_login_renewal import wait_for

HOUR = 3600.0
SECRETS = ("the-client-secret", "refresh-1")


def jwt(ends: float, subject: str = "ana") -> str:
    """Return a token that ends so many seconds from now."""
    claims = {"exp": int(clock.now().timestamp() + ends), "sub": subject}
    parts = (json.dumps({"alg": "none"}), json.dumps(claims), "signature")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


class Provider:
    """What an identity provider gives, and what it was sent."""

    def __init__(self, authority: trustme.CA) -> None:
        self.authority, self.url = authority, ""
        self.tokens = ""
        """Where the tokens are, "" for its own address."""
        self.status, self.answer = 200, Entry()
        self.sent: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while it makes a token."""
        self.discovered, self.description = 0, 200
        self.one = threading.Lock()

    def __call__(self, request: Request) -> tuple[int, Entry]:
        if request.path == "/.well-known/openid-configuration":
            self.discovered += 1
            return self.description, {"token_endpoint": f"{self.tokens or self.url}/token"}
        self.meanwhile()
        with self.one:
            self.sent.append(f"{request.headers['authorization']} {request.body}")
        return self.status, self.answer

    def login(self, id_token: str, **more: str) -> Entry:
        config = {
            "idp-issuer-url": self.url,
            "client-id": "draguard",
            "client-secret": SECRETS[0],
            "refresh-token": SECRETS[1],
            "id-token": id_token,
        }
        return {"auth-provider": {"name": "oidc", "config": config | more}}

    def trusted(self) -> dict[str, str]:
        pem = self.authority.cert_pem.bytes()
        return {"idp-certificate-authority-data": base64.b64encode(pem).decode()}


@pytest.fixture
def provider() -> Iterator[Provider]:
    one = Provider(trustme.CA())
    with tls_server(one.authority, one) as one.url:
        yield one


def refused(file: Path) -> str:
    with pytest.raises(EndpointError) as error:
        endpoint([file])
    stated = str(error.value)
    assert stated.startswith(f"kubeconfig {file}: ")
    assert [secret for secret in SECRETS if secret in stated] == []
    return stated


def test_a_token_that_is_valid_asks_no_provider(provider: Provider, tmp_path: Path) -> None:
    token = jwt(HOUR)

    found = endpoint([written(tmp_path, provider.login(token, **provider.trusted()))])

    assert found.token == token
    assert provider.discovered == 0


def test_a_token_that_ended_is_renewed_and_written_back(provider: Provider, tmp_path: Path) -> None:
    """A provider that gives another refresh token takes the first one no more."""
    fresh = jwt(HOUR)
    provider.answer = {"access_token": "a", "id_token": fresh, "refresh_token": "refresh-2"}
    file = written(tmp_path, provider.login(jwt(-HOUR), **provider.trusted()))
    file.chmod(0o600)

    found = endpoint([file])

    assert found.token == fresh
    assert parse_qs(provider.sent[0].split()[-1])["refresh_token"] == ["refresh-1"]
    after = yaml.safe_load(file.read_bytes())
    expected = provider.login(fresh, **provider.trusted(), **{"refresh-token": "refresh-2"})
    assert after["users"] == [{"name": "one", "user": expected}]
    assert file.stat().st_mode & 0o777 == 0o600


def renewing(provider: Provider, folder: Path) -> Path:
    """Write a kubeconfig whose login the provider renews."""
    provider.answer = {"access_token": "a", "id_token": jwt(HOUR), "refresh_token": "refresh-2"}
    return written(folder, provider.login(jwt(-HOUR), **provider.trusted()))


def test_what_another_program_changed_meanwhile_stays(provider: Provider, tmp_path: Path) -> None:
    file = renewing(provider, tmp_path)
    link = tmp_path / "link"
    link.symlink_to(file)
    other = {"name": "other", "user": {"token": "t"}}

    def change() -> None:
        content = yaml.safe_load(file.read_bytes())
        content["users"].append(other)
        file.write_text(yaml.safe_dump(content | {"current-context": "new"}), encoding="utf-8")

    provider.meanwhile = change

    endpoint([link])

    after = yaml.safe_load(file.read_bytes())
    expected = {"id-token": provider.answer["id_token"], "refresh-token": "refresh-2"}
    config = after["users"][0]["user"]["auth-provider"]["config"]
    assert {key: config[key] for key in expected} == expected
    assert (after["users"][1], after["current-context"]) == (other, "new")
    assert link.is_symlink()
    assert {each.name for each in tmp_path.iterdir()} == {"config", "link"}


def test_a_login_that_another_program_renewed_meanwhile_stays(
    provider: Provider, tmp_path: Path
) -> None:
    file = renewing(provider, tmp_path)
    theirs = provider.login("theirs", **{"refresh-token": "theirs"})
    provider.meanwhile = lambda: written(tmp_path, theirs)

    assert endpoint([file]).token == provider.answer["id_token"]

    assert yaml.safe_load(file.read_bytes())["users"] == [{"name": "one", "user": theirs}]


def test_who_logged_out_meanwhile_stays_logged_out(
    provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = renewing(provider, tmp_path)
    provider.meanwhile = lambda: written(tmp_path, {}, users=[])
    endpoint([file])
    assert yaml.safe_load(file.read_bytes())["users"] == []

    file = renewing(provider, tmp_path)
    provider.meanwhile = file.unlink
    endpoint([file])

    assert list(tmp_path.iterdir()) == []
    assert ["cannot be saved" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("content", ["{", "just text", "users: [1]", "users: [{name: one}]"])
def test_a_file_that_is_no_kubeconfig_any_more_stays(
    content: str, provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = renewing(provider, tmp_path)
    provider.meanwhile = lambda: file.write_text(content, encoding="utf-8")

    assert endpoint([file]).token == provider.answer["id_token"]

    assert file.read_text(encoding="utf-8") == content
    assert "no longer has a login of this form" in caplog.text


def test_a_full_disk_leaves_the_kubeconfig_as_it_was(
    provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = renewing(provider, tmp_path)
    before = file.read_bytes()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = (len(before) // 2, most)
    provider.meanwhile = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, full)

    try:
        assert endpoint([file]).token == provider.answer["id_token"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    assert "File too large" in caplog.text


def test_a_file_that_kubectl_has_locked_stays(
    provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = renewing(provider, tmp_path)
    before = file.read_bytes()
    lock = tmp_path / "config.lock"
    lock.touch()

    assert endpoint([file]).token == provider.answer["id_token"]

    assert file.read_bytes() == before
    assert f"another program holds {lock}; remove it if none does" in caplog.text
    assert lock.exists()


def test_a_login_that_another_program_renewed_needs_no_provider(
    provider: Provider, tmp_path: Path
) -> None:
    """The old refresh token may be good for nothing any more."""
    file = written(tmp_path, provider.login(jwt(HOUR), **provider.trusted()))
    credentials = Credentials(endpoint([file], pause=0.05))
    theirs = jwt(HOUR, "theirs")
    written(tmp_path, provider.login(theirs, **provider.trusted(), **{"refresh-token": "theirs"}))
    credentials.refused(credentials.headers())
    wait_for(lambda: credentials.headers() == {"authorization": f"Bearer {theirs}"})

    assert provider.sent == []


def test_what_flags_and_defaults_change_is_not_written_back(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.authority.cert_pem.write_to_path(tmp_path / "system.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    provider.answer = {"access_token": "a", "id_token": jwt(HOUR)}
    login = provider.login(jwt(-HOUR))
    del login["auth-provider"]["config"]["client-secret"]
    file = written(tmp_path, login, {"certificate-authority": "gone.pem"})

    endpoint([file], server="http://127.0.0.1:2", own_ca=True)

    after = yaml.safe_load(file.read_bytes())
    cluster = {"server": "http://127.0.0.1:1", "certificate-authority": "gone.pem"}
    assert after["clusters"] == [{"name": "one", "cluster": cluster}]
    login["auth-provider"]["config"]["id-token"] = provider.answer["id_token"]
    assert after["users"] == [{"name": "one", "user": login}]


def test_a_long_run_renews_its_token(
    provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that the server refuses before its end, and where the file cannot be written."""
    file = written(tmp_path, provider.login(jwt(HOUR), **provider.trusted()))
    credentials = Credentials(endpoint([file], pause=0.05))
    provider.answer = {"access_token": "a", "id_token": jwt(HOUR, "second")}
    file.unlink()
    file.mkdir()
    credentials.refused(credentials.headers())
    expected = {"authorization": f"Bearer {provider.answer['id_token']}"}
    wait_for(lambda: credentials.headers() == expected)

    assert len(provider.sent) == 1
    assert ["cannot be saved" in record.getMessage() for record in caplog.records] == [True]


def test_a_provider_that_fails_is_in_the_log_and_the_last_token_serves(
    provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = jwt(HOUR)
    file = written(tmp_path, provider.login(token, **provider.trusted()))
    before = file.read_bytes()
    credentials = Credentials(endpoint([file], pause=0.05))
    provider.description = 404
    credentials.refused(credentials.headers())

    def logged() -> bool:
        assert credentials.headers() == {"authorization": f"Bearer {token}"}
        return "the provider gave no new id-token" in caplog.text

    wait_for(logged)
    assert file.read_bytes() == before


def test_a_provider_that_is_silent_is_named(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_login, "_ANSWER", 0.5)
    gone = threading.Event()
    provider.meanwhile = gone.wait
    try:
        stated = refused(renewing(provider, tmp_path))
    finally:
        gone.set()

    assert "the OIDC login was not renewed: " in stated
    assert "Read timed out" in stated


def test_an_unknown_provider_gets_no_secret(provider: Provider, tmp_path: Path) -> None:
    """Without a CA in the kubeconfig, only public authorities are trusted."""
    stated = refused(written(tmp_path, provider.login(jwt(-HOUR))))

    assert "the OIDC login was not renewed: " in stated
    assert "CERTIFICATE_VERIFY_FAILED" in stated
    assert (provider.discovered, provider.sent) == (0, [])


@pytest.mark.parametrize("key", ["idp-certificate-authority", "idp-certificate-authority-data"])
def test_an_empty_ca_of_the_provider_trusts_no_unknown_one(
    key: str, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the tokens are at another address than their description."""
    unknown = Provider(trustme.CA())
    provider.authority.cert_pem.write_to_path(tmp_path / "system.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    with tls_server(unknown.authority, unknown) as provider.tokens:
        stated = refused(written(tmp_path, provider.login(jwt(-HOUR), **{key: ""})))

    assert "CERTIFICATE_VERIFY_FAILED" in stated
    assert (provider.discovered, unknown.sent) == (1, [])


@pytest.mark.parametrize("name", ["none.pem", "empty.pem"])
def test_a_ca_of_the_provider_that_is_missing_or_empty_is_named(
    name: str, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "empty.pem").touch()
    authority = str(tmp_path / name)
    login = provider.login(jwt(-HOUR), **{"idp-certificate-authority": authority})

    stated = refused(written(tmp_path, login))

    assert f"{authority}, is missing or empty: correct idp-certificate-authority" in stated
    assert (provider.discovered, provider.sent) == (0, [])


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (400, {"error": "invalid_grant"}, "(invalid_grant)"),
        (200, {}, "missing_token"),
        (200, {"access_token": "a"}, "the provider's answer lacks 'id_token'"),
    ],
)
def test_a_refresh_that_is_refused_says_to_log_in_again(
    status: int, answer: Entry, why: str, provider: Provider, tmp_path: Path
) -> None:
    provider.status, provider.answer = status, answer

    stated = refused(written(tmp_path, provider.login(jwt(-HOUR), **provider.trusted())))

    assert "the OIDC login was not renewed: " in stated
    assert why in stated
    assert stated.endswith("; log in again")


@pytest.mark.parametrize("token", ["none", "a.b=.c", "a.b.c.d"])
def test_an_id_token_that_is_none_is_named(token: str, provider: Provider, tmp_path: Path) -> None:
    stated = refused(written(tmp_path, provider.login(token)))

    assert "the OIDC login has no valid id-token; log in again" in stated


@pytest.mark.parametrize("key", ["id-token", "refresh-token", "client-id", "idp-issuer-url"])
def test_a_key_that_is_missing_is_named_without_the_others(
    key: str, provider: Provider, tmp_path: Path
) -> None:
    login = provider.login(jwt(-HOUR), **provider.trusted())
    del login["auth-provider"]["config"][key]

    assert f"Expected key {key} in the entry" in refused(written(tmp_path, login))
