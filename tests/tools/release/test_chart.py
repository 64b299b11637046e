"""A published chart names the images that were pushed with it: nothing is left to set."""

from pathlib import Path

import pytest
import yaml

from deploy.program import rendered
from tests.deploy.rendered import container
from tools.release import chart

pytestmark = pytest.mark.usefixtures("helm_built")
DIGESTS = {
    image: f"sha256:{letter * 64}" for image, letter in (("exporter", "a"), ("controller", "b"))
}


def test_a_packed_chart_installs_the_pushed_images_without_a_value(tmp_path: Path) -> None:
    chart.write(tmp_path, "registry.example.org/gpu", DIGESTS)

    (packed,) = tmp_path.iterdir()
    objects = [one for one in yaml.safe_load_all(rendered(packed)) if one]
    for name, image in (
        ("sensor", "exporter"),
        ("agent", "exporter"),
        ("remediator", "controller"),
    ):
        expected = f"registry.example.org/gpu/draguard-{image}@{DIGESTS[image]}"
        assert container(objects, name)["image"] == expected
