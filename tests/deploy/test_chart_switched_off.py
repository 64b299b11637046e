"""An upgrade that takes the remediator away, on a real API server, by the real Helm."""

import pytest

from deploy.program import RELEASE
from deploy.sources import CHART
from kubeapi.client import Client
from tests.deploy.releasing import Helm, store_rule
from tests.deploy.test_chart_life import taint
from tests.lab.cluster import RULES

pytestmark = pytest.mark.verify


@pytest.mark.parametrize("setting", ["metricsOnly=true", "remediator.enabled=false"])
def test_a_remediator_is_not_switched_off_while_its_taints_stand(
    admin: Client, helm: Helm, setting: str
) -> None:
    helm("install", RELEASE, str(CHART), "--set", "admission.enabled=false")
    ours, theirs = taint("gpu-0", ours=True), taint("gpu-1", ours=False)
    theirs["metadata"]["name"] = "somebody-elses-too"
    try:
        store_rule(admin, ours)
        store_rule(admin, theirs)
        with pytest.raises(AssertionError, match="draguard cleanup --all"):
            helm("upgrade", RELEASE, str(CHART), "--set", setting)

        admin.delete(f"{RULES}/{ours['metadata']['name']}", {})
        helm("upgrade", RELEASE, str(CHART), "--set", setting)
    finally:
        helm("uninstall", RELEASE, "--no-hooks")
        admin.delete(f"{RULES}/{theirs['metadata']['name']}", {})
