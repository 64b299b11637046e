"""A kustomize base and components, as the chart renders them for clusters without Helm.

A component is the difference that one setting of the chart makes: the objects that it adds, removes
and changes. Lists only grow where that is possible, so that components can be combined.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from deploy import manifests

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "kustomize"
_HEAD = "# {}\n# Made from deploy/helm/draguard (`make generate`); do not edit.\n"
_OWN_NAMESPACE = "namespace.create=true"
_ADDED = "added.yaml"


class Component(NamedTuple):
    """One setting of the chart."""

    what: str
    values: tuple[str, ...]


COMPONENTS: Mapping[str, Component] = {
    "driver-root": Component(
        "For nodes without NVIDIA's runtime: the driver's libraries from the host's file system.",
        ("exporter.gpu.access=driver-root",),
    ),
    "metrics-only": Component("The exporter alone, without reports.", ("metricsOnly=true",)),
    "monitors": Component(
        "For Prometheus' operator: monitors and rules. Add the label that your Prometheus selects.",
        ("monitoring.serviceMonitor.enabled=true", "monitoring.rules.enabled=true"),
    ),
    "network-policy": Component("Only the ports that are needed.", ("networkPolicy.enabled=true",)),
    "node-conditions": Component(
        "Node repair requests (docs/handover.md).", ("remediator.nodeConditions.enabled=true",)
    ),
}


def texts() -> Mapping[Path, str]:
    """Return every file under `FOLDER` with its text. Raises HelmError."""
    base = [*manifests.documents((_OWN_NAMESPACE,))]
    files = {
        FOLDER / "base" / name: manifests.text(manifests.MANIFESTS[name])
        for name in ("crds.yaml", "draguard.yaml")
    }
    files[FOLDER / "base" / "kustomization.yaml"] = _HEAD.format(
        "Exporter, remediator, explainer. Set the images in a kustomization (docs/install.md)."
    ) + _yaml(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": ["crds.yaml", "draguard.yaml"],
        }
    )
    for name, component in COMPONENTS.items():
        files.update(_component(FOLDER / "components" / name, component, base))
    return files


def _component(
    folder: Path, component: Component, base: Iterable[str]
) -> Iterator[tuple[Path, str]]:
    before = _by_name(base)
    after = _by_name(manifests.documents((_OWN_NAMESPACE, *component.values)))
    added = [text for name, (_, text) in after.items() if name not in before]
    head = _HEAD.format(component.what)
    kustomization: Json = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    if added:
        kustomization["resources"] = [_ADDED]
        yield folder / _ADDED, "---\n".join((head, *added))
    patches = [*_patches(before, after)]
    if patches:
        kustomization["patches"] = patches
    yield folder / "kustomization.yaml", head + _yaml(kustomization)


def _by_name(documents: Iterable[str]) -> dict[tuple[str, str], tuple[Json, str]]:
    """Return objects, parsed and as text, by kind and name: no two namespaces have one twice."""
    found: dict[tuple[str, str], tuple[Json, str]] = {}
    for text in documents:
        one: Json = yaml.safe_load(text)
        found[one["kind"], one["metadata"]["name"]] = one, text
    return found


def _patches(
    before: Mapping[tuple[str, str], tuple[Json, str]],
    after: Mapping[tuple[str, str], tuple[Json, str]],
) -> Iterator[Json]:
    for name, (old, _) in before.items():
        if name not in after:
            metadata = {
                key: old["metadata"][key] for key in ("name", "namespace") if key in old["metadata"]
            }
            gone = {"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": metadata}
            yield {"patch": _yaml({"$patch": "delete", **gone})}
        elif operations := [*difference(old, after[name][0])]:
            yield {"target": dict(zip(("kind", "name"), name, strict=True))} | {
                "patch": _yaml(operations)
            }


def difference(old: Any, new: Any, path: str = "") -> Iterator[Json]:
    """Yield the operations of a JSON patch (RFC 6902) that make `new` of `old`.

    What a list gains is added at its end, whatever its place.
    """
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _of_objects(old, new, path)  # pyright: ignore[reportUnknownArgumentType] - JSON
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, path)  # pyright: ignore[reportUnknownArgumentType] - JSON
    else:
        yield {"op": "replace", "path": path, "value": new}


def _of_objects(old: Json, new: Json, path: str) -> Iterator[Json]:
    for key in sorted({*old, *new}):
        at = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            yield {"op": "remove", "path": at}
        elif key not in old:
            yield {"op": "add", "path": at, "value": new[key]}
        else:
            yield from difference(old[key], new[key], at)


def _of_lists(old: list[Any], new: list[Any], path: str) -> Iterator[Json]:
    if len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from difference(one, other, f"{path}/{at}")
    elif all(value in new for value in old):
        for value in new:
            if value not in old:
                yield {"op": "add", "path": f"{path}/-", "value": value}
    else:
        yield {"op": "replace", "path": path, "value": new}


def _yaml(value: object) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar(  # pyright: ignore[reportUnknownMemberType] - not typed
        "tag:yaml.org,2002:str", value, style=style
    )


_Dumper.add_representer(str, _text)
