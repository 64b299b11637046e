"""A Dockerfile as data."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


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
            base, _, name = rest.removeprefix("--platform=$BUILDPLATFORM ").split()
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
    """Take the mounts of secrets away: they are optional."""
    return re.sub(r"^(--mount=type=secret\S* )+", "", rest)


def lineage(all_of: dict[str, Stage], name: str) -> list[Stage]:
    """Return a stage after those that it is made from."""
    stage = all_of[name]
    before = lineage(all_of, stage.base) if stage.base in all_of else []
    return [*before, stage]
