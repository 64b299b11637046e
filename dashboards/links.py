"""The ways from one dashboard to the next, named once. Pure."""

from dashboards.catalogue import CLAIM, DEVICE, NODE, REMEDIATION
from dashboards.panel import Column, Link
from dashboards.promql import NUMBER

_AT = {"cluster": "cluster"}

TO_NODE = Link(title="Node", board=NODE, labels=_AT | {"node": "Hostname"})
TO_DEVICE = Link(title="Device", board=DEVICE, labels=_AT | {"node": "Hostname", "uuid": "UUID"})
TO_CLAIM = Link(
    title="Claim",
    board=CLAIM,
    labels=_AT | {"namespace": "dra_claim_namespace", "claim": "dra_claim_name"},
)
NODE_OF_INCIDENT = Link(title="Node", board=NODE, labels=_AT | {"node": "node"})
DEVICE_OF_INCIDENT = Link(
    title="Device", board=DEVICE, labels=_AT | {"node": "node", "uuid": "UUID"}
)
TO_INCIDENT = Link(
    title="Remediation", board=REMEDIATION, labels=_AT | {"node": "node", "incident": "incident"}
)

_UUID = Column(source="UUID", title="UUID", hidden=True)
GPU = (Column(source=NUMBER, title="GPU", none="?", links=(TO_DEVICE,)), _UUID)
"""A GPU by its number (`promql.numbered`), with the UUID that links need."""
GPU_OF_INCIDENT = (
    Column(source=NUMBER, title="GPU", none="?", links=(DEVICE_OF_INCIDENT,)),
    _UUID,
)
