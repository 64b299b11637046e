"""What Helm says at the end of an installation: the next step, and what is missing for it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.program import RELEASE
from deploy.sources import CHART, ROOT
from kubeapi.client import Client
from tests.deploy.releasing import Helm

NOTES = Path(__file__).parent / "notes.txt"


@pytest.fixture
def runtime_class(admin: Client) -> Iterator[None]:
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    admin.create(classes, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    yield
    admin.delete(f"{classes}/nvidia")


def notes(helm: Helm, *settings: str) -> str:
    sets = [word for setting in settings for word in ("--set", setting)]
    stated = helm("install", RELEASE, str(CHART), "--dry-run=server", *sets)
    return stated.partition("\nNOTES:\n")[2]


def test_the_notes_say_what_to_do_next(helm: Helm, runtime_class: None) -> None:
    assert notes(helm) == NOTES.read_text(encoding="utf-8")


SHOWN = [
    ((), "has no RuntimeClass nvidia"),
    ((), "on a cloud gke, eks, eks-auto or aks"),
    (("exporter.kernelLog=syslog",), "syslog(2). A fault that only the kernel log reports is not"),
    (("exporter.kernelLog=journal",), "the journal in /var/log/journal alone"),
    (("exporter.gpu.access=driver-root",), "Kernel log (draguard-exporter): /dev/kmsg"),
    (("stack=eks",), "Nodes of a managed node group have no label for GPUs"),
    (("exporter.pools[0].name=a", "exporter.pools[0].stack=eks"), "a managed node group have no"),
    (("metricsOnly=true",), "nothing is ever tainted"),
    (("remediator.enabled=false",), "No remediator: nothing is ever tainted."),
    (("explainer.eventAfter=600",), "that waits for 600 seconds gets an Event that says why"),
    (("admission.enabled=false",), "WARNING: admission.enabled is off"),
    ((), "OFF: usage of shared GPUs by pod"),
    (("exporter.gpu.access=driver-root",), "-c sensor -- draguard exporter --check\n"),
]
_TERM = "exporter.nodeSelectorTerms[0].matchExpressions[0]"
_OWN_TERMS = f"{_TERM}.key=eks.amazonaws.com/nodegroup,{_TERM}.operator=Exists"
NOT_SHOWN = [
    (("exporter.gpu.runtimeClassName=",), "RuntimeClass"),
    (("exporter.gpu.access=driver-root",), "RuntimeClass"),
    (("metricsOnly=true",), "deviceincidents"),
    (("metricsOnly=true",), "gets an Event"),
    (("explainer.events=false",), "gets an Event"),
    (("exporter.podShares=true",), "OFF: usage"),
    (("stack=aks",), "managed node group"),
    (("stack=eks", _OWN_TERMS), "managed node group"),
    (("metricsOnly=true",), "draguard-controller"),
    (("image.controller.repository=registry.example.org/controller",), "draguard-controller"),
]


def test_each_page_and_title_that_the_notes_name_is_there() -> None:
    text = " ".join((CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8").split())
    named = re.findall(r'(docs/[\w-]+\.md)(?:, "([^"]+)")?', text)

    assert any(title for _, title in named)
    for page, title in named:
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        assert not title or f"## {title}" in [line.replace("###", "##") for line in lines], title


@pytest.mark.parametrize(("settings", "words"), SHOWN)
def test_the_notes_tell_what_is_missing(helm: Helm, settings: tuple[str, ...], words: str) -> None:
    assert words in notes(helm, *settings)


@pytest.mark.parametrize(("settings", "words"), NOT_SHOWN)
def test_the_notes_are_silent_about_what_is_not(
    helm: Helm, settings: tuple[str, ...], words: str
) -> None:
    assert words not in notes(helm, *settings)
