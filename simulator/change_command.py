"""`python -m simulator change`: what a node has, changed while it runs.

python -m simulator change --root /tmp/node add-gpu H100
python -m simulator change --root /tmp/node unbind 3
python -m simulator change --root /tmp/node create-instance 1 3g.40gb
python -m simulator change --root /tmp/node load-driver 580.105.08
python -m simulator change --root /tmp/node process 1 4711 --memory-mib 2048 --pod <uid>
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from simulator.faults import FaultError
from simulator.gpu import Process
from simulator.topology import Topology

_NOTHING = "none"


def add_kinds(command: argparse.ArgumentParser) -> None:
    """Add the kinds of change to the command's parser."""
    kinds = command.add_subparsers(dest="kind", required=True)
    _kind(kinds, "add-gpu", "one more GPU").add_argument("product", help="such as H100")
    for name, text in (
        ("unbind", "NVML lists the GPU no more, the kernel does"),
        ("remove-gpu", "neither NVML nor the kernel lists the GPU"),
        ("bind", "the driver has the GPU again"),
    ):
        _gpu(_kind(kinds, name, text))
    _kind(kinds, "unload-driver", "every call answers DRIVER_NOT_LOADED")
    load = _kind(kinds, "load-driver", "the driver is there again")
    load.add_argument("version", nargs="?", help="another version than before")
    mig = _gpu(_kind(kinds, "mig", "MIG mode on or off; the slices go"))
    mig.add_argument("mode", choices=("on", "off"))
    made = _gpu(_kind(kinds, "create-instance", "one more slice"))
    made.add_argument("profile", help="such as 1g.10gb")
    made.add_argument("--start", type=int, help="placement (default: the first free)")
    made.add_argument("--gi", type=int, help="GPU instance id")
    for name, text in (
        ("destroy-instance", "a slice goes, with its processes"),
        ("recreate-instance", "the same slice again, with another UUID"),
    ):
        _gpu(_kind(kinds, name, text)).add_argument("gi", type=int, help="GPU instance id")
    started = _gpu(_kind(kinds, "process", "a process starts on the GPU"))
    started.add_argument("pid", type=int)
    started.add_argument("--memory-mib", type=int, default=0)
    started.add_argument("--gi", type=int, help="GPU instance id")
    started.add_argument("--pod", default="", help="UID of its pod")
    started.add_argument("--container", default="c0" * 32, help="id of its container")
    started.add_argument("--sm-util", type=int, default=0, help="percent")
    _kind(kinds, "end-process", "a process ends").add_argument("pid", type=int)
    link = _gpu(_kind(kinds, "link", "numbers of one NVLink"))
    link.add_argument("link", type=int)
    link.add_argument("numbers", nargs="+", metavar="NAME=NUMBER", help="such as state=0")
    count = _kind(kinds, "miscount", "nvmlDeviceGetCount answers this")
    count.add_argument("count", help="a number, or none for the truth")
    shown = _gpu(_kind(kinds, "show-uuid", "NVML reports this UUID for the GPU"))
    shown.add_argument("uuid", help="a UUID, or none for its own")


def _kind(
    kinds: Any,  # argparse names its type only in private
    name: str,
    text: str,
) -> argparse.ArgumentParser:
    kind: argparse.ArgumentParser = kinds.add_parser(name, help=text, description=text)
    return kind


def _gpu(kind: argparse.ArgumentParser) -> argparse.ArgumentParser:
    kind.add_argument("gpu", type=int, help="number of its [gpu n] section")
    return kind


def run(options: argparse.Namespace) -> None:
    """Make one change and say what was done; raises FaultError, BoardError, ScenarioError."""
    print(_CHANGES[options.kind](Topology(options.root), options))


def _change_gpus(node: Topology, options: argparse.Namespace) -> str:
    match options.kind:
        case "add-gpu":
            return f"GPU {node.add_gpu(options.product)} is there"
        case "unbind":
            node.unbind(options.gpu)
            return f"GPU {options.gpu} is unbound"
        case "bind":
            node.bind(options.gpu)
            return f"GPU {options.gpu} is bound"
        case _:
            node.remove_gpu(options.gpu)
            return f"GPU {options.gpu} is removed"


def _change_driver(node: Topology, options: argparse.Namespace) -> str:
    if options.kind == "unload-driver":
        node.unload_driver()
        return "The driver is unloaded"
    node.load_driver(options.version)
    return f"Driver {node.scenario.load().driver} is loaded"


def _change_slices(node: Topology, options: argparse.Namespace) -> str:
    gpu = options.gpu
    match options.kind:
        case "mig":
            node.set_mig(gpu, on=options.mode == "on")
            return f"GPU {gpu}: MIG is {options.mode}"
        case "destroy-instance":
            gone = node.destroy_instance(gpu, options.gi)
            return f"GPU {gpu}: gi={gone.gi} is gone"
        case "create-instance":
            made = node.create_instance(gpu, options.profile, start=options.start, gi=options.gi)
        case _:
            made = node.recreate_instance(gpu, options.gi)
    return f"GPU {gpu}: gi={made.gi} is {made.uuid}"


def _change_processes(node: Topology, options: argparse.Namespace) -> str:
    if options.kind == "end-process":
        node.end_process(options.pid)
        return f"Process {options.pid} has ended"
    ci = None if options.gi is None else 0
    process = Process(
        pid=options.pid,
        memory_mib=options.memory_mib,
        gi=options.gi,
        ci=ci,
        pod=options.pod,
        container=options.container if options.pod else "",
        values={"sm_util": options.sm_util} if options.sm_util else {},
    )
    node.start_process(options.gpu, process)
    return f"Process {options.pid} runs on GPU {options.gpu}"


def _link(node: Topology, options: argparse.Namespace) -> str:
    numbers: dict[str, int | None] = {}
    for word in options.numbers:
        name, _, text = word.partition("=")
        if text != "unsupported" and not text.isdecimal():
            raise FaultError(f'cannot read "{word}"; write a name and a number such as state=0')
        numbers[name] = None if text == "unsupported" else int(text)
    node.set_link(options.gpu, options.link, **numbers)
    return f"GPU {options.gpu}: link {options.link} has {' '.join(options.numbers)}"


def _misreport(node: Topology, options: argparse.Namespace) -> str:
    if options.kind == "show-uuid":
        node.show_uuid(options.gpu, "" if options.uuid == _NOTHING else options.uuid)
        return f"GPU {options.gpu} shows {options.uuid}"
    if options.count != _NOTHING and not options.count.isdecimal():
        raise FaultError(f'cannot read "{options.count}"; write a number, or {_NOTHING}')
    node.miscount(None if options.count == _NOTHING else int(options.count))
    return f"The count is {options.count}"


_CHANGES: Mapping[str, Callable[[Topology, argparse.Namespace], str]] = {
    "add-gpu": _change_gpus,
    "unbind": _change_gpus,
    "bind": _change_gpus,
    "remove-gpu": _change_gpus,
    "unload-driver": _change_driver,
    "load-driver": _change_driver,
    "mig": _change_slices,
    "create-instance": _change_slices,
    "destroy-instance": _change_slices,
    "recreate-instance": _change_slices,
    "process": _change_processes,
    "end-process": _change_processes,
    "link": _link,
    "miscount": _misreport,
    "show-uuid": _misreport,
}
