"""A script that starts a control plane and waits to be killed; prints where it lives."""

import time

from simulator.cluster.controlplane import ControlPlane

with ControlPlane() as plane:
    print(plane.layout.folder, *(part.pid for part in plane.components), flush=True)  # noqa: T201
    time.sleep(600)
