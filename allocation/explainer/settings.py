"""The explainer's settings: flags into one frozen value, validated once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from exporter.model.quiet_parser import QuietParser, add_flags
from remediator.model.taint_rule import is_label_value

A_DAY = 86_400


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is a flag of the same name, with its description as the help text."""

    listen: Annotated[str, Meta(description="address of /metrics, /healthz and /readyz")] = (
        "0.0.0.0:9403"
    )
    health_listen: Annotated[
        str,
        Meta(
            description="where to serve /healthz and /readyz once more, without TLS and passwords; "
            "nowhere when empty"
        ),
    ] = ""
    """For probes, which have no client certificate."""
    web_config: Annotated[
        Path | None,
        Meta(description="Prometheus web configuration: TLS, client certificates, basic auth"),
    ] = None
    kube_server: Annotated[
        str | None, Meta(description="API server URL; default: the pod's service account")
    ] = None
    kube_token_file: Annotated[
        str | None, Meta(description="file with a bearer token, read again when it changes")
    ] = None
    kube_ca_file: Annotated[
        str | None, Meta(description="certificate authority of the API server")
    ] = None
    kubeconfig: Annotated[Path | None, Meta(description="kubeconfig to use instead")] = None
    """Read instead of the three above, with its current context."""
    lease_namespace: Annotated[str, Meta(description="namespace of the leader's Lease")] = (
        "draguard-system"
    )
    leader_identity: Annotated[
        str, Meta(description="name in the leader's Lease; default: host name and a random part")
    ] = ""
    leader_elect: Annotated[
        bool, Meta(description="work only while holding the Lease draguard-explainer")
    ] = True
    """Off: there is one replica."""
    cluster_name: Annotated[str, Meta(description="name of this cluster: a label of Events")] = ""
    """A label's value. For those who collect Events of several clusters."""
    events: Annotated[bool, Meta(description="post Events on the pods and claims that wait")] = True
    """Without them only the metrics say why."""
    event_after: Annotated[
        float, Meta(description="seconds for which a pod waits until it gets an Event")
    ] = 60.0
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        Meta(description="DEBUG, INFO, WARNING or ERROR"),
    ] = "INFO"


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line; print usage and exit on a mistake."""
    parser = QuietParser(
        prog="draguard explainer",
        description="Say why claims wait: metrics of ResourceClaims, Events on pods and claims.",
        allow_abbrev=False,
    )
    add_flags(parser, Settings())
    found = Settings(**vars(parser.parse_args(arguments)))
    if not 0 <= found.event_after <= A_DAY:
        parser.error(f"--event-after is seconds, 0 to {A_DAY}")
    if found.cluster_name and not is_label_value(found.cluster_name):
        parser.error(
            "--cluster-name is a label's value: up to 63 letters, digits, '-', '_' and '.'"
        )
    return found
