"""A real API server is reached through a real proxy, and what is wrong there is named."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from draguard.__main__ import main
from draguard.connection.errors import sentence
from draguard.connection.which_cluster import endpoint_of
from kubeapi.client import ApiError
from tests.draguard.fleet import Fleet
from tests.draguard.printed import printed
from tests.draguard.test_cli_terminal import piped
from tests.kubeapi.connect_proxy import ConnectProxy

NAME = "api.prod.example.com"


def behind(fleet: Fleet, folder: Path, **more: str) -> tuple[str, tuple[str, int]]:
    """Return a kubeconfig with a name that does not resolve here, and where that server is."""
    content = yaml.safe_load(Path(fleet.kubeconfig).read_text(encoding="utf-8"))
    where = urlsplit(str(content["clusters"][0]["cluster"]["server"]))
    for each in content["clusters"]:
        each["cluster"] |= {"server": f"https://{NAME}:6443", "tls-server-name": where.hostname}
        each["cluster"] |= more
    file = folder / "config"
    file.write_text(json.dumps(content), encoding="utf-8")
    assert where.hostname
    assert where.port
    return str(file), (where.hostname, where.port)


def test_the_environment_leads_through_a_proxy(fleet: Fleet, tmp_path: Path) -> None:
    file, place = behind(fleet, tmp_path)
    with ConnectProxy({f"{NAME}:6443": place}, login="ana:secret") as proxy:
        through = f"http://ana:secret@127.0.0.1:{proxy.port}"
        stated = piped("incidents", "--kubeconfig", file, HTTPS_PROXY=through)

    assert "xid-79" in stated
    assert proxy.opened


@pytest.mark.parametrize("direct", ["", "*"])
def test_the_proxy_of_a_kubeconfig_wins_over_the_environment(
    direct: str,
    fleet: Fleet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, place = behind(fleet, tmp_path)
    with ConnectProxy({f"{NAME}:6443": place}) as proxy:
        more = {"proxy-url": f"http://127.0.0.1:{proxy.port}"}
        file, _ = behind(fleet, tmp_path, **more)
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", direct)
        assert "xid-79" in printed(capsys, "incidents", "--kubeconfig", file)


def test_what_no_proxy_names_is_reached_directly(fleet: Fleet, tmp_path: Path) -> None:
    file, _ = behind(fleet, tmp_path)
    environ = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "example.com"}

    assert endpoint_of(Path(file), "", environ).proxy is None
    assert endpoint_of(Path(file), "", {**environ, "NO_PROXY": "x"}).proxy == "http://127.0.0.1:9"


def test_a_proxy_without_the_login_is_reported_in_one_line_without_secrets(
    fleet: Fleet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, place = behind(fleet, tmp_path)
    with ConnectProxy({f"{NAME}:6443": place}, login="ana:secret") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ana:wrong@127.0.0.1:{proxy.port}")
        assert main(["status", "--kubeconfig", file]) == 2
    stated = capsys.readouterr().err

    assert stated.count("\n") == 1
    assert f"the proxy http://127.0.0.1:{proxy.port} refused (407" in stated
    assert "put user and password into its URL" in stated
    assert "wrong" not in stated


def test_a_proxy_of_another_kind_is_refused(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, _ = behind(fleet, tmp_path, **{"proxy-url": "socks5://ana:secret@127.0.0.1:1080"})

    assert main(["status", "--kubeconfig", file]) == 2
    stated = capsys.readouterr().err
    assert "the proxy socks5://127.0.0.1:1080 is not supported" in stated
    assert "secret" not in stated


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        (
            "CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired",
            "renewed",
        ),
        ("CERTIFICATE_VERIFY_FAILED] ...: certificate is not yet valid", "check the clock"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED] sslv3 alert", "log in again"),
        ("CERTIFICATE_VERIFY_FAILED] ...: unable to get local issuer certificate", "give its CA"),
        ("WRONG_VERSION_NUMBER] wrong version number", "does not speak TLS"),
    ],
)
def test_a_certificate_that_is_wrong_is_named_with_what_to_do(reason: str, meaning: str) -> None:
    error = ApiError(f"GET /version: asking s:443: TLS failed; check the CA file ([SSL: {reason})")

    assert meaning in sentence(error, "https://s")


def test_an_error_has_no_internal_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config"
    user = {"name": "u", "user": {"token": "t"}}
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    content = {"clusters": [cluster], "users": [user], "contexts": [context]}
    file.write_text(json.dumps(content | {"current-context": "x"}), encoding="utf-8")

    assert main(["incidents", "--kubeconfig", str(file)]) == 2
    stated = capsys.readouterr().err
    assert "connection refused or unreachable" in stated
    assert "_Wired" not in stated
    assert "object at" not in stated
