"""The real API server takes what the chart gives for every installation that people have."""

from collections.abc import Iterator

import pytest
import yaml

from deploy.manifests import FOLDER
from simulator.cluster.controlplane import ControlPlane
from tests.deploy import rendered
from tests.deploy.settings import SETTINGS

pytestmark = pytest.mark.verify

NAMESPACES = ("draguard-system", "monitoring")
OPERATORS = ("monitoring.coreos.com", "grafana.integreatly.org")
"""Groups whose CRDs are other projects'."""

REPLACED = {"poddisruptionbudget.policy/draguard-remediator"}
"""kubectl writes a budget's selector anew each time, whoever made it."""


@pytest.fixture(scope="module")
def plane(control_plane_built: None, helm_built: None) -> Iterator[ControlPlane]:
    with ControlPlane(apiserver_flags=["--allow-privileged=true"]) as one:
        for name in NAMESPACES:
            one.kubectl("create", "namespace", name)
        yield one


@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS)
def test_every_object_of_a_setting_is_accepted(
    plane: ControlPlane, values: tuple[str, ...]
) -> None:
    objects = [
        manifest
        for manifest in rendered.objects(values)
        if manifest["apiVersion"].partition("/")[0] not in OPERATORS
    ]
    assert objects

    stated = plane.kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(objects),
    )

    assert len(stated.splitlines()) == len(objects)


def test_the_plain_manifests_are_applied_in_their_order_and_again(plane: ControlPlane) -> None:
    for name in ("crds.yaml", "draguard.yaml", "crds.yaml", "draguard.yaml"):
        stated = plane.kubectl("apply", "--validate=strict", "-f", str(FOLDER / name))

    changed = {line.split()[0] for line in stated.splitlines() if not line.endswith(" unchanged")}
    assert changed <= REPLACED
