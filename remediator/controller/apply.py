"""Steps of a plan into API calls, each with a precondition; answers go back into the cache.

A write conflict raises `Conflict`, and the next reconcile plans from what is stored then. A
deletion that finds nothing has succeeded. A replica that does not lead writes nothing, and `Pace`
limits the rate of all writes.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import msgspec

from kubeapi.client import ApiError, Client, Conflict, NotFound
from kubeapi.resources import INCIDENTS, REPORTS
from kubeapi.versions import Versioned
from remediator.controller.cache import Cache
from remediator.controller.evictions import Evictions
from remediator.controller.incident_rights import REFUSALS, IncidentRights
from remediator.controller.ledger import Count, Ledger, count_nothing
from remediator.controller.node_conditions import NodeConditions
from remediator.controller.rate_limit import Pace, PacedError
from remediator.controller.refused_rules import NAME_TAKEN, RefusedRules
from remediator.controller.rejected_fields import Unstored
from remediator.controller.write_pool import Senders
from remediator.model import taint_rule
from remediator.model.incident import Incident
from remediator.model.incident_caps import cut_to_limits, without
from remediator.model.incident_status import IncidentStatus, merge_patch
from remediator.model.taint_rule import RawRule
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteEdited,
    DeleteIncident,
    DeleteReport,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
    carries_proof,
)
from remediator.plan.view import LeftReport

_log = logging.getLogger(__name__)


UNSTORABLE = frozenset({413, 422})
"""HTTP statuses with which an API server refuses an object for its content."""
_OF_INCIDENTS = OpenIncident | WriteStatus | DeleteIncident
_TELLING = _OF_INCIDENTS | DeleteReport
"""Steps that only report taints, or prune: they make way for those of other nodes."""
_URGENT = CreateRule | DeleteRule | DeleteEdited


class RulesNotServedError(Exception):
    """The API server has no DeviceTaintRules, so nothing can be tainted."""


class NotLeadingError(Exception):
    """Another replica leads now; nothing was sent."""


class Writer:
    """The remediator's only writes, Events apart."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        rules: Versioned[Any],
        pace: Pace,
        leading: Callable[[], bool],
        *,
        unstored: Unstored,
        count: Count = count_nothing,
        cluster_name: str = "",
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._labels = taint_rule.labels_of_cluster(cluster_name)
        """Of each incident, beside its GPU."""
        self._cache = cache
        self._rules = rules
        self._pace = pace
        self._leading = leading
        self.evictions = Evictions(client, pause=pace.pause)
        self.refused_rules = RefusedRules(elapsed)
        self.conditions = NodeConditions(client)
        self.incident_rights = IncidentRights(client, INCIDENTS)
        self._senders = Senders()
        self._ledger = Ledger(count)
        self._node = ""
        """The node that the worker decides about."""
        self._switches = rules.switches
        """How often the version of DeviceTaintRules had changed when that decision began."""
        self.unstored = unstored
        self._logged_lost = self._logged_refused = False
        self.statuses_refused = 0
        """Since start; after each a shorter status was written."""

    def apply(self, step: Step) -> None:
        """Do one step.

        Raises ApiError, Conflict among them, RulesNotServedError, NotLeadingError or PacedError.
        While other nodes wait for their taints a new rule may still be under way when this
        returns: then budgets count it already, and what comes after it waits for it.
        """
        if not self._leading():
            raise NotLeadingError("another replica leads now")
        # A taint protects, and an untaint frees a device: neither waits for its turn.
        urgent = isinstance(step, _URGENT) or carries_proof(step)
        patient = isinstance(step, _TELLING)
        if wait := self._pace.ask(urgent=urgent, patient=patient):
            raise PacedError(wait)
        if isinstance(step, CreateRule):
            if not self._hand_to_sender(step):
                self._send(step)
            return
        # A step must not overtake a rule of its node that is still being written.
        self._senders.join(self._node)
        self._send(step)

    def turn_to(self, node: str) -> None:
        """Begin a decision about a node: wait until what was sent for it is answered.

        Raises the error of such a write, as `apply` does.
        """
        self._node = node
        self._switches = self._rules.switches
        self._senders.join(node)
        self._ledger.settle(self._cache.incidents, self._leading)
        self._retry_statuses(node)

    def stop(self) -> None:
        self._senders.stop()

    def _hand_to_sender(self, step: CreateRule) -> bool:
        """Hand a rule to a sender while other nodes wait; return whether one has taken it."""
        if not self._pace.has_urgent():
            return False
        node = self._node

        def send_promised() -> None:
            try:
                # A sender runs this later, when the lead may be lost.
                if not self._leading():
                    raise NotLeadingError("another replica leads now")
                self._send(step)
            finally:
                self._cache.settle(step.rule, node)

        # First: decisions about other nodes must count this rule in their budgets from now on.
        self._cache.promise(step.rule)
        sent = self._senders.send(node, send_promised)
        if not sent:
            self._cache.settle(step.rule, node)
        return sent

    def _send(self, step: Step) -> None:
        try:
            self._write(step)
        except ApiError as error:
            # The server wants a pause: the writes of all nodes wait.
            if error.retry_after:
                self._pace.pause(error.retry_after)
            # Perhaps no incident may be written any more, and then nothing may be done.
            if error.status in REFUSALS and isinstance(step, _OF_INCIDENTS):
                self.incident_rights.look()
            if isinstance(step, OpenIncident | WriteStatus):
                self._ledger.on_failed(step, error)
            self.refused_rules.on_failed(step, error)
            raise
        self.refused_rules.on_done(step)

    def _write(self, step: Step) -> None:
        match step:
            case OpenIncident(incident):
                self._ledger.on_stored(step, self._open(incident))
            case WriteStatus():
                self._write_status(step)
            case CreateRule(rule):
                self._create(rule)
            case ChangeRule(stored, rule):
                self._change(stored, rule)
            case DeleteRule(stored) | DeleteEdited(stored):
                self._delete(stored)
            case DeleteIncident(incident):
                self._prune(incident)
            case DeleteReport(report):
                self._prune_report(report)
            case EvictPod(_, pod, delete):
                self.evictions.evict(pod, delete=delete)
            case WriteNodeConditions(node, conditions):
                self.conditions.write(node, conditions)

    def _write_status(self, step: WriteStatus) -> None:
        """Write a status, and remember it where the API server stores only a part of it.

        The server drops fields that its schema lacks, and reports no error.
        """
        incident, status = step.incident, cut_to_limits(step.status)
        try:
            stored = self._patch_status(incident, status)
        except ApiError as error:
            if error.status not in UNSTORABLE:
                raise
            stored = self._store_less(incident, status, error)
        if stored.status == status:
            self.unstored.forget(incident.name)
        else:
            stored = self._remember_whole(stored, status)
        self._ledger.on_stored(step, stored)

    def _patch_status(self, incident: Incident, status: IncidentStatus) -> Incident:
        metadata = {"resourceVersion": incident.metadata.resource_version}
        body = {"metadata": metadata, "status": merge_patch(status)}
        answer = self._client.merge_patch(f"{INCIDENTS}/{incident.name}/status", body)
        return self._cache_incident(answer)

    def _store_less(
        self, incident: Incident, status: IncidentStatus, refused: ApiError
    ) -> Incident:
        """Write a status without the fields that were refused, then without all that is long.

        Raises ApiError when that is refused as well. Then the taints stand and no pod is evicted,
        because nothing of the incident would be on record.
        """
        self.statuses_refused += 1
        why = "the API server refuses its status, so less is written"
        _log.error("%s: %s: %s", incident.name, why, refused)
        try:
            stored = self._patch_status(incident, without(status, refused.message))
        except ApiError as error:
            if error.status not in UNSTORABLE:
                raise
            less = without(status, error.message + refused.message, bulk=True)
            stored = self._patch_status(incident, less)
        return stored

    def _remember_whole(self, stored: Incident, status: IncidentStatus) -> Incident:
        """Remember the whole status, of which a part is stored; return the incident with it."""
        if not self._logged_lost:
            self._logged_lost = True
            _log.warning(
                "%s: the API server does not store all of its status: its schema is older "
                "than this release; upgrade the chart, or apply deploy/manifests/crds.yaml",
                stored.name,
            )
        self.unstored.note(stored, status)
        whole = self.unstored.restore_whole(stored)
        self._cache.put_incident(whole.name, whole)
        return whole

    def _retry_statuses(self, node: str) -> None:
        """Write the whole status again for incidents of a node where a part was refused earlier."""
        due = self.unstored.due_statuses()
        known = [stored for stored in self._cache.incidents() if stored.name in due] if due else []
        for incident in known:
            if incident.node != node or not self._leading() or self._pace.ask(patient=True):
                continue
            if incident.status != due[incident.name]:
                self.unstored.forget(incident.name)  # another leader has written since
                continue
            try:
                self._write_status(WriteStatus(incident, incident.status))
            except ApiError as error:
                _log.info("%s: its whole status still cannot be written: %s", incident.name, error)
                self.unstored.put_off(incident.name)

    def _prune(self, incident: Incident) -> None:
        # Only as the plan saw it: a user may have changed it since.
        exactly = {
            "uid": incident.metadata.uid,
            "resourceVersion": incident.metadata.resource_version,
        }
        with suppress(NotFound):
            self._client.delete(f"{INCIDENTS}/{incident.name}", {"preconditions": exactly})
        self.unstored.forget(incident.name)
        self._cache.put_incident(incident.name, None)

    def _prune_report(self, report: LeftReport) -> None:
        """Delete a report in the version that was seen: an agent that is back writes another one.

        Only the watch updates the cache, because that agent may have created it again by now.
        """
        exactly = {"uid": report.uid, "resourceVersion": report.resource_version}
        try:
            self._client.delete(f"{REPORTS}/{report.name}", {"preconditions": exactly})
        except NotFound:
            return
        except ApiError as error:
            if error.status not in REFUSALS:
                raise
            # Tried again at the report's next turn. Roles of an earlier release lack the right.
            level = logging.DEBUG if self._logged_refused else logging.WARNING
            self._logged_refused = True
            _log.log(level, "reports of nodes that are gone stay: upgrade the roles: %s", error)
            return
        _log.info(
            "deleted the report of a node that is gone: %s since=%s", report.name, report.since
        )

    def _open(self, incident: Incident) -> Incident:
        body = {
            "apiVersion": "draguard.dev/v1alpha1",
            "kind": "DeviceIncident",
            "metadata": {
                "name": incident.name,
                "labels": {taint_rule.GPU: incident.spec.uuid, **self._labels},
            },
            "spec": incident.spec,
        }
        return self._cache_incident(self._client.create(INCIDENTS, body))

    def _cache_incident(self, answer: bytes) -> Incident:
        incident = msgspec.json.decode(answer, type=Incident)
        self._cache.put_incident(incident.name, incident)
        return incident

    def _create(self, rule: taint_rule.Rule) -> None:
        body = taint_rule.manifest(rule, self._served_version())
        try:
            self._cache_rule(self._client.create(self._rules.path, body))
        except Conflict as error:
            self._adopt(rule, error)
        # The collection is not served in this version any more: find the one that is.
        except NotFound:
            self._rules.probe()
            raise

    def _adopt(self, rule: taint_rule.Rule, refusal: Conflict) -> None:
        """Take over a rule of ours that is stored already, such as by a run that crashed since.

        Raises ApiError when the object of that name is not ours.
        """
        try:
            there = self._client.get(f"{self._rules.path}/{rule.name}")
        except NotFound:
            raise refusal from None
        raw = msgspec.json.decode(there, type=RawRule)
        stored = taint_rule.parse(raw, self._cache.published_device(rule.device))
        if stored is None or stored.device != rule.device:
            raise ApiError(
                f"DeviceTaintRule {rule.name} exists and is not Draguard's, so {rule.device} "
                "cannot be tainted: look at it, then delete or rename it",
                status=refusal.status,
                reason=NAME_TAKEN,
            ) from refusal
        self._cache_rule(there)
        # The next decision changes it: the cache has it now.
        if (stored.effect, stored.incident) != (rule.effect, rule.incident):
            raise refusal

    def _change(self, stored: taint_rule.Rule, rule: taint_rule.Rule) -> None:
        taint: dict[str, object] = {
            "key": f"{taint_rule.DOMAIN}/{rule.fault}",
            "value": rule.cause,
            "effect": rule.taint_effect,
        }
        if stored.effect != rule.effect:
            taint["timeAdded"] = None  # the server fills it in anew; before 1.36 it would keep it
        marks = taint_rule.marks(rule)
        # A rule that is no longer under Evict loses the annotation for it.
        unmarked = {taint_rule.EVICT: None} if stored.effect == "Evict" != rule.effect else {}
        notes = {**unmarked, **marks["annotations"]}
        meta = {"resourceVersion": stored.resource_version, **marks, "annotations": notes}
        body = {"metadata": meta, "spec": {"taint": taint}}
        self._served_version()
        try:
            answer = self._client.merge_patch(f"{self._rules.path}/{stored.name}", body)
        except NotFound:
            # Deleted by another client, which its watch reports; or no longer served in this
            # version.
            self._rules.probe()
            raise
        self._cache_rule(answer)

    def _cache_rule(self, answer: bytes) -> None:
        raw = msgspec.json.decode(answer, type=RawRule)
        self._cache.put_rule(raw.metadata.name, raw)

    def _delete(self, stored: taint_rule.Rule | taint_rule.EditedRule) -> None:
        exactly = {"uid": stored.uid, "resourceVersion": stored.resource_version}
        version = self._served_version()
        if self._rules.switches != self._switches:
            # The plan may have been made while no rules were served. It desires none then, which is
            # no reason to delete any.
            raise RulesNotServedError("what is served changed while this was decided")
        try:
            self._client.delete(f"{self._rules.path}/{stored.name}", {"preconditions": exactly})
        except NotFound:
            if self._rules.probe() != version:
                raise  # the version is gone and not the rule
        self._cache.put_rule(stored.name, None)

    def _served_version(self) -> str:
        if self._rules.version is None:
            raise RulesNotServedError(
                "this API server has no DeviceTaintRules; Kubernetes 1.37 has them, 1.36 needs "
                "--runtime-config=resource.k8s.io/v1beta2=true and the gate DRADeviceTaintRules"
            )
        return self._rules.version
