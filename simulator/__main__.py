"""`python -m simulator`: try GPU failures on a machine without a GPU.

python -m simulator node --root /tmp/node --gpus 8xH100 --mig '0:1g.10gb*7'
python -m simulator inject --root /tmp/node --gpu 3 xid 79 --lost
python -m simulator inject --root /tmp/node --gpu 0 xid 94 --gi 5 --kernel-instance
python -m simulator inject --root /tmp/node --gpu 2 hung --call nvmlDeviceGetTemperature
python -m simulator change --root /tmp/node recreate-instance 0 5
python -m simulator recover --root /tmp/node --gpu 3
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import sleep
from types import FrameType
from typing import Any

from simulator import change_command
from simulator.board import BoardError, mig_layouts
from simulator.build import BuildError
from simulator.faults import FaultError, Faults
from simulator.gpu import Failure, Scenario
from simulator.kubelet import KubeletError
from simulator.node import SimulatedNode
from simulator.scenario import ScenarioError

_ERRORS = (BoardError, BuildError, FaultError, KubeletError, ScenarioError, OSError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    commands: Mapping[str, Callable[[argparse.Namespace], None]] = {
        "node": _node,
        "inject": _inject,
        "change": change_command.run,
        "recover": _recover,
        "reboot": _reboot,
        "show": _show,
        "slices": _slices,
    }
    try:
        commands[options.command](options)
    except _ERRORS as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulator", description="Simulated GPUs for trying failures."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    node = _command(commands, "node", "create a node folder, or open one, and serve it")
    node.add_argument("--name", help="node name (default: the folder's)")
    node.add_argument("--gpus", default="8xH100", help="such as 8xH100 or 4xH100,2xA100")
    node.add_argument(
        "--mig",
        action="append",
        default=[],
        metavar="GPU:PROFILE[*N],...",
        help="MIG slices of one GPU, such as 0:1g.10gb*7; may be given again",
    )
    _injections(_command(commands, "inject", "let a GPU fail"))
    change_command.add_kinds(_command(commands, "change", "change what the node has"))
    _gpu(_command(commands, "recover", "repair a GPU: no failure, recovery action 0"))
    _command(commands, "reboot", "start a new boot: other boot id, empty kernel log")
    _command(commands, "show", "list the GPUs and their failures")
    _command(commands, "slices", "print the ResourceSlices as JSON")
    return parser


def _command(
    commands: Any,  # argparse names its type only in private
    name: str,
    text: str,
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.add_argument("--root", type=Path, required=True, help="folder of the node")
    return command


def _gpu(command: argparse.ArgumentParser) -> None:
    command.add_argument("--gpu", type=int, required=True, help="number of its [gpu n] section")


def _injections(command: argparse.ArgumentParser) -> None:
    _gpu(command)
    kinds = command.add_subparsers(dest="kind", required=True)
    xid = kinds.add_parser("xid", help="an XID in the kernel log and as an NVML event")
    xid.add_argument("code", type=int)
    xid.add_argument("--gi", type=int, help="GPU instance id")
    xid.add_argument("--ci", type=int, help="compute instance id")
    xid.add_argument("--pid", type=int)
    xid.add_argument("--process")
    xid.add_argument("--text", help="message after the code")
    xid.add_argument("--reset", action=argparse.BooleanOptionalAction, help="RST: Yes or No")
    xid.add_argument("--kernel-instance", action="store_true", help="print GPU-I in the log")
    xid.add_argument("--no-kernel", dest="kernel", action="store_false", help="no kernel line")
    xid.add_argument("--no-nvml", dest="nvml", action="store_false", help="no NVML event")
    xid.add_argument("--nvml-delay", type=float, default=0.0, metavar="SECONDS")
    xid.add_argument("--lost", action="store_true", help="the GPU is lost from then on")
    xid.add_argument("--recovery-action", type=int, metavar="N", help="NVML reports it as well")
    action = kinds.add_parser("recovery-action", help="change NVML field 230")
    action.add_argument("value", type=int)
    value = kinds.add_parser("value", help="change one reading, such as temperature_c")
    value.add_argument("name")
    value.add_argument("value", help="a number, or unsupported")
    for kind, number in (("lost", ""), ("gone", ""), *_CALL_FAILURES.items()):
        failure = kinds.add_parser(kind, help=f"make calls on the GPU answer as {kind}")
        if number:
            failure.add_argument("number", type=int, help=number)
        if kind in _CALL_FAILURES:
            failure.add_argument("--call", default="", help="only this NVML call")


_CALL_FAILURES = {
    "hung": "",
    "segfault": "",
    "garbage": "",
    "error": "nvmlReturn_t",
    "slow": "milliseconds",
}


def _node(options: argparse.Namespace) -> None:
    root = options.root.resolve()
    exists = (root / "scenario.ini").exists()
    name = options.name or (_name(root) if exists else root.name)
    node = SimulatedNode(root, name)
    if exists:
        print(f"Opening {root} as it is; remove the folder for a new node.")
    with node.open() if exists else node.create(options.gpus, mig=mig_layouts(options.mig)):
        stops = _catch_stops()  # before the last line below says that it can be ended
        print(f"Node {node.name} with {len(node.scenario.load().gpus)} GPUs is in {node.root}\n")
        print("Any NVML program sees it with\n")
        print("\n".join(f"  export {key}={value}" for key, value in node.environment().items()))
        print("\nWith the first of the two set, the exporter sees it with\n")
        print("  draguard exporter " + " \\\n    ".join(node.exporter_flags()))
        print(f"\nLet something fail: python -m simulator inject --root {node.root} --gpu 0 xid 79")
        print("Ctrl-C ends it; the folder stays.", flush=True)
        # Polled: a signal handler runs only when the main thread does.
        while not stops:
            sleep(0.2)


def _catch_stops() -> list[int]:
    """Return a list to which SIGINT and SIGTERM are added when they come."""
    stops: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stops.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stops


def _name(root: Path) -> str:
    return (root / "node_name").read_text(encoding="utf-8").strip()


def _inject(options: argparse.Namespace) -> None:
    faults = Faults(options.root)
    if options.kind == "xid":
        _inject_xid(faults, options)
    elif options.kind == "recovery-action":
        faults.set_recovery_action(options.gpu, options.value)
    elif options.kind == "value":
        value = None if options.value == "unsupported" else int(options.value)
        faults.set_value(options.gpu, options.name, value)
    else:
        number, call = getattr(options, "number", 0), getattr(options, "call", "")
        faults.set_failure(options.gpu, Failure(options.kind, number, call))
    print(f"GPU {options.gpu}: {options.kind} injected")


def _inject_xid(faults: Faults, options: argparse.Namespace) -> None:
    if options.lost:
        faults.lose(options.gpu)
    names = ("gi", "ci", "pid", "process", "text", "reset", "kernel_instance", "kernel", "nvml")
    chosen = {name: getattr(options, name) for name in names}
    faults.inject_xid(options.gpu, options.code, **chosen, nvml_delay=options.nvml_delay)
    faults.finish()
    if options.recovery_action is not None:
        faults.set_recovery_action(options.gpu, options.recovery_action)


def _recover(options: argparse.Namespace) -> None:
    Faults(options.root).heal(options.gpu)
    print(f"GPU {options.gpu} is healthy again")


def _reboot(options: argparse.Namespace) -> None:
    node = SimulatedNode(options.root, _name(options.root))
    node.reboot()
    print(f"New boot {node.boot_id}")


def _show(options: argparse.Namespace) -> None:
    scenario: Scenario = Faults(options.root).scenario.load()
    for number, gpu in enumerate(scenario.gpus):
        mig = f"MIG {len(gpu.instances)} slices" if gpu.mig else "full GPU"
        print(
            f"{number}  {gpu.uuid}  {gpu.pci}  {gpu.product.name}  {mig}  failure {gpu.failure}  "
            f"recovery action {gpu.value('recovery_action')}"
        )


def _slices(options: argparse.Namespace) -> None:
    node = SimulatedNode(options.root, _name(options.root))
    print(json.dumps(node.slices(), indent=2))


if __name__ == "__main__":
    sys.exit(main())
