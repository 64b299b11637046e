"""Links: the fabric as a GPU sees it, NVLinks that went down, NVSwitches, NVLink5's hex words.

A link has two ends, and the one that reports is not always the one that failed. So what a peer has
caused, by what it reports itself, is a remark and never a fault: neighbours are informed and not
tainted. Where both ends lost as many links, neither explains the other, and work over that link
fails on both: each has the fault.

No report says which GPU is at the other end of a link. So the trouble of a neighbour explains a
failed link by its date and by numbers: the links that all others lost are no more than went down
with it. What it may explain only for its date, it explains no longer than `NEAR`: a GPU that waits
for its repair for weeks hides no link between two others. Nothing here is a reason to evict pods.
Pure.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from exporter.model import nvlink5
from exporter.model.node_health import GpuHealth, SxidRecord, XidRecord
from exporter.model.node_health_condition import TRAINS
from exporter.model.xid import sxid_fatal
from remediator.diagnose.fault import (
    ALONE,
    LOGS,
    UNPROVABLE,
    Fault,
    Need,
    Source,
    Surroundings,
    near,
)
from remediator.diagnose.readings import requested_action, was_answered_after
from remediator.diagnose.xid_table import rule_of

DOUBT = "work that does not use the links may finish"
COMPLETED = 3
"""FabricHealth.state in which its status counts."""
UNHEALTHY = 2
"""FabricHealth.health_summary; 3, limited capacity, is no fault: it works with fewer lanes."""
FALLEN_OFF = 79


def faults(gpu: GpuHealth, around: Surroundings) -> Iterator[Fault]:
    fabric = gpu.fabric
    if fabric.state == COMPLETED and fabric.status:
        evidence = f"registration with the fabric failed with status {fabric.status}"
        yield _fault(gpu, "fabric-status", evidence, "fabric-recovery")
    if fabric.health_summary == UNHEALTHY:
        evidence = "the fabric manager calls this GPU's part of the fabric unhealthy"
        yield _fault(gpu, "fabric-unhealthy", evidence, "fabric-recovery")
    if gpu.nvlink.failed and not _other_end(gpu, around):
        links = _numbers(gpu.nvlink.failed)
        evidence = f"NVLink {links} went down in this boot"
        others = ", ".join(peer.uuid for peer in _at_other_ends(gpu, around) if peer.nvlink.failed)
        evidence += f", as on {others}: either end may be the cause" if others else ""
        yield _fault(gpu, "nvlink-failed", evidence, "gpu-reset")
    yield from _faults_of_switches(gpu, around)


def _faults_of_switches(gpu: GpuHealth, around: Surroundings) -> Iterator[Fault]:
    """Yield the SXids of the node's switches that are fatal to the fabric of all its GPUs."""
    for switch, record in ((each, record) for each in around.switches for record in each.sxids):
        # By the code: "Fatal" is also printed for one port, and that shows as XID 74 on its GPU. A
        # recovery action is the GPU's and not the switch's: only resets after it end the fault.
        if not sxid_fatal(record.code) or _have_all_recovered(gpu, around, record):
            continue
        sources = _sources_of(record, gpu, around)
        # No GPU reads the state of a switch: only a link or fabric that failed confirms it.
        alone = LOGS.issuperset(sources)
        # No source reports a reset of a switch that loads no driver: a user may.
        ended = around.confirmed(record.last_seen, None)
        yield Fault(
            fault_class="fabric",
            cause=f"sxid-{record.code}",
            needs="human" if alone else "node-reboot",
            last_seen=record.last_seen,
            evidence=f"NVSwitch {switch.pci_bus_id}: SXid {record.code}, fatal to the fabric",
            doubt=f"{ALONE}, and {UNPROVABLE['NotInNvml']}" if alone else DOUBT,
            ended=ended,
            sources=sources,
            unprovable="NotInNvml" if alone and ended is None else None,
        )


def _sources_of(record: SxidRecord, gpu: GpuHealth, around: Surroundings) -> tuple[Source, ...]:
    """Return the sources of an SXid: a link down on a GPU of the node confirms it."""
    # A switch is shared, so a link that is down on any GPU of the node confirms its line.
    every = (gpu, *around.gpus)
    found: list[Source] = ["Syslog" if record.sources == ("syslog",) else "Kmsg"]
    if any(links_failed(link) for link in every):
        found.append("NvLink")
    if any(fabric_fails(link) for link in every):
        found.append("Fabric")
    return tuple(found)


def links_failed(gpu: GpuHealth) -> bool:
    """Whether NVLinks went down in this boot that MIG has not taken down."""
    return bool(gpu.nvlink.failed) and gpu.mig is False


def fabric_fails(gpu: GpuHealth) -> bool:
    """Whether NVML reports that a GPU's part of the fabric is not as it should be."""
    fabric = gpu.fabric
    unregistered = fabric.state == COMPLETED and bool(fabric.status)
    return unregistered or fabric.health_summary == UNHEALTHY


def remarks(gpu: GpuHealth, around: Surroundings) -> tuple[str, ...]:
    """Return what a GPU's links report about the device at their other end, for users to read."""
    texts: list[str] = []
    if gpu.nvlink.failed and _other_end(gpu, around):
        texts.append(f"NVLink {_numbers(gpu.nvlink.failed)} went down: {_other_end(gpu, around)}")
    for record in gpu.xids:
        if record.code == 74 and peer_lost_near(gpu, around, record.last_seen):
            texts.append("XID 74 came when a peer on this node was lost")
        words = decode_last_line(record, around)
        # The catalogue requires a reset of this GPU here, too, but the fault is at the other end.
        if words is not None and words.peer_caused:
            link = "a link" if words.link is None else f"link {words.link}"
            texts.append(f"XID {record.code} on {link}: the device at the other end caused it")
    return tuple(sorted(texts))


def decode_last_line(record: XidRecord, around: Surroundings) -> nvlink5.Decoded | None:
    """Return the meaning of the last line of a record of XID 144 to 150, None for nothing.

    Only the last line is kept. What an earlier one needed, the recovery action shows, which the
    driver changes with each of these codes.
    """
    return nvlink5.decode(record.code, record.message, around.driver_version)


def peer_lost_near(gpu: GpuHealth, around: Surroundings, moment: datetime) -> bool:
    """Whether another GPU of the node fell away at about a moment."""
    return any(
        (peer.presence == "Lost" and near(peer.presence_since, moment))
        or any(near(date, moment) for date in _dates_of(peer, lambda code: code == FALLEN_OFF))
        for peer in around.peers(gpu)
    )


def switches_in_words(around: Surroundings, moment: datetime) -> str:
    """Return which SXids were printed as fatal at about a moment, "" for none."""
    codes = [
        f"{record.code} of NVSwitch {switch.pci_bus_id}"
        for switch in around.switches
        for record in switch.sxids
        if record.fatal and near(record.last_seen, moment)
    ]
    return f"SXid {', '.join(sorted(codes))}, printed as fatal" if codes else ""


def _fault(gpu: GpuHealth, cause: str, evidence: str, needs: Need) -> Fault:
    return Fault(
        fault_class="fabric",
        cause=cause,
        needs=needs,
        last_seen=gpu.presence_since,
        evidence=evidence,
        doubt=DOUBT,
    )


class _Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What may have taken down links that end at a GPU."""

    uuid: str
    """Of that GPU."""
    why: str
    links: int
    """How many links of all other GPUs it explains at most."""
    dates: tuple[datetime, ...] = ()
    """When links may have gone down with it, as far as that is known."""
    since: datetime | None = None
    """Since when it lasts: near to that the links at the other ends may not all be read yet."""
    certain: bool = True
    """Whether it takes links down for certain, so that their number may do without a date."""
    counted: bool = True
    """Whether `links` are those that went down with it, and not only no more than that."""


def _other_end(gpu: GpuHealth, around: Surroundings) -> str:
    """Return why links that went down may not be this GPU's fault, "" when nothing explains it."""
    # None as well: where MIG may be on, links that are down prove nothing.
    if gpu.mig is not False:
        return "NVLinks go down when MIG is turned on"
    ends, now = tuple(_at_other_ends(gpu, around)), around.reported_at
    if now is not None and (back := next((peer for peer in ends if _trains(peer, now)), None)):
        return f"{back.uuid} has come back, and NVLinks to it may not be trained yet"
    states = [trouble for peer in ends for trouble in _troubles(peer, around)]
    for state in states:
        # Links that went down before need not wait for what began later.
        begins = not _failures(gpu) or _in_time(gpu, state)
        if begins and state.since is not None and (now is None or near(state.since, now)):
            return state.why
    lost_more = [
        _Trouble(
            uuid=peer.uuid,
            why=f"{peer.uuid} lost more links",
            links=len(peer.nvlink.failed),
            dates=_failures(peer),
        )
        for peer in ends
        if len(peer.nvlink.failed) > len(gpu.nvlink.failed)
    ]
    # Two that fell away explain together what neither does. One that lost more links does so for
    # itself: the other ends of those are among the links that others lost.
    dated = [state for state in states if _in_time(gpu, state)]
    certain = [state for state in states if state.certain and _in_time(gpu, state) is not False]
    for troubles in (*([each] for each in (*states, *lost_more)), dated, certain):
        if troubles and _explain(troubles, gpu, around):
            undated = "" if all(_in_time(gpu, each) for each in troubles) else "; nothing dates it"
            return troubles[0].why + undated
    return ""


def _at_other_ends(gpu: GpuHealth, around: Surroundings) -> Iterator[GpuHealth]:
    """Yield the GPUs that may be at the other ends of a GPU's links."""
    # Links of a GPU that is registered with an NVSwitch fabric end at the switches.
    yield from () if gpu.fabric.state == COMPLETED else around.peers(gpu)


def _trains(peer: GpuHealth, now: datetime) -> bool:
    """Whether a GPU has come back just now: then the links that end at it are trained anew."""
    dates = (peer.presence_since, peer.epoch_started, peer.mig_since)
    begun = max(date for date in dates if date is not None)
    return peer.presence == "Present" and peer.mig is False and begun <= now < begun + TRAINS


def _troubles(peer: GpuHealth, around: Surroundings) -> Iterator[_Trouble]:
    """Yield what a GPU reports of itself that may have taken down its links."""
    lost, links = len(peer.nvlink.failed), peer.nvlink
    in_trouble = f"{peer.uuid} on the same node is in trouble"
    if peer.mig or (peer.mig is None and (links.down or links.failed)):
        # Of links that were down since the boot some are not wired. Under MIG none is read.
        yield _Trouble(
            uuid=peer.uuid,
            why=f"NVLinks to {peer.uuid} go down when MIG is turned on there",
            links=lost or len(links.down) or _most_links(peer, around),
            dates=(peer.mig_since or peer.presence_since,),
            counted=bool(lost),
        )
    if peer.presence != "Present":
        fallen = _dates_of(peer, lambda code: code == FALLEN_OFF)
        yield _Trouble(
            uuid=peer.uuid,
            why=in_trouble,
            links=_most_links(peer, around),
            dates=(peer.presence_since, *fallen),
            since=peer.presence_since,
        )
    action = requested_action(peer)
    if action is not None:
        # Most requests leave the links up, and where they are read, that shows.
        read = peer.presence == "Present" and bool(links.up or links.down)
        yield _Trouble(
            uuid=peer.uuid,
            why=in_trouble,
            links=lost if read else _most_links(peer, around),
            dates=(action.since,),
            since=action.since,
            certain=False,
        )


def _most_links(peer: GpuHealth, around: Surroundings) -> int:
    """Return how many links a GPU has that may answer no more, by the GPUs of its product."""
    return max(
        len({*gpu.nvlink.up, *gpu.nvlink.failed})
        for gpu in around.gpus
        if peer.product in {"", gpu.product}
    )


def _explain(troubles: list[_Trouble], gpu: GpuHealth, around: Surroundings) -> bool:
    """Whether the troubles of others together explain the links that a GPU lost."""
    # One GPU may have two, and has its links once.
    by_peer = {each.uuid: each.links for each in sorted(troubles, key=lambda each: each.links)}
    lost = [
        other
        for other in around.gpus
        if other.uuid not in by_peer and links_failed(other) and other.fabric.state != COMPLETED
    ]
    links = sum(
        len(other.nvlink.failed)
        for other in lost
        if any(_in_time(other, each) is not False for each in troubles)
    )
    most = sum(by_peer.values())
    in_time = {_in_time(gpu, each) for each in troubles}
    # Too many for these: some are between two others, and it is not known which.
    if links > most or False in in_time:
        return False
    if in_time == {True}:
        return True
    # A link that fails between two others shows at both, unless all are accounted for here.
    accounted = links == most and all(each.counted for each in troubles)
    return all(each.certain for each in troubles) and (len(lost) == 1 or accounted)


def _in_time(gpu: GpuHealth, trouble: _Trouble) -> bool | None:
    """Whether a GPU's links went down with a peer's trouble, None when that is not known."""
    failures = _failures(gpu)
    if not failures or not trouble.dates:
        return None
    last = max(failures)
    if any(near(last, date) for date in trouble.dates):
        return True
    # Only the last change of a state has a date: one that lost its NVML is Unknown since then.
    return None if last < max(trouble.dates) else False


def _failures(gpu: GpuHealth) -> tuple[datetime, ...]:
    """Return when links of a GPU failed, by its XIDs; NVML's reading of a link has no date."""
    return _dates_of(gpu, lambda code: rule_of(code).fault == "fabric")


def _dates_of(gpu: GpuHealth, is_meant: Callable[[int], bool]) -> tuple[datetime, ...]:
    """Return when XIDs of some codes came last."""
    # What any program of the node may have made up dates nothing.
    return tuple(
        record.last_seen
        for record in gpu.xids
        if is_meant(record.code) and record.sources != ("syslog",)
    )


def _have_all_recovered(gpu: GpuHealth, around: Surroundings, record: SxidRecord) -> bool:
    """Whether each GPU has answered in an epoch that began after an SXid.

    A switch is reset together with all of its GPUs: one alone proves nothing.
    """
    return all(
        each.presence != "Lost" and was_answered_after(each, record.last_seen)
        for each in (gpu, *around.gpus)
    )


def _numbers(links: tuple[int, ...]) -> str:
    return ", ".join(map(str, links))
