"""A script that starts a node's control plane and waits to be killed; prints where it lives."""

import time

from tests.lab.node.plane import NodePlane

with NodePlane("killed-node") as plane:
    print(plane.layout.folder, plane.first_process, flush=True)  # noqa: T201
    time.sleep(600)
