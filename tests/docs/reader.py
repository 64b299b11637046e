"""A reader who pastes commands into a shell, in a folder like a checkout, before a real cluster."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kubeapi.client import Conflict, NotFound
from remediator.model.intent import FIELDS
from tests.chain.scene import INCIDENTS
from tests.docs.fenced import ROOT, Command, policies
from tests.draguard.fleet import LOST_INCIDENT, Fleet
from tests.lab.cluster import RULES

_CHECKOUT = ("Makefile", "constraints.txt", "dashboards", "deploy", "pyproject.toml")
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
GRAFANA = "monitoring"
"""The namespace in which the documents have it."""
_NOTHING = dict.fromkeys(FIELDS.values())
_SECONDS = 120.0


class Reader:
    """`run` gives what a command printed and how it ended."""

    def __init__(self, fleet: Fleet, programs: Sequence[Path], folder: Path) -> None:
        self._fleet, self._folder = fleet, folder
        self._path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
        for name in _CHECKOUT:
            (folder / name).symlink_to(ROOT / name)
        (folder / ".venv").symlink_to(Path(sys.prefix))
        values = "image: {registry: registry.example.com/gpu}\n"
        (folder / "values.yaml").write_text(values, encoding="utf-8")

    def run(self, command: Command, text: str) -> subprocess.CompletedProcess[str]:
        """Run it as bash does when somebody has pasted it, with the names of what is there."""
        self._write_policy(command)
        return subprocess.run(
            ["bash", "-o", "pipefail", "-ec", self._named(text)],
            cwd=self._folder,
            env={
                "PATH": self._path,
                "HOME": str(self._folder),
                "KUBECONFIG": self._fleet.kubeconfig,
                "PYTHONPATH": str(ROOT),
                "NODE_NAME": "node-a",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )

    def forget(self) -> None:
        """Take back what the command before may have written."""
        self._fleet.cluster.client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}", {"spec": _NOTHING})

    def _write_policy(self, command: Command) -> None:
        """Write the policy that the document shows, or the README's."""
        for document in (ROOT / "docs" / command.document, ROOT / "README.md"):
            if document.is_file() and (found := policies(document)):
                (self._folder / "policy.yaml").write_text(found[0], encoding="utf-8")
                return

    def _named(self, text: str) -> str:
        if "devicetaintrule NAME" in text:
            return text.replace("NAME", self._fleet.cluster.items(RULES)[0]["metadata"]["name"])
        return re.sub(r"\b(NAME|INCIDENT)\b", LOST_INCIDENT, text)


def furnish(fleet: Fleet) -> None:
    """Add what documents take for granted: Grafana's namespace, our admission policies' names."""
    client = fleet.cluster.client
    with suppress(Conflict):
        client.create("/api/v1/namespaces", {"metadata": {"name": GRAFANA}})
    binding = {"policyName": "of-nobody", "validationActions": ["Deny"]}
    with suppress(Conflict):
        client.create(BINDINGS, {"metadata": {"name": "draguard-rules"}, "spec": binding})


def clear(fleet: Fleet) -> None:
    for path in (f"{BINDINGS}/draguard-rules", f"/api/v1/namespaces/{GRAFANA}"):
        with suppress(NotFound):
            fleet.cluster.client.delete(path)
