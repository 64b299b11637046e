/* Handles: what a caller holds of a GPU, a MIG device or an instance. */
#ifndef DRAGUARD_SIMULATOR_NVML_HANDLE_H
#define DRAGUARD_SIMULATOR_NVML_HANDLE_H

#include "../ini/scenario.h"
#include "abi.h"

enum handle_kind { HANDLE_GPU, HANDLE_MIG, HANDLE_GPU_INSTANCE, HANDLE_COMPUTE_INSTANCE };

struct handle {
    enum handle_kind kind;
    char uuid[TEXT_SIZE];   /* of the physical GPU */
    char mig_uuid[TEXT_SIZE]; /* HANDLE_MIG */
    unsigned gi, ci;          /* HANDLE_GPU_INSTANCE, HANDLE_COMPUTE_INSTANCE */
    struct handle *next;
};

struct handle *handle_of(enum handle_kind kind, const char *uuid, const char *mig_uuid, unsigned gi,
                         unsigned ci);
struct handle *gpu_handle(const struct gpu *gpu);

#endif
