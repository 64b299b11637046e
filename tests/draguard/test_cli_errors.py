"""What a command says when it cannot ask: one sentence, with what to do about it, and 2."""

import argparse
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draguard.__main__ import main
from draguard.connection.cluster_flags import Overrides, add_cluster_flags
from draguard.connection.errors import forbidden, sentence
from draguard.connection.session import run_with_client
from draguard.connection.which_cluster import endpoint_of
from kubeapi.client import ApiError
from kubeapi.endpoint import EndpointError
from tests.chain.proxy import Proxy
from tests.draguard.fleet import Fleet
from tests.draguard.printed import printed
from tests.lab.cluster import await_true

COMMANDS = (
    ("status",),
    ("incidents",),
    ("plan",),
    ("doctor",),
    ("hold", "x", "--until", "1h", "--reason", "y"),
    ("untaint", "x", "--reason", "y"),
    ("cordon", "x", "--reason", "y"),
    ("uncordon", "--all"),
    ("cleanup", "--all"),
)
Config = dict[str, Any]


def config(server: str, token: str, context: str = "one") -> Config:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": context, "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def written(folder: Path, name: str, content: Config) -> Path:
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def proxy(fleet: Fleet) -> Iterator[Proxy]:
    with Proxy(fleet.cluster.plane.endpoint()) as one:
        yield one


@pytest.fixture
def through(proxy: Proxy, fleet: Fleet, tmp_path: Path) -> str:
    """A kubeconfig that leads through the proxy."""
    token = fleet.cluster.plane.endpoint().token or ""
    return str(written(tmp_path, "config", config(proxy.url, token)))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_cluster_that_does_not_answer(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))

    stated = printed(capsys, *command, "--kubeconfig", str(path), ends=2)

    assert stated.startswith(f"draguard {command[0]}: no answer from http://127.0.0.1:1: ")
    assert "kubectl config current-context" in stated
    assert stated.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_context_that_is_not_there(
    command: tuple[str, ...], fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig, "--context", "prod")

    stated = printed(capsys, *command, *where, ends=2)

    assert "has no context 'prod'; `kubectl config get-contexts` lists" in stated
    assert stated.count("\n") == 1


@pytest.mark.parametrize(
    "command", [words for words in COMMANDS if words[0] != "doctor"], ids=lambda words: words[0]
)
def test_what_is_forbidden_is_named_with_verb_and_resource(
    command: tuple[str, ...], fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", fleet.kubeconfig, "--context", "remediator")

    stated = printed(capsys, *command, *where, ends=2)

    assert "remediator may not list " in stated
    assert "ask for a role that allows the verb list on " in stated
    reads = command[0] in {"status", "incidents", "plan"}
    assert f"such as the chart's draguard-{'view' if reads else 'operator'}" in stated
    assert stated.count("\n") == 1


@pytest.mark.parametrize("command", ["status", "incidents", "plan"])
def test_without_the_crds_it_says_what_to_install(
    command: str, proxy: Proxy, through: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.refuse, proxy.refused_path = 404, "/apis/draguard.dev"

    stated = printed(capsys, command, "--kubeconfig", through, ends=2)

    assert "are not served by this cluster" in stated
    assert "docs/install.md" in stated
    assert "kubectl apply --server-side -f deploy/manifests/crds.yaml" in stated


def test_where_only_metrics_are_installed_a_gpu_is_tainted_and_untainted_all_the_same(
    proxy: Proxy, through: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.refuse, proxy.refused_path = 404, "/apis/draguard.dev"
    where = ("--kubeconfig", through)

    taint = printed(capsys, "cordon", "node-a/0", "--reason", "x", "--dry-run", *where)
    untaint = printed(capsys, "uncordon", "--all", "--dry-run", *where)

    assert "would be cordoned" in taint
    assert "no cordons for maintenance" in untaint


def test_a_cluster_without_dra_is_reported_and_nothing_fails(
    proxy: Proxy, through: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.refuse, proxy.refused_path = 404, "/apis/resource.k8s.io"

    status = printed(capsys, "status", "--kubeconfig", through)
    printed(capsys, "plan", "--kubeconfig", through)
    main(["cordon", "node-a/0", "--reason", "x", "--kubeconfig", through])
    taint = capsys.readouterr().err
    doctor = printed(capsys, "doctor", "--kubeconfig", through, ends=1)

    assert "this cluster serves no ResourceSlices" in status
    assert "not served by this cluster: nothing is tainted" in status
    assert "this cluster serves no DeviceTaintRules" in taint
    assert "ResourceSlices are not served" in doctor


def test_a_token_that_is_unknown(
    proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "config", config(proxy.url, "not-a-token"))

    stated = printed(capsys, "status", "--kubeconfig", str(path), ends=2)

    assert "rejected the credentials of the kubeconfig (401)" in stated
    assert "log in again" in stated


class TestKubeconfig:
    def test_the_first_file_of_a_list_names_the_context(self, tmp_path: Path) -> None:
        one = written(tmp_path, "one", config("http://one:1", "t1", "one"))
        two = written(tmp_path, "two", config("http://two:2", "t2", "two"))
        nowhere = tmp_path / "nowhere"

        def server(listed: str, context: str = "") -> str:
            return endpoint_of(None, context, {"KUBECONFIG": listed}).server

        assert server(f"{one}:{two}") == "http://one:1"
        assert server(f"{two}:{one}") == "http://two:2"
        assert server(f"{nowhere}:{one}:{two}") == "http://one:1"
        assert server(f"{one}:{two}", "two") == "http://two:2"

    def test_a_flag_outranks_the_environment(self, tmp_path: Path) -> None:
        one = written(tmp_path, "one", config("http://one:1", "t1", "one"))
        two = written(tmp_path, "two", config("http://two:2", "t2", "two"))

        assert endpoint_of(one, "", {"KUBECONFIG": str(two)}).server == "http://one:1"

    def test_a_file_without_a_current_context_leaves_it_to_the_next(self, tmp_path: Path) -> None:
        one = written(tmp_path, "one", config("http://one:1", "t1", "one"))
        empty = written(tmp_path, "empty", {"apiVersion": "v1", "kind": "Config"})

        found = endpoint_of(None, "", {"KUBECONFIG": f"{empty}:{one}"})

        assert (found.server, found.token) == ("http://one:1", "t1")

    @pytest.mark.parametrize("text", ["", "[", "just text", "a: {b"])
    def test_a_file_that_is_none_is_named(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "config"
        path.write_text(text, encoding="utf-8")

        with pytest.raises(EndpointError, match=str(path)):
            endpoint_of(path, "", {})

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(EndpointError, match="nowhere does not exist"):
            endpoint_of(tmp_path / "nowhere", "", {})
        with pytest.raises(EndpointError, match="nowhere does not exist"):
            endpoint_of(None, "", {"KUBECONFIG": str(tmp_path / "nowhere")})

    def test_with_address_and_token_no_file_of_the_environment_has_to_exist(
        self, tmp_path: Path
    ) -> None:
        """As for kubectl. It still needs the file of --kubeconfig and a context that is named."""
        environ = {"KUBECONFIG": str(tmp_path / "nowhere")}
        given = Overrides(server="https://one:1", token="t1")

        found = endpoint_of(None, "", environ, given)

        assert (found.server, found.token) == ("https://one:1", "t1")
        with pytest.raises(EndpointError, match="no context 'two'"):
            endpoint_of(None, "two", environ, given)
        for kubeconfig, less in (
            (tmp_path / "nowhere", given),
            (None, Overrides(server="https://one:1")),
            (None, Overrides(token="t1")),
        ):
            with pytest.raises(EndpointError, match="nowhere does not exist"):
                endpoint_of(kubeconfig, "", environ, less)

    def test_a_name_that_is_too_long_is_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(EndpointError, match="File name too long"):
            endpoint_of(None, "", {"KUBECONFIG": str(tmp_path / ("a" * 300))})

        content = config("http://one:1", "t1", "one")
        content["users"][0]["user"] = {"tokenFile": "a" * 300}
        with pytest.raises(EndpointError, match="File name too long"):
            endpoint_of(written(tmp_path, "long", content), "", {})

    def test_without_anything_it_says_where_it_has_looked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))

        with pytest.raises(EndpointError, match=r"~/.kube/config does not exist, KUBECONFIG"):
            endpoint_of(None, "", {})


class TestSentences:
    def test_a_path_that_is_forbidden(self) -> None:
        message = 'forbidden: User "ann" cannot get path "/metrics"'

        assert forbidden(message).startswith("ann may not get /metrics; ")

    def test_a_namespace_is_named(self) -> None:
        message = (
            'leases.coordination.k8s.io is forbidden: User "ann" cannot list resource "leases" in '
            'API group "coordination.k8s.io" in the namespace "draguard-system"'
        )

        assert "may not list leases.coordination.k8s.io in namespace draguard-system" in forbidden(
            message
        )

    def test_a_refusal_in_other_words_is_given_as_it_is(self) -> None:
        assert forbidden("an admission webhook says no") == "an admission webhook says no"

    def test_any_other_answer_is_the_servers(self) -> None:
        assert sentence(ApiError("GET /x: 418 oh", status=418), "s") == "GET /x: 418 oh"

    @pytest.mark.parametrize("status", [410, 429, 500, 503, 504])
    def test_what_may_pass_is_to_be_tried_again(self, status: int) -> None:
        stated = sentence(ApiError("GET /x: no", status=status), "s")

        assert stated.startswith("GET /x: no; ")
        assert stated.endswith(": try again")

    def test_a_role_of_the_chart_is_named_where_it_helps(self) -> None:
        def role(verb: str, resource: str, group: str) -> str:
            what = f'resource "{resource}" in API group "{group}" at the cluster scope'
            return forbidden(f'forbidden: User "ann" cannot {verb} {what}').partition(", ")[2]

        assert (
            role("list", "deviceincidents", "draguard.dev") == "such as the chart's draguard-view"
        )
        assert (
            role("create", "devicetaintrules", "resource.k8s.io")
            == "such as the chart's draguard-operator"
        )
        assert role("patch", "nodes", "") == ""

    @pytest.mark.parametrize(
        ("verb", "resource", "namespace", "role"),
        [
            ("list", "pods", "draguard-system", "the chart's Role draguard-view there"),
            ("list", "pods", "team-a", "the chart's draguard-operator"),
            ("get", "pods", "team-a", "the chart's draguard-operator"),
            ("list", "leases", "gpu-health", "the chart's Role draguard-view there"),
            ("patch", "deployments", "draguard-system", ""),
            ("get", "pods/log", "draguard-system", ""),
        ],
    )
    def test_a_role_is_named_only_where_it_allows_the_verb(
        self, verb: str, resource: str, namespace: str, role: str
    ) -> None:
        what = f'resource "{resource}" in API group "" in the namespace "{namespace}"'
        stated = forbidden(f'forbidden: User "ann" cannot {verb} {what}')

        assert stated.partition(", such as ")[2] == role

    @pytest.mark.parametrize("path", ["p/log", "https:p:9400/proxy/metrics"])
    def test_a_pod_that_cannot_be_reached_is_no_fault_of_the_server(self, path: str) -> None:
        request = f"GET /api/v1/namespaces/d/pods/{path}"

        assert sentence(ApiError(f"{request}: 503 refused", status=503), "s") == (
            f"{request}: 503 refused"
        )
        assert sentence(ApiError(f"{request}: asking s: no answer in time"), "s").endswith(
            "; the node of the pod may be down"
        )


READER = [
    {
        "apiGroups": ["draguard.dev"],
        "resources": ["nodedevicehealths", "deviceincidents"],
        "verbs": ["list"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices", "resourceclaims", "devicetaintrules"],
        "verbs": ["list"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
]


def test_an_account_that_may_read_most_learns_what_is_not_seen(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    client, root = fleet.cluster.client, "/apis/rbac.authorization.k8s.io/v1"
    name = {"name": "reader-of-a-test"}
    client.create(f"{root}/clusterroles", {"metadata": name, "rules": READER})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    subject = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Group",
        "name": "draguard:remediators",
    }
    binding = {"metadata": name, "roleRef": reference, "subjects": [subject]}
    client.create(f"{root}/clusterrolebindings", binding)
    where = ("--kubeconfig", fleet.kubeconfig, "--context", "remediator")
    try:
        await_true("the role counts", lambda: main(["status", *where]) == 0)
        status = printed(capsys, "status", *where)
        plan = printed(capsys, "plan", "--shipped", *where)
    finally:
        client.delete(f"{root}/clusterrolebindings/reader-of-a-test")
        client.delete(f"{root}/clusterroles/reader-of-a-test")
        await_true("the role is gone", lambda: main(["status", *where]) == 2)

    assert "3 healthy (1 with an open incident), 1 sick, 2 unknown" in status
    assert "not read: remediator may not list nodes; " in status
    assert "not read: remediator may not get namespaces in namespace draguard-system" in status
    assert "policy     unknown, assuming the shipped policy" in status
    assert "not read: remediator may not list nodes; " in plan
    assert "the pods of node-b, node-c cannot be listed" in plan
    assert "may not list pods" in plan


def test_pythons_collector_rests_while_a_command_reads_and_works_again_after_it(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "config", config("http://127.0.0.1:1", "t"))
    flags = argparse.ArgumentParser()
    add_cluster_flags(flags)
    options = flags.parse_args(["--kubeconfig", str(path)])
    resting: list[bool] = []

    run_with_client("status", options, lambda _: resting.append(not gc.isenabled()) or 0)

    assert (resting, gc.isenabled()) == ([True], True)
