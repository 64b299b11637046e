"""An image's archive as a folder, and programs that run in it as in a container without one."""

import json
import subprocess
import tarfile
from pathlib import Path


def unpack(archive: Path, into: Path) -> Path:
    """Write the files of an archive (Docker's format) into a folder."""
    with tarfile.open(archive) as packed:
        found = packed.extractfile("manifest.json")
        assert found is not None
        (image,) = json.load(found)
        for layer in image["Layers"]:
            with tarfile.open(fileobj=packed.extractfile(layer)) as files:
                for member in files:  # with owners and modes as they are
                    files.extract(member, into, filter="fully_trusted")
    into.chmod(0o755)  # for the image's user, too
    return into


def run(root: Path, *command: str, text: str = "") -> tuple[int, str]:
    """Run a program of the image, as the image's own user; returns status and output."""
    done = subprocess.run(
        ["/usr/sbin/chroot", "--userspec=65522:65522", root, *command],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr
