"""Composes the GPUs of a new simulated node from words such as `8xH100`.

Identities follow from the node's name and the GPU's number, so the same words
give the same node again. Pure.
"""

import re
import uuid
from collections.abc import Mapping, Sequence

import msgspec

from simulator import grammar
from simulator.gpu import Gpu, Instance
from simulator.product import SHORT_NAMES, Product

_BUSES = (
    *("0000:18", "0000:2a", "0000:3a", "0000:5d", "0000:9a", "0000:ab", "0000:ba", "0000:db"),
    *(f"0001:{bus:02x}" for bus in range(1, grammar.MAX_GPUS - 7)),
)
_COUNTED = re.compile(r"(?:(\d+)x)?([\w-]+)")
_MIG_LAYOUT = re.compile(r"(\d+):(.+)")
_REPEATED = re.compile(r"([^*]+)(?:\*(\d+))?")
_NAMESPACE = uuid.UUID("7b6f5a0e-0d5e-5b0a-9a43-5f3b7f6f2c11")


class BoardError(Exception):
    """Words that describe no possible node; the message says what to write."""


def gpus_of(
    node: str, words: str = "8xH100", mig: Mapping[int, Sequence[str]] | None = None
) -> list[Gpu]:
    """Return the GPUs that `8xH100` or `4xH100,2xA100` means.

    `mig` gives, by GPU number, the profiles of its slices in order; each takes
    the first free placement. MIG is on for these GPUs, also with no slice.
    """
    products = _products(words)
    layouts = mig or {}
    unknown = [number for number in layouts if number >= len(products)]
    if unknown:
        raise BoardError(
            f"MIG is requested on GPU {unknown[0]}, but there are {len(products)} GPUs; "
            f"use a number from 0 to {len(products) - 1}"
        )
    return [
        _gpu(node, number, product, layouts.get(number)) for number, product in enumerate(products)
    ]


def _products(words: str) -> list[Product]:
    found: list[Product] = []
    for word in words.split(","):
        match = _COUNTED.fullmatch(word.strip())
        product = SHORT_NAMES.get(match[2].upper()) if match else None
        if match is None or product is None:
            known = ", ".join(SHORT_NAMES)
            raise BoardError(
                f'cannot read "{word}"; write a count and a product such as 8xH100 (known: {known})'
            )
        found += [product] * int(match[1] or "1")
    if len(found) > grammar.MAX_GPUS:
        raise BoardError(f"{len(found)} GPUs are too many; at most {grammar.MAX_GPUS}")
    return found


def _gpu(node: str, number: int, product: Product, profiles: Sequence[str] | None) -> Gpu:
    identity = uuid.uuid5(_NAMESPACE, f"{node}/{number}")
    gpu = Gpu(
        product=product,
        uuid=f"GPU-{identity}",
        minor=number,
        pci=f"{_BUSES[number]}:00.0",
        serial=str(1_650_000_000_000 + identity.int % 10**9),
        mig=profiles is not None,
        values={
            "power_limit_mw": product.power_limit_mw,
            "memory_clock_mhz": product.memory_clock_mhz,
            "application_sm_clock_mhz": product.sm_clock_mhz,
            "application_memory_clock_mhz": product.memory_clock_mhz,
            "recovery_action": 0,
            **product.values,
        },
    )
    gpu.instances = instances_of(gpu, profiles or ())
    return gpu


def another(node: str, gpus: Sequence[Gpu], word: str) -> Gpu:
    """Return one more GPU for a node that has `gpus`; `word` is a product such as H100."""
    (product,) = _products(word)
    if len(gpus) == grammar.MAX_GPUS:
        raise BoardError(f"there are {len(gpus)} GPUs already; no more fit on a node")
    return _gpu(node, len(gpus), product, None)


def instances_of(gpu: Gpu, profiles: Sequence[str]) -> list[Instance]:
    """Place slices on an empty GPU; raises BoardError when they do not fit.

    GPU instance ids count down as placements count up (7 at start 0, 1 at start 6). So
    they equal neither a start nor an index, as on hardware.
    """
    found: list[Instance] = []
    for name in profiles:
        part = placed(gpu, found, name)
        identity = uuid.uuid5(_NAMESPACE, f"{gpu.uuid}/{name}/{part.start}")
        found.append(msgspec.structs.replace(part, uuid=f"MIG-{identity}"))
    return found


def placed(gpu: Gpu, beside: Sequence[Instance], name: str, at: int | None = None) -> Instance:
    """Return a slice of a profile at the first free placement, or at start `at`.

    It has no uuid yet. Raises BoardError.
    """
    profile = gpu.product.profile(name)
    if profile is None:
        known = ", ".join(profile.name for profile in gpu.product.profiles)
        raise BoardError(f'{gpu.product.name} has no MIG profile "{name}"; use one of: {known}')
    taken = {place for part in beside for place in _span(part.start, part.profile.size)}
    starts = profile.starts if at is None else (at,)
    free = (start for start in starts if not taken & set(_span(start, profile.size)))
    start = next(free, None)
    if start is None:
        names = ", ".join(part.profile.name for part in beside)
        raise BoardError(f"no room for another {name} beside {names}; leave one out")
    return Instance(gi=7 - start, profile=profile, start=start, uuid="")


def _span(start: int, size: int) -> range:
    return range(start, start + size)


def mig_layouts(words: Sequence[str]) -> dict[int, list[str]]:
    """Read `0:1g.10gb*7` and `1:3g.40gb,3g.40gb` into profiles by GPU number."""
    return dict(_mig_layout(word) for word in words)


def _mig_layout(word: str) -> tuple[int, list[str]]:
    match = _MIG_LAYOUT.fullmatch(word)
    parts = [_REPEATED.fullmatch(part.strip()) for part in match[2].split(",")] if match else [None]
    if match is None or None in parts:
        raise BoardError(
            f'cannot read "{word}"; write <gpu>:<profile>[*<count>][,...], such as 0:1g.10gb*7'
        )
    profiles = [part[1] for part in parts if part for _ in range(int(part[2] or "1"))]
    return int(match[1]), profiles
