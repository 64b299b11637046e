"""What a node's kubelet has to say of its pods, once its player has seen what the API server has.

The player learns by a watch of its own, which comes after an answer that a test was given.
"""

from tests.lab.cluster import Cluster, Json, await_true


def pods_on(cluster: Cluster, node: str) -> list[Json]:
    """Return every pod that runs on a node, as `Kubelet.set_pods` takes them."""
    seen: list[Json] = []

    def all_of_them() -> bool:
        nonlocal seen
        desired = {_place(pod["metadata"]) for pod in cluster.running() if _is_on(pod, node)}
        seen = cluster.player.pods_of(node)
        return {_place(pod) for pod in seen} == desired

    await_true(f"the player has seen every pod of {node}", all_of_them)
    return seen


def _is_on(pod: Json, node: str) -> bool:
    return pod["spec"].get("nodeName") == node


def _place(named: Json) -> tuple[str, str]:
    return named["namespace"], named["name"]
