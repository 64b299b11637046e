"""On its devices: what their driver, the kubelet and Draguard say of their health. Pure."""

from allocation.layers.finding import Finding, PodView


def device(view: PodView) -> Finding | None:
    """Return what is wrong with a device of a pod that has a node."""
    if not view.pod.spec.node_name:
        return None
    return _note(view) or _unhealthy(view) or _not_ready(view)


def _note(view: PodView) -> Finding | None:
    if not view.health:
        return None
    first, *_ = sorted(view.health, key=lambda note: note.reason != "DeviceSick")
    return Finding(
        layer="Device",
        reason=first.reason,
        message=f"{first.device}: {first.text}",
        evidence=tuple(f"{note.device}: {note.text}" for note in view.health if note != first),
        todo=(
            ("draguard incidents shows what is known, and what Draguard does",)
            if first.reason == "DeviceSick"
            else ("its driver, or who has made the DeviceTaintRule, removes the taint",)
        ),
    )


def _unhealthy(view: PodView) -> Finding | None:
    for container in view.pod.containers():
        for resource in container.allocated_resources_status:
            for each in resource.resources:
                if each.health == "Unhealthy":
                    return Finding(
                        layer="Device",
                        reason="DeviceUnhealthy",
                        message=f"the kubelet reports {each.resource_id} of container "
                        f"{container.name} as Unhealthy",
                        evidence=(each.message,) if each.message else (),
                        todo=("see the log of the device's driver on the node",),
                    )
    return None


def _not_ready(view: PodView) -> Finding | None:
    for claim, result in view.results():
        ready = claim.conditions(result).get("Ready")
        if ready is not None and ready.status == "False":
            return Finding(
                layer="Device",
                reason="DeviceNotReady",
                message=f"driver {result.driver} reports {result.name} as not ready",
                since=ready.last_transition_time,
                evidence=tuple(filter(None, (ready.reason, ready.message))),
                todo=("see the driver's log on the node",),
            )
    return None
