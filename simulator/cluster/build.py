"""Real servers as folders of programs: built once per machine from Go modules, then cached.

A `Recipe` says what is built from which module folder; the control plane's turns `go/` beside this
file into one binary under four names. The cache key covers the sources, the Go version and the
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
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from simulator.cluster import forecast
from simulator.cluster.toolchain import Passing, Say, find_go, version_of
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
    """For the first line of progress."""
    sources: Path
    packages: tuple[str, ...] = (".",)
    programs: tuple[str, ...]
    links_to: str = ""
    """One binary of that name, to which all programs are links; "": each is its own."""
    flags: tuple[str, ...] = ()
    cgo: bool = True
    """Whether C is compiled in; without it, no header files are needed."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of one Kubernetes release."""

    control_plane: Recipe
    kubectl: Recipe
    """Apart, as the demo needs none."""


STRIPPED = ("-trimpath", "-gcflags=all=-dwarf=false")
"""Flags of all that is built from Kubernetes, so that Go's cache serves it all: without data for
debuggers, which cost an eighth of the time."""


def kubernetes_flags(version: str) -> tuple[str, ...]:
    """Return the flags with which a program of Kubernetes knows its version."""
    major, minor, _ = version.removeprefix("v").split(".")
    stated = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    values = [f"-X {_VERSION}.{name}={value}" for name, value in stated.items()]
    return (*STRIPPED, "-ldflags", " ".join(("-s -w", *values)))


def _release(version: str, folder: str) -> Release:
    sources = Path(__file__).parent / folder
    return Release(
        control_plane=Recipe(
            name="controlplane",
            title=f"the control plane {version}",
            what=f"Kubernetes {version} and etcd from their Go modules",
            sources=sources,
            programs=("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
            links_to="controlplane",
            flags=kubernetes_flags(version),
        ),
        kubectl=Recipe(
            name="kubectl",
            title=f"kubectl {version}",
            what=f"kubectl {version} from its Go module",
            sources=sources,
            packages=("k8s.io/kubernetes/cmd/kubectl",),
            programs=("kubectl",),
            flags=kubernetes_flags(version),
        ),
    )


RELEASE = _release(KUBERNETES, "go")
RELEASE_1_36 = _release(KUBERNETES_1_36, "go-1.36")
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 30.0
"""Between two reports of progress."""
BUILD_SECONDS = 3600.0
_COLLECTOR = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
"""For the compiler, of which Go starts one per core: most packages need less than this, and to
collect garbage all the same costs a quarter of the time."""
_TAIL = 4000


def cache_folder() -> Path:
    """Return the folder outside of the checkout that keeps what is built or fetched."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "draguard"


def to_stderr(line: str) -> None:
    """Say one line of progress. On a terminal, one that is passing gives way to the next."""
    if not sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
        return
    passing = isinstance(line, Passing)
    shown = line[: shutil.get_terminal_size().columns - 1] if passing else line
    print(f"\r\x1b[K{shown}", end="" if passing else "\n", file=sys.stderr, flush=True)


def build(say: Say = to_stderr, recipe: Recipe = RELEASE.control_plane) -> Path:
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
    # valid: a new one takes minutes.
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
                if time.monotonic() - reported >= _between_reports():
                    reported = time.monotonic()
                    waited = f"{reported - began:.0f} s"
                    say(Passing(f"waiting for another build of {title}: {waited}"))
                time.sleep(0.2)
        yield


def _build_into(folder: Path, go: Path, recipe: Recipe, say: Say) -> None:
    say(f"building {recipe.what}, once per machine, kept in {folder}")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as temporary:
        result = Path(temporary) / "result"
        result.mkdir()
        _compile(go, recipe, result, say)
        if recipe.links_to:
            for program in recipe.programs:
                (result / program).symlink_to(recipe.links_to)
        result.rename(folder)


def _compile(go: Path, recipe: Recipe, result: Path, say: Say) -> None:
    began = time.monotonic()
    # With the flags of the build: tags choose packages.
    describe = [go, "list", *recipe.flags, "-deps", "-f", forecast.TEMPLATE, *recipe.packages]
    packages = forecast.listed(_run(describe, recipe, forecast.Forecast({}, {}), say))
    sizes = {
        name: sum(Path(file).stat().st_size for file in package.files)
        for name, package in packages.items()
    }
    into = result / recipe.links_to if recipe.links_to else f"{result}{os.sep}"
    command = [go, "build", "-v", *recipe.flags, "-o", into, *recipe.packages]
    _run(command, recipe, forecast.Forecast(packages, sizes), say)
    say(f"built {recipe.title} in {time.monotonic() - began:.0f} s")


def _run(command: Sequence[str | Path], recipe: Recipe, ahead: forecast.Forecast, say: Say) -> str:
    """Run Go and return its output. Raises BuildError."""
    settings = {"GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip(), **_COLLECTOR}
    if not recipe.cgo:
        settings["CGO_ENABLED"] = "0"
    nice = shutil.which("nice")
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*([nice] if nice else []), *command],
            cwd=recipe.sources,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )
        lines: list[str] = []

        def collect() -> None:
            if process.stderr is not None:
                with process.stderr as stream:
                    for line in stream:
                        lines.append(line.rstrip("\n"))
                        ahead.read(lines[-1], time.monotonic())

        reader = threading.Thread(target=collect, daemon=True)
        reader.start()
        try:
            _await(process, ahead, recipe.title, say)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            reader.join()
        if process.returncode != 0:
            stated = "\n".join(lines)[-_TAIL:]
            say(f"building {recipe.title} failed")
            raise BuildError(
                f"building {recipe.title} failed (go {command[1]} ended with "
                f"{process.returncode}); it needs a Go module proxy and 4 GB of memory. Go said:\n"
                f"{stated}"
            )
        output.seek(0)
        return output.read()


def _await(
    process: "subprocess.Popen[str]", ahead: forecast.Forecast, title: str, say: Say
) -> None:
    """Wait for Go, which prints nothing for minutes, and report progress."""
    began = time.monotonic()
    while time.monotonic() - began < BUILD_SECONDS:
        try:
            process.wait(_between_reports())
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            say(Passing(f"building {title}: {now - began:.0f} s, {ahead.words(now)}"))
        else:
            return
    raise BuildError(f"building {title} took more than {BUILD_SECONDS:.0f} s")


def _between_reports() -> float:
    """Return seconds: a terminal shows the last report only, a log all of them."""
    return TERMINAL_SECONDS if sys.stderr.isatty() else LOG_SECONDS
