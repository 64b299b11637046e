"""The network of a node, all of it in a network namespace of its own.

The API server's Service address is on loopback, so that nothing need translate it; a bridge has the
node's address; the CNI plugin makes another for the pods. The default route leads nowhere.
"""

import subprocess
import sys
from pathlib import Path

SERVICE, SERVICE_RANGE, SERVICE_PORT = "10.0.0.1", "10.0.0.0/24", 443
NODE, NODE_RANGE = "10.1.0.1", "10.1.0.1/24"
POD_RANGE = "10.2.0.0/24"
_BATCH = f"""\
link set lo up
addr add {SERVICE}/32 dev lo
link add node0 type bridge
addr add {NODE_RANGE} dev node0
link set node0 up
route add default dev node0
"""


def set_up() -> None:
    """Set up the network of this process's namespace. Raises CalledProcessError."""
    command = ("ip", "-batch", "-")
    subprocess.run(command, input=_BATCH, text=True, check=True, stdout=sys.stderr, timeout=60)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
