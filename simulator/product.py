"""The simulated GPU products: what of them is fixed, with their MIG profiles.

One table for everybody: the C library gets it as a generated header
(`simulator.build`), the ResourceSlices are composed from it. Pure.
"""

import msgspec


class MigProfile(msgspec.Struct, frozen=True):
    """A GPU instance profile as `nvidia-smi mig -lgip` lists it."""

    name: str
    profile_id: int
    """The GI profile id that nvidia-smi shows and NVML's instance info carries."""
    index: int
    """NVML_GPU_INSTANCE_PROFILE_*: what the profile-info calls take instead of the id."""
    slices: int
    """Compute slices."""
    size: int
    """Memory slices that a placement covers, of 8."""
    starts: tuple[int, ...]
    """Where a placement may start."""
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    jpeg_engines: int
    ofa_engines: int
    encoders: int = 0


class Product(msgspec.Struct, frozen=True):
    """What all GPUs of one product have in common."""

    name: str
    architecture: str
    architecture_number: int
    """NVML_DEVICE_ARCH_*."""
    cuda_capability: tuple[int, int]
    pci_device_id: int
    pci_subsystem_id: int
    memory_mib: int
    reserved_mib: int
    """Of it, kept by driver and firmware (NVML's memory info version 2 shows it)."""
    multiprocessors: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    video_clock_mhz: int
    power_limit_mw: int
    profiles: tuple[MigProfile, ...]

    def profile(self, name: str) -> MigProfile | None:
        return next((p for p in self.profiles if p.name == name), None)


_ONE, _TWO, _WIDE_ONE, _HALF = (
    (0, 1, 2, 3, 4, 5, 6),
    (0, 2, 4),
    (0, 2, 4, 6),
    (0, 4),
)

H100 = Product(
    name="NVIDIA H100 80GB HBM3",
    architecture="Hopper",
    architecture_number=9,
    cuda_capability=(9, 0),
    pci_device_id=0x233010DE,
    pci_subsystem_id=0x16C110DE,
    memory_mib=81559,
    reserved_mib=551,
    multiprocessors=132,
    sm_clock_mhz=1980,
    memory_clock_mhz=2619,
    video_clock_mhz=1545,
    power_limit_mw=700_000,
    profiles=(
        MigProfile("1g.10gb", 19, 0, 1, 1, _ONE, 9984, 16, 1, 1, 1, 0),
        MigProfile("1g.10gb+me", 20, 7, 1, 1, _ONE, 9984, 16, 1, 1, 1, 1),
        MigProfile("1g.20gb", 15, 9, 1, 2, _WIDE_ONE, 20096, 26, 1, 1, 1, 0),
        MigProfile("2g.20gb", 14, 1, 2, 2, _TWO, 20096, 32, 2, 2, 2, 0),
        MigProfile("3g.40gb", 9, 2, 3, 4, _HALF, 40448, 60, 3, 3, 3, 0),
        MigProfile("4g.40gb", 5, 3, 4, 4, (0,), 40448, 64, 4, 4, 4, 0),
        MigProfile("7g.80gb", 0, 4, 7, 8, (0,), 81152, 132, 8, 7, 7, 1),
    ),
)

A100 = Product(
    name="NVIDIA A100-SXM4-40GB",
    architecture="Ampere",
    architecture_number=7,
    cuda_capability=(8, 0),
    pci_device_id=0x20B010DE,
    pci_subsystem_id=0x134F10DE,
    memory_mib=40960,
    reserved_mib=582,
    multiprocessors=108,
    sm_clock_mhz=1410,
    memory_clock_mhz=1215,
    video_clock_mhz=1275,
    power_limit_mw=400_000,
    profiles=(
        MigProfile("1g.5gb", 19, 0, 1, 1, _ONE, 4864, 14, 1, 0, 0, 0),
        MigProfile("1g.5gb+me", 20, 7, 1, 1, _ONE, 4864, 14, 1, 1, 1, 1),
        MigProfile("1g.10gb", 15, 9, 1, 2, _WIDE_ONE, 9856, 14, 1, 1, 0, 0),
        MigProfile("2g.10gb", 14, 1, 2, 2, _TWO, 9856, 28, 2, 1, 0, 0),
        MigProfile("3g.20gb", 9, 2, 3, 4, _HALF, 19968, 42, 3, 2, 0, 0),
        MigProfile("4g.20gb", 5, 3, 4, 4, (0,), 19968, 56, 4, 2, 0, 0),
        MigProfile("7g.40gb", 0, 4, 7, 8, (0,), 40192, 98, 7, 5, 1, 1),
    ),
)

PRODUCTS = {product.name: product for product in (H100, A100)}
SHORT_NAMES = {"H100": H100, "A100": A100}
"""What the command line takes."""
