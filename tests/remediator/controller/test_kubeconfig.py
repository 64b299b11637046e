"""A kubeconfig that cannot be used is a sentence, and a context can be named."""

from pathlib import Path

import pytest

from kubeapi.endpoint import EndpointError
from remediator.controller.kubeconfig import endpoint

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


@pytest.mark.parametrize(("context", "server"), [("", "http://one.example"), ("two",) * 2])
def test_the_context_that_is_named_counts(tmp_path: Path, context: str, server: str) -> None:
    file = tmp_path / "config"
    file.write_text(TWO, encoding="utf-8")
    assert server in endpoint(file, context).server


@pytest.mark.parametrize(("context", "name"), [("one", None), ("two", "api.two.example")])
def test_the_name_that_a_certificate_must_have_is_taken_up(
    tmp_path: Path, context: str, name: str | None
) -> None:
    file = tmp_path / "config"
    file.write_text(TWO, encoding="utf-8")
    assert endpoint(file, context).tls_server_name == name


@pytest.mark.parametrize("text", ["", "[", "a: b: c", "- 1", "clusters: 3\ncurrent-context: x"])
def test_what_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(EndpointError, match="config"):
        endpoint(file)


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(TWO, encoding="utf-8")
    with pytest.raises(EndpointError, match="three"):
        endpoint(file, "three")
