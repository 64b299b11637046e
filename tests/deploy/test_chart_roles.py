"""Who is given which rights. That the programs use each of them is seen in test_applied."""

from itertools import product

import pytest

from draguard.doctor.rights import AGENT, CALLER, EXPLAINER, REMEDIATOR, Right
from tests.deploy import rendered
from tests.deploy.rendered import Json
from tests.deploy.settings import SETTINGS

pytestmark = pytest.mark.usefixtures("helm_built")
NAMESPACE = "draguard-system"
Grant = tuple[str, str, str, str]
"""API group, resource, name ("" for any), verb."""


def grants(roles: list[Json]) -> set[Grant]:
    return {
        grant
        for role in roles
        for rule in role["rules"]
        for grant in product(
            rule["apiGroups"],
            rule["resources"],
            rule.get("resourceNames", [""]),
            rule["verbs"],
        )
    }


def roles(name: str, *settings: str) -> list[Json]:
    kinds = ("ClusterRole", "Role")
    return [
        manifest
        for manifest in rendered.objects(settings)
        if manifest["kind"] in kinds and manifest["metadata"]["name"] == name
    ]


def expected(rights: tuple[Right, ...]) -> set[Grant]:
    return {
        (right.group, right.resource, right.name.replace("*own*", NAMESPACE), verb)
        for right in rights
        for verb in right.verbs
    }


def test_doctor_looks_for_the_rights_that_a_remediator_is_given() -> None:
    """That each of them is used, and no other, is seen in test_applied."""
    assert grants(roles("draguard-remediator")) == expected(REMEDIATOR)


def test_node_conditions_are_a_role_of_their_own() -> None:
    name = "draguard-remediator-node-conditions"
    given = grants(roles(name, "remediator.nodeConditions.enabled=true"))

    assert roles(name) == []
    assert given == {("", "nodes", "", "get"), ("", "nodes/status", "", "patch")}


def test_a_remediator_may_delete_pods_only_where_the_values_say_so() -> None:
    name = "draguard-remediator"
    more = grants(roles(name, "remediator.deletePods=true")) - grants(roles(name))

    assert more == {("", "pods", "", "delete")}


def test_an_explainer_reads_and_writes_events_and_its_own_lease() -> None:
    name = "draguard-explainer"
    given = grants(roles(name))
    read = {
        *("resourceclaims", "deviceclasses", "resourceslices", "devicetaintrules"),
        *("pods", "nodes", "deviceincidents"),
    }

    assert given == expected(EXPLAINER)
    assert {resource for _, resource, _, verb in given if verb == "watch"} == read
    assert {grant for grant in given if grant[3] not in {"list", "watch"}} == {
        ("resource.k8s.io", "resourceclaimtemplates", "", "get"),
        ("events.k8s.io", "events", "", "create"),
        ("coordination.k8s.io", "leases", "", "create"),
        ("coordination.k8s.io", "leases", name, "get"),
        ("coordination.k8s.io", "leases", name, "patch"),
    }
    assert [role["kind"] for role in roles(name)] == ["ClusterRole", "Role"]


def test_an_explainer_may_write_no_event_where_the_values_say_so() -> None:
    name = "draguard-explainer"
    lost = grants(roles(name)) - grants(roles(name, "explainer.events=false"))

    assert lost == {("events.k8s.io", "events", "", "create")}


def test_doctor_looks_for_the_rights_that_an_agent_is_given() -> None:
    assert grants(roles("draguard-agent")) == expected(AGENT)


@pytest.mark.parametrize(
    "setting", [("exporter.podLabels.enabled=true",), ("exporter.podUid=true",)]
)
def test_an_agent_may_see_pods_where_it_shows_something_of_them(setting: tuple[str, ...]) -> None:
    more = grants(roles("draguard-agent", *setting)) - grants(roles("draguard-agent"))

    assert more == {("", "pods", "", "list"), ("", "pods", "", "watch")}


def test_an_operator_may_do_what_the_command_line_does() -> None:
    given = grants([*roles("draguard-operator"), *roles("draguard-view")])
    needed = {grant for rights in CALLER.values() for grant in expected(rights)}

    assert needed - given == set()
    # And the policy that is in force, by name.
    assert ("", "configmaps", "draguard-policy", "get") in given


def test_a_viewer_may_look_and_nothing_else() -> None:
    assert {verb for *_, verb in grants(roles("draguard-view"))} == {"get", "list", "watch"}


def test_viewing_joins_the_role_view_only_on_request_and_operating_never() -> None:
    key = "rbac.authorization.k8s.io/aggregate-to-view"
    aggregated = "userRoles.aggregateToView=true"

    (alone, _) = roles("draguard-view")
    assert key not in alone["metadata"]["labels"]
    (joined, _) = roles("draguard-view", aggregated)
    assert joined["metadata"]["labels"][key] == "true"
    (operator,) = roles("draguard-operator", aggregated)
    assert not [label for label in operator["metadata"]["labels"] if "aggregate" in label]


def test_people_are_bound_to_what_they_were_given_and_nobody_by_default() -> None:
    def subjects(*settings: str) -> dict[tuple[str, str], list[str]]:
        return {
            (binding["kind"], binding["roleRef"]["name"]): [
                who["name"] for who in binding["subjects"]
            ]
            for binding in rendered.objects(settings)
            if binding["kind"].endswith("RoleBinding")
            and binding["roleRef"]["name"] in {"draguard-view", "draguard-operator"}
        }

    assert subjects() == {}
    assert subjects(*SETTINGS["user-roles"]) == {
        ("ClusterRoleBinding", "draguard-view"): ["ml"],
        ("ClusterRoleBinding", "draguard-operator"): ["ana@example.org", "bot"],
        ("RoleBinding", "draguard-view"): ["ml", "ana@example.org", "bot"],
    }


def test_uninstalling_may_list_and_remove_and_its_rights_go_with_it() -> None:
    (cluster, namespaced) = roles("draguard-cleanup")

    assert grants([namespaced]) == {
        ("coordination.k8s.io", "leases", "", "list"),
        ("coordination.k8s.io", "leases", "", "delete"),
    }
    assert grants([cluster]) == {
        ("resource.k8s.io", "devicetaintrules", "", "list"),
        ("resource.k8s.io", "devicetaintrules", "", "delete"),
        ("", "nodes", "", "list"),
        ("", "nodes", "", "get"),
        ("", "nodes/status", "", "patch"),
    }
    made = [
        manifest
        for manifest in rendered.objects()
        if manifest["metadata"]["name"] == "draguard-cleanup"
    ]
    assert len(made) == 6
    for manifest in made:
        notes = manifest["metadata"]["annotations"]
        ends = "post-delete" if manifest["kind"] == "Job" else "pre-delete,post-delete"
        assert notes["helm.sh/hook"] == ends
        assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    weights = {
        manifest["kind"]: int(manifest["metadata"]["annotations"]["helm.sh/hook-weight"])
        for manifest in made
    }
    assert weights["ServiceAccount"] < weights["Job"]
    for kind in ("ClusterRole", "Role"):
        assert weights[kind] < weights[f"{kind}Binding"] < weights["Job"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_nobody_may_read_secrets_or_everything(setting: str) -> None:
    found = [
        manifest
        for manifest in rendered.objects(SETTINGS[setting])
        if manifest["kind"] in {"ClusterRole", "Role"}
    ]

    for group, resource, _, verb in grants(found):
        assert "*" not in {group, resource, verb}
        assert resource not in {"secrets", "pods/exec", "pods/log"}
        assert verb not in {"escalate", "bind", "impersonate"}
