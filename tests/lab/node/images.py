"""The images of a node lab, as archives that containerd imports: built once per content.

`exporter` and `controller` are the targets of deploy/Dockerfile, built by buildah. `exporter` is
then given the place of the simulated GPUs. `pause` is one static program.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from deploy import base_image
from deploy.buildah import Buildah
from deploy.sources import ROOT
from simulator.cluster.build import cache_folder
from simulator.cluster.toolchain import Say
from simulator.compiler import build_library
from tests.lab.node.containerd import PAUSE
from tests.lab.node.gpus import SCENARIO

TAG = "lab"
EXPORTER, CONTROLLER = "draguard-exporter", "draguard-controller"
KEPT = 3
"""Archives of an image beside the one that is built."""
_DOCKERFILE = ROOT / "deploy" / "Dockerfile"
_COPIED = (
    *("pyproject.toml", "README.md", "LICENSE", "deploy/image", "deploy/locked"),
    *("allocation", "kubeapi", "serving", "exporter", "remediator", "simulator", "draguard"),
)


def archives(say: Say) -> list[Path]:
    """Return an archive for each image, building what is new. Raises BuildError."""
    program = _pause()
    sources = _digest([_DOCKERFILE, *(ROOT / name for name in _COPIED)], base_image.key())
    pause = _digest([program], PAUSE)
    return [
        _archive(f"image-pause-{pause}", say, lambda into: _build_pause(program, into)),
        _archive(f"image-{EXPORTER}-{sources}", say, lambda into: _build_exporter(say, into)),
        _archive(f"image-{CONTROLLER}-{sources}", say, lambda into: _build_controller(say, into)),
    ]


def _archive(name: str, say: Say, build: Callable[[Path], None]) -> Path:
    """Return the archive of that name from the cache; `build` makes it the first time."""
    folder = cache_folder() / name
    archive = folder / "image.tar"
    if archive.exists():
        archive.touch()
        return archive
    say(f"building {name}, kept in {folder}; a minute")
    began = time.monotonic()
    _forget(name.rpartition("-")[0])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as temporary:
        partial = Path(temporary) / "image.tar"
        build(partial)
        partial.replace(archive)
    say(f"built {name} in {time.monotonic() - began:.0f} s")
    return archive


def _forget(kind: str) -> None:
    """Remove all archives but those that were used last: each change of a source makes another.

    Another checkout of the user may be at work with one of them.
    """
    used = [
        (archive.stat().st_mtime, archive) for archive in cache_folder().glob(f"{kind}-*/*.tar")
    ]
    for _, archive in sorted(used)[:-KEPT]:
        archive.unlink(missing_ok=True)


def _build_exporter(say: Say, into: Path) -> None:
    buildah = Buildah()
    plain = _build(buildah, "exporter", EXPORTER, say)
    simulated = f"localhost/{EXPORTER}-simulated:{TAG}"
    buildah.build_text(f"FROM {plain}\nENV DRAGUARD_SIM_SCENARIO={SCENARIO}\n", simulated)
    buildah.save(simulated, f"docker.io/library/{EXPORTER}:{TAG}", into)


def _build_controller(say: Say, into: Path) -> None:
    buildah = Buildah()
    plain = _build(buildah, "controller", CONTROLLER, say)
    buildah.save(plain, f"docker.io/library/{CONTROLLER}:{TAG}", into)


def _build(buildah: Buildah, target: str, name: str, say: Say) -> str:
    image = f"localhost/{name}:{TAG}"
    base = base_image.base_image(buildah, say)
    buildah.build(_DOCKERFILE, image, target=target, arguments={"PYTHON": base})
    return image


def _build_pause(program: Path, into: Path) -> None:
    buildah = Buildah()
    text = 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n'
    buildah.build_text(text, PAUSE, {"pause": program})
    buildah.save(PAUSE, PAUSE, into)


def _pause() -> Path:
    """Return the program, compiled once per content."""
    folder = Path(__file__).parent / "pause"
    return build_library("pause", (folder,), {}, ("-O2", "-static"), ())


def _digest(paths: list[Path], *more: str) -> str:
    digest = hashlib.sha256(repr(more).encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
