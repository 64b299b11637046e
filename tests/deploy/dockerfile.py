"""A Dockerfile as data, and its steps replayed in folders where there is no container engine.

What is replayed is COPY and RUN of the stages that install. It shows that the files are there, that
the requirements resolve and that the programs start; it builds no image.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
_SECONDS = 240


class Step(NamedTuple):
    """One instruction, its continued lines joined."""

    word: str
    rest: str


class Stage(NamedTuple):
    """What is between two FROMs."""

    name: str
    base: str
    steps: tuple[Step, ...]

    def all(self, word: str) -> list[str]:
        return [step.rest for step in self.steps if step.word == word]


def stages(file: Path = DOCKERFILE) -> dict[str, Stage]:
    """Return the stages by name, in order."""
    found: dict[str, Stage] = {}
    for word, rest in _steps(file.read_text(encoding="utf-8")):
        if word == "FROM":
            base, _, name = rest.split()
            found[name] = Stage(name, base, ())
        elif found:
            last = next(reversed(found.values()))
            found[last.name] = last._replace(steps=(*last.steps, Step(word, rest)))
    return found


def _steps(text: str) -> list[Step]:
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    words = (line.partition(" ") for line in lines if line.strip())
    return [Step(word.upper(), _plain(" ".join(rest.split()))) for word, _, rest in words]


def _plain(rest: str) -> str:
    """Take the mounts of secrets away: they are optional, and no engine is here to mount them."""
    return re.sub(r"^(--mount=type=secret\S* )+", "", rest)


def lineage(all_of: dict[str, Stage], name: str) -> list[Stage]:
    """Return a stage after those that it is made from."""
    stage = all_of[name]
    before = lineage(all_of, stage.base) if stage.base in all_of else []
    return [*before, stage]


class Replay:
    """Folders that stand for the root of a container, an interpreter that stands for its own."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "root"
        self._root.mkdir()
        self._work = Path("/")
        subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)
        self._path = f"{folder / 'python' / 'bin'}:/usr/bin:/bin"

    def play(self, stage: Stage) -> None:
        for step in stage.steps:
            match step.word:
                case "WORKDIR":
                    self._work = Path(step.rest)
                    self.at(self._work).mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(step.rest.split())
                case "RUN":
                    self._run(step.rest)
                case other:
                    raise AssertionError(f"{other} is not replayed")

    def at(self, path: Path) -> Path:
        """Return where a path of the container lies here."""
        return self._root / path.relative_to("/")

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        into = self.at(self._work / target)
        for source in sources:
            here = ROOT / source
            if here.is_dir():
                shutil.copytree(here, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(here, into / source)

    def _run(self, command: str) -> None:
        moved = re.sub(r"(?<=\s)/(?=opt/)", f"{self._root}/", command)
        done = subprocess.run(
            ["/bin/sh", "-c", moved],
            cwd=self.at(self._work),
            # What reaches the package index from here goes along; nothing else does.
            env={**os.environ, "PATH": self._path, "UV_SYSTEM_CERTS": "1", "VIRTUAL_ENV": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
