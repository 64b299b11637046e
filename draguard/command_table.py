"""The commands of `draguard`, as a table: what runs each, what its help says, what it needs. Pure.

Only the module of the command that is run is imported: a node has none of the controller's
libraries, and the other way round.
"""

from typing import NamedTuple

USAGE = """\
usage: draguard [GLOBAL FLAGS] COMMAND [FLAGS]

inspect
  status                     show the fleet: nodes, GPUs, taint rules, incidents
  incidents [NAME...]        list open incidents; with names, show them in detail
  explain xid N              explain an XID, and what Draguard would do about it
  plan                       show what the remediator would do now, and why
  why POD|claim/NAME         show why a pod waits for its devices, or does not start
  doctor                     check the requirements of this cluster, or this node
  version                    show the versions of client, remediator, agents, cluster
  bundle                     write a file for a bug report, secrets masked

act
  hold INCIDENT...           pause new taints and evictions on these GPUs
  untaint INCIDENT...        remove Draguard's taints from GPUs, after confirmation
  ignore INCIDENT...         take no action on these faults, remove their taints
  confirm-repaired INCIDENT...
                             confirm the repair of GPUs in NeedsHuman
  cordon DEVICE...           keep new pods off GPUs or slices, for maintenance
  uncordon DEVICE...         remove such cordons
  cleanup --all              remove Draguard's taints and Node conditions, to uninstall

prepare
  policy check|explain       validate a policy, or simulate a signal under it

learn
  help [COMMAND]             show flags and examples
  completion SHELL           print the completion for bash, zsh or fish

run
  exporter sensor|agent|run  monitor this node's GPUs: metrics and health report
  remediator                 taint failed GPUs and slices, evict their pods
  explainer                  say why claims wait: metrics and Events

global flags, before or after the command: -n NAMESPACE, --context NAME,
--kubeconfig FILE, -o FORMAT, and kubectl's --server, --token, --as,
--as-group, --certificate-authority, --insecure-skip-tls-verify,
--request-timeout.
`kubectl draguard COMMAND` is the same.
Exit status: 0: done; 1: a problem, or incomplete; 2: usage error, or no access.
"""


class Row(NamedTuple):
    module: str
    function: str
    extra: str
    """The extra of the package whose libraries it needs."""

    @property
    def parser(self) -> str:
        """Return the name of the function that makes its parser."""
        return "parser" if self.function == "main" else f"{self.function}_parser"


CLI = "cli"
"""The extra of the commands of users."""
COMMANDS = {
    "status": Row("draguard.commands.status", "main", CLI),
    "incidents": Row("draguard.commands.incidents", "main", CLI),
    "explain": Row("draguard.commands.explain", "main", CLI),
    "plan": Row("draguard.commands.plan", "main", CLI),
    "why": Row("draguard.commands.why", "main", CLI),
    "doctor": Row("draguard.commands.doctor", "main", CLI),
    "bundle": Row("draguard.commands.bundle", "main", CLI),
    "completion": Row("draguard.commands.completion", "main", CLI),
    "__complete": Row("draguard.commands.complete", "main", CLI),
    "version": Row("draguard.commands.version", "main", CLI),
    "hold": Row("draguard.commands.intents", "hold", CLI),
    "untaint": Row("draguard.commands.untaint", "main", CLI),
    "ignore": Row("draguard.commands.intents", "ignore", CLI),
    "confirm-repaired": Row("draguard.commands.intents", "confirm_repaired", CLI),
    "cordon": Row("draguard.commands.cordon", "main", CLI),
    "uncordon": Row("draguard.commands.uncordon", "main", CLI),
    "cleanup": Row("draguard.commands.cleanup", "main", CLI),
    "policy": Row("draguard.commands.policy", "main", CLI),
    "exporter": Row("exporter.__main__", "main", "exporter"),
    "remediator": Row("remediator.__main__", "main", "remediator"),
    "explainer": Row("allocation.__main__", "main", CLI),
}
ACTING = frozenset(
    {"hold", "untaint", "ignore", "confirm-repaired", "cordon", "uncordon", "cleanup"}
)
"""Commands that write: a role that only reads is not enough for them."""
MEANT = {"taint": "cordon", "drain": "cordon --evict", "get": "incidents", "describe": "incidents"}
"""Words of kubectl and of operators, and the command that does it here."""
