"""PromQL on which nodes are there, as whoever else is scraped tells.

What has vanished from a node that is still there is a fault; what went with its node is none.
"""

from alerts.identity import NODE

_BY = f"count by ({', '.join(NODE)})"
_NODE_INFO = 'label_replace(kube_node_info, "node", "$1", "exported_node", "(.+)")'
"""A scrape that does not honour its labels puts the node that it runs on in their place."""
_UNAME = 'label_replace(node_uname_info, "node", "$1", "nodename", "(.+)")'

NODE_THERE = (
    "(\n"
    f"    {_BY} ({_NODE_INFO})\n"
    f"    or {_BY} (draguard_agent_stale)\n"
    "    or (\n"
    f'      {_BY} (up{{node!=""}} == 1)\n'
    f"      or {_BY} ({_UNAME})\n"
    "    ) unless on (cluster) kube_node_info\n"
    "  )"
)
"""Nodes that are there for certain. kube-state-metrics and the remediator know the cluster's own.
Without kube-state-metrics whatever answers a scrape from a node, such as its kubelet, proves it;
with it, a machine that answers and is not listed was taken out of the cluster on purpose. Where
nobody tells of nodes this is empty: one that was removed and one that went dark look alike.
"""
