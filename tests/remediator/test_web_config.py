"""The remediator's page behind a web configuration, as a process with the flags of the chart."""

import base64
import http.client
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from simulator.cluster.ports import free_port
from tests.exporter.running import ROOT, wait_for

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
BASIC = "Basic " + base64.b64encode(b"scraper:secret").decode()


def command(folder: Path, text: str, *flags: str) -> list[str]:
    """Return the command of one whose API server is not there: its pages are."""
    file = folder / "web.yaml"
    file.write_text(text, encoding="utf-8")
    program = [sys.executable, "-m", "remediator", "--kube-server=http://127.0.0.1:1"]
    return [*program, f"--web-config={file}", *flags]


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[tuple[int, int]]:
    page, health = free_port(), free_port()
    flags = (f"--listen=127.0.0.1:{page}", f"--health-listen=127.0.0.1:{health}")
    words = command(tmp_path, f"basic_auth_users: {{scraper: '{HASH}'}}\n", *flags)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield page, health
    finally:
        process.kill()
        process.wait()


def status(port: int, path: str, authorization: str = "") -> int:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        link.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        return link.getresponse().status
    except OSError:
        return 0
    finally:
        link.close()


def test_its_page_and_its_plans_want_a_password_and_its_probes_do_not(
    ports: tuple[int, int],
) -> None:
    page, health = ports
    wait_for(lambda: status(health, "/healthz"), what="the health page")

    assert [status(page, path) for path in ("/metrics", "/debug/plan")] == [401, 401]
    assert status(page, "/metrics", BASIC) == 200
    assert status(page, "/healthz") == status(health, "/healthz") == 200
    assert status(health, "/readyz") == 503
    assert status(health, "/debug/plan") == 404


def test_a_configuration_that_cannot_be_used_ends_it_with_the_reason(tmp_path: Path) -> None:
    words = command(tmp_path, "basic_auth_users: {a: b}\n")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 2
    assert "is not a bcrypt hash" in done.stderr
    assert "--web-config" in done.stderr
