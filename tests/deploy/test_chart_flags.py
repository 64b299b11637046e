"""Every rendered container starts a program with flags that this program has."""

import contextlib
import io
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from allocation.explainer import settings as explainer
from exporter.flags import parser
from remediator import settings
from serving.front import Front
from tests.deploy import rendered
from tests.deploy.rendered import Json
from tests.deploy.settings import SETTINGS

pytestmark = pytest.mark.usefixtures("helm_built")


def pods(objects: list[Json]) -> Iterator[Json]:
    """Give the pod template of everything that makes pods."""
    return (
        manifest["spec"]["template"]["spec"]
        for manifest in objects
        if "template" in manifest.get("spec", {})
    )


def containers(objects: list[Json]) -> dict[str, Json]:
    return {
        container["name"]: container for pod in pods(objects) for container in pod["containers"]
    }


CLEANUP = ["cleanup", "--all", "--leases", "--namespace=draguard-system"]


def releases(objects: list[Json]) -> list[list[str]]:
    """Give the arguments of each uninstalling Job, in the order in which they are rendered."""
    everywhere = (container for pod in pods(objects) for container in pod["containers"])
    return [container["args"] for container in everywhere if container["name"] == "cleanup"]


def exporter_settings(container: Json) -> parser.Settings:
    """Read a container's arguments as the exporter does; nothing may be said against them."""
    command, *arguments = container["args"]
    assert command == "exporter"
    found, stated = parser.parse(arguments, {"NODE_NAME": "node-a"})
    assert stated == ()
    return found


def remediator_settings(container: Json) -> settings.Settings:
    command, *arguments = container["args"]
    assert command == "remediator"
    return settings.parse(arguments)


def explainer_settings(container: Json) -> explainer.Settings:
    command, *arguments = container["args"]
    assert command == "explainer"
    return explainer.parse(arguments)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_programs_take_what_is_rendered(setting: str) -> None:
    objects = rendered.objects(SETTINGS[setting])
    found = containers(objects)

    assert found.keys() <= {"sensor", "agent", "remediator", "explainer", "cleanup"}
    for role in found.keys() & {"sensor", "agent"}:
        assert exporter_settings(found[role]).role == role
    if "remediator" in found:
        remediator_settings(found["remediator"])
    if "explainer" in found:
        explainer_settings(found["explainer"])
    assert releases(objects) in (
        [],
        [[*CLEANUP, "--yes"], [*CLEANUP, "--dry-run"]],
    )


def test_sensor_and_agent_mean_the_same() -> None:
    found = containers(rendered.objects(SETTINGS["pods' labels"]))

    assert found["sensor"]["args"][2:] == found["agent"]["args"][2:]


MEANT: Mapping[str, tuple[tuple[str, ...], Mapping[str, object]]] = {
    "interval": (("exporter.interval=5",), {"interval": 5.0}),
    "labels": (("exporter.labels=lean",), {"labels": "lean"}),
    "devices": (("exporter.devices=g:0+i:1",), {"devices": "g:0+i:1"}),
    "hostname": (("exporter.hostnameLabel=none",), {"hostname_label": "none"}),
    "no shares of pods": ((), {"processes": False, "pod_log_dir": None}),
    "shares of pods": (
        SETTINGS["shares of pods"],
        {"processes": True, "pod_log_dir": Path("/host/pods")},
    ),
    "DCGM is off": ((), {"dcgm": "off", "dcgm_library_dir": None}),
    "DCGM inside": (("exporter.dcgm.mode=embedded",), {"dcgm": "embedded"}),
    "DCGM elsewhere": (
        SETTINGS["DCGM's host engine"],
        {"dcgm": "nvidia-dcgm.gpu-operator:5555", "dcgm_library_dir": Path("/host/dcgm")},
    ),
    "driver root": (
        SETTINGS["a DRA driver without nvidia's runtime"],
        {"nvml_library_dirs": ("/host/driver/usr/lib64",)},
    ),
    "folders of the driver's library": (
        ("exporter.gpu.access=driver-root",),
        {
            "nvml_library_dirs": (
                "/host/driver/usr/lib/x86_64-linux-gnu",
                "/host/driver/usr/lib/aarch64-linux-gnu",
                "/host/driver/usr/lib64",
                "/host/driver/home/kubernetes/bin/nvidia/lib64",
            )
        },
    ),
    "pods' labels": (
        SETTINGS["pods' labels"],
        {"pod_labels": True, "pod_label_allow": ("team", "app.*"), "pod_uid": True},
    ),
    "device plugins": (
        ("exporter.nvidiaResourceNames={example.com/gpu,example.com/mig}",),
        {"nvidia_resource_names": ("example.com/gpu", "example.com/mig")},
    ),
    "counters": (
        SETTINGS["rows of its own"],
        {"collectors": Path("/etc/draguard/counters/counters.csv")},
    ),
    "TLS": (
        SETTINGS["TLS"],
        {"web_config": Path("/etc/draguard/web/web-config.yaml"), "health_listen": ":9402"},
    ),
    "no port for probes alone": ((), {"web_config": None, "health_listen": ""}),
    "metrics only": (("metricsOnly=true",), {"report": False}),
    "every address, of whichever family": ((), {"listen": ":9400"}),
    "reports": ((), {"report": True, "lease_namespace": "draguard-system"}),
    "log": (
        ("exporter.logLevel=DEBUG", "exporter.logFormat=json"),
        {"log_level": "DEBUG", "log_format": "json"},
    ),
    "drivers of GPUs": ((), {"gpu_drivers": ("gpu.nvidia.com",)}),
    "more drivers": (
        SETTINGS["drivers of GPUs"],
        {"gpu_drivers": ("gpu.nvidia.com", "gpu.example.com")},
    ),
    "a driver in capitals": (
        ("gpuDrivers={Gpu.Example.com}",),
        {"gpu_drivers": ("Gpu.Example.com",)},
    ),
    "more flags": (SETTINGS["more flags"], {"lost_after": 120.0}),
}


@pytest.mark.parametrize("case", MEANT)
def test_a_value_becomes_the_setting_that_it_names(case: str) -> None:
    values, meant = MEANT[case]
    found = exporter_settings(containers(rendered.objects(values))["agent"])

    assert {name: getattr(found, name) for name in meant} == meant


def test_the_remediators_values_become_its_settings() -> None:
    values = (
        "remediator.staleAfter=300",
        "remediator.resync=30",
        "remediator.logLevel=WARNING",
        *SETTINGS["a handed over node"],
        *SETTINGS["TLS"],
        "clusterName=east-1",
        *SETTINGS["drivers of GPUs"],
    )
    fraction = "--set-json=remediator.writesPerSecond=7.5"
    found = remediator_settings(containers(rendered.objects(values, fraction))["remediator"])

    assert found == settings.Settings(
        policy=Path("/etc/draguard/policy/policy.yaml"),
        listen=":9401",
        health_listen=":9402",
        cluster_name="east-1",
        gpu_drivers="gpu.nvidia.com,gpu.example.com",
        web_config=Path("/etc/draguard/web/web.yaml"),
        writes_per_second=7.5,
        stale_after=300.0,
        resync=30.0,
        log_level="WARNING",
        node_condition=True,
        node_condition_deadline=1e6,
        accelerated_hardware_ready=True,
    )


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ((), ("--events", "--event-after=60", "--log-level=INFO")),
        (
            ("explainer.events=false", "explainer.eventAfter=7", "explainer.logLevel=DEBUG"),
            ("--no-events", "--event-after=7", "--log-level=DEBUG"),
        ),
        (
            ("explainer.web.configSecret=web", "explainer.extraArgs={--more=1}"),
            (
                *("--web-config=/etc/draguard/web/web-config.yaml", "--health-listen=:9402"),
                *("--events", "--event-after=60", "--log-level=INFO", "--more=1"),
            ),
        ),
    ],
)
def test_the_explainers_values_become_its_flags(
    values: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    command, *given = containers(rendered.objects(values))["explainer"]["args"]

    assert command == "explainer"
    always = ("--listen=:9403", "--lease-namespace=draguard-system", "--leader-elect")
    assert sorted(given) == sorted((*always, *flags))


def test_a_large_number_in_a_file_stays_whole(tmp_path: Path) -> None:
    """Helm reads numbers of a file as floats, and would write 2e+06."""
    file = tmp_path / "values.yaml"
    file.write_text(
        "exporter: {maxSeries: 2000000, maxUnavailable: 3000000}\n"
        "remediator: {tolerations: [{key: a, operator: Exists, tolerationSeconds: 4000000}]}\n"
    )
    objects = rendered.objects((), f"--values={file}")
    rolled = rendered.only(objects, "DaemonSet")["spec"]["updateStrategy"]["rollingUpdate"]

    assert exporter_settings(containers(objects)["agent"]).max_series == 2_000_000
    assert rolled == {"maxUnavailable": 3_000_000}
    (tolerated,) = rendered.pod(objects, "Deployment", "remediator")["tolerations"]
    assert tolerated["tolerationSeconds"] == 4_000_000


def test_a_flag_that_no_program_has_would_be_noticed() -> None:
    found = containers(rendered.objects(("exporter.extraArgs={--no-such-flag}",)))

    with contextlib.redirect_stderr(io.StringIO()), pytest.raises(SystemExit):
        exporter_settings(found["agent"])


def has_ipv6() -> bool:
    """Whether anything here can be reached by IPv6: a kernel that knows it may have no address."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return socket.has_dualstack_ipv6()


def test_a_page_is_reached_where_pods_have_ipv6_addresses_alone() -> None:
    """What listens on 0.0.0.0 is never ready there."""
    (listen,) = [
        argument.removeprefix("--listen=")
        for argument in containers(rendered.objects())["agent"]["args"]
        if argument.startswith("--listen=")
    ]
    families = ("127.0.0.1", "::1") if has_ipv6() else ("127.0.0.1",)
    front = Front(listen.replace("9400", "0"), {})
    front.start()
    try:
        for address in families:
            with socket.create_connection((address, front.port), timeout=60) as one:
                assert one.getpeername()[1] == front.port
    finally:
        front.stop()
