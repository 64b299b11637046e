"""The flags that the programs of the cluster have in common. Values only."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from remediator.model.taint_rule import is_label_value


class ProgramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is a flag of the same name, with its description as the help text."""

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
    leader_identity: Annotated[
        str, Meta(description="name in the leader's Lease; default: host name and a random part")
    ] = ""
    cluster_name: Annotated[
        str, Meta(description="name of this cluster: a label of incidents and Events")
    ] = ""
    """A label's value. For those who collect these of several clusters."""
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        Meta(description="DEBUG, INFO, WARNING or ERROR"),
    ] = "INFO"

    def find_mistake(self) -> str:
        """Return the first wrong flag and what it may be; "" when all are right."""
        if self.cluster_name and not is_label_value(self.cluster_name):
            return "--cluster-name is a label's value: up to 63 letters, digits, '-', '_' and '.'"
        return ""
