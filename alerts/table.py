"""All rules, in the order of evaluation."""

from collections.abc import Iterator

from alerts import claims, controller, devices, explainer, incidents, sensors, unusable
from alerts.rule import Alert, Group, Recording
from alerts.subjects import OF_NOTHING

_WATCHDOG = Group(
    name="draguard-watchdog",
    rules=(
        Alert(
            name="DraguardWatchdog",
            severity="info",
            of=OF_NOTHING,
            when="Always. If it stops, notifications do not arrive.",
            expr="vector(1)",
            wait="0s",
            wait_why="It shows that rules are evaluated.",
            keep="0s",
            keep_why="It must stop together with Prometheus.",
            summary="Watchdog: alerts are evaluated and sent.",
            description="This alert always fires, value {{ $value }}. Route it to a dead man's "
            "switch, which alerts you when it stops.",
            next="Nothing. If it stops, check Prometheus and Alertmanager.",
        ),
    ),
)

GROUPS: tuple[Group, ...] = (
    devices.GROUP,
    unusable.GROUP,
    incidents.GROUP,
    sensors.GROUP,
    controller.GROUP,
    explainer.GROUP,
    claims.GROUP,
    _WATCHDOG,
)


def alerts() -> Iterator[Alert]:
    """Return every alert."""
    return (rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert))


def recorded() -> Iterator[Recording]:
    """Return every recorded series."""
    return (rule for group in GROUPS for rule in group.rules if isinstance(rule, Recording))
