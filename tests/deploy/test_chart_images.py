"""Where the images come from: a registry, once, or nodes that have them already."""

from pathlib import Path

import pytest

from deploy.program import HelmError
from deploy.program import rendered as bare
from deploy.sources import CHART
from tests.deploy import rendered
from tests.deploy.rendered import container
from tools.release import chart

pytestmark = pytest.mark.usefixtures("helm_built")
CONTROLLERS = ("remediator", "explainer", "cleanup")
DIGEST = f"sha256:{'b' * 64}"
NAMED: list[tuple[tuple[str, ...], str, str]] = [
    (
        ("image.registry=registry.example.org/gpu",),
        "registry.example.org/gpu/draguard-exporter:0.1.0",
        "registry.example.org/gpu/draguard-controller:0.1.0",
    ),
    (
        ("image.registry=a.example.org", "global.imageRegistry=b.example.org:5000/"),
        "b.example.org:5000/draguard-exporter:0.1.0",
        "b.example.org:5000/draguard-controller:0.1.0",
    ),
    (
        ("image.registry=registry.example.org", "image.tag=1.2.3"),
        "registry.example.org/draguard-exporter:1.2.3",
        "registry.example.org/draguard-controller:1.2.3",
    ),
    (
        (
            "image.exporter.repository=localhost/mine",
            "image.controller.repository=registry:5000/mine",
            f"image.controller.digest={DIGEST}",
        ),
        "localhost/mine:0.1.0",
        f"registry:5000/mine@{DIGEST}",
    ),
]


@pytest.mark.parametrize(("values", "exporter", "controller"), NAMED)
def test_an_image_has_a_registry_and_is_the_same_everywhere(
    values: tuple[str, ...], exporter: str, controller: str
) -> None:
    objects = rendered.objects(("image.allowLocal=false", *values))

    assert {container(objects, name)["image"] for name in ("sensor", "agent")} == {exporter}
    assert {container(objects, name)["image"] for name in CONTROLLERS} == {controller}


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (
        (),
        r"image.exporter.repository draguard-exporter names no registry, .* image.allowLocal=true",
    ),
    (("exporter.enabled=false",), "image.controller.repository draguard-controller names no"),
    (
        ("image.exporter.repository=me/draguard-exporter", "metricsOnly=true"),
        "image.exporter.repository me/draguard-exporter names no registry",
    ),
    (
        (
            "image.registry=a.example.org",
            "image.controller.repository=b.example.org/c",
        ),
        r"controller.repository b.example.org/c names a registry, and so does image.registry",
    ),
    (
        ("image.registry=https://a.example.org/gpu",),
        "image.registry https://a.example.org/gpu is not a registry: write .* without https://",
    ),
    (("global.imageRegistry=a b",), "global.imageRegistry a b is not a registry"),
    (
        ("image.registry=myorg",),
        "image.registry myorg has no host: .* for Docker Hub docker.io/myorg",
    ),
    (
        (
            "global.imageRegistry=a.example.org",
            "image.exporter.repository=b.example.org/c",
        ),
        "names a registry, and so does global.imageRegistry",
    ),
]


@pytest.mark.parametrize(("values", "sentence"), REFUSED)
def test_an_image_that_no_node_could_pull_is_refused(
    values: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(HelmError, match=sentence):
        bare(CHART, values)


def test_what_is_not_installed_needs_no_image() -> None:
    assert bare(CHART, ("metricsOnly=true", "image.exporter.repository=a.example.org/b"))


def test_a_tag_is_not_dropped_in_silence(tmp_path: Path) -> None:
    """A published chart pins both images, and its values are defaults that users did not set."""
    chart.write(tmp_path, "registry.example.org", {"exporter": DIGEST, "controller": DIGEST})
    (published,) = tmp_path.glob("*.tgz")
    pins = "image.exporter.digest", "image.controller.digest"

    assert bare(published)
    for kept in (pins, pins[:1], pins[1:]):
        emptied = [f"{pin}=" for pin in pins if pin not in kept]
        with pytest.raises(HelmError, match=f"but is outranked by {' and '.join(kept)}: set each"):
            bare(published, ("image.tag=v2", *emptied))

    free = bare(published, ("image.tag=v2", *(f"{pin}=" for pin in pins)))
    assert "registry.example.org/draguard-controller:v2" in free
    assert bare(published, ("image.tag=v2", "image.exporter.digest=", "metricsOnly=true"))
