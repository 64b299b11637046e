"""`draguard why POD`, `draguard why claim/NAME`: where a pod or a claim waits, and for what."""

import argparse
from collections.abc import Sequence
from functools import partial

import msgspec

from allocation.answers import Answers
from allocation.layers.explanation import explain
from allocation.selectors.evaluator import Evaluator
from draguard.cluster.waiting import NoSuchObjectError, WaitingReader
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.progress import Progress
from draguard.connection.session import print_error, run_with_client
from draguard.connection.watch import add_watch_flag, watch
from draguard.exit_status import DONE, PROBLEM
from draguard.render.changes import Changes
from draguard.render.formats import add_output_flag
from draguard.render.help_text import Example, teaching
from draguard.render.why_page import Why, why_page
from kubeapi.client import Client

_PODS = frozenset({"pod", "pods", "po"})
_CLAIMS = frozenset({"claim", "claims", "resourceclaim", "resourceclaims"})
DEFAULT_NAMESPACE = "default"
EXAMPLES = (
    Example("draguard why trainer-0", "why this pod does not run"),
    Example("draguard why claim/eight-gpus -n team-a", "why this claim waits, by its pod"),
    Example("draguard why trainer-0 -o json | jq -r .finding.reason", "the reason, for programs"),
    Example("draguard why trainer-0 -w", "show it again whenever it changes"),
)


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "why",
        "Show why a pod waits for its devices, or does not start: the first layer that it has not\n"
        "passed, what keeps each device away, and each single change that would be enough.",
        EXAMPLES,
        more="The layers: admission, scheduling, allocation, binding, preparation, runtime,\n"
        "device, running. Everything is computed here from the objects that you may read. What\n"
        "keeps devices away needs the right to list ResourceSlices, DeviceClasses and claims.\n"
        "Without the right to list nodes, what they keep away is not known, nor what would be\n"
        "enough.",
    )
    taught.add_argument("target", metavar="POD|claim/NAME", help="a pod, or a ResourceClaim")
    add_watch_flag(taught)
    add_output_flag(taught)
    add_cluster_flags(taught, "", "namespace of the pod or claim [that of the context]")
    taught.usage = f"{taught.prog} POD|claim/NAME [-n NAMESPACE] [FLAGS]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0, whatever the reason is; 1: there is no such pod or claim."""
    options = parser().parse_args(arguments)
    kind, slash, name = options.target.rpartition("/")
    if (slash and kind not in _PODS | _CLAIMS) or not name:
        parser().error("name a pod as POD or pod/POD, and a claim as claim/NAME")
    changes = Changes(options.output, "Why")

    def show(client: Client) -> int:
        with Evaluator() as evaluator:
            look = partial(
                _look, client, options, "claim" if kind in _CLAIMS else "pod", name, evaluator
            )
            return watch("why", client, partial(look, changes), again=options.watch)

    return run_with_client("why", options, show)


def _look(  # noqa: PLR0917 - one look at one target
    client: Client,
    options: argparse.Namespace,
    kind: str,
    name: str,
    evaluator: Evaluator,
    changes: Changes,
) -> int:
    namespace = options.namespace or client.endpoint.namespace or DEFAULT_NAMESPACE

    with Progress() as progress:
        try:
            reader = WaitingReader(client, namespace, progress.read)
            known = reader.claim(name) if kind == "claim" else reader.pod(name)
        except NoSuchObjectError as error:
            print_error("why", str(error))
            return PROBLEM
        progress.says("looking for devices")
        explanation = explain(known, Answers(evaluator.evaluate))
    found = Why.of(kind, namespace, name, known, explanation)
    steady = msgspec.structs.replace(found, at=None)
    if found.finding.layer == "Running":
        # How much of its devices it uses is another figure each time.
        finding = msgspec.structs.replace(found.finding, evidence=())
        steady = msgspec.structs.replace(steady, finding=finding)
    changes.show(found, partial(why_page, found), known.at, apart=steady)
    return DONE
