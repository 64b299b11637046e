/* Memory errors of one place, NVML_MEMORY_LOCATION_*. */
#ifndef DRAGUARD_SIMULATOR_NVML_MEMORY_ERRORS_H
#define DRAGUARD_SIMULATOR_NVML_MEMORY_ERRORS_H

#include <stdbool.h>

#include "../ini/scenario.h"
#include "abi.h"

bool has_ecc(const struct gpu *gpu);
nvmlReturn_t ecc_errors(const struct gpu *gpu, unsigned error, unsigned counter, unsigned location,
                        unsigned long long *into);

#endif
