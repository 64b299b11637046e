"""B200 and GB200 boards.

B200: names, fractions, engines and instance counts of the profiles as in NVIDIA's MIG user
guide (supported profiles). GB200 has no table there; its profile names are those of the GPU
operator's default MIG configuration for device 0x2941 and of SageMaker's list, its engines
are the B200's. Not verified: memory and multiprocessors of the slices, which are eighths and
sevenths, board numbers (VBIOS, part number, InfoROM, BAR1, reserved memory), C2C. Pure.
"""

from simulator.product_shapes import FIRST, HALF, ONE, TWO, WIDE_ONE, MigProfile, Product

_VALUES: dict[str, int | None] = {
    "remap_banks_max": 3072,
    "repair_channel_pending": 0,
    "repair_tpc_pending": 0,
    "unrepairable_memory": 0,
    # Each condition of the fabric "false", the configuration "none" (nvml.h, health masks).
    "fabric_health_mask": 0x1AA,
}
_GRACE: dict[str, int | None] = {
    "pcie_generation": 6,
    "c2c_links": 2,
    "c2c_status": 1,
    "c2c_bandwidth_mbps": 44712,
    "c2c_errors": 0,
    "c2c_replays": 0,
    "c2c_back_to_back_replays": 0,
    "c2c_power_state": 0,
}

B200 = Product(
    name="NVIDIA B200",
    architecture="Blackwell",
    architecture_number=10,
    cuda_capability=(10, 0),
    pci_device_id=0x290110DE,
    pci_subsystem_id=0x199910DE,
    memory_mib=183359,
    reserved_mib=726,
    multiprocessors=148,
    sm_clock_mhz=1965,
    memory_clock_mhz=3996,
    video_clock_mhz=1830,
    power_limit_mw=1_000_000,
    power_min_mw=200_000,
    power_max_mw=1_000_000,
    bar1_mib=262144,
    memory_bus_bits=8192,
    cores=18944,
    pcie_generation=5,
    nvlink_count=18,
    nvlink_version=7,
    nvlink_mbps=53125,
    vbios="97.00.9A.00.0F",
    part_number="692-2G525-0220-000",
    inforom_image="G525.0220.00.03",
    inforom_oem="2.1",
    inforom_ecc="7.16",
    values={**_VALUES},
    profiles=(
        MigProfile("1g.23gb", 19, 0, 1, 1, ONE, 22144, 18, 2, 1, 1, 0),
        MigProfile("1g.23gb+me", 20, 7, 1, 1, ONE, 22144, 18, 2, 1, 1, 1),
        MigProfile("1g.45gb", 15, 9, 1, 2, WIDE_ONE, 45440, 18, 2, 1, 1, 0),
        MigProfile("2g.45gb", 14, 1, 2, 2, TWO, 45440, 36, 3, 1, 1, 0),
        MigProfile("3g.90gb", 9, 2, 3, 4, HALF, 91264, 54, 6, 1, 1, 0),
        MigProfile("4g.90gb", 5, 3, 4, 4, FIRST, 91264, 72, 8, 1, 1, 0),
        MigProfile("7g.180gb", 0, 4, 7, 8, FIRST, 182912, 126, 16, 1, 1, 1),
    ),
)

GB200 = Product(
    name="NVIDIA GB200",
    architecture="Blackwell",
    architecture_number=10,
    cuda_capability=(10, 0),
    pci_device_id=0x294110DE,
    pci_subsystem_id=0x204610DE,
    memory_mib=189471,
    reserved_mib=726,
    multiprocessors=152,
    sm_clock_mhz=2062,
    memory_clock_mhz=3996,
    video_clock_mhz=1830,
    power_limit_mw=1_200_000,
    power_min_mw=200_000,
    power_max_mw=1_200_000,
    bar1_mib=262144,
    memory_bus_bits=8192,
    cores=19456,
    pcie_generation=6,
    nvlink_count=18,
    nvlink_version=7,
    nvlink_mbps=53125,
    vbios="97.00.B9.00.20",
    part_number="692-2G548-0200-001",
    inforom_image="G548.0201.00.06",
    inforom_oem="2.1",
    inforom_ecc="7.16",
    values={**_VALUES, **_GRACE},
    profiles=(
        MigProfile("1g.23gb", 19, 0, 1, 1, ONE, 23040, 18, 2, 1, 1, 0),
        MigProfile("1g.23gb+me", 20, 7, 1, 1, ONE, 23040, 18, 2, 1, 1, 1),
        MigProfile("1g.47gb", 15, 9, 1, 2, WIDE_ONE, 46848, 18, 2, 1, 1, 0),
        MigProfile("2g.47gb", 14, 1, 2, 2, TWO, 46848, 36, 3, 1, 1, 0),
        MigProfile("3g.93gb", 9, 2, 3, 4, HALF, 94208, 54, 6, 1, 1, 0),
        MigProfile("4g.93gb", 5, 3, 4, 4, FIRST, 94208, 72, 8, 1, 1, 0),
        MigProfile("7g.186gb", 0, 4, 7, 8, FIRST, 188928, 126, 16, 1, 1, 1),
    ),
)
