"""The privileges of Draguard's processes, read from the kernel while they run."""

import pytest

from tests.lab.node.release import Release
from tests.node import proc

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
OUR_USER = 65522


@pytest.mark.parametrize(
    ("component", "container"),
    [("exporter", "agent"), ("remediator", "remediator"), ("explainer", "explainer")],
)
def test_what_holds_a_token_has_no_privilege(
    release: Release, component: str, container: str
) -> None:
    process = release.process(component, container)

    found = proc.rights(process)

    assert found.users == {OUR_USER}
    assert proc.names(found.capabilities) == set()
    assert found.no_new_privileges
    assert found.filtered
    assert proc.mounts(process)["/"] is False
    assert _has_token(release, component, container)


def test_the_sensor_is_root_and_has_no_token(release: Release) -> None:
    process = release.process("exporter", "sensor")

    assert proc.rights(process).users == {0}
    assert proc.mounts(process)["/"] is False
    assert not _has_token(release, "exporter", "sensor")


def test_the_library_of_the_driver_is_loaded_in_a_child_of_the_sensor_alone(
    release: Release,
) -> None:
    def loads(process: proc.Path) -> bool:
        return "libnvidia-ml" in (process / "maps").read_text()

    sensor, agent = (release.process("exporter", name) for name in ("sensor", "agent"))

    assert [loads(child) for child in proc.children(sensor)] == [True]
    assert not loads(sensor)
    assert not loads(agent)


def _has_token(release: Release, component: str, container: str) -> bool:
    process = release.process(component, container)
    found = [place for place in proc.mounts(process) if place.startswith(("/run/secrets", TOKEN))]
    return bool(found)
