"""The generated files: none is stale, each is whole by itself and small enough to be stored."""

from pathlib import Path

import pytest
import yaml

from deploy import manifests, sources
from deploy.__main__ import OWNED, WRITERS
from tests.deploy import rendered
from tests.deploy.rendered import Json

pytestmark = pytest.mark.usefixtures("helm_built")
MIB = 1 << 20
LAST_APPLIED = 256 << 10
"""Bytes of all annotations together: `kubectl apply` keeps the whole object in one."""


def stored(name: str) -> list[Json]:
    text = (manifests.FOLDER / name).read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document]


def test_what_is_generated_is_not_stale() -> None:
    stale = [
        path.relative_to(sources.ROOT).as_posix()
        for texts in WRITERS
        for path, text in texts().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]

    assert stale == [], "run `make generate`"


def test_nothing_else_lies_beside_it() -> None:
    made = {path for texts in WRITERS for path in texts()}
    there = {path for folder in OWNED for path in folder.rglob("*") if path.is_file()}

    assert there == made


def test_together_they_are_the_chart() -> None:
    """With a namespace of its own and without hooks, which nobody but Helm would run."""

    def names(objects: list[Json]) -> list[tuple[str, str]]:
        return sorted((manifest["kind"], manifest["metadata"]["name"]) for manifest in objects)

    chart = rendered.objects(("namespace.create=true",), "--no-hooks")

    assert names([*stored("crds.yaml"), *stored("draguard.yaml")]) == names(chart)
    assert not any(map(rendered.is_hook, chart))


@pytest.mark.parametrize("name", manifests.MANIFESTS)
def test_a_manifest_speaks_of_helm_nowhere_but_in_the_crds(name: str) -> None:
    for manifest in stored(name):
        labels = manifest["metadata"].get("labels", {})
        assert "helm.sh/chart" not in labels
        assert labels.get("app.kubernetes.io/managed-by") != "Helm"


@pytest.mark.parametrize("name", manifests.MANIFESTS)
def test_every_object_is_small_enough(name: str) -> None:
    for manifest in stored(name):
        size = len(yaml.safe_dump(manifest, allow_unicode=True).encode())
        assert size < MIB, manifest["metadata"]["name"]
        if name != "dashboards.yaml":
            assert size < LAST_APPLIED, manifest["metadata"]["name"]


def test_a_dashboard_stays_well_below_what_a_config_map_may_hold() -> None:
    for manifest in stored("dashboards.yaml"):
        assert sum(len(text.encode()) for text in manifest["data"].values()) < MIB // 2


def test_a_crd_outlives_its_release_and_is_else_the_one_in_the_checkout() -> None:
    for path in (sources.ROOT / "deploy" / "crds").glob("*.yaml"):
        copy = yaml.safe_load((sources.FILES / "crds" / path.name).read_text(encoding="utf-8"))
        assert copy["metadata"].pop("annotations") == {
            "helm.sh/resource-policy": "keep",
            "argocd.argoproj.io/sync-options": "Prune=false",
        }
        assert copy == yaml.safe_load(path.read_text(encoding="utf-8"))


def test_what_is_missing_is_named_with_what_writes_it(tmp_path: Path) -> None:
    for folder in ("deploy/crds", "dashboards/json"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "deploy/crds/one.yaml").write_text("kind: X\nmetadata:\n  name: x\n")

    with pytest.raises(sources.MissingSourceError, match="python -m dashboards"):
        sources.files(tmp_path)
    (tmp_path / "dashboards/json/fleet.json").write_text("{}")
    with pytest.raises(sources.MissingSourceError, match="python -m alerts"):
        sources.files(tmp_path)
