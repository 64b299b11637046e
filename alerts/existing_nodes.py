"""PromQL on which nodes exist, from other scraped sources.

A GPU that vanished from an existing node is a fault; one that went with its node is not.
"""

from alerts.identity import NODE

_BY = f"count by ({', '.join(NODE)})"
_NODE_INFO = 'label_replace(kube_node_info, "node", "$1", "exported_node", "(.+)")'
"""A scrape without `honorLabels` overwrites the label with the node that it runs on."""
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
Without kube-state-metrics, any scraped target on a node shows that it exists, for example kubelet.
With it, a machine that answers and is not listed was removed from the cluster on purpose. Without
any source of nodes this is empty: a removed node and a failed one look alike.
"""
