/* A number of one NVLink, or of all with ALL_LINKS. */
#ifndef DRAGUARD_SIMULATOR_NVML_NVLINK_H
#define DRAGUARD_SIMULATOR_NVML_NVLINK_H

#include "../ini/scenario.h"
#include "abi.h"

#define ALL_LINKS 0xFFFFFFFFu
/* None where the driver is set to leave them off. */
unsigned link_count(const struct gpu *gpu);
nvmlReturn_t link_value(const struct gpu *gpu, unsigned link, enum link_value value,
                        unsigned long long *into);

#endif
