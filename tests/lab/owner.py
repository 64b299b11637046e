"""A script that starts a control plane and waits to be killed; prints where it lives."""

import signal
import time

from simulator.cluster.controlplane import ControlPlane

# A shell that runs the tests in the background lets its children ignore the interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
with ControlPlane() as plane:
    print(plane.layout.folder, *(part.pid for part in plane.components), flush=True)  # noqa: T201
    time.sleep(600)
