"""The chart's objects, as the real helm renders them for some values."""

from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from typing import Any

import yaml

from deploy.program import rendered
from deploy.sources import CHART

__all__ = [
    "CHART",
    "LOCAL",
    "container",
    "is_hook",
    "objects",
    "of_kind",
    "only",
    "pod",
    "text",
]
Json = dict[str, Any]
LOCAL = "image.allowLocal=true"
"""No test pulls an image; `test_chart_images` has what the chart says without this."""


def text(values: Sequence[str] = (), *flags: str) -> str:
    """Return the YAML of a release; `values` as `--set` takes them."""
    return _rendered(tuple(values), *flags)


@cache
def _rendered(values: tuple[str, ...], *flags: str) -> str:
    return rendered(CHART, (LOCAL, *values), *flags)


def objects(values: Sequence[str] = (), *flags: str) -> list[Json]:
    """Return what the YAML holds, in order."""
    return list(_documents(text(values, *flags)))


def _documents(stated: str) -> Iterator[Json]:
    return (manifest for manifest in yaml.load_all(stated, Loader=_EachKeyOnce) if manifest)


class _EachKeyOnce(yaml.CSafeLoader):
    """Refuses a key that a mapping has twice, as kustomize does; others take one of the values."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT002 - as the class above it has it
    ) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        if len(set(keys)) < len(keys):
            twice = {key for key in keys if keys.count(key) > 1}
            raise yaml.constructor.ConstructorError(None, None, f"twice: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def is_hook(manifest: Json) -> bool:
    """Whether helm makes it at some moment of a release's life, and not with the release."""
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})


def of_kind(objects: list[Json], kind: str, name: str = "") -> list[Json]:
    return [
        manifest
        for manifest in objects
        if manifest["kind"] == kind and name in manifest["metadata"]["name"]
    ]


def only(objects: list[Json], kind: str, name: str = "") -> Json:
    (found,) = of_kind(objects, kind, name)
    return found


def pod(objects: list[Json], kind: str, name: str = "") -> Json:
    """Return the pod of the only object of a kind; both Jobs of the uninstallation have one."""
    found, *others = of_kind(objects, kind, name)
    assert not others or kind == "Job"
    spec: Json = found["spec"]["template"]["spec"]
    return spec


def container(objects: list[Json], name: str) -> Json:
    """Return the first container of a name: pools and both Jobs have one each."""
    return next(
        candidate
        for kind in ("DaemonSet", "Deployment", "Job")
        for made in of_kind(objects, kind)
        for candidate in made["spec"]["template"]["spec"]["containers"]
        if candidate["name"] == name
    )
