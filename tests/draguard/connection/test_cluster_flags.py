"""The flags of kubectl that say which cluster, as whom and how long: on the real API server."""

import argparse
import socket
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from draguard.__main__ import main
from draguard.connection.cluster_flags import TIMEOUT, Overrides, seconds
from draguard.connection.which_cluster import endpoint_of
from kubeapi.endpoint import Endpoint, EndpointError
from tests.draguard.fleet import Fleet
from tests.draguard.printed import masked, printed
from tests.draguard.test_cli_errors import config, written

SECRET = "sesame-0123456789"


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kubeconfig is found."""
    monkeypatch.setenv("HOME", str(tmp_path))


def address(fleet: Fleet) -> tuple[str, ...]:
    at = fleet.cluster.plane.endpoint()
    return ("--server", at.server, "--token", at.token or "")


def trust(fleet: Fleet) -> tuple[str, ...]:
    return ("--certificate-authority", fleet.cluster.plane.endpoint().ca_file or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", 30.0), ("30s", 30.0), ("1m30s", 90.0), ("500ms", 0.5), ("1.5m", 90.0), ("0", 86_400)],
)
def test_a_time_is_read_as_kubectl_spells_it(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "1m30", "1 s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time"):
        seconds(text)


@pytest.mark.parametrize("text", ["99999999999999", "9" * 400 + "h", "9999999h"])
def test_a_time_beyond_a_day_is_no_limit(text: str) -> None:
    assert seconds(text) == seconds("0")


def test_an_address_a_token_and_a_ca_need_no_kubeconfig(
    fleet: Fleet, homeless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = printed(capsys, "incidents", *address(fleet), *trust(fleet))

    by_kubeconfig = printed(capsys, "incidents", "--kubeconfig", fleet.kubeconfig)
    assert masked(stated) == masked(by_kubeconfig)  # a second later ages differ


def test_they_stand_before_the_command_as_well(
    fleet: Fleet, homeless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (*address(fleet), "--insecure-skip-tls-verify", "--as", "ana", "--request-timeout=9s")

    before = printed(capsys, *flags, "--as-group", "system:masters", "incidents", "-o", "name")
    behind = printed(capsys, "incidents", "-o", "name", *flags, "--as-group", "system:masters")

    assert before == behind != ""


def test_an_unknown_authority_is_refused_unless_the_flag_says_otherwise(
    fleet: Fleet, homeless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = printed(capsys, "incidents", *address(fleet), ends=2)

    assert "is not trusted" in refused
    assert "insecure-skip-tls-verify in a kubeconfig is ignored: add the flag" in refused
    assert "INCIDENT" in printed(capsys, "incidents", *address(fleet), "--insecure-skip-tls-verify")


def test_the_server_judges_the_user_that_is_impersonated(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig)

    for command in ("incidents", "status", "cleanup --all --dry-run"):
        stated = printed(capsys, *command.split(), *where, "--as", "jörg", ends=2)
        assert "jörg may not list" in stated
    assert "INCIDENT" in printed(
        capsys, "incidents", *where, "--as", "ana", "--as-group", "a", "--as-group=system:masters"
    )


def test_a_cordon_is_in_the_name_of_the_impersonated_user(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig, "--as", "ana", "--as-group", "system:masters")

    stated = printed(capsys, "cordon", "node-a/1", "--reason", "x", "--dry-run", *where)

    assert "by      ana" in stated


def test_the_kubeconfig_impersonates_as_kubectl_does(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = fleet.cluster.plane.endpoint()
    content = config(at.server, at.token or "")
    content["clusters"][0]["cluster"]["certificate-authority"] = at.ca_file
    user = content["users"][0]["user"]
    user |= {"as": "ana", "as-groups": ["b"], "as-uid": "7", "as-user-extra": {"team/x": ["y"]}}
    path = written(tmp_path, "config", content)

    assert "ana may not list" in printed(capsys, "incidents", "--kubeconfig", str(path), ends=2)
    assert endpoint_of(path, "", {}).impersonation == (
        ("Impersonate-User", "ana"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-team%2Fx", "y"),
    )
    other = endpoint_of(path, "", {}, Overrides(user="bo", groups=("c",)))
    assert other.impersonation == (("Impersonate-User", "bo"), ("Impersonate-Group", "c"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Overrides(groups=("a",)), "--as-group needs --as USER"),
        (Overrides(ca_file=Path("ca.pem"), insecure=True), "does not go with"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    given: Overrides, why: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))

    with pytest.raises(EndpointError, match=why):
        endpoint_of(path, "", {}, given)


def test_a_token_replaces_every_other_login(tmp_path: Path) -> None:
    """A certificate would win over it at the server, and a plugin would ask for a password."""
    content = config("https://127.0.0.1:1", "t")
    content["users"][0]["user"] = {"exec": {"command": "no-such-plugin"}}
    (tmp_path / "c.pem").write_text("x", encoding="utf-8")

    found = endpoint_of(written(tmp_path, "config", content), "", {}, Overrides(token="given"))
    content["users"][0]["user"] = {"client-certificate": "c.pem", "client-key": "c.pem"}
    other = endpoint_of(written(tmp_path, "config", content), "", {}, Overrides(token="given"))

    assert found.token == other.token == "given"
    assert other.client_cert_file is None


@pytest.mark.parametrize("given", [{"insecure": True}, {"ca_file": Path(__file__)}])
def test_a_token_needs_no_plugin_if_the_kubeconfigs_ca_is_gone(
    given: dict[str, Any], tmp_path: Path
) -> None:
    content = config("https://127.0.0.1:1", "t")
    content["clusters"][0]["cluster"]["certificate-authority"] = "gone.pem"
    content["users"][0]["user"] = {"exec": {"command": "no-such-plugin"}}
    path = written(tmp_path, "config", content)

    assert endpoint_of(path, "", {}, Overrides(token="given", **given)).token == "given"


def test_another_server_is_not_called_by_the_name_of_the_kubeconfigs(tmp_path: Path) -> None:
    content = config("https://127.0.0.1:1", "t")
    content["clusters"][0]["cluster"]["tls-server-name"] = "prod"
    path = written(tmp_path, "config", content)

    assert endpoint_of(path, "", {}).tls_server_name == "prod"
    assert endpoint_of(path, "", {}, Overrides(server="https://b")).tls_server_name is None


def test_a_context_that_does_not_exist_is_an_error_for_all_that(tmp_path: Path) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t", "prod"))

    with pytest.raises(EndpointError, match=r"has no context 'prd'.*did you mean prod"):
        endpoint_of(path, "prd", {}, Overrides(server="http://127.0.0.1:2", token="x"))


def test_a_server_takes_the_place_of_the_kubeconfigs(tmp_path: Path) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))

    found = endpoint_of(path, "", {}, Overrides(server="http://127.0.0.1:2/"))

    assert (found.server, found.token) == ("http://127.0.0.1:2", "t")


def test_no_answer_is_waited_for_no_longer_than_the_flag_says(
    homeless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        began = monotonic()
        stated = printed(
            capsys, "incidents", "--server", url, "--token", "t", "--request-timeout=1s", ends=2
        )

    assert "no answer in time" in stated
    assert monotonic() - began < 0.9 * TIMEOUT  # which it would be without the flag


@pytest.mark.parametrize(
    "typed",
    [
        "incidents --tokn SECRET",
        "incidents --tokn=SECRET",
        "--tokn=SECRET incidents",
        "--toke=SECRET status",
        "--toekn=SECRET",
        "status --tken SECRET",
        "status --token= SECRET",
        "status --tken -SECRET",
        "incidents --token SECRET\n",
        "incidents --token SECRET --server http://127.0.0.1:1",
        "incidents --token SECRET --server SECRET:1",
        "incidents --token SECRET --server http://127.0.0.1:1 --as-group a",
        "incidents --token SECRET --kubeconfig none",
        "incidents --token SECRET --context none",
        "--token SECRET",
        "policy check --token SECRET",
        "--token SECRET incident",
    ],
)
def test_a_token_is_in_no_error(
    typed: str, homeless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("SECRET", SECRET) for word in typed.split(" ")]
    if "SECRET:1" in typed:
        words[-1] = "no url"
    try:
        ended = main(words)
    except SystemExit as error:
        ended = error.code
    stated = capsys.readouterr()

    assert ended == 2
    assert stated.err
    assert SECRET not in stated.out + stated.err


def test_a_token_is_in_no_representation() -> None:
    given = Overrides(token=SECRET)

    assert SECRET not in repr(given) + repr(given.applied(Endpoint(server="http://127.0.0.1:1")))


def test_a_token_is_used_in_a_pod_that_has_one_of_its_own() -> None:
    """A token file would win over it, and a certificate at the server."""
    alone = Endpoint(server="https://127.0.0.1:1", token="given")
    own = msgspec.structs.replace(
        alone, token=None, token_file="t", client_cert_file="c", client_key_file="k"
    )

    assert Overrides(token="given").applied(own) == alone
