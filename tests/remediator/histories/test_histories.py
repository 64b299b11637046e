"""Random histories of hardware, people and crashes: what the design promises holds in each.

`make test` plays some hundreds, `make histories` at least 20,000.
"""

import os
from datetime import timedelta
from typing import get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from exporter.model.node_health import GpuHealth
from remediator.model.incident import Incident
from remediator.model.intent import Intent
from remediator.plan.node_condition import OFF, HandoverOptions
from remediator.plan.view import WatchedKind
from tests.remediator.builders import Stored
from tests.remediator.histories.errors import GPU_WIDE, PENDING, SIGNALS
from tests.remediator.histories.judged import SOAK
from tests.remediator.histories.leaders import Leaders
from tests.remediator.histories.machines import ACTIONS, WATCHED, Twin, XidSource
from tests.remediator.histories.outside import DIES, INDEX, THEN

HISTORYS = int(os.environ.get("HISTORIES", "120"))
BLIND = st.frozensets(st.sampled_from(WATCHED), max_size=2)
WITHOUT_STATE = tuple(sorted({*GPU_WIDE} - {*PENDING, 64}))
"""Errors that nothing shows but their lines; 64 and what is pending are read as well."""
AGAIN: st.SearchStrategy[tuple[XidSource, ...]] = st.sampled_from(
    [(), ("kmsg",), ("nvml",), ("syslog", "nvml"), ("syslog", "kmsg")]
)
"""The sources of a new error after a confirmed repair, in the order in which they report it."""
INSTANCES = st.sampled_from([1, 5])
HELD = st.sampled_from(["", "", "stopped", "on hold"])
HANDOVER = st.one_of(
    st.just(OFF),
    st.builds(
        HandoverOptions,
        enabled=st.just(value=True),
        deadline=st.sampled_from([timedelta(seconds=30), timedelta(hours=1)]),
        accelerated_hardware_ready=st.booleans(),
    ),
)


def of_gpu(stored: Stored, gpu: str) -> list[Incident]:
    return [incident for incident in stored.incidents.values() if incident.spec.uuid == gpu]


class History(Leaders):
    """A node of which the hardware breaks, is repaired, moved and misread."""

    @initialize(options=HANDOVER, dynamic=st.booleans(), placing=st.booleans())
    def a_cluster(self, options: HandoverOptions, dynamic: bool, placing: bool) -> None:
        self.options = options
        self.machine.dynamic, self.machine.placing = dynamic, placing

    @rule(
        index=INDEX,
        code=st.sampled_from(SIGNALS),
        gi=st.sampled_from([None, 1, 5, 9]),
        then=THEN,
        dies=DIES,
    )
    def an_xid(self, index: int, code: int, gi: int | None, then: float, dies: int) -> None:
        self.machine.xid(index, code, gi)
        self.then(then, dies)

    @rule(gi=INSTANCES, late=THEN, then=THEN, dies=DIES)
    def an_error_is_named_late(self, gi: int, late: float, then: float, dies: int) -> None:
        self.machine.xid(1, 94, None)
        for seconds in (0.5, late):
            self.then(seconds, dies)
        self.machine.names_the_slice(1, gi)
        self.then(then, dies)

    @rule(gi=INSTANCES, then=THEN, dies=DIES)
    def a_source_names_the_slice(self, gi: int, then: float, dies: int) -> None:
        self.machine.names_the_slice(1, gi)
        self.then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_reading_tells_the_places(self, index: int, then: float, dies: int) -> None:
        self.machine.reads_the_places(index)
        self.then(then, dies)

    @rule(index=INDEX, value=st.sampled_from(ACTIONS), then=THEN, dies=DIES)
    def a_recovery_action(self, index: int, value: int, then: float, dies: int) -> None:
        self.machine.wants(index, value)
        self.then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_driver_without_recovery_action(self, index: int, then: float, dies: int) -> None:
        self.machine.has_no_recovery_action(index)
        self.then(then, dies)

    @rule(
        index=INDEX, presence=st.sampled_from(["Lost", "Unknown", "Present"]), then=THEN, dies=DIES
    )
    def a_gpu_goes_or_comes(self, index: int, presence: str, then: float, dies: int) -> None:
        self.machine.goes(index, presence)
        self.then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_reset(self, index: int, then: float, dies: int) -> None:
        self.machine.is_reset(index)
        self.then(then, dies)

    @rule(then=THEN, dies=DIES)
    def a_reboot(self, then: float, dies: int) -> None:
        self.machine.reboots()
        self.then(then, dies)

    @rule(index=INDEX, late=THEN, then=THEN, dies=DIES)
    def a_reboot_in_vain(self, index: int, late: float, then: float, dies: int) -> None:
        """A GPU stays lost, and new work starts on the other one."""
        self.machine.goes(index, "Lost")
        for seconds in (1.0, late):
            self.then(seconds, dies)
        self.machine.reboots(in_vain=True)
        self.machine.is_claimed(1 - index, 0, "pod-9")
        for seconds in (1.0, 61.0, then):
            self.then(seconds, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def another_board(self, index: int, then: float, dies: int) -> None:
        self.machine.board_is_swapped(index)
        self.then(then, dies)

    @rule(then=THEN, dies=DIES)
    def other_numbers(self, then: float, dies: int) -> None:
        self.machine.numbers_are_swapped()
        self.then(then, dies)

    @rule(then=THEN, dies=DIES)
    def another_release_of_the_driver(self, then: float, dies: int) -> None:
        self.machine.driver_is_released()
        self.then(then, dies)

    @rule(silent=st.booleans(), then=THEN, dies=DIES)
    def the_agent(self, silent: bool, then: float, dies: int) -> None:
        self.machine.silent = silent
        self.then(then, dies)

    @rule(kinds=BLIND, confirms=st.booleans(), then=THEN)
    def who_sees(self, kinds: frozenset[WatchedKind], *, confirms: bool, then: float) -> None:
        self.machine.blind, self.machine.confirms = kinds, confirms
        self.then(then, 0)

    @rule(index=INDEX, part=st.integers(0, 6), pod=st.integers(0, 2), then=THEN, dies=DIES)
    def a_pod_comes(self, index: int, part: int, pod: int, then: float, dies: int) -> None:
        self.machine.is_claimed(index, part, f"pod-{pod}")
        self.then(then, dies)

    @rule(index=INDEX, part=st.integers(0, 6), then=THEN, dies=DIES)
    def a_pod_goes(self, index: int, part: int, then: float, dies: int) -> None:
        self.machine.is_let_go(index, part)
        self.then(then, dies)

    @rule(then=THEN, dies=DIES)
    def an_agent_that_forgets(self, then: float, dies: int) -> None:
        self.machine.forgets()
        self.then(then, dies)

    @rule(index=INDEX, dies=DIES)
    def an_old_driver_whose_agent_forgets(self, index: int, dies: int) -> None:
        self.machine.has_no_recovery_action(index)
        self.machine.xid(index, 95, None)
        self.then(1.0, dies)
        self.machine.forgets()
        for seconds in (5.0, SOAK):
            self.then(seconds, dies)

    @rule(
        index=INDEX,
        code=st.sampled_from(WITHOUT_STATE),
        new=st.sampled_from(WITHOUT_STATE),
        sources=AGAIN,
        dies=DIES,
    )
    def a_reset_that_only_a_user_can_report(
        self, index: int, code: int, new: int, sources: tuple[XidSource, ...], dies: int
    ) -> None:
        """Its driver has no recovery action, and a reset starts no new epoch."""
        self.machine.has_no_recovery_action(index)
        self.machine.xid(index, code, None)
        self.then(1.0, dies)
        confirmed = Intent(by="ana", reason=f"reset at {self.machine.now}")
        self.intend(index, {"RepairConfirmed": confirmed})
        self.then(0.5, dies)
        for number, source in enumerate(sources):
            if number:
                self.machine.is_also_reported(index, new, source)
            else:
                self.machine.xid(index, new, None, source)
            self.then(1.0, dies)
        for seconds in (1.0, SOAK):
            self.then(seconds, dies)
        gpu = self.machine.gpus[index]
        stands = any(incident.open for incident in of_gpu(self.calm, gpu.uuid))
        if sources:
            assert stands or not self.is_looked_after(gpu)
        elif self.is_looked_after(gpu):
            assert not stands, "a user confirmed its repair"

    def is_looked_after(self, gpu: GpuHealth) -> bool:
        """Whether all is seen of a GPU, and no state of it shows a fault."""
        machine = self.machine
        blind = machine.silent or machine.unseen or machine.gone or machine.blind
        unsure = self.ahead or self.disagrees or not machine.watched or blind
        worn = gpu.memory.row_remap_failed == "True" or any(it.code == 64 for it in gpu.xids)
        return gpu.presence == "Present" and not (worn or unsure)

    @rule(then=THEN, dies=DIES)
    def another_layout(self, then: float, dies: int) -> None:
        self.machine.slices_are_made_anew(1)
        self.then(then, dies)

    @rule(gi=INSTANCES, anew=st.booleans(), then=THEN, dies=DIES)
    def another_compute_instance(self, gi: int, anew: bool, then: float, dies: int) -> None:
        """In the memory of a slice that fails, or that is made anew after it has failed."""
        self.machine.xid(1, 94, gi)
        self.then(then, dies)
        if anew:
            self.machine.slices_are_made_anew(1)
            self.then(then, dies)
        self.machine.is_shared(1, gi)
        self.then(then, dies)

    @rule(index=INDEX, hidden=st.booleans(), then=THEN, dies=DIES)
    def a_driver_that_publishes(self, index: int, hidden: bool, then: float, dies: int) -> None:
        (self.machine.unpublished.add if hidden else self.machine.unpublished.discard)(index)
        self.then(then, dies)

    @rule(away=st.booleans(), index=INDEX, lost=st.booleans(), then=THEN, dies=DIES)
    def a_driver_that_cannot_start(
        self, away: bool, index: int, lost: bool, then: float, dies: int
    ) -> None:
        """Such as while a GPU is lost; another one may fail meanwhile."""
        self.machine.driver_goes(away=away)
        self.then(then, dies)
        if lost:
            self.machine.goes(index, "Lost")
            self.machine.xid(index, 79, None)
            self.then(then, dies)

    @rule(twin=st.sampled_from(get_args(Twin)), there=st.booleans(), then=THEN, dies=DIES)
    def a_gpu_that_is_published_twice(
        self, twin: Twin, there: bool, then: float, dies: int
    ) -> None:
        (self.machine.also.add if there else self.machine.also.discard)(twin)
        self.then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_new_board_in_another_slot(self, index: int, then: float, dies: int) -> None:
        self.machine.board_moves_to_another_slot(index)
        self.then(then, dies)

    @rule(watched=st.booleans(), then=st.sampled_from([1.0, 61.0, 6 * 86400.0]), dies=DIES)
    def the_watch_of_nodes(self, watched: bool, then: float, dies: int) -> None:
        self.machine.nodes_watched = watched
        self.then(then, dies)

    @rule(others=st.booleans(), away=THEN, then=THEN, dies=DIES)
    def a_node_made_again(self, others: bool, away: float, then: float, dies: int) -> None:
        self.machine.node_goes()
        self.then(away, dies)
        self.machine.node_is_made_again(others=others)
        self.then(then, dies)

    @rule(gone=st.booleans(), then=st.sampled_from([1.0, 61.0, 8 * 86400.0]), dies=DIES)
    def a_node_that_goes(self, gone: bool, then: float, dies: int) -> None:
        if gone:
            self.machine.node_goes()
        else:
            self.machine.node_is_back()
        self.then(then, dies)

    @rule(index=INDEX, board=st.booleans(), early=st.booleans(), held=HELD, then=THEN, dies=DIES)
    def others_are_called(  # noqa: PLR0917 - a scene
        self, index: int, board: bool, early: bool, held: str, then: float, dies: int
    ) -> None:
        """A node needs a reboot, or another board, while a pod is there or before one comes."""
        tenants = self.machine.tenants
        tenants.claims.clear()
        if early:
            self.machine.is_claimed(1 - index, 0, "pod-9")
        if held == "stopped":
            self.stopped = "ana: a history"
        if board:
            self.machine.wears_out(index)
        else:
            self.machine.wants(index, 7)
        for seconds in (1.0, 4.0):
            self.then(seconds, dies)
        if held == "on hold":
            self.intend(index, {"Hold": Intent(by="ana", reason="a history")})
        self.machine.is_claimed(1 - index, 0, "pod-9")
        for seconds in (then, 31.0):
            self.then(seconds, dies)

    @rule(then=THEN, dies=DIES)
    def nothing_happens(self, then: float, dies: int) -> None:
        self.then(then, dies)


TestHistories = History.TestCase
TestHistories.settings = settings(
    max_examples=HISTORYS,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
