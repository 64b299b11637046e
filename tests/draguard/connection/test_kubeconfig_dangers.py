"""Kubeconfigs that would mean more here than with kubectl, tell a secret, or make a crash."""

from pathlib import Path
from typing import Any

import pytest

from draguard.connection import which_cluster
from draguard.connection.cluster_flags import Overrides
from draguard.connection.errors import sentence
from draguard.connection.which_cluster import endpoint_of
from kubeapi.client import ApiError
from kubeapi.endpoint import Endpoint, EndpointError
from tests.draguard.printed import printed
from tests.draguard.test_cli_errors import config, written

Config = dict[str, Any]


def refused(folder: Path, content: Config, context: str = "") -> str:
    path = written(folder, "config", content)
    with pytest.raises(EndpointError) as error:
        endpoint_of(path, context, {})
    return str(error.value)


@pytest.mark.parametrize(
    "entries",
    [
        {"as": 7},
        {"as": ""},
        {"as": "ana\n"},
        {"as-groups": ["a"]},
        {"as": "ana", "as-groups": "a"},
        {"as": "ana", "as-user-extra": {"a": "b"}},
        {"as": "ana", "as-of-a-later-kubectl": "x"},
    ],
)
def test_who_would_act_as_somebody_unknown_is_not_taken_for_himself(
    entries: Config, tmp_path: Path
) -> None:
    """With kubectl he has fewer rights: `cleanup --all` must not be done with all of his own."""
    content = config("https://127.0.0.1:1", "t")
    content["users"][0]["user"] |= entries

    assert "impersonation" in refused(tmp_path, content)


def test_another_users_impersonation_is_no_matter(tmp_path: Path) -> None:
    content = config("http://127.0.0.1:1", "t")
    content["users"].append({"name": "two", "user": {"token": "t", "as": "viewer"}})
    two = {"name": "two", "context": {"cluster": "one", "user": "two"}}
    content["contexts"].append(two)
    path = written(tmp_path, "config", content)

    assert endpoint_of(path, "", {}).impersonation == ()
    assert endpoint_of(path, "two", {}).impersonation == (("Impersonate-User", "viewer"),)


def test_a_token_is_not_reported_because_it_is_odd(tmp_path: Path) -> None:
    assert "SECRET" not in refused(tmp_path, config("https://127.0.0.1:1", "SECRET\nSECRET"))


def test_a_line_break_after_a_token_is_none_of_it(tmp_path: Path) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t\n"))

    assert endpoint_of(path, "", {}).token == "t"


@pytest.mark.parametrize("server", ["https://host:port", "https://h:99999999", "h:6443"])
@pytest.mark.parametrize("command", ["status", "cleanup --all"])
def test_an_address_that_is_none_is_a_sentence(
    server: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config(server, "t"))

    stated = printed(capsys, *command.split(), "--kubeconfig", str(path), ends=2)

    assert "is not a URL of a" in stated
    assert stated.count("\n") == 1


@pytest.mark.parametrize("url", ["foo", "http://[::1", "http://h:port", "ftp://h"])
def test_an_address_of_a_remediator_that_is_none_is_a_sentence(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = printed(capsys, "plan", "--url", url, ends=2)

    assert f"{url!r} is not a URL of a remediator, such as http://10.0.3.7:9401" in stated
    assert stated.count("\n") == 1


def test_explaining_goes_on_without_a_cluster_whose_address_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config("https://host:port", "t"))

    assert "shipped; the policy of a cluster is unknown" in printed(
        capsys, "explain", "xid", "79", "--kubeconfig", str(path)
    )


def test_the_token_of_a_pod_goes_to_no_other_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has a pod's shell pastes addresses, too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(which_cluster, "in_cluster", lambda: Endpoint(server="https://own:1"))

    assert endpoint_of(None, "", {}).server == "https://own:1"
    with pytest.raises(EndpointError, match=r"--server needs a login: give --token or --kube"):
        endpoint_of(None, "", {}, Overrides(server="https://elsewhere:1"))


def test_a_user_without_a_home_learns_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)

    with pytest.raises(EndpointError, match="give --kubeconfig"):
        endpoint_of(None, "", {})


def test_a_certificate_of_another_name_is_not_called_untrusted() -> None:
    why = "certificate verify failed: IP address mismatch, certificate is not valid for '10.0.0.1'."
    message = (
        f"GET /version: asking 10.0.0.1:6443: TLS failed ([SSL: CERTIFICATE_VERIFY_FAILED] {why})"
    )

    stated = sentence(ApiError(message), "https://10.0.0.1:6443")

    assert "is for another server (IP address mismatch, certificate is not valid for" in stated
    assert "set it as tls-server-name" in stated


@pytest.mark.parametrize(
    ("doing", "unsure"),
    [
        ("PATCH /apis/draguard.dev/v1alpha1/deviceincidents/x", True),
        ("POST /apis/resource.k8s.io/v1/devicetaintrules", True),
        ("DELETE /apis/resource.k8s.io/v1/devicetaintrules/x", True),
        ("GET /apis/resource.k8s.io/v1/devicetaintrules", False),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", False),
        ("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", False),
    ],
)
def test_only_a_write_may_be_done_without_an_answer(doing: str, unsure: bool) -> None:
    stated = sentence(ApiError(f"{doing}: asking h:1: no answer in time"), "https://h:1")

    assert ("It may or may not be done" in stated) == unsure
