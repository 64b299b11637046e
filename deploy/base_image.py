"""A base that images are built on: Debian 12 and its Python, made once, then cached.

It stands for the official Python image, which only a container registry has. No file of it is in an
image. Debian's package `debootstrap` makes it in some two minutes; that needs root.
"""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from deploy.buildah import Buildah
from simulator.cluster.build import cache_folder
from simulator.cluster.toolchain import Say
from simulator.compiler import BuildError

RELEASE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-pip", "python3-venv")
_SECONDS = 1200.0
_AFTERWARDS = r"""set -e
ln -s /usr/bin/python3 /usr/local/bin/python
ln -s /usr/bin/python3 /usr/local/bin/python3
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
sed -i 's|^\(deb .*\)/debian \(\S*\) main$|&\n\1/debian-security \2-security main|' \
    /etc/apt/sources.list
rm -rf /var/cache/apt/* /var/lib/apt/lists/* /var/log/*
"""
"""What the official image has: Python in that place, pip that may install, Debian's fixes."""


def key() -> str:
    """Return what changes with the content."""
    return hashlib.sha256(repr((RELEASE, PACKAGES, _AFTERWARDS)).encode()).hexdigest()[:16]


def base_image(buildah: Buildah, say: Say) -> str:
    """Return the name of the image, making it the first time. Raises BuildError."""
    name = f"localhost/draguard-python:{key()}"
    if not buildah.has(name):
        text = "FROM scratch\nADD rootfs.tar /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n"
        buildah.build_text(text, name, {"rootfs.tar": _file_system(say)})
    return name


def _file_system(say: Say) -> Path:
    folder = cache_folder() / f"base-image-{key()}"
    archive = folder / "rootfs.tar"
    if archive.exists():
        return archive
    say(f"making a Debian file system for images once per machine, kept in {folder}; 2 minutes")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as temporary:
        root, partial = Path(temporary) / "root", Path(temporary) / "rootfs.tar"
        included = f"--include={','.join(PACKAGES)}"
        _run("debootstrap", "--variant=minbase", included, RELEASE, str(root))
        _run("chroot", str(root), "/bin/sh", "-c", _AFTERWARDS)
        # Debootstrap leaves nothing mounted; were it so, removing would reach the machine's own.
        _run("umount", "--quiet", "--recursive", str(root), check=False)
        # Device files are the container runtime's to make.
        _run("tar", "-C", str(root), "--exclude=./dev/*", "--numeric-owner", "-cf", partial, ".")
        partial.replace(archive)
    say("made the Debian file system")
    return archive


def _run(*command: str | Path, check: bool = True) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} did not run: {error}") from error
    if check and done.returncode != 0:
        words = (done.stdout + done.stderr)[-2000:]
        raise BuildError(f"{command[0]} failed (exit {done.returncode}); its words:\n{words}")
