"""The CRDs of operators are those that were pinned, or there are none."""

import shutil
from pathlib import Path

import pytest
import yaml

from simulator.compiler import BuildError
from tests.lab.operators import CRDS, PROMETHEUS, SOURCES, crd, module, versions


@pytest.mark.parametrize("kind", CRDS)
def test_a_kind_is_made_known_by_its_file(kind: str) -> None:
    found = yaml.safe_load(crd(kind).read_text(encoding="utf-8"))

    assert found["kind"] == "CustomResourceDefinition"
    assert found["spec"]["names"]["plural"] == kind


def changed(folder: Path, file: str, before: str, after: str) -> Path:
    shutil.copytree(SOURCES, folder)
    text = (folder / file).read_text(encoding="utf-8")
    assert before in text
    (folder / file).write_text(text.replace(before, after), encoding="utf-8")
    return folder


def test_a_module_that_is_not_what_was_pinned_is_refused(tmp_path: Path) -> None:
    sources = changed(tmp_path / "go", "go.sum", "v0.85.0 h1:M5", "v0.85.0 h1:M6")

    with pytest.raises(BuildError, match="checksum mismatch"):
        module(PROMETHEUS, sources=sources)


def test_a_module_that_nobody_pinned_is_refused(tmp_path: Path) -> None:
    sources = changed(tmp_path / "go", "go.mod", PROMETHEUS, "example.com/another")

    with pytest.raises(BuildError, match=f"fetching {PROMETHEUS} failed"):
        module(PROMETHEUS, sources=sources)


def test_their_owner_is_shown() -> None:
    assert versions() == "CRDs of grafana-operator v5.18.0, prometheus-operator v0.85.0"
