"""`draguard policy check FILE` and `draguard policy explain`: flags, and what is printed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec

from draguard.cluster.installation import PolicyInForce, policy_of_file
from draguard.exit_status import DONE, PROBLEM
from draguard.phrases import shown
from draguard.render.formats import add_output_flag, for_programs, print_result
from draguard.render.help_text import Example, taught, teaching
from draguard.render.policy_page import policy_page
from draguard.trial.explanation import explain
from draguard.trial.run import Spot
from draguard.trial.signal import LOGS_READ, SLICES, LogMode, Signal
from kubeapi import clock
from remediator.policy.error import PolicyError
from remediator.policy.remarks import remarks

CHECKED = (Example("draguard policy check policy.yaml", "all errors, and all warnings"),)
EXPLAINED = (
    Example("draguard policy explain --xid 79 --lost", "what the shipped policy does"),
    Example("draguard policy explain --xid 94 --policy p.yaml", "what your policy does"),
    Example("draguard policy explain --xid 94 --mig --gi 3", "with a known MIG slice"),
    Example("draguard policy explain --xid 95 --recovery-action 1", "the driver requests a reset"),
)
CHECK = "PolicyCheck"
_SIGNALS = (
    "xid",
    "recovery_action",
    "lost",
    "remap_failure",
    "remap_pending",
    "sram_threshold",
    "retired_pending",
)
"""Flags of which one is a signal by itself; the others say more about it."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The findings on a policy file."""

    file: str
    sound: bool
    problems: tuple[str, ...] = ()
    """Why it is invalid, each with its line and the correction."""
    remarks: tuple[str, ...] = ()
    """Warnings about a valid one."""


def main(arguments: Sequence[str]) -> int:
    """Return 0, or 1 if the policy is invalid or cannot be read."""
    options = _options(arguments)
    try:
        read = policy_of_file(options.policy) if options.policy else PolicyInForce(source="shipped")
    except PolicyError as error:
        if options.command == "check" and for_programs(options.output):
            found = Checked(file=str(options.policy), sound=False, problems=error.problems)
            print_result(found, options.output, tuple, CHECK)
            return PROBLEM
        for problem in error.problems:
            print(shown(f"{options.policy}: {problem}"), file=sys.stderr)
        return PROBLEM
    if options.command == "check":
        return _check(options, read)
    given = {name: getattr(options, name) for name in Signal.__struct_fields__}
    spot = Spot(
        node=options.node or options.pool or "node-a",
        device_class=options.device_class,
        rules_served=not options.without_rules,
    )
    explanation = explain(Signal(**given), spot, read.policy, clock.now())
    print_result(explanation, options.output, lambda: policy_page(explanation), "PolicyExplanation")
    return DONE


def _check(options: argparse.Namespace, read: PolicyInForce) -> int:
    file = str(options.policy)
    found = remarks(read.policy, clock.now(), written=read.written)
    if for_programs(options.output):
        checked = Checked(file=file, sound=True, remarks=found)
        print_result(checked, options.output, tuple, CHECK)
        return DONE
    for remark in found:
        print(shown(f"{file}: warning: {remark}"))
    print(shown(f"{file}: valid"))
    return DONE


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    flags = parser()
    found = flags.parse_args(arguments)
    if found.command == "explain":
        if not any(getattr(found, name) not in {None, False, ""} for name in _SIGNALS):
            flags.error(
                "name a signal, such as --xid 79 or --lost (`draguard help policy explain`)"
            )
        if found.node and found.pool and found.node != found.pool:
            flags.error("NVIDIA's driver names a pool after its node: give either --node or --pool")
        if found.gi is not None and not (found.mig and 1 <= found.gi <= SLICES):
            flags.error(f"--gi must be 1 to {SLICES}, and requires --mig")
    return found


def parser() -> argparse.ArgumentParser:
    flags = teaching("policy", "Check a policy before you apply it.", (*CHECKED, *EXPLAINED[:2]))
    commands = flags.add_subparsers(dest="command", required=True)
    check = commands.add_parser(
        "check",
        help="validate a policy file",
        **taught(
            "Show each wrong line with its correction, and warnings about a valid policy. Exits\n"
            "with 1 if the policy is invalid. Needs no cluster.",
            CHECKED,
        ),
    )
    check.add_argument("policy", type=Path, metavar="FILE")
    add_output_flag(check)
    explained = commands.add_parser(
        "explain",
        help="show what a signal would trigger, and by which policy row",
        **taught(
            "Simulate a signal on one GPU, with the remediator's own code, and show each action\n"
            "with its time, until the GPU is repaired and untainted. Needs no cluster.",
            EXPLAINED,
        ),
    )
    _signal_flags(explained)
    return flags


def _signal_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", type=Path, metavar="FILE", help="instead of the shipped policy")
    add_output_flag(parser)
    seen = parser.add_argument_group("signal")
    seen.add_argument("--xid", type=int, metavar="N", help="XID in the kernel log")
    seen.add_argument("--mig", action="store_true", help=f"the GPU has {SLICES} slices")
    seen.add_argument("--gi", type=int, metavar="N", help="GPU instance named by a source")
    seen.add_argument(
        "--kernel-log",
        choices=get_args(LogMode),
        default=Signal().kernel_log,
        help=f"as the chart's exporter.kernelLog [{Signal().kernel_log}: {LOGS_READ['auto']}]",
    )
    seen.add_argument(
        "--recovery-action", type=int, metavar="N", help="recovery action read after the XID"
    )
    standard = Signal().driver
    seen.add_argument(
        "--driver", default=standard, metavar="R", help=f"driver version [{standard}]"
    )
    for name, text in (
        ("reset", "the kernel line contains RST"),
        ("drain-reset", "the kernel line contains D-RST"),
        ("lost", "NVML no longer reaches the GPU"),
        ("log-only", "NVML and DCGM do not report the XID"),
        ("remap-failure", "a row remap has failed"),
        ("remap-pending", "a row remap is pending, until a reset"),
        ("sram-threshold", "the SRAM error threshold is exceeded"),
        ("retired-pending", "a page retirement is pending, until a reset"),
    ):
        seen.add_argument(f"--{name}", action="store_true", help=text)
    place = parser.add_argument_group("place")
    place.add_argument("--node", default="", metavar="NAME", help="name of the node [node-a]")
    place.add_argument(
        "--pool",
        default="",
        metavar="NAME",
        help="the same as --node: NVIDIA's driver names a pool after its node",
    )
    place.add_argument(
        "--device-class", default="", metavar="NAME", help="DeviceClass of its claim"
    )
    place.add_argument(
        "--without-rules",
        action="store_true",
        help="the cluster serves no DeviceTaintRules (Kubernetes before 1.37)",
    )
