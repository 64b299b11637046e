"""The kustomize base and components: what kubectl makes of them is what the chart renders."""

import os
from operator import itemgetter
from pathlib import Path

import pytest
import yaml

from deploy import kustomize
from simulator.cluster.controlplane import ControlPlane
from tests.deploy import rendered
from tests.deploy.rendered import Json

pytestmark = [pytest.mark.usefixtures("helm_built"), pytest.mark.verify]
OF_THE_REST = {
    (kind, name)
    for kind in ("ServiceMonitor", "NetworkPolicy")
    for name in ("draguard-remediator", "draguard-explainer")
}
"""Stay behind beside an exporter alone, and select nothing."""
COMBINED = {
    "as shipped": (),
    **{name: (name,) for name in kustomize.COMPONENTS},
    "all with a remediator": ("driver-root", "monitors", "network-policy", "node-conditions"),
    "all without one": ("driver-root", "metrics-only", "monitors", "network-policy"),
}


def built(plane: ControlPlane, folder: Path, components: tuple[str, ...]) -> str:
    """Return what kubectl builds from a kustomization as a user writes it."""
    folder.mkdir(parents=True)

    def there(*path: str) -> str:
        return os.path.relpath(kustomize.FOLDER.joinpath(*path).resolve(), folder.resolve())

    mine = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [there("base")],
        "components": [there("components", name) for name in components],
        "images": [
            {"name": f"draguard-{name}", "newName": f"registry.example.com/draguard-{name}"}
            for name in ("exporter", "controller")
        ],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(mine), encoding="utf-8")
    return plane.kubectl("kustomize", os.fspath(folder))


def by_name(objects: list[Json]) -> dict[tuple[str, str], Json]:
    """Return objects by kind and name, what has no order of its own sorted."""
    for one in objects:
        containers = one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        for container in containers:
            container["args"] = sorted(container["args"])
            container["volumeMounts"] = sorted(container["volumeMounts"], key=itemgetter("name"))
        if containers:
            volumes = one["spec"]["template"]["spec"]["volumes"]
            one["spec"]["template"]["spec"]["volumes"] = sorted(volumes, key=itemgetter("name"))
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


@pytest.mark.parametrize("components", COMBINED.values(), ids=COMBINED)
def test_components_make_of_the_base_what_the_settings_make_of_the_chart(
    plane: ControlPlane, tmp_path: Path, components: tuple[str, ...]
) -> None:
    settings = [value for name in components for value in kustomize.COMPONENTS[name].values]
    images = [
        f"image.{name}.repository=registry.example.com/draguard-{name}"
        for name in ("exporter", "controller")
    ]
    text = built(plane, tmp_path / "mine", components)

    made = by_name([one for one in yaml.safe_load_all(text) if one])
    chart = by_name(rendered.objects(("namespace.create=true", *settings, *images), "--no-hooks"))

    if "metrics-only" in components:
        made = {name: one for name, one in made.items() if name not in OF_THE_REST}
        chart = {name: one for name, one in chart.items() if name not in OF_THE_REST}
    assert made == chart


@pytest.mark.parametrize("components", COMBINED.values(), ids=COMBINED)
def test_the_api_server_accepts_every_object(
    operators_known: ControlPlane, tmp_path: Path, components: tuple[str, ...]
) -> None:
    text = built(operators_known, tmp_path / "mine", components)

    stated = operators_known.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=text
    )

    assert len(stated.splitlines()) == len([one for one in yaml.safe_load_all(text) if one])


def test_a_difference_is_what_makes_the_new_of_the_old() -> None:
    old = {"a": 1, "b": {"c/d": 2}, "list": ["x", "z"], "other": ["x"], "same": [{"e": 1}]}
    new = {"b": {"c/d": 3}, "list": ["x", "y", "z"], "other": [], "same": [{"e": 2}], "f": 4}

    assert [*kustomize.difference(old, new)] == [
        {"op": "remove", "path": "/a"},
        {"op": "replace", "path": "/b/c~1d", "value": 3},
        {"op": "add", "path": "/f", "value": 4},
        {"op": "add", "path": "/list/-", "value": "y"},
        {"op": "replace", "path": "/other", "value": []},
        {"op": "replace", "path": "/same/0/e", "value": 2},
    ]
