"""What users of an earlier release build on is still there: values, stored objects, names."""

import copy
import tarfile
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from deploy.program import run
from deploy.sources import CHART, ROOT
from tests.deploy.crd_growth import narrowings
from tools.kept_release import KEPT, NAMES, chart_of, names

Json = dict[str, Any]
RELEASES = sorted(folder for folder in KEPT.iterdir() if folder.is_dir())
CRDS = sorted(path.name for path in (ROOT / "deploy" / "crds").iterdir())
each_release = pytest.mark.parametrize("release", RELEASES, ids=lambda folder: folder.name)


def packed(release: Path, path: str) -> str:
    """Return a file of a release's chart."""
    with tarfile.open(chart_of(release)) as archive:
        found = archive.extractfile(f"draguard/{path}")
        assert found is not None
        return found.read().decode()


def crd(release: Path, name: str) -> Json:
    return yaml.safe_load(packed(release, f"files/crds/{name}"))


def now(name: str) -> Json:
    return yaml.safe_load((ROOT / "deploy" / "crds" / name).read_text(encoding="utf-8"))


@each_release
@pytest.mark.parametrize("name", CRDS)
def test_a_crd_takes_all_that_it_took(release: Path, name: str) -> None:
    assert narrowings(crd(release, name), now(name)) == []


LIMITS = ("maxLength", "maxItems", "required", "x-kubernetes-validations", "enum")


def widened(node: Any) -> Any:
    """Return a schema without its limits; a field may have the name of one."""
    if isinstance(node, list):
        return [widened(below) for below in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    pairs = cast("Json", node).items()
    return {
        key: widened(below) for key, below in pairs if key not in LIMITS or isinstance(below, dict)
    }


@pytest.mark.parametrize("name", CRDS)
def test_each_narrowing_of_a_crd_is_seen(name: str) -> None:
    old, new = widened(now(name)), now(name)
    found = narrowings(old, new)
    for what in ("a lower maxLength", "a lower maxItems", "requires", "fewer values"):
        assert any(what in sentence for sentence in found), what
    assert narrowings(new, old) == [], "a wider schema is no narrower one"
    lost = copy.deepcopy(new)
    lost["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].pop("status")
    assert narrowings(new, lost) == ["v1alpha1.status: gone"]
    lost["spec"]["versions"][0]["served"] = False
    assert narrowings(new, lost) == ["v1alpha1 is not served any more"]


@each_release
def test_the_values_of_a_release_are_still_taken(release: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(packed(release, "values.yaml"), encoding="utf-8")
    images = "image.exporter.repository=r.example.com/e,image.controller.repository=r.example.com/c"
    old = ("--values", str(values), "--set", images)
    assert "kind: DaemonSet" in run("template", "draguard", str(CHART), *old)


@each_release
def test_no_metric_field_or_recording_rule_has_lost_its_name_type_or_label(release: Path) -> None:
    after = {tuple(line.split()[:2]): line for line in names()}
    for line in (release / NAMES).read_text(encoding="utf-8").splitlines():
        name, kind, *labels = line.split()
        assert (name, kind) in after, f"{name} was a {kind}"
        left = set(labels[0].split(",") if labels else ()) - set(
            after[name, kind].split()[-1].split(",")
        )
        assert not left, f"{name} was labelled {left}"
