"""`python -m tools.demo`, or `make demo`: flags, wiring, exit code."""

import argparse
import logging
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from remediator.policy import file as policy_file
from remediator.policy.table import PolicyError
from simulator.cluster.build import RELEASE, build
from tools.demo.acts import ACTS
from tools.demo.interrupt import Interrupts
from tools.demo.screen import Screen
from tools.demo.stage import ERRORS, NODES, POLICY, Stage
from tools.demo.story import Story

WRONG, UNPLAYABLE, INTERRUPTED = 1, 2, 130
_REST_SECONDS = 2.5
"""On a terminal, for reading the end of an act."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every act ended as expected, 1 if not, 2 if the demo could not be played."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(handlers=[logging.NullHandler()])
    interrupts, screen = Interrupts(), Screen(drawn=options.picture)
    try:
        policy = options.policy.read_text(encoding="utf-8") if options.policy else POLICY
        with interrupts.installed():
            return _run(policy, interrupts, screen, keep=options.keep)
    except KeyboardInterrupt:
        screen.say("ended by hand; nothing is left running")
        return INTERRUPTED
    except PolicyError as error:
        print(f"demo: {options.policy}: {error}", file=sys.stderr)
    except ERRORS as error:
        print(f"demo: {error}", file=sys.stderr)
    return UNPLAYABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.demo",
        description="Watch Draguard taint failed GPUs: simulated ones, on a real control plane.",
    )
    parser.add_argument("--keep", action="store_true", help="stay up after the story")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the screen with a lost GPU, as SVG"
    )
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="the remediator's policy, instead of enforce"
    )
    return parser


def _run(policy: str, interrupts: Interrupts, screen: Screen, *, keep: bool) -> int:
    soak = policy_file.read(policy).row("lost").soak.total_seconds()
    stage = Stage(policy, interrupts, lambda line: screen.say(line, stage.now()))
    try:
        if keep and not shutil.which("kubectl"):
            build(recipe=RELEASE.kubectl)
        stage.open()
        story = Story(stage, screen, soak, _REST_SECONDS if screen.is_terminal else 0.0)
        with screen.live:
            outcomes = story.play(ACTS)
        screen.summary(outcomes, stage.now())
        good = all(outcome.good for outcome in outcomes)
        if not good:
            screen.say(f"the remediator's last words:\n{stage.programs.last_words('remediator')}")
        if keep:
            _stay(stage, screen)
        return 0 if good else WRONG
    finally:
        with interrupts.ignored():
            try:
                screen.say("stopping everything", stage.now())
            finally:
                stage.close()


def _stay(stage: Stage, screen: Screen) -> None:
    """Say what can be tried, and wait for Ctrl-C."""
    kubectl = shutil.which("kubectl") or stage.plane.kubectl_program
    folder = stage.programs.folder
    pages = [f"  http://127.0.0.1:{port}/metrics   {name}" for name, port in stage.ports.items()]
    lines = [
        "",
        "Everything stays up until Ctrl-C. Metrics:",
        *pages,
        "Look around, in another terminal:",
        f"  export KUBECONFIG={stage.plane.kubeconfig}",
        f"  alias draguard='{sys.executable} -m draguard'   # from this folder",
        "  draguard status; draguard incidents; draguard plan; draguard doctor",
        f"  {kubectl} get ndh,di",
        f"  {kubectl} get devicetaintrules,resourceclaims,pods -o wide",
        f"Let a GPU fail, and repair it (nodes: {', '.join(NODES)}):",
        f"  {sys.executable} -m simulator inject --root {folder / NODES[1]} --gpu 5 xid 79 --lost",
        f"  {sys.executable} -m simulator recover --root {folder / NODES[1]} --gpu 5",
        f"Logs: {stage.programs.logs} and {stage.plane.logs}",
    ]
    try:
        for line in lines:
            screen.say(line)
        while True:
            stage.programs.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    sys.exit(main())
