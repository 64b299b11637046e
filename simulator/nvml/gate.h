/* The gate that every call passes: it checks initialisation, lets the simulated
 * failure happen and hands out a copy of what the call is about. */
#ifndef DRAGUARD_SIMULATOR_NVML_GATE_H
#define DRAGUARD_SIMULATOR_NVML_GATE_H

#include <stdbool.h>

#include "../ini/scenario.h"
#include "abi.h"
#include "handle.h"

struct subject {
    struct gpu gpu;
    struct instance *instance; /* NULL: the physical GPU */
    bool garbage;              /* nothing that it reports makes sense */
};

nvmlReturn_t enter(struct handle *handle, enum handle_kind kind, const char *call,
                   struct subject *subject);
/* As enter, for calls that only make sense on the physical GPU. */
nvmlReturn_t enter_gpu(nvmlDevice_t device, const char *call, struct subject *subject);
/* As enter, for calls that take a GPU or a MIG device. */
nvmlReturn_t enter_device(nvmlDevice_t device, const char *call, struct subject *subject);
/* For calls about no GPU. */
nvmlReturn_t enter_library(const char *call);
/* Lets the named failure of a GPU happen, without a handle of the caller's. */
nvmlReturn_t enter_by_uuid(const char *uuid, const char *call);
void library_open(void);
bool library_close(void);
/* The first number of the driver's version, such as 580. */
unsigned driver_branch(void);
bool applies(const struct failure *failure, const char *call);
nvmlReturn_t copy_text(char *into, unsigned size, const char *text);
/* As copy_text; bytes that are no text when the subject reports garbage. */
nvmlReturn_t report_text(const struct subject *subject, char *into, unsigned size,
                         const char *text);
/* A number of a table: NOT_SUPPORTED, garbage, or itself. */
nvmlReturn_t report(long long number, unsigned long long *into);
nvmlReturn_t value_of(const struct gpu *gpu, enum value value, unsigned long long *into);
nvmlReturn_t value_into(const struct gpu *gpu, enum value value, unsigned *into);

#endif
