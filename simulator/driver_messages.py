"""What the NVIDIA driver writes into the kernel log, line by line.

Forms and examples: kernel logs of drivers 470 to 595. The ids in `GPU-I` and
`GPU-CI` are decimal, two digits at least. Pure.
"""

RECOVERY_ACTIONS = (
    "None",
    "GPU Reset Required",
    "Node Reboot Required",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
)
UNKNOWN_PROCESS = "<unknown>"

_TEXTS = {
    13: "Graphics Exception: channel 0x0000000a, Class 0000cbc0, Offset 00000510, Data 0017e2ac",
    31: (
        "Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_6 faulted @ "
        "0x7f5a_e7504000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    ),
    43: "Ch 00000010",
    45: "Ch 00000010",
    48: "DBE (double bit error) ECC Error in FBPA 2, subpartition 0",
    62: "Internal micro-controller halt",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper Error: (0x00000005d28c03a0) - All reserved rows for bank are remapped",
    74: "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    92: "High single-bit ECC error rate",
    94: "Contained: CE User Channel (0x9).",
    95: "Uncontained: LTC TAG (0x2, 0x1).",
    119: (
        "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 "
        "(GSP_RM_CONTROL) (0x20802a02 0x8)."
    ),
    145: (
        "RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 0x00000008 0x00000000 0x00000000 "
        "0x00000000 0x00000000)"
    ),
    149: (
        "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000 0x00000000 0x00000000 "
        "0x00000000)"
    ),
}
_BEFORE = {
    13: (
        "Graphics SM Warp Exception on (GPC 1, TPC 2, SM 0): Misaligned Address",
        "Graphics Exception: ESR 0x517730=0x500000f 0x517734=0x0 0x517728=0x1f81fb60 "
        "0x51772c=0x1174",
    )
}
"""What an H100 with R580 prints under the same code, and without a process, before the line."""
RESETS = {94: (False, False), 95: (True, False)}
"""XID to what `RST` and `D-RST` of its line say by default."""


def xid(
    pci: str,
    code: int,
    text: str | None = None,
    *,
    pid: int | None = None,
    process: str | None = None,
    gi: int | None = None,
    ci: int | None = None,
    reset: bool | None = None,
    drain_reset: bool | None = None,
) -> str:
    """Compose an XID line.

    `pci` is `dddd:bb:dd` with or without `.0`. A `pid` of 0 is printed as the
    driver prints a process it does not know; None leaves the process out.
    Without `process` only the pid is printed, as some drivers do.
    `reset` and `drain_reset` add the `RST:`, `D-RST:` ending of 94 and 95.
    """
    instance = "" if gi is None else f" GPU-I:{gi:02d}"
    if gi is not None and ci is not None:
        instance += f" GPU-CI:{ci:02d}"
    parts = [f"NVRM: Xid (PCI:{_slot(pci)}{instance}): {code}"]
    if pid == 0:
        parts += [f"pid='{UNKNOWN_PROCESS}'", f"name={UNKNOWN_PROCESS}"]
    elif pid is not None:
        parts += [f"pid={pid}"] + ([f"name={process}"] if process else [])
    message = text or _TEXTS.get(code, "Simulated")
    if code in RESETS or reset is not None or drain_reset is not None:
        usual, usual_drain = RESETS.get(code, (False, False))
        answers = (
            usual if reset is None else reset,
            usual_drain if drain_reset is None else drain_reset,
        )
        words = ["Yes" if answer else "No" for answer in answers]
        message += f" RST: {words[0]}, D-RST: {words[1]}"
    return ", ".join((*parts, message))


def before_xid(pci: str, code: int, instance: tuple[int | None, int | None]) -> list[str]:
    """Compose the lines that come before an XID's own; `instance` is (GI, CI)."""
    gi, ci = instance
    return [xid(pci, code, text, gi=gi, ci=ci) for text in _BEFORE.get(code, ())]


def _slot(pci: str) -> str:
    return pci.partition(".")[0].lower()


def recovery_action(pci: str, old: int, new: int) -> str:
    """Compose the XID 154 line that the driver writes when field 230 changes."""
    return xid(pci, 154, f"GPU recovery action changed from {_action(old)} to {_action(new)}")


def _action(value: int) -> str:
    name = RECOVERY_ACTIONS[value] if value < len(RECOVERY_ACTIONS) else "Unknown"
    return f"0x{value:x} ({name})"


def fallen_off_the_bus(pci: str) -> str:
    """Compose the line that says 79 without the word Xid."""
    return f"NVRM: GPU {_slot(pci)}.0: GPU has fallen off the bus."


def identity(pci: str, uuid: str, serial: str) -> list[str]:
    """Compose the lines that the driver writes once per GPU before its first XID."""
    return [
        f"NVRM: GPU at PCI:{_slot(pci)}: {uuid}",
        f"NVRM: GPU Board Serial Number: {serial}",
    ]
