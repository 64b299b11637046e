"""What a GPU product and a MIG profile are made of. Pure."""

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


class Product(msgspec.Struct, frozen=True, kw_only=True):
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
    """The default one."""
    power_min_mw: int
    power_max_mw: int
    bar1_mib: int
    memory_bus_bits: int
    cores: int
    pcie_generation: int
    nvlink_count: int
    nvlink_version: int
    """NVML_NVLINK_VERSION_*."""
    nvlink_mbps: int
    """Of one link, one way."""
    vbios: str
    part_number: str
    inforom_image: str
    inforom_oem: str
    inforom_ecc: str
    values: dict[str, int | None] = {}
    """Where its healthy GPU differs from `simulator.quantities`."""
    profiles: tuple[MigProfile, ...]

    def profile(self, name: str) -> MigProfile | None:
        return next((p for p in self.profiles if p.name == name), None)


ONE, TWO, WIDE_ONE, HALF, FIRST = (
    (0, 1, 2, 3, 4, 5, 6),
    (0, 2, 4),
    (0, 2, 4, 6),
    (0, 4),
    (0,),
)
"""Where profiles of one, two, one with the memory of two, three, and four or seven slices start."""
