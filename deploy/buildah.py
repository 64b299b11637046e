"""Builds images with Debian's buildah, without a service: layers lie in the cache folder.

Dockerfiles in, archives or folders with images out. It needs root.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deploy.image.contents import MACHINES
from deploy.sources import ROOT
from simulator.cluster.build import cache_folder
from simulator.compiler import BuildError

_SECONDS = 1800.0
_TAIL = 4000
_CA = Path("/etc/ssl/certs/ca-certificates.crt")


class Buildah:
    """The program, with its storage below the cache folder."""

    def __init__(self) -> None:
        self._store = cache_folder() / "buildah"

    def has(self, image: str) -> bool:
        """Whether an image of that name was built before."""
        names = self._run("images", "--format", "{{.Name}}:{{.Tag}}")
        return image in names.split()

    def build(
        self,
        dockerfile: Path,
        image: str,
        *,
        target: str,
        arguments: Mapping[str, str],
        machine: str = "",
        timestamp: int | None = None,
    ) -> None:
        """Build a target of a Dockerfile from the checkout. Raises BuildError.

        `machine` is a key of MACHINES, "" for this one. With a `timestamp` nothing of an earlier
        build is used, all times are this one, and the image is one layer.
        """
        here = next(name for name, linux in MACHINES.items() if linux == os.uname().machine)
        # Its release in Debian 12 does not know that one by itself.
        given = {"BUILDPLATFORM": f"linux/{here}", **arguments}
        with tempfile.TemporaryDirectory(prefix="draguard-build-") as temporary:
            self._bud(
                *(["--layers"] if timestamp is None else ["--squash", f"--timestamp={timestamp}"]),
                f"--platform=linux/{machine or here}",
                f"--file={dockerfile}",
                f"--ignorefile={dockerfile}.dockerignore",
                f"--target={target}",
                *(word for name in given for word in ("--build-arg", f"{name}={given[name]}")),
                *_secrets(Path(temporary)),
                f"--tag={image}",
                str(ROOT),
            )

    def build_text(self, text: str, image: str, files: Mapping[str, Path] | None = None) -> None:
        """Build the few lines of a Dockerfile, with files by name. Raises BuildError."""
        with tempfile.TemporaryDirectory(prefix="draguard-build-") as temporary:
            folder = Path(temporary)
            (folder / "Dockerfile").write_text(text)
            for name, source in (files or {}).items():
                shutil.copy(source, folder / name)
            self._bud(f"--tag={image}", str(folder))

    def save(self, image: str, name: str, into: Path) -> None:
        """Write an image to an archive, under `name`. Raises BuildError."""
        self._run("push", image, f"docker-archive:{into}:{name}")

    def save_layout(self, image: str, name: str, into: Path) -> None:
        """Write an image to a folder, as OCI lays it out, under `name`. Raises BuildError."""
        self._run("push", "--format=oci", image, f"oci:{into}:{name}")

    def _bud(self, *arguments: str) -> None:
        self._run("bud", "--isolation=chroot", "--pull-never", *arguments)

    def _run(self, *arguments: str) -> str:
        store = (f"--root={self._store / 'root'}", f"--runroot={self._store / 'run'}")
        command = ["buildah", *store, "--storage-driver=overlay", *arguments]
        if nice := shutil.which("nice"):
            command = [nice, *command]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
                # The other isolations need a kernel and rights that a test machine may lack.
                env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"buildah did not run: {error}") from error
        if done.returncode != 0:
            words = (done.stdout + done.stderr)[-_TAIL:]
            raise BuildError(
                f"buildah {arguments[0]} failed (exit {done.returncode}); its words:\n{words}"
            )
        return done.stdout


def _secrets(folder: Path) -> list[str]:
    """Return the flags for the Dockerfile's secrets: this machine's way to the package index."""
    index = os.environ.get("PIP_INDEX_URL", "")
    pip = f"[global]\ncert = {_CA}\n" + (f"index-url = {index}\n" if index else "")
    uv = "system-certs = true\n" + (f'index-url = "{index}"\n' if index else "")
    found: list[str] = [f"--secret=id=ca,src={_CA}"] if _CA.exists() else []
    for name, text in (("pip", pip), ("uv", uv)):
        file = folder / name
        file.write_text(text)
        found.append(f"--secret=id={name},src={file}")
    return found
