"""The explainer's settings: flags into one frozen value, validated once."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from exporter.model.quiet_parser import QuietParser, add_flags
from remediator.program_settings import ProgramSettings

A_DAY = 86_400


class Settings(ProgramSettings, frozen=True, kw_only=True):
    """Each field is a flag of the same name, with its description as the help text."""

    listen: Annotated[str, Meta(description="address of /metrics, /healthz and /readyz")] = (
        "0.0.0.0:9403"
    )
    lease_namespace: Annotated[str, Meta(description="namespace of the leader's Lease")] = (
        "draguard-system"
    )
    leader_elect: Annotated[
        bool, Meta(description="work only while holding the Lease draguard-explainer")
    ] = True
    """Off: there is one replica."""
    events: Annotated[bool, Meta(description="post Events on the pods and claims that wait")] = True
    """Without them only the metrics say why."""
    event_after: Annotated[
        float, Meta(description="seconds that a pod must wait before its Event")
    ] = 60.0

    def find_mistake(self) -> str:
        """Return the first wrong flag and what it may be; "" when all are right."""
        if not 0 <= self.event_after <= A_DAY:
            return f"--event-after is seconds, 0 to {A_DAY}"
        return super().find_mistake()


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line; print usage and exit on a mistake."""
    parser = QuietParser(
        prog="draguard explainer",
        description="Say why claims wait: metrics of ResourceClaims, Events on pods and claims.",
        allow_abbrev=False,
    )
    add_flags(parser, Settings())
    found = Settings(**vars(parser.parse_args(arguments)))
    wrong = found.find_mistake()
    if wrong:
        parser.error(wrong)
    return found
