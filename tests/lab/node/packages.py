"""What a real node needs of the machine: root, a kernel's parts, Debian packages.

`python -m tests.lab.node.packages` says what is missing, `--install` installs the packages and says
which. Nothing else of the project installs anything on the machine.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PACKAGES: Mapping[str, str] = {
    "/usr/sbin/runc": "runc",
    "/lib/systemd/systemd-journald": "systemd",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/bin/buildah": "buildah",
    "/usr/sbin/debootstrap": "debootstrap",
    "/usr/sbin/ip": "iproute2",
    "/usr/bin/unshare": "util-linux",
    "/usr/bin/mount": "mount",
}
"""A program, to the package of Debian 12 that has it."""
_V1 = Path("/sys/fs/cgroup/memory/cgroup.procs")
INSTALL = "python -m tests.lab.node.packages --install"


def missing_packages() -> list[str]:
    """Return the names of the packages whose program is not here."""
    return sorted(
        package
        for path, package in PACKAGES.items()
        if not Path(path).exists() and not _elsewhere(Path(path))
    )


def _elsewhere(path: Path) -> bool:
    """Whether a program is in another folder of PATH; CNI plugins are in no such folder."""
    return path.parent.name.endswith("bin") and shutil.which(path.name) is not None


def missing() -> list[str]:
    """Return what a real node lacks here, as sentences; empty where it can run."""
    found: list[str] = []
    if os.geteuid() != 0:
        found.append("root is missing: run it as root, in a machine that is for tests")
    if packages := missing_packages():
        found.append(f"packages are missing: {' '.join(packages)}; run: {INSTALL}")
    if not _V1.exists():
        found.append(
            "cgroup v1 is missing: the lab mounts the hierarchies of version 1 only "
            f"({_V1} is not there)"
        )
    return found


def install(packages: Sequence[str]) -> None:
    """Install Debian packages, after saying which. Raises CalledProcessError."""
    print(f"installing with apt-get: {' '.join(packages)}", file=sys.stderr)  # noqa: T201
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ("apt-get", "-qq", "update"),
        ("apt-get", "-qq", "install", "--yes", "--no-install-recommends", *packages),
    ):
        subprocess.run(command, check=True, env=environ, stdout=sys.stderr, timeout=900)


def main(*arguments: str) -> int:
    """Say what is missing, or install it; returns 1 while something is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.node.packages", description=__doc__)
    parser.add_argument("--install", action="store_true", help="install the Debian packages")
    options = parser.parse_args(arguments)
    if options.install and (packages := missing_packages()):
        install(packages)
    found = missing()
    for sentence in found:
        print(f"a real node cannot run here: {sentence}", file=sys.stderr)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
