"""The variables of the dashboards, each narrowed by those before it. Pure."""

from dashboards.catalogue import Board
from dashboards.panel import Variable

ANY = ".*"
"""Also matches series without the label: with a single cluster there may be no `cluster`, and what
a pod waits for may have no claim yet."""

_DATASOURCE = Variable(
    name="datasource", title="Data source", says="The Prometheus server to query"
)
_CLUSTER = Variable(
    name="cluster",
    title="Cluster",
    says="Label cluster that your Prometheus adds; All if it adds none",
    query='label_values({__name__=~"draguard_exporter_build_info|draguard_remediator_build_info"}, '
    "cluster)",
    many=True,
    every=ANY,
)
_NODE_QUERY = 'label_values(draguard_gpu_info{cluster=~"$cluster"}, Hostname)'
_NODE = Variable(name="node", title="Node", says="A node with GPUs", query=_NODE_QUERY)
_ANY_NODE = Variable(
    name="node", title="Node", says="Nodes with GPUs", query=_NODE_QUERY, many=True, every=ANY
)
_UUID = Variable(
    name="uuid",
    title="GPU",
    says="A GPU by its UUID, with its slices",
    query='label_values(draguard_gpu_info{cluster=~"$cluster", Hostname=~"$node"}, UUID)',
)
_CLAIMED = '{__name__=~"draguard_device_allocation_info|draguard_claim_since_timestamp_seconds"'
_NAMESPACED = '{__name__=~"draguard_device_allocation_info|draguard_claims"'
_NAMESPACE = Variable(
    name="namespace",
    title="Namespace",
    says="Namespaces with claims that hold or wait for a device",
    query=f'label_values({_NAMESPACED}, cluster=~"$cluster"}}, dra_claim_namespace)',
    many=True,
    every=ANY,
)
_CLAIM = Variable(
    name="claim",
    title="Claim",
    says="ResourceClaims that hold or wait for a device",
    query=f'label_values({_CLAIMED}, cluster=~"$cluster", dra_claim_namespace=~"$namespace"}}, '
    "dra_claim_name)",
    many=True,
    every=ANY,
)
_INCIDENT = Variable(
    name="incident",
    title="Incident",
    says="Incidents that were open in the time range",
    query='label_values(draguard_incident_info{cluster=~"$cluster", node=~"$node"}, incident)',
    many=True,
    every=ANY,
)
_HELD = Variable(
    name="held",
    title="GPUs allocated",
    says="The GPUs of these claims; queries are limited to them",
    query='label_values(draguard_device_allocation_info{cluster=~"$cluster", '
    'dra_claim_namespace=~"$namespace", dra_claim_name=~"$claim", dra_claim_name!=""}, UUID)',
    found=True,
)
_ALL = (_DATASOURCE, _CLUSTER, _NODE, _UUID, _NAMESPACE, _CLAIM, _INCIDENT)
_OF_ONE = {variable.name: variable for variable in _ALL}


def of(board: Board) -> tuple[Variable, ...]:
    """Return a dashboard's variables, in its order; `node` can be All unless the board needs one.

    The variable that follows from a claim comes last. No link sets it, so the catalogue lacks it.
    """
    chosen = dict(_OF_ONE)
    if "node" not in board.needs:
        chosen["node"] = _ANY_NODE
    follows = (_HELD,) if "claim" in board.variables else ()
    return (*(chosen[name] for name in board.variables), *follows)
