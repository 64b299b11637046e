"""Real servers as folders of programs: built once per machine from Go modules, then cached.

A `Recipe` says what is built from which module folder; the control plane's turns `go/` beside this
file into one binary under five names. The cache key covers the sources, the Go version and the
flags, so that a change of any of them builds anew.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path

import msgspec

from simulator.cluster.toolchain import Say, find_go, version_of
from simulator.compiler import BuildError

KUBERNETES = "v1.37.1"
KUBERNETES_1_36 = "v1.36.3"
"""The last release whose rules are v1beta2, built for `make test-1.36` alone."""
_VERSION = "k8s.io/component-base/version"


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What to build, and its names in messages."""

    name: str
    """Of the folder in the cache."""
    title: str
    what: str
    """For the first line of progress, with how long it takes."""
    sources: Path
    packages: tuple[str, ...] = (".",)
    programs: tuple[str, ...]
    links_to: str = ""
    """One binary of that name, to which all programs are links; "": each is its own."""
    flags: tuple[str, ...] = ()
    cgo: bool = True
    """Whether C is compiled in; without it, no header files are needed."""


def _control_plane(version: str, folder: str) -> Recipe:
    _, minor, _ = version.split(".")
    return Recipe(
        name="controlplane",
        title=f"the control plane {version}",
        what=f"Kubernetes {version} and etcd from their Go modules; about 6 minutes",
        sources=Path(__file__).parent / folder,
        programs=("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
        links_to="controlplane",
        flags=(
            "-trimpath",
            "-ldflags",
            f"-s -w -X {_VERSION}.gitVersion={version} -X {_VERSION}.gitMajor=1 "
            f"-X {_VERSION}.gitMinor={minor}",
        ),
    )


CONTROL_PLANE = _control_plane(KUBERNETES, "go")
CONTROL_PLANE_1_36 = _control_plane(KUBERNETES_1_36, "go-1.36")
PROGRESS_SECONDS = 10.0
BUILD_SECONDS = 3600.0
_TAIL = 4000


def cache_folder() -> Path:
    """Return the folder outside of the checkout that keeps what is built or fetched."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "draguard"


def to_stderr(line: str) -> None:
    """Say one line of progress."""
    print(line, file=sys.stderr, flush=True)


def build(say: Say = to_stderr, recipe: Recipe = CONTROL_PLANE) -> Path:
    """Return the folder that holds a recipe's programs; building takes minutes the first time.

    Raises BuildError with a sentence that says what to do.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    module = recipe.sources / "go.mod"
    stated = re.search(r"^go (\d+(?:\.\d+)*)$", module.read_text(), re.MULTILINE)
    if stated is None:
        raise BuildError(f"{module} has no go line")
    version = tuple(map(int, stated[1].split(".")))
    with _alone(cache / "go.lock", "Go", say):
        go = find_go(cache, version, say)
    folder = cache / f"{recipe.name}-{_key(go, recipe)}"
    if not folder.is_dir():
        with _alone(cache / f"{recipe.name}.lock", recipe.title, say):
            if not folder.is_dir():
                _build_into(folder, go, recipe, say)
    return folder


def _key(go: Path, recipe: Recipe) -> str:
    # Default packages are not part of the key, so that builds from before there were packages stay
    # valid: a new one takes six minutes.
    packages = () if recipe.packages == (".",) else (recipe.packages,)
    cgo = () if recipe.cgo else ("no cgo",)
    stated = (version_of(go), recipe.flags, recipe.programs, *packages, *cgo)
    digest = hashlib.sha256(repr(stated).encode())
    for source in sorted(recipe.sources.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _alone(lock: Path, title: str, say: Say) -> Generator[None]:
    """Hold the file lock; several test sessions may start at once on a fresh machine."""
    with lock.open("w") as file:
        began = time.monotonic()
        reported = began
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - reported >= PROGRESS_SECONDS:
                    reported = time.monotonic()
                    say(f"waiting for another build of {title}: {reported - began:.0f} s")
                time.sleep(0.2)
        yield


def _build_into(folder: Path, go: Path, recipe: Recipe, say: Say) -> None:
    say(f"building {recipe.what} once per machine, kept in {folder}")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as temporary:
        result = Path(temporary) / "result"
        result.mkdir()
        _compile(go, recipe, result, say)
        if recipe.links_to:
            for program in recipe.programs:
                (result / program).symlink_to(recipe.links_to)
        result.rename(folder)


def _compile(go: Path, recipe: Recipe, result: Path, say: Say) -> None:
    into = result / recipe.links_to if recipe.links_to else f"{result}{os.sep}"
    command = [go, "build", "-v", *recipe.flags, "-o", into, *recipe.packages]
    if nice := shutil.which("nice"):
        command = [nice, *command]
    settings = {"GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip()}
    if not recipe.cgo:
        settings["CGO_ENABLED"] = "0"
    process = subprocess.Popen(
        command,
        cwd=recipe.sources,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **settings},
    )
    lines: list[str] = []

    def collect() -> None:
        if process.stderr is not None:
            with process.stderr as stream:
                lines.extend(line.rstrip("\n") for line in stream)

    reader = threading.Thread(target=collect, daemon=True)
    reader.start()
    try:
        _await(process, lines, recipe.title, say)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join()
    if process.returncode != 0:
        output = "\n".join(lines)[-_TAIL:]
        raise BuildError(
            f"building {recipe.title} failed (go build ended with {process.returncode}); it "
            f"needs a Go module proxy and 4 GB of memory. Go said:\n{output}"
        )


def _await(process: "subprocess.Popen[str]", lines: list[str], title: str, say: Say) -> None:
    """Wait for the compiler, which prints nothing for minutes, and report progress."""
    began = time.monotonic()
    while (took := time.monotonic() - began) < BUILD_SECONDS:
        try:
            process.wait(PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            took = time.monotonic() - began
            compiled = sum(1 for line in list(lines) if " " not in line)
            fetched = sum(1 for line in list(lines) if line.startswith("go: downloading"))
            say(
                f"building {title}: {took:.0f} s, {fetched} modules fetched, "
                f"{compiled} packages compiled"
            )
            continue
        say(f"built {title} in {time.monotonic() - began:.0f} s")
        return
    raise BuildError(f"building {title} took more than {BUILD_SECONDS:.0f} s")
