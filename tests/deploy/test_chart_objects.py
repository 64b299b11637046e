"""What an installation is made of: who sees the token, what may touch the node, who finds whom."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.deploy import rendered
from tests.deploy.rendered import Json, container, of_kind, only, pod
from tests.deploy.settings import EVERYTHING, SETTINGS

pytestmark = pytest.mark.usefixtures("helm_built")
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
NOT_THE_NODES = ("agent", "remediator", "explainer", "cleanup")
"""Containers that need nothing of the node."""


def mounts(of: Json) -> dict[str, Json]:
    return {mount["mountPath"]: mount for mount in of["volumeMounts"]}


def variables(of: Json) -> Json:
    return {variable["name"]: variable.get("value") for variable in of.get("env", ())}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_token_is_in_the_containers_that_ask_the_api_and_in_no_other(setting: str) -> None:
    for manifest in rendered.objects(SETTINGS[setting]):
        if "template" in manifest.get("spec", {}):
            of = manifest["spec"]["template"]["spec"]
            assert of["automountServiceAccountToken"] is False
            holders = {found["name"] for found in of["containers"] if TOKEN in mounts(found)}
            assert holders == {found["name"] for found in of["containers"]} - {"sensor"}
        if manifest["kind"] == "ServiceAccount":
            assert manifest["automountServiceAccountToken"] is False


def test_the_token_is_one_that_names_its_pod_and_node() -> None:
    """The kubelet's, which expires; no Secret."""
    volumes = {volume["name"]: volume for volume in pod(rendered.objects(), "DaemonSet")["volumes"]}
    sources = volumes["token"]["projected"]["sources"]

    assert {tuple(source) for source in sources} == {("serviceAccountToken",), ("configMap",)}
    assert sources[0]["serviceAccountToken"]["expirationSeconds"] == 3600


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_needs_nothing_of_the_node_gets_nothing_of_it(setting: str) -> None:
    for manifest in rendered.objects(SETTINGS[setting]):
        for found in (
            manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        ):
            security = found["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert found["resources"]["requests"]
            assert found["resources"]["limits"].keys() == {"memory"}
            if found["name"] in NOT_THE_NODES:
                assert security["runAsNonRoot"] is True
                assert security["allowPrivilegeEscalation"] is False
                assert security["capabilities"] == {"drop": ["ALL"]}
                assert security["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_sensor_is_root_with_one_capability_and_no_port() -> None:
    sensor = container(rendered.objects(), "sensor")

    assert sensor["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYSLOG"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "ports" not in sensor
    assert all(
        mount.get("readOnly") for path, mount in mounts(sensor).items() if path != "/run/draguard"
    )


JOURNALS = ("/var/log/journal", "/run/log/journal")


def kernel_log(*settings: str) -> tuple[list[str], Json, Json]:
    """Return the sensor's flags about the log, its mounts, and the node's folders by name."""
    objects = rendered.objects(settings)
    sensor = container(objects, "sensor")
    flags = [flag for flag in sensor["args"] if flag.startswith(("--kernel-log", "--journal-"))]
    volumes = pod(objects, "DaemonSet")["volumes"]
    hosts = {volume["name"]: volume["hostPath"] for volume in volumes if "hostPath" in volume}
    return flags, mounts(sensor), hosts


def test_the_sensor_finds_the_journal_where_there_is_one_and_no_folder_of_it_is_made() -> None:
    """A hostPath of a folder that is missing is made, or keeps the pod from starting."""
    flags, seen, hosts = kernel_log()

    (folders,) = [flag.removeprefix("--journal-dirs=").split(",") for flag in flags]
    for journal, folder in zip(JOURNALS, folders, strict=True):
        at, _, below = folder.rpartition("/")
        assert f"{hosts[seen[at]['name']]['path']}/{below}" == journal
        assert seen[at]["readOnly"] is True
    for each in SETTINGS.values():
        sets = of_kind(rendered.objects(each), "DaemonSet")
        volumes = [one for found in sets for one in found["spec"]["template"]["spec"]["volumes"]]
        paths = [one["hostPath"] for one in volumes if "hostPath" in one]
        made = [path["path"] for path in paths if path.get("type") != "Directory"]
        assert not [path for path in made if path.endswith("/journal") or path == "/var/log"]


@pytest.mark.parametrize(
    ("settings", "flags", "volumes"),
    [
        (("exporter.kernelLog=syslog",), ["--kernel-log=/dev/kmsg"], set[str]()),
        (("exporter.kernelLog=kmsg",), ["--kernel-log=/dev/kmsg"], {"kmsg"}),
        (("exporter.kernelLog=journal",), ["--kernel-log=/host/journal"], {"journal"}),
    ],
)
def test_another_way_to_read_the_kernel_log_mounts_what_it_needs_and_no_more(
    settings: tuple[str, ...], flags: list[str], volumes: set[str]
) -> None:
    given, _, hosts = kernel_log(*settings)

    assert given == flags
    assert hosts.keys() & {"kmsg", "journal", "var-log", "run-log"} == volumes


def test_a_capability_that_is_named_twice_is_added_once() -> None:
    sensor = container(rendered.objects(("exporter.extraCapabilities={SYSLOG}",)), "sensor")

    assert sensor["securityContext"]["capabilities"]["add"] == ["SYSLOG"]


@pytest.mark.parametrize(
    "setting", ["a DRA driver without nvidia's runtime", "the device of the kernel's log"]
)
def test_the_sensor_is_privileged_where_nothing_less_opens_a_device(setting: str) -> None:
    security = container(rendered.objects(SETTINGS[setting]), "sensor")["securityContext"]

    assert security["privileged"] is True
    assert "capabilities" not in security
    assert "allowPrivilegeEscalation" not in security


def test_sensor_and_agent_meet_in_one_folder_by_a_group() -> None:
    objects = rendered.objects()
    of = pod(objects, "DaemonSet")
    agent = container(objects, "agent")

    shared = mounts(container(objects, "sensor")).keys() & mounts(agent).keys()
    assert shared == {"/run/draguard"}
    assert of["securityContext"]["fsGroup"] == agent["securityContext"]["runAsGroup"]
    assert [
        volume for volume in of["volumes"] if "hostPath" in volume and volume["name"] == "socket"
    ] == []


def test_the_agent_sees_no_folder_of_the_node_but_the_names_in_that_of_logs() -> None:
    for name, setting in SETTINGS.items():
        seen = {"pod-logs"} if name == "shares of pods" else set[str]()
        objects = rendered.objects(setting)
        for manifest in of_kind(objects, "DaemonSet"):
            of = manifest["spec"]["template"]["spec"]
            hosts = {volume["name"] for volume in of["volumes"] if "hostPath" in volume}
            (agent,) = [found for found in of["containers"] if found["name"] == "agent"]
            assert hosts & {mount["name"] for mount in agent["volumeMounts"]} == seen


def test_the_runtime_gives_gpus_to_the_sensor_and_not_to_the_agent() -> None:
    objects = rendered.objects()

    assert pod(objects, "DaemonSet")["runtimeClassName"] == "nvidia"
    assert variables(container(objects, "sensor"))["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert variables(container(objects, "sensor"))["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert variables(container(objects, "agent"))["NVIDIA_VISIBLE_DEVICES"] == "void"


SWITCHES: list[tuple[str, Callable[[list[Json]], Any], Any, Any]] = [
    (
        "nvidia is the default runtime",
        lambda o: pod(o, "DaemonSet").get("runtimeClassName"),
        "nvidia",
        None,
    ),
    ("shares of pods", lambda o: pod(o, "DaemonSet").get("hostPID"), None, True),
    ("shares of pods", lambda o: "/host/pods" in mounts(container(o, "sensor")), False, False),
    ("shares of pods", lambda o: "/host/pods" in mounts(container(o, "agent")), False, True),
    (
        "shares of pods",
        lambda o: [
            v["hostPath"]["path"] for v in pod(o, "DaemonSet")["volumes"] if v["name"] == "pod-logs"
        ],
        [],
        ["/data/pods"],
    ),
    (
        "another kubelet",
        lambda o: [
            v["hostPath"]["path"]
            for v in pod(o, "DaemonSet")["volumes"]
            if v["name"] == "pod-resources"
        ],
        ["/var/lib/kubelet/pod-resources"],
        ["/data/kubelet/pod-resources"],
    ),
    (
        "a DRA driver without nvidia's runtime",
        lambda o: [
            v["hostPath"]["path"] for v in pod(o, "DaemonSet")["volumes"] if v["name"] == "driver"
        ],
        [],
        ["/run/nvidia/driver"],
    ),
    (
        "a DRA driver without nvidia's runtime",
        lambda o: pod(o, "DaemonSet").get("runtimeClassName"),
        "nvidia",
        None,
    ),
    (
        "SELinux",
        lambda o: pod(o, "DaemonSet")["securityContext"].get("seLinuxOptions"),
        None,
        {"type": "spc_t"},
    ),
    (
        "DCGM's host engine",
        lambda o: container(o, "sensor")["securityContext"]["capabilities"]["add"],
        ["SYSLOG"],
        ["SYSLOG", "SYS_ADMIN"],
    ),
    (
        "DCGM's host engine",
        lambda o: variables(container(o, "sensor")).get("NVIDIA_MIG_MONITOR_DEVICES"),
        None,
        "all",
    ),
    (
        "TLS",
        lambda o: pod(o, "Deployment", "remediator").get("securityContext"),
        None,
        {"fsGroup": 65522},
    ),
    ("one replica", lambda o: len(of_kind(o, "PodDisruptionBudget")), 1, 0),
    ("no guards", lambda o: len(of_kind(o, "ValidatingAdmissionPolicy")) > 0, True, False),
    ("no guards", lambda o: len(of_kind(o, "Job")), 2, 0),
    ("CRDs from elsewhere", lambda o: len(of_kind(o, "CustomResourceDefinition")), 2, 0),
    (
        "a policy kept elsewhere",
        lambda o: [
            v["configMap"]["name"]
            for v in pod(o, "Deployment", "remediator")["volumes"]
            if v["name"] == "policy"
        ],
        ["draguard-policy"],
        ["gpu-policy"],
    ),
    (
        "pinned images",
        lambda o: (container(o, "agent")["image"], container(o, "remediator")["image"]),
        ("draguard-exporter:0.1.0", "draguard-controller:0.1.0"),
        (
            f"registry.example.org:5000/gpu/draguard-exporter@sha256:{'a' * 64}",
            "registry.example.org:5000/gpu/draguard-controller:0.1.0",
        ),
    ),
    (
        "pinned images",
        lambda o: pod(o, "Job").get("imagePullSecrets"),
        None,
        [{"name": "registry"}],
    ),
]


@pytest.mark.parametrize(("setting", "look", "shipped", "switched"), SWITCHES)
def test_a_switch_changes_what_it_says(
    setting: str, look: Callable[[list[Json]], Any], shipped: object, switched: object
) -> None:
    assert look(rendered.objects()) == shipped
    assert look(rendered.objects(SETTINGS[setting])) == switched


def test_metrics_only_says_nothing_to_the_api_and_taints_nothing() -> None:
    objects = rendered.objects(SETTINGS["metrics only"])
    kinds = {manifest["kind"] for manifest in objects}

    assert not kinds & {"CustomResourceDefinition", "Deployment", "Job", "PodDisruptionBudget"}
    verbs = {
        verb
        for role in of_kind(objects, "ClusterRole", "draguard-agent")
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch"}
    assert of_kind(objects, "Role") == []
    assert of_kind(objects, "ValidatingAdmissionPolicy") == []


@pytest.mark.parametrize("setting", ["no explainer", "metrics only"])
def test_without_an_explainer_nothing_is_left_of_it(setting: str) -> None:
    """But its name in two policies, and boards and rules: they say Unknown, or nothing."""
    objects = rendered.objects((*SETTINGS[setting], *EVERYTHING, "stack=openshift"))

    named = [one for one in objects if "explainer" in str(one)]
    shown = {"draguard", "draguard-dashboard-claim", "draguard-dashboard-fleet"}
    assert {one["metadata"]["name"] for one in named} <= {
        "draguard-events",
        "draguard-leases",
        *shown,
    }
    assert of_kind(named, "Deployment") == of_kind(named, "ClusterRole") == []


@pytest.mark.parametrize("setting", ["no remediator", "explainer alone"])
def test_an_explainer_needs_no_remediator(setting: str) -> None:
    objects = rendered.objects(SETTINGS[setting])

    beside = only(rendered.objects(), "Deployment", "explainer")
    assert of_kind(objects, "Deployment") == [beside]
    assert only(objects, "CustomResourceDefinition", "deviceincidents"), "it reads them"


def test_the_policy_is_passed_on_as_it_was_written() -> None:
    """YAML 1.1, which Helm reads, takes `off` for false and 22:30 for a number."""
    written = "classes:\n  lost: {mode: off}\n# weekly: {start: 22:30}, {{ not helm's }}\n"
    objects = rendered.objects((), f"--set-literal=remediator.policy.text={written}")

    assert only(objects, "ConfigMap")["data"]["policy.yaml"] == written


def test_a_new_policy_rolls_no_pod_and_is_mounted_as_a_folder() -> None:
    """A remediator that restarts forgets that its policy has changed; a subPath never changes."""
    before = rendered.objects()
    after = rendered.objects((), "--set-literal=remediator.policy.text=defaults: {mode: dry-run}\n")

    assert of_kind(before, "Deployment") == of_kind(after, "Deployment")
    assert "subPath" not in mounts(container(after, "remediator"))["/etc/draguard/policy"]


def test_services_and_budgets_find_their_pods_and_no_others() -> None:
    objects = rendered.objects(EVERYTHING)
    labels = {
        item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: item["spec"][
            "template"
        ]["metadata"]["labels"]
        for kind in ("DaemonSet", "Deployment", "Job")
        for item in of_kind(objects, kind)
    }

    for who, selector in selectors(objects):
        found = {name for name, have in labels.items() if selector.items() <= have.items()}
        assert len(found) == 1, who
        assert found <= set(who.split("-")), who


def selectors(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    for manifest in objects:
        spec, name = manifest.get("spec", {}), manifest["metadata"]["name"]
        match manifest["kind"]:
            case "Service":
                yield name, spec["selector"]
            case "PodDisruptionBudget":
                yield name, spec["selector"]["matchLabels"]
            case "NetworkPolicy":
                yield name, spec["podSelector"]["matchLabels"]
            case _:
                pass


def test_network_policies_let_metrics_in_and_requests_to_the_api_server_out() -> None:
    objects = rendered.objects(SETTINGS["closed"])
    ports = {
        policy["metadata"]["name"]: [
            port["port"] for rule in policy["spec"].get("ingress", ()) for port in rule["ports"]
        ]
        for policy in of_kind(objects, "NetworkPolicy")
    }

    assert ports == {
        "draguard-exporter": [9400],
        "draguard-remediator": [9401],
        "draguard-explainer": [9403],
        "draguard-cleanup": [],
    }
    for policy in of_kind(objects, "NetworkPolicy"):
        assert [port["port"] for port in policy["spec"]["egress"][0]["ports"]] == [443, 6443]


def test_the_jobs_before_and_after_the_release_differ_in_what_they_do_alone() -> None:
    release, check = sorted(
        of_kind(rendered.objects(), "Job"), key=lambda job: job["metadata"]["name"]
    )
    assert check["metadata"]["name"] == "draguard-cleanup-check"
    args = [
        job["spec"]["template"]["spec"]["containers"][0].pop("args") for job in (check, release)
    ]

    what = ["cleanup", "--all", "--leases", "--namespace=draguard-system"]
    assert args == [[*what, "--dry-run"], [*what, "--yes"]]
    assert check["spec"] == release["spec"]


def test_what_closes_the_network_lets_the_last_job_out_before_and_after_the_release() -> None:
    """It is a hook as the Job is: after the release the other policies are gone."""
    objects = rendered.objects(SETTINGS["closed"])
    policy, jobs = only(objects, "NetworkPolicy", "cleanup"), of_kind(objects, "Job")
    notes = policy["metadata"]["annotations"]
    job = jobs[0]

    assert {manifest["metadata"]["annotations"]["helm.sh/hook"] for manifest in jobs} == set(
        notes["helm.sh/hook"].split(",")
    )
    for manifest in jobs:
        weight = manifest["metadata"]["annotations"]["helm.sh/hook-weight"]
        assert int(notes["helm.sh/hook-weight"]) < int(weight)
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
