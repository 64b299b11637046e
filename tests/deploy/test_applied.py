"""The rendered chart on the real API server: its programs run a whole use with its rights alone.

Each request of each program is in the API server's audit log, so that a verb that is missing and a
verb that nobody needs are both seen.
"""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from remediator.model.node import REPAIR_NEEDED
from simulator.cluster.controlplane import ControlPlane
from tests.deploy import grants, rendered
from tests.deploy.grants import Grant, Request
from tests.deploy.installed import NAMESPACE, Installed, add_controllers
from tests.deploy.rendered import Json
from tests.deploy.settings import SETTINGS
from tests.deploy.uses import Scenario

pytestmark = [pytest.mark.timeout(600), pytest.mark.verify]
AGENT, REMEDIATOR, RELEASE = "draguard-agent", "draguard-remediator", "draguard-cleanup"
EXPLAINER = "draguard-explainer"
ACCOUNTS = (AGENT, REMEDIATOR, EXPLAINER, RELEASE)
AS_BEFORE_1_34 = "--feature-gates=WatchList=false"
"""Collections are listed there before they are watched; newer servers need `watch` alone."""
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RULE = "DeviceTaintRule "
EVERYTHING = ("exporter.podLabels.enabled=true", "remediator.nodeConditions.enabled=true")
"""The settings of the scenario that ask for rights."""


class Reported(NamedTuple):
    """What is known when the scenario is over."""

    requests: dict[str, frozenset[Request]]
    """Of each account, up to where its roles were taken away."""
    absent: list[str]
    """Of the rendered objects, while the chart was installed."""
    remarks: list[str]
    """Of the API server, about expressions in the admission policies."""
    absent_after: list[str]
    released: list[str]
    """Words of the hook before the release went, and after."""
    rules_after: dict[str, str]
    conditions_after: set[str]
    kept: set[str]
    """Names of rendered objects that Helm leaves in the cluster."""


@pytest.fixture(scope="module")
def reported(control_plane_built: None, helm_built: Path) -> Iterator[Reported]:
    # Unix sockets lie in it, whose paths must be short.
    with TemporaryDirectory(prefix="dg-") as name:
        folder = Path(name)
        flags = [*grants.audit_flags(folder, NAMESPACE, ACCOUNTS), AS_BEFORE_1_34]
        with ControlPlane(apiserver_flags=flags) as plane:
            add_controllers(plane)
            installed = Installed(plane, helm_built, folder)
            try:
                yield _reported(Scenario(installed, folder), folder)
            finally:
                installed.close()
                for log in sorted(folder.glob("*/*.log")):
                    sys.stdout.write(f"{log.name}\n{log.read_text(encoding='utf-8')[-4000:]}")


def _reported(scenario: Scenario, folder: Path) -> Reported:
    for act in scenario.acts:
        act()
    absent, remarks = scenario.absent(), scenario.remarks()
    requested = {account: grants.requested(folder, NAMESPACE, account) for account in ACCOUNTS[:-1]}
    scenario.the_chart_is_uninstalled()
    requested[RELEASE] = grants.requested(folder, NAMESPACE, RELEASE)
    return Reported(
        requests=requested,
        absent=absent,
        remarks=remarks,
        absent_after=scenario.absent(),
        released=scenario.released,
        rules_after=scenario.scene.rules(),
        conditions_after=scenario.conditions(),
        kept={
            manifest["metadata"]["name"] for manifest in rendered.objects() if _is_kept(manifest)
        },
    )


def _is_kept(manifest: Json) -> bool:
    annotations = manifest["metadata"].get("annotations", {})
    return annotations.get("helm.sh/resource-policy") == "keep"


@pytest.fixture(scope="module")
def granted(helm_built: Path) -> dict[str, frozenset[Grant]]:
    return _granted(EVERYTHING)


def _granted(values: tuple[str, ...]) -> dict[str, frozenset[Grant]]:
    objects = rendered.objects(values)
    return {account: grants.of_account(objects, account) for account in ACCOUNTS}


def test_every_rendered_object_is_created(reported: Reported) -> None:
    assert reported.absent == []


def test_the_server_has_no_objection_to_a_policy(reported: Reported) -> None:
    assert reported.remarks == []


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_program_lacks_a_right(
    reported: Reported, granted: dict[str, frozenset[Grant]], account: str
) -> None:
    assert set(map(str, grants.missing(reported.requests[account], granted[account]))) == set()


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_right_is_without_a_use(
    reported: Reported, granted: dict[str, frozenset[Grant]], account: str
) -> None:
    assert set(map(str, grants.unused(reported.requests[account], granted[account]))) == set()


@pytest.mark.parametrize("account", ACCOUNTS)
def test_each_right_would_be_missed(
    reported: Reported, granted: dict[str, frozenset[Grant]], account: str
) -> None:
    unmissed = [
        str(grant)
        for grant in granted[account]
        if not grants.missing(reported.requests[account], granted[account] - {grant})
    ]

    assert unmissed == []


@pytest.mark.parametrize("account", ACCOUNTS)
def test_each_right_too_many_would_be_noticed(
    reported: Reported, granted: dict[str, frozenset[Grant]], account: str
) -> None:
    mine = granted[account]
    others = {grant._replace(verb=verb) for grant, verb in product(mine, VERBS)}
    others |= {grant._replace(resource="secrets", group="", name="") for grant in mine}
    more = [grant for grant in others if not any(grants.covers(had, grant) for had in mine)]

    unnoticed = [
        str(grant)
        for grant in more
        if not grants.unused(reported.requests[account], [*mine, grant])
    ]

    assert unnoticed == []


def test_the_hook_looks_before_the_release_goes_and_takes_every_taint_back_after_it(
    reported: Reported,
) -> None:
    """A remediator that is still ending creates its rules again: until the next attempt."""
    look, *_, last = reported.released
    rules = [line for line in look.splitlines() if line.startswith(RULE)]

    assert [line.rpartition(": ")[2] for line in rules] == ["would be removed"] * 3
    assert f"{REPAIR_NEEDED}: would be removed" in look
    assert "NOT removed" not in last


def test_nothing_of_ours_is_left_after_helm_uninstall(reported: Reported) -> None:
    assert reported.rules_after == {}
    assert REPAIR_NEEDED not in reported.conditions_after
    names = {manifest["metadata"]["name"] for manifest in rendered.objects((), "--no-hooks")}
    assert {name.partition("/")[2] for name in reported.absent_after} >= names - reported.kept


@pytest.mark.parametrize(
    ("account", "off", "gone"),
    [
        (AGENT, "exporter.podLabels.enabled=false", {"list pods", "watch pods"}),
        (
            REMEDIATOR,
            "remediator.nodeConditions.enabled=false",
            {"get nodes", "patch nodes/status"},
        ),
        (EXPLAINER, "explainer.events=false", {"create events.events.k8s.io"}),
        (
            AGENT,
            "metricsOnly=true",
            {
                "get nodedevicehealths.draguard.dev",
                "create nodedevicehealths.draguard.dev",
                "update nodedevicehealths/status.draguard.dev",
                f"create leases.coordination.k8s.io in {NAMESPACE}",
                f"patch leases.coordination.k8s.io in {NAMESPACE}",
            },
        ),
    ],
)
def test_what_is_switched_off_has_no_right(
    granted: dict[str, frozenset[Grant]], account: str, off: str, gone: set[str]
) -> None:
    without = _granted((*EVERYTHING, off))

    assert set(map(str, granted[account] - without[account])) == gone


def test_no_setting_grants_more_than_the_scenario_needs(
    granted: dict[str, frozenset[Grant]],
) -> None:
    # The right to delete pods is beside the scenario: its own test is where that is used.
    settings = [flags for flags in SETTINGS.values() if flags != ("remediator.deletePods=true",)]
    for values in settings:
        more = _granted(values)
        assert all(more[account] <= granted[account] for account in ACCOUNTS), values
