"""What people and their tools do to a cluster, beside what the hardware does."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from remediator.model.incident import with_intent
from remediator.model.intent import KINDS, Intent, Kind
from remediator.model.taint_rule import rule_name
from remediator.policy.place import Area
from remediator.policy.table import Mode
from remediator.policy.windows import Exemption, Once, Window
from tests.remediator.builders import at, policy, with_fields
from tests.remediator.histories.across_stays import AcrossStays
from tests.remediator.histories.played import LIMITS

INDEX = st.integers(0, 1)
THEN = st.sampled_from([0.1, 0.5, 1.0, 3.0, 11.0, 61.0, 601.0, 4000.0])
"""Seconds that pass after an event, before anybody looks."""
DIES = st.integers(0, 6)
"""Steps of the first tick that the dying controller still takes."""
WHICH = st.integers(0, 7)
MODES: tuple[Mode, ...] = ("enforce", "enforce", "enforce", "incident-only", "dry-run", "off")


class Outside(AcrossStays):
    """Histories in which people answer, switch and delete, and backups are restored."""

    @rule(mode=st.sampled_from(MODES), then=THEN, dies=DIES)
    def the_mode(self, mode: Mode, then: float, dies: int) -> None:
        self.policy = policy(LIMITS, mode=mode, evict=self.plan)
        self.machine.watched = mode != "off"
        self.then(then, dies)

    @rule(index=INDEX, lasts=st.sampled_from([None, 61.0, 700.0]), then=THEN, dies=DIES)
    def a_gpu_is_exempt(self, index: int, lasts: float | None, then: float, dies: int) -> None:
        """For a while, or until the file is changed."""
        area = Area(devices=frozenset({self.machine.gpus[index].uuid}))
        until = at(self.machine.now + lasts) if lasts else None
        spared = Exemption(name="exempt[0]", area=area, why="a history", until=until)
        self.policy = with_fields(self.policy, exempt=(spared,))
        self.then(then, dies)

    @rule(
        index=INDEX,
        kind=st.sampled_from(KINDS),
        lasts=st.sampled_from([None, 2.0, 700.0]),
        then=THEN,
        dies=DIES,
    )
    def a_person_says(
        self, index: int, kind: Kind, lasts: float | None, then: float, dies: int
    ) -> None:
        until = at(self.machine.now + lasts) if lasts else None
        self.intend(index, {kind: Intent(until=until, by="ana", reason="a history")})
        self.then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_person_takes_it_back(self, index: int, then: float, dies: int) -> None:
        self.intend(index, {})
        self.then(then, dies)

    @rule(which=st.integers(0, 7), then=THEN, dies=DIES)
    def a_person_deletes_a_rule(self, which: int, then: float, dies: int) -> None:
        devices = sorted(self.calm.rules)
        if devices:
            device = devices[which % len(devices)]
            del self.calm.rules[device], self.dying.rules[device]
        self.then(then, dies)

    @rule(
        which=st.integers(0, 15),
        what=st.sampled_from(["made", "removed", "anything", "nothing"]),
        then=THEN,
        dies=DIES,
    )
    def an_admission_policy_refuses(self, which: int, what: str, then: float, dies: int) -> None:
        """One rule may not be created or raised, or not be lowered or removed."""
        published = sorted(part.device for part in self.machine.published())
        names = {rule_name(published[which % len(published)])} if published else set[str]()
        self.not_made = frozenset(names if what in {"made", "anything"} else ())
        self.not_removed = frozenset(names if what in {"removed", "anything"} else ())
        self.then(then, dies)

    @rule(stopped=st.booleans(), then=THEN, dies=DIES)
    def the_emergency_stop(self, stopped: bool, then: float, dies: int) -> None:
        self.stopped = "ana: a history" if stopped else ""
        self.then(then, dies)

    @rule(lasts=st.sampled_from([2.0, 700.0]), then=THEN, dies=DIES)
    def maintenance(self, lasts: float, then: float, dies: int) -> None:
        opens = Once(self.machine.time, at(self.machine.now + lasts))
        window = Window(name="m", area=Area(nodes=("*",)), when=opens)
        self.window = (window,)
        self.then(then, dies)

    @rule(which=WHICH, ruled=st.booleans(), then=THEN, dies=DIES)
    def a_status_is_lost(self, which: int, ruled: bool, then: float, dies: int) -> None:
        """As after `kubectl apply`, or a restore without the subresource."""
        for name in self._some_incident(which, ruled=ruled):
            for stored in self.both():
                stored.loses_status(name)
        self.then(then, dies)

    @rule(which=WHICH, ruled=st.booleans(), then=THEN, dies=DIES)
    def a_person_deletes_an_incident(self, which: int, ruled: bool, then: float, dies: int) -> None:
        for name in self._some_incident(which, ruled=ruled):
            for stored in self.both():
                del stored.incidents[name]
        self.then(then, dies)

    def _some_incident(self, which: int, *, ruled: bool) -> list[str]:
        """Return an incident, if there is one, whose rules stand, or are gone now as well."""
        names = sorted(self.calm.incidents)
        if not names:
            return []
        name = names[which % len(names)]
        for stored in self.both():
            going = [device for device, it in stored.rules.items() if it.incident == name]
            for device in [] if ruled else going:
                del stored.rules[device]
        # A rule names one cause. Other errors that no report has any more are unknown from now on.
        left = {it.cause for it in self.calm.rules.values() if it.incident == name}
        owed = self.machine.owes_an_epoch.pop(self.calm.incidents[name].spec.uuid, frozenset())
        if named := frozenset(code for code in owed if f"xid-{code}" in left):
            self.machine.owes_an_epoch[self.calm.incidents[name].spec.uuid] = named
        self.machine.forgotten.add(self.calm.incidents[name].spec.uuid)
        self.machine.loses_its_repair(self.calm.incidents[name].spec.uuid)
        self.forget(name)
        return [name]

    def intend(self, index: int, desired: dict[Kind, Intent]) -> None:
        """Write what a person wants of a GPU, and nothing else, into its open incidents."""
        gpu = self.machine.gpus[index].uuid
        for stored in self.both():
            for name, incident in stored.incidents.items():
                if incident.open and incident.spec.uuid == gpu:
                    changed = incident
                    for kind in KINDS:
                        changed = with_intent(changed, kind, desired.get(kind))
                    stored.incidents[name] = changed
