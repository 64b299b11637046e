"""Tokens and certificates are read as the `kubernetes` package reads them, without importing it."""

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draguard.connection.kubeconfig import endpoint_of
from kubeapi.endpoint import Endpoint, EndpointError
from remediator.controller import kubeconfig as library
from tests.draguard.test_cli_errors import config, written

Entry = dict[str, Any]
HTTPS = "https://127.0.0.1:1/"


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


CERTIFICATE: Entry = {"client-certificate": "c.pem", "client-key": "keys/../k.pem"}
COPIES: Entry = {"client-certificate-data": data("c"), "client-key-data": data("k")}


def fields(found: Endpoint) -> dict[str, object]:
    """Return an endpoint with the contents of its files in place of their names."""
    return {
        name: Path(value).read_text(encoding="utf-8") if name.endswith("_file") and value else value
        for name, value in msgspec.structs.asdict(found).items()
    }


def files(folder: Path) -> None:
    for name in ("c.pem", "k.pem", "ca.pem", "token"):
        (folder / name).write_text(f"content of {name}", encoding="utf-8")


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"server": "http://127.0.0.1:1"}, {"token": "t"}),
        ({"server": HTTPS}, {"token": "t"}),
        ({"server": HTTPS}, {"tokenFile": "token"}),
        ({"server": HTTPS}, {"token": "t", "tokenFile": "token"}),
        ({"server": HTTPS}, {"token": "", "tokenFile": "token"}),
        ({"server": HTTPS}, CERTIFICATE),
        ({"server": HTTPS}, COPIES),
        ({"server": HTTPS}, CERTIFICATE | COPIES),
        ({"server": "http://127.0.0.1:1"}, CERTIFICATE),
        ({"server": HTTPS, "certificate-authority": "ca.pem"}, COPIES | {"token": "t"}),
        ({"server": HTTPS, "certificate-authority-data": data("ca")}, {"token": "t"}),
        ({"server": HTTPS, "certificate-authority-data": ""}, {"token": "t"}),
        ({"server": HTTPS, "tls-server-name": "a.b", "proxy-url": "http://p"}, {"token": "t"}),
        ({"server": HTTPS, "insecure-skip-tls-verify": True}, {"token": "t"}),
    ],
)
def test_it_is_the_endpoint_that_the_library_finds(
    cluster: Entry, user: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path)
    content = config(HTTPS, "t")
    content["clusters"][0]["cluster"], content["users"][0]["user"] = cluster, user
    path = written(tmp_path, "config", content)
    expected = library.endpoint(path)
    monkeypatch.delattr(library, "endpoint")

    proxied = {"proxy": cluster.get("proxy-url")}  # the library has it elsewhere
    assert fields(endpoint_of(path, "", {})) == fields(expected) | proxied


def test_a_copy_of_a_key_is_private(tmp_path: Path) -> None:
    content = config(HTTPS, "t")
    content["users"][0]["user"] = COPIES
    found = endpoint_of(written(tmp_path, "config", content), "", {})

    assert found.client_key_file is not None
    assert Path(found.client_key_file).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("user", "error"),
    [
        ({"client-certificate": "none.pem"}, "File does not exist"),
        ({"client-certificate-data": "x"}, "base64"),
        ({"tokenFile": "none"}, "No such file"),
    ],
)
def test_what_is_wrong_is_reported_by_the_library(user: Entry, error: str, tmp_path: Path) -> None:
    content = config(HTTPS, "t")
    content["users"][0]["user"] = user

    with pytest.raises(EndpointError, match=error):
        endpoint_of(written(tmp_path, "config", content), "", {})


def test_a_context_without_a_cluster_spoils_no_other(tmp_path: Path) -> None:
    content = config("http://127.0.0.1:1", "t")
    content["contexts"].append({"name": "half", "context": {"cluster": None, "user": None}})

    assert endpoint_of(written(tmp_path, "config", content), "", {}).token == "t"


def test_a_context_without_a_name_is_never_the_current_one(tmp_path: Path) -> None:
    content = config("http://127.0.0.1:1", "t")
    content["current-context"] = ""
    del content["contexts"][0]["name"]

    with pytest.raises(EndpointError, match="current context"):
        endpoint_of(written(tmp_path, "config", content), "", {})


def test_of_several_files_the_first_wins(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, token in ((one, "first"), (two, "second")):
        folder.mkdir()
        written(folder, "config", config("http://127.0.0.1:1", token))
    named = os.pathsep.join(str(folder / "config") for folder in (one, two))

    assert endpoint_of(None, "", {"KUBECONFIG": named}).token == "first"


def test_a_command_with_a_token_does_not_import_the_library(tmp_path: Path) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))
    script = (
        "import sys; from draguard.__main__ import main; "
        f"main(['incidents', '--kubeconfig', {str(path)!r}]); print('kubernetes' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout == "False\n"
