"""The chart's values: a wrong one is refused by name, and none is unknown to schema or document."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from deploy.program import HelmError, run
from deploy.sources import CHART
from tests.deploy import rendered
from tests.deploy.rendered import Json
from tests.deploy.settings import SETTINGS
from tools.generated_docs.install import values

pytestmark = pytest.mark.usefixtures("helm_built")
SCHEMA: Json = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS: Json = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

WRONG = [
    ("stack=gpu_operator", "/stack"),
    ("clusterName=a b", "/clusterName"),
    ("gpuDrivers=gpu.nvidia.com", "/gpuDrivers"),
    ("exporter.pauseLabels={a b}", "/exporter/pauseLabels/0"),
    ("metricsOnly=perhaps", "/metricsOnly"),
    ("metricOnly=true", "metricOnly"),
    ("image.exporter.repository=", "/image/exporter/repository"),
    ("image.exporter.repository=a b", "/image/exporter/repository"),
    ("image.exporter.repository=registry:5000/exporter:1.2", "/image/exporter/repository"),
    ("image.controller.digest=sha256:12", "/image/controller/digest"),
    ("image.allowLocal=yes", "/image/allowLocal"),
    ("image.tag=a b", "/image/tag"),
    ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
    ("image.pullSecrets=registry", "/image/pullSecrets"),
    ("image.pullSecrets={Registry}", "/image/pullSecrets/0"),
    ("exporter.enabled=1", "/exporter/enabled"),
    ("admission.adminAccessNamespaces={a b}", "/admission/adminAccessNamespaces/0"),
    ("exporter.nodeSelectorTerms=null", "nodeSelectorTerms"),
    ("exporter.nodeSelector.a b=c", "/exporter/nodeSelector"),
    ("exporter.nodeSelector.gpu=a b", "/exporter/nodeSelector/gpu"),
    (
        "exporter.nodeSelectorTerms[0].matchExpressions[0].operator=Is",
        "/exporter/nodeSelectorTerms/0/matchExpressions/0/operator",
    ),
    ("exporter.priorityClassName=High", "/exporter/priorityClassName"),
    ("exporter.tolerations[0].operater=Exists", "/exporter/tolerations/0"),
    ("exporter.maxUnavailable=0", "/exporter/maxUnavailable"),
    ("exporter.maxUnavailable=110%", "/exporter/maxUnavailable"),
    ("exporter.gpu.access=cdi", "/exporter/gpu/access"),
    ("exporter.gpu.runtimeClassName=nvidia_cdi", "/exporter/gpu/runtimeClassName"),
    ("exporter.gpu.driverRoot=run/nvidia", "/exporter/gpu/driverRoot"),
    ("exporter.gpu.libraryDir=", "/exporter/gpu/libraryDir"),
    ("exporter.gpu.libraryDir={}", "/exporter/gpu/libraryDir"),
    (r"exporter.gpu.libraryDir=a\,b", "/exporter/gpu/libraryDir"),
    ("exporter.podShares=yes", "/exporter/podShares"),
    ("exporter.podLogsPath=pods", "/exporter/podLogsPath"),
    ("exporter.kernelLog=dmesg", "/exporter/kernelLog"),
    ("exporter.kubeletPath=kubelet", "/exporter/kubeletPath"),
    ("exporter.extraCapabilities={sys_admin}", "/exporter/extraCapabilities/0"),
    ("exporter.seLinuxOptions.typ=spc_t", "/exporter/seLinuxOptions"),
    ("exporter.nvidiaResourceNames={a b}", "/exporter/nvidiaResourceNames/0"),
    ("exporter.dcgm.mode=on", "/exporter/dcgm/mode"),
    ("exporter.dcgm.mode=false", "/exporter/dcgm/mode"),
    ("exporter.dcgm.mode=hostEngine", "/exporter/dcgm/address"),
    ("exporter.dcgm.address=nvidia-dcgm", "/exporter/dcgm/address"),
    ("exporter.interval=0", "/exporter/interval"),
    ("exporter.interval=30s", "/exporter/interval"),
    ("exporter.labels=all", "/exporter/labels"),
    ("exporter.devices=gpu0", "/exporter/devices"),
    ("exporter.hostnameLabel=node", "/exporter/hostnameLabel"),
    ("exporter.maxSeries=1.5", "/exporter/maxSeries"),
    ("exporter.logLevel=info", "/exporter/logLevel"),
    ("exporter.extraArgs={lost-after}", "/exporter/extraArgs/0"),
    ("exporter.web.scheme=https", "/exporter/web/scheme"),
    ("exporter.web.configSecret=a/b", "/exporter/web/configSecret"),
    ("exporter.web.key=../web.yaml", "/exporter/web/key"),
    ("exporter.podAnnotations.a/b/c=d", "/exporter/podAnnotations"),
    ("exporter.extraPodLabels.team=a b", "/exporter/extraPodLabels/team"),
    ("exporter.agent.resources.limits.memory=lots", "/exporter/agent/resources/limits/memory"),
    ("explainer.enabled=1", "/explainer/enabled"),
    ("explainer.replicas=0", "/explainer/replicas"),
    ("explainer.events=yes", "/explainer/events"),
    ("explainer.eventAfter=60s", "/explainer/eventAfter"),
    ("explainer.eventAfter=0", "/explainer/eventAfter"),
    ("explainer.affinity.nodeSelector.a=b", "/explainer/affinity"),
    ("explainer.topologySpreadConstraints[0].maxSkew=1", "/explainer/topologySpreadConstraints/0"),
    ("explainer.logLevel=info", "/explainer/logLevel"),
    ("explainer.awayFromGpus=required", "/explainer"),
    ("remediator.replicas=0", "/remediator/replicas"),
    ("remediator.awayFromGpus=maybe", "/remediator/awayFromGpus"),
    ("remediator.affinity.nodeAffinity.a=b", "/remediator/affinity"),
    (
        "remediator.topologySpreadConstraints[0].maxSkew=1",
        "/remediator/topologySpreadConstraints/0",
    ),
    ("remediator.extraEnv[0].value=a", "/remediator/extraEnv/0"),
    ("remediator.revisionHistoryLimit=-1", "/remediator/revisionHistoryLimit"),
    ("exporter.affinity.nodeAffinity.a=b", "/exporter/affinity"),
    ("exporter.agent.extraVolumeMounts[0].name=a", "/exporter/agent/extraVolumeMounts/0"),
    ("exporter.serviceAccount.annotations.a=1", "/exporter/serviceAccount/annotations/a"),
    ("commonAnnotations.a b=c", "/commonAnnotations"),
    ("remediator.replicas=two", "/remediator/replicas"),
    ("remediator.policy.defaults.mode=enforce", "/remediator/policy"),
    ("remediator.policy.text.defaults=x", "/remediator/policy/text"),
    ("remediator.policy.existingConfigMap=a b", "/remediator/policy/existingConfigMap"),
    ("remediator.nodeConditions.deadline=-1", "/remediator/nodeConditions/deadline"),
    ("remediator.staleAfter=30", "/remediator/staleAfter"),
    ("remediator.writesPerSecond=0", "/remediator/writesPerSecond"),
    ("cleanupOnDelete.deadlineSeconds=5", "/cleanupOnDelete/deadlineSeconds"),
    ("admission.enabled=on", "/admission/enabled"),
    ("userRoles.operators[0].kind=Team", "/userRoles/operators/0/kind"),
    ("userRoles.operators[0].kind=ServiceAccount", "/userRoles/operators/0"),
    ("userRoles.operators[0].kind=User", "/userRoles/operators/0"),
    ("monitoring.labels.release=1", "/monitoring/labels/release"),
    ("monitoring.labels.release=-a", "/monitoring/labels/release"),
    ("monitoring.interval=15", "/monitoring/interval"),
    ("monitoring.rules.runbookBaseUrl=wiki/runbooks", "/monitoring/rules/runbookBaseUrl"),
    ("dashboards.label=", "/dashboards/label"),
    ("dashboards.namespace=Grafana", "/dashboards/namespace"),
    ("dashboards.labelValue=a b", "/dashboards/labelValue"),
    ("dashboards.folderAnnotation=a b", "/dashboards/folderAnnotation"),
    ("dashboards.grafanaOperator.instanceLabels=null", "instanceLabels"),
    ("networkPolicy.egress.apiServerPorts={0}", "/networkPolicy/egress/apiServerPorts/0"),
]


@pytest.mark.parametrize(("value", "named"), WRONG)
def test_a_wrong_value_is_refused_by_name(value: str, named: str) -> None:
    with pytest.raises(HelmError) as refusal:
        rendered.text((value,))

    assert named in str(refusal.value)


EMPTY: list[Json] = [
    {},
    {"matchExpressions": []},
    {"matchFields": []},
    {"matchExpressions": [], "matchFields": []},
]


@pytest.mark.parametrize("term", EMPTY)
def test_a_term_that_selects_no_node_is_refused_by_name(term: Json) -> None:
    with pytest.raises(HelmError, match="'/exporter/nodeSelectorTerms/0"):
        rendered.text((), f"--set-json=exporter.nodeSelectorTerms={json.dumps([term])}")


def test_a_term_may_have_an_empty_list_beside_one_that_is_not() -> None:
    expressions = [{"key": "gpu", "operator": "Exists"}]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    terms: list[Json] = [
        {"matchExpressions": expressions, "matchFields": []},
        {"matchExpressions": [], "matchFields": fields},
    ]

    assert rendered.text((), f"--set-json=exporter.nodeSelectorTerms={json.dumps(terms)}")


CONTRADICTIONS = [
    (("exporter.sensor.extraEnv[0].name=NODE_NAME",), "sensor.extraEnv has NODE_NAME, which the"),
    (("exporter.extraVolumes[0].name=socket",), "exporter.extraVolumes has socket, which the"),
    (("remediator.extraVolumes[0].name=policy",), "remediator.extraVolumes has policy, which the"),
    (
        (
            "exporter.sensor.extraVolumeMounts[0].name=token",
            "exporter.sensor.extraVolumeMounts[0].mountPath=/token",
        ),
        "the sensor is root, and must never see a token",
    ),
    (
        ("remediator.awayFromGpus=required", "remediator.nodeAffinity.a=b"),
        "remediator.nodeAffinity replaces it",
    ),
    (
        ("monitoring.serviceMonitor.enabled=true", "monitoring.podMonitor.enabled=true"),
        "enable only one, otherwise everything is scraped twice",
    ),
    (("exporter.report=false",), "enable it, or set metricsOnly"),
    (
        ("gpuDrivers={gpu_nvidia.com}",),
        'gpuDrivers has "gpu_nvidia.com", which is no name of a DRA',
    ),
    (
        (f"gpuDrivers={{{'a' * 64}}}",),
        "which is no name of a DRA driver: write it as in spec.driver",
    ),
    (("remediator.extraArgs={--gpu-drivers=a}",), "has --gpu-drivers, which the chart sets itself"),
    (("exporter.extraArgs={--gpu-drivers=a}",), "has --gpu-drivers, which the chart sets itself"),
    (("exporter.enabled=false", "metricsOnly=true"), "nothing would be installed"),
    ((*SETTINGS["explainer alone"], "explainer.enabled=false"), "nothing would be installed"),
    (("explainer.extraVolumes[0].name=token",), "explainer.extraVolumes has token, which the"),
    (("explainer.web.scheme=HTTPS",), "explainer.web.scheme is HTTPS: name the Secret with the"),
    (("explainer.extraArgs={--no-events}",), "explainer.extraArgs has --no-events,"),
    (("explainer.extraArgs={--leader-identity=me}",), "explainer.extraArgs has --leader-identity,"),
    (
        ("exporter.kernelLog=kmsg", "exporter.extraCapabilities={SYS_ADMIN}"),
        "with kernelLog kmsg the sensor is privileged and has all of them",
    ),
    (
        ("stack=eks-auto", "exporter.extraCapabilities={SYS_ADMIN}"),
        r"with kernelLog kmsg \(stack eks-auto\) the sensor is privileged",
    ),
    (
        ("stack=gke", "exporter.extraCapabilities={SYS_ADMIN}"),
        r"with gpu.access driver-root \(stack gke\) the sensor is privileged",
    ),
    (("exporter.extraCapabilities={CAP_SYS_ADMIN}",), "has CAP_SYS_ADMIN: write SYS_ADMIN"),
    (("exporter.podSecurityContext.fsGroup=1",), "for other groups use supplementalGroups"),
    (
        ("stack=openshift", "exporter.podSecurityContext.seLinuxOptions.level=s0"),
        r"seLinuxOptions \(stack openshift\) and exporter.podSecurityContext.seLinuxOptions are",
    ),
    (("exporter.dcgm.address=engine:5555",), "exporter.dcgm.address needs dcgm.mode hostEngine"),
    (
        ("exporter.dcgm.libraryHostPath=/opt",),
        "exporter.dcgm.libraryHostPath needs dcgm.mode hostEngine or dcgm.mode embedded",
    ),
    (
        ("exporter.gpu.driverRoot=/run/nvidia/driver",),
        "exporter.gpu.driverRoot needs gpu.access driver-root",
    ),
    (
        ("exporter.gpu.access=driver-root", "exporter.gpu.runtimeClassName=mine"),
        "exporter.gpu.runtimeClassName needs gpu.access runtime",
    ),
    (
        ("stack=gpucluster", "exporter.gpu.runtimeClassName=mine"),
        "exporter.gpu.runtimeClassName needs gpu.access runtime",
    ),
    (("exporter.journalPath=/run/log/journal",), "exporter.journalPath needs kernelLog journal"),
    (("exporter.podLogsPath=/data/pods",), "exporter.podLogsPath needs podShares true"),
    (("exporter.web.scheme=HTTPS",), "exporter.web.scheme is HTTPS: name the Secret with the"),
    (("remediator.web.scheme=HTTPS",), "remediator.web.scheme is HTTPS: name the Secret with the"),
    (
        (
            *("networkPolicy.enabled=true", "networkPolicy.egress.enabled=true"),
            *("exporter.dcgm.mode=hostEngine", "exporter.dcgm.address=engine:5555"),
            "exporter.dcgm.libraryHostPath=/usr/lib",
        ),
        "allow the engine",
    ),
    (("remediator.extraArgs={--log-level=INFO,--no-leader-elect}",), "has --no-leader-elect,"),
    (("remediator.extraArgs={--leader-identity=me}",), "has --leader-identity,"),
    (("remediator.extraArgs={--cluster-name=a}",), "has --cluster-name,"),
    (("exporter.extraArgs={--listen=:9401}",), "exporter.extraArgs has --listen,"),
    (("networkPolicy.egress.enabled=true",), "they would have no effect"),
    (("networkPolicy.from[0].podSelector.matchLabels.a=b",), "they would have no effect"),
    (("dashboards.grafanaOperator.enabled=true",), "so enable both"),
    (("remediator.nodeConditions.acceleratedHardwareReady=true",), "no condition would be"),
    (("userRoles.create=false", *SETTINGS["user-roles"]), "there is no role to bind"),
    (
        ("metricsOnly=true", "admission.adminAccessNamespaces={gpu-operator}"),
        "nothing needs a toleration",
    ),
    (("exporter.podLabels.allow={team}",), "no label would be shown"),
    (("exporter.config=nothing",), "exporter.config is not a YAML file of dcgm-exporter: .*"),
    (
        ("exporter.config=metrics: {fields: [{name: A}]}", *SETTINGS["rows of its own"]),
        r"has rows \(metrics.fields\), .* set only one",
    ),
    (
        (*SETTINGS["a policy kept elsewhere"], r"remediator.policy.text=defaults: {}"),
        "set only one",
    ),
    (("remediator.policy.text=",), "write {}"),
    (("exporter.hostnameLabel=hostname", "monitoring.rules.enabled=true"), "is not Hostname"),
    (("exporter.hostnameLabel=none", "dashboards.enabled=true"), "is not Hostname"),
    (("monitoring.interval=5s", *SETTINGS["ServiceMonitors"]), "10s is above .* 5s"),
    (
        ("monitoring.scrapeTimeout=1m1ms", "monitoring.interval=1m", *SETTINGS["PodMonitors"]),
        "1m1ms is above .* 1m",
    ),
    ((r"extraLabels.app\.kubernetes\.io/name=gpu",), "extraLabels sets app"),
    ((r"monitoring.labels.app\.kubernetes\.io/component=a",), "monitoring.labels sets app"),
    ((r"exporter.extraPodLabels.app\.kubernetes\.io/name=a",), "exporter.extraPodLabels sets"),
]


@pytest.mark.parametrize(("values", "sentence"), CONTRADICTIONS)
def test_values_that_contradict_each_other_are_refused(
    values: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(HelmError, match=sentence):
        rendered.text(values)


@pytest.mark.parametrize("nothing", ["null", "~", "# none", "---", "---\n# none\n\n  null # x"])
def test_a_policy_that_says_nothing_is_refused_unless_it_is_kept_elsewhere(nothing: str) -> None:
    literal = f"--set-literal=remediator.policy.text={nothing}"

    with pytest.raises(HelmError, match=r"write \{\}"):
        rendered.text((), literal)
    assert rendered.text(SETTINGS["a policy kept elsewhere"], literal)
    assert rendered.text((*SETTINGS["a policy kept elsewhere"], "remediator.policy.text="))


@pytest.mark.parametrize("policy", ["---\n{}", "# of ours\n{} # none", "---\ndefaults: {}\n"])
def test_a_policy_beside_comments_is_taken(policy: str) -> None:
    assert rendered.text((), f"--set-literal=remediator.policy.text={policy}")


@pytest.mark.parametrize("interval", ["10s", "10000ms", "1m", "1h"])
def test_a_scrape_may_take_as_long_as_there_is_time(interval: str) -> None:
    assert rendered.objects((*SETTINGS["ServiceMonitors"], f"monitoring.interval={interval}"))


def test_helm_has_nothing_against_the_chart() -> None:
    stated = run("lint", "--strict", str(CHART))

    assert "WARNING" not in stated
    assert "ERROR" not in stated


def complaints(values: Json) -> list[str]:
    errors: Iterator[Any] = Draft7Validator(SCHEMA).iter_errors(values)  # pyright: ignore[reportUnknownMemberType] - of no type in its stubs
    return [error.message for error in errors]


def test_the_schema_is_one_and_takes_the_defaults() -> None:
    Draft7Validator.check_schema(SCHEMA)

    assert complaints(DEFAULTS) == []


def leaves(values: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(values, dict) and values:
        for key, below in values.items():  # pyright: ignore[reportUnknownVariableType] - YAML
            yield from leaves(below, (*name, str(key)))  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield name


def without(values: Any, leaf: tuple[str, ...]) -> Any:
    first, *rest = leaf
    kept = {key: below for key, below in values.items() if key != first}
    return {**kept, first: without(values[first], tuple(rest))} if rest else kept


def test_a_default_that_is_taken_away_is_requested_by_name() -> None:
    """Helm takes a default away where somebody gives `null`."""
    for name, _, _ in values():
        leaf = tuple(name.split("."))
        assert complaints(without(DEFAULTS, leaf)) == [f"'{leaf[-1]}' is a required property"]


def test_every_value_has_a_default_a_type_and_a_meaning() -> None:
    described = {name for name, _, _ in values()}
    written = {".".join(leaf) for leaf in leaves(DEFAULTS)}

    assert [path for path in written if not any(path.startswith(name) for name in described)] == []
    assert [name for name in described if not any(path.startswith(name) for path in written)] == []


def test_the_chart_is_of_the_projects_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (CHART.parents[2] / "pyproject.toml").read_text(encoding="utf-8")

    assert f'\nversion = "{chart["version"]}"\n' in project
    assert chart["appVersion"] == chart["version"]
