"""What alerts are about: a GPU, a node, a source on a node, a cluster, a claim."""

from alerts import templates
from alerts.identity import BOARD, CLAIM, DEVICE, NODE
from alerts.rule import Subject
from dashboards import catalogue

OF_DEVICE = Subject(
    name="device",
    labels=DEVICE,
    board=catalogue.DEVICE,
    variables={"cluster": "cluster", "node": "node", "uuid": "UUID"},
    annotations={"gpu": templates.GPU, "hit": templates.HIT, "done": templates.DONE},
)
OF_BOARD = Subject(
    name="device on several nodes",
    labels=BOARD,
    board=catalogue.DEVICE,
    variables={"cluster": "cluster", "uuid": "UUID"},
    annotations={
        "gpu": templates.BOARD,
        "hit": templates.HIT_ANYWHERE,
        "done": templates.DONE_ANYWHERE,
    },
)
OF_INCIDENT = Subject(
    name="device",
    labels=DEVICE,
    board=catalogue.REMEDIATION,
    variables={"cluster": "cluster", "node": "node"},
    annotations=OF_DEVICE.annotations,
)
OF_HELD_INCIDENT = Subject(
    name="device",
    labels=DEVICE,
    board=OF_INCIDENT.board,
    variables=OF_INCIDENT.variables,
    annotations={**OF_DEVICE.annotations, "done": templates.DONE_BEFORE_WHY},
)
OF_NODE = Subject(
    name="node",
    labels=NODE,
    board=catalogue.NODE,
    variables={"cluster": "cluster", "node": "node"},
    annotations={"hit": templates.NODE_HIT},
)
OF_SOURCE = Subject(
    name="source on a node",
    labels=(*NODE, "source"),
    board=catalogue.NODE,
    variables=OF_NODE.variables,
)
OF_PAGE = Subject(name="node", labels=NODE, board=catalogue.NODE, variables=OF_NODE.variables)
OF_CLUSTER = Subject(
    name="cluster",
    labels=("cluster",),
    board=catalogue.REMEDIATION,
    variables={"cluster": "cluster"},
    annotations={"hit": templates.CLUSTER_HIT},
)
OF_FLEET = Subject(
    name="cluster",
    labels=OF_CLUSTER.labels,
    board=catalogue.FLEET,
    variables=OF_CLUSTER.variables,
)
OF_CLAIM = Subject(
    name="claim",
    labels=CLAIM,
    board=catalogue.CLAIM,
    variables={
        "cluster": "cluster",
        "namespace": "dra_claim_namespace",
        "claim": "dra_claim_name",
    },
    annotations={"gpu": templates.CLAIM_GPUS, "hit": templates.CLAIM_PODS},
)
OF_WAITING_CLAIM = Subject(
    name="claim",
    labels=CLAIM,
    board=catalogue.CLAIM,
    variables=OF_CLAIM.variables,
    annotations={"hit": templates.WAITING_PODS},
)
"""Without a name: what pods of the namespace wait for, and no claim exists yet."""
OF_NOTHING = Subject(name="nothing", labels=(), board=catalogue.FLEET, variables={})
