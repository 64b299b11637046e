/* NVML calls about the PCIe link. */
#include "readings.h"

READING(nvmlDeviceGetCurrPcieLinkGeneration, VALUE_PCIE_GENERATION)
READING(nvmlDeviceGetCurrPcieLinkWidth, VALUE_PCIE_WIDTH)
FIXED(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, subject.gpu.product->pcie_generation)
FIXED(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, subject.gpu.product->pcie_generation)
FIXED(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)
READING(nvmlDeviceGetPcieReplayCounter, VALUE_PCIE_REPLAYS)

/* Counter: bytes sent, bytes received. */
API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter,
                                             unsigned *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && counter > 1) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    return value_into(&subject.gpu, counter == 0 ? VALUE_PCIE_TX_KIB : VALUE_PCIE_RX_KIB, into);
}
