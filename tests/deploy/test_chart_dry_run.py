"""Every object of every setting, as the real API server takes it: strictly, without storing."""

import pytest
import yaml

from simulator.cluster.controlplane import ControlPlane
from tests.deploy import rendered
from tests.deploy.settings import SETTINGS

OPERATORS = ("monitoring.coreos.com/", "grafana.integreatly.org/")
"""Kinds that an operator of others brings along."""


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_api_server_takes_every_object(
    helm_built: object, plane: ControlPlane, setting: str
) -> None:
    values = (*SETTINGS[setting], "dashboards.namespace=")
    taken = [one for one in rendered.objects(values) if not one["apiVersion"].startswith(OPERATORS)]

    said = plane.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(taken),
    )

    assert len(said.splitlines()) == len(taken)
