"""H100 and H200 boards.

Names, fractions and placements of the profiles as in NVIDIA's MIG user guide (supported
profiles), all other numbers of them as recorded (tests/simulator/recordings). Board numbers (VBIOS,
part number, InfoROM, BAR1, reserved memory) are plausible, not verified. That memory repairs are
answered was recorded on an H100, and taken over for the H200. Pure.
"""

from simulator.product_shapes import FIRST, HALF, ONE, TWO, WIDE_ONE, MigProfile, Product

_REPAIRS: dict[str, int | None] = {
    "repair_channel_pending": 0,
    "repair_tpc_pending": 0,
    "unrepairable_memory": 0,
}

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
    power_min_mw=200_000,
    power_max_mw=700_000,
    bar1_mib=131072,
    memory_bus_bits=5120,
    cores=16896,
    pcie_generation=5,
    nvlink_count=18,
    nvlink_version=6,
    nvlink_mbps=26562,
    vbios="96.00.61.00.01",
    part_number="692-2G520-0200-000",
    inforom_image="G520.0200.00.05",
    inforom_oem="2.1",
    inforom_ecc="7.16",
    values={**_REPAIRS},
    profiles=(
        MigProfile("1g.10gb", 19, 0, 1, 1, ONE, 9984, 16, 1, 1, 1, 0),
        MigProfile("1g.10gb+me", 20, 7, 1, 1, ONE, 9984, 16, 1, 1, 1, 1),
        MigProfile("1g.20gb", 15, 9, 1, 2, WIDE_ONE, 20096, 26, 1, 1, 1, 0),
        MigProfile("2g.20gb", 14, 1, 2, 2, TWO, 20096, 32, 2, 2, 2, 0),
        MigProfile("3g.40gb", 9, 2, 3, 4, HALF, 40448, 60, 3, 3, 3, 0),
        MigProfile("4g.40gb", 5, 3, 4, 4, FIRST, 40448, 64, 4, 4, 4, 0),
        MigProfile("7g.80gb", 0, 4, 7, 8, FIRST, 81152, 132, 8, 7, 7, 1),
    ),
)

H200 = Product(
    name="NVIDIA H200",
    architecture="Hopper",
    architecture_number=9,
    cuda_capability=(9, 0),
    pci_device_id=0x233510DE,
    pci_subsystem_id=0x18BE10DE,
    memory_mib=143771,
    reserved_mib=615,
    multiprocessors=132,
    sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    video_clock_mhz=1545,
    power_limit_mw=700_000,
    power_min_mw=200_000,
    power_max_mw=700_000,
    bar1_mib=262144,
    memory_bus_bits=6144,
    cores=16896,
    pcie_generation=5,
    nvlink_count=18,
    nvlink_version=6,
    nvlink_mbps=26562,
    vbios="96.00.D9.00.01",
    part_number="692-2G520-0280-001",
    inforom_image="G520.0280.00.03",
    inforom_oem="2.1",
    inforom_ecc="7.16",
    values={"remap_banks_max": 3072, **_REPAIRS},
    profiles=(
        MigProfile("1g.18gb", 19, 0, 1, 1, ONE, 16384, 16, 1, 1, 1, 0),
        MigProfile("1g.18gb+me", 20, 7, 1, 1, ONE, 16384, 16, 1, 1, 1, 1),
        MigProfile("1g.35gb", 15, 9, 1, 2, WIDE_ONE, 33280, 26, 1, 1, 1, 0),
        MigProfile("2g.35gb", 14, 1, 2, 2, TWO, 33280, 32, 2, 2, 2, 0),
        MigProfile("3g.71gb", 9, 2, 3, 4, HALF, 71424, 60, 3, 3, 3, 0),
        MigProfile("4g.71gb", 5, 3, 4, 4, FIRST, 71424, 64, 4, 4, 4, 0),
        MigProfile("7g.141gb", 0, 4, 7, 8, FIRST, 143360, 132, 8, 7, 7, 1),
    ),
)
