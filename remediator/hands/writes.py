"""Steps of a plan into API calls, each with a precondition; answers go back into the world.

A write that somebody overtook raises `Conflict`: the next tick plans anew from
what is there then. A deletion that finds nothing has succeeded.
"""

from contextlib import suppress
from datetime import datetime

import msgspec

from kubeapi.client import Client, Conflict, NotFound
from remediator.decide import plan
from remediator.hands.evictions import Evictions
from remediator.hands.node_conditions import NodeConditions
from remediator.hands.world import World
from remediator.objects import events, taints
from remediator.objects.incident import Incident
from remediator.objects.taints import RawRule

INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")
"""Served versions of DeviceTaintRule, newest first."""


class RulesNotServedError(Exception):
    """The API server has no DeviceTaintRules, so nothing can be fenced."""


def rules_path(version: str) -> str:
    return f"/apis/resource.k8s.io/{version}/devicetaintrules"


class Writer:
    """The remediator's only writes."""

    def __init__(self, client: Client, world: World) -> None:
        self._client = client
        self._world = world
        self._evictions = Evictions(client)
        self._conditions = NodeConditions(client)
        self.rules_version: str | None = None
        """Which version of DeviceTaintRule to write; None while none is served."""

    def take(self, step: plan.Step) -> None:
        """Do one step. Raises ApiError, Conflict among them, or RulesNotServedError."""
        match step:
            case plan.OpenIncident(incident):
                self._open(incident)
            case plan.UpdateIncident(incident):
                body = {"metadata": _precondition(incident), "spec": incident.spec}
                self._heard(self._client.merge_patch(f"{INCIDENTS}/{incident.name}", body))
            case plan.WriteStatus(incident, status):
                body = {"metadata": _precondition(incident), "status": status}
                path = f"{INCIDENTS}/{incident.name}/status"
                self._heard(self._client.merge_patch(path, body))
            case plan.CreateRule(rule):
                self._create(rule)
            case plan.ChangeRule(stored, rule):
                self._change(stored, rule)
            case plan.DeleteRule(stored):
                self._delete(stored)
            case plan.DeleteIncident(incident):
                self._prune(incident)
            case plan.EvictPod(_, pod):
                self._evictions.evict(pod)
            case plan.WriteNodeCondition(node, condition):
                self._conditions.write(node, condition)

    def post(self, event: events.Event, now: datetime) -> None:
        """Post an Event; an Event that cannot be posted never stops a reconcile."""
        path = f"/api/v1/namespaces/{events.NAMESPACE}/events"
        try:
            self._client.create(path, events.manifest(event, now))
        except Conflict:
            return  # said before

    def _prune(self, incident: Incident) -> None:
        exactly = {
            "uid": incident.metadata.uid,
            "resourceVersion": incident.metadata.resource_version,
        }
        with suppress(NotFound):
            self._client.delete(f"{INCIDENTS}/{incident.name}", {"preconditions": exactly})
        self._world.incident(incident.name, None)

    def _open(self, incident: Incident) -> None:
        body = {
            "apiVersion": "draguard.dev/v1alpha1",
            "kind": "DeviceIncident",
            "metadata": {"name": incident.name, "labels": {taints.GPU: incident.spec.uuid}},
            "spec": incident.spec,
        }
        self._heard(self._client.create(INCIDENTS, body))

    def _heard(self, answer: bytes) -> None:
        incident = msgspec.json.decode(answer, type=Incident)
        self._world.incident(incident.name, incident)

    def _create(self, rule: taints.Rule) -> None:
        body = taints.manifest(rule, self._version())
        self._heard_rule(self._client.create(self._rules(), body))

    def _change(self, stored: taints.Rule, rule: taints.Rule) -> None:
        taint: dict[str, object] = {
            "key": f"{taints.DOMAIN}/{rule.fault}",
            "value": rule.cause,
            "effect": rule.effect,
        }
        if stored.effect != rule.effect:
            taint["timeAdded"] = None  # the server fills it in anew; before 1.36 it would keep it
        labels = {taints.INCIDENT: rule.incident, taints.UUID: rule.uuid, taints.GPU: rule.gpu}
        body = {
            "metadata": {"resourceVersion": stored.resource_version, "labels": labels},
            "spec": {"taint": taint},
        }
        self._heard_rule(self._client.merge_patch(f"{self._rules()}/{stored.name}", body))

    def _heard_rule(self, answer: bytes) -> None:
        raw = msgspec.json.decode(answer, type=RawRule)
        self._world.rule(raw.metadata.name, raw)

    def _delete(self, stored: taints.Rule) -> None:
        exactly = {"uid": stored.uid, "resourceVersion": stored.resource_version}
        with suppress(NotFound):
            self._client.delete(f"{self._rules()}/{stored.name}", {"preconditions": exactly})
        self._world.rule(stored.name, None)

    def _rules(self) -> str:
        return rules_path(self._version())

    def _version(self) -> str:
        if self.rules_version is None:
            raise RulesNotServedError(
                "this API server has no DeviceTaintRules; Kubernetes 1.37 has them, 1.36 needs "
                "--runtime-config=resource.k8s.io/v1beta2=true and the gate DRADeviceTaintRules"
            )
        return self.rules_version


def _precondition(incident: Incident) -> dict[str, str]:
    return {"resourceVersion": incident.metadata.resource_version}
