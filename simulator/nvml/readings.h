/* Calls that read one thing of one GPU, each defined in one line. */
#ifndef DRAGUARD_SIMULATOR_READINGS_H
#define DRAGUARD_SIMULATOR_READINGS_H

#include "gate.h"

/* One fixed number of the GPU or its product. */
#define FIXED(function, type, expression)                            \
    API nvmlReturn_t function(nvmlDevice_t device, type *into) {     \
        struct subject subject;                                      \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject); \
        if (answer != NVML_SUCCESS || into == NULL)                  \
            return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;    \
        *into = (type)(expression);                                  \
        return NVML_SUCCESS;                                         \
    }

/* One number of the scenario. */
#define READING(function, value)                                        \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned *into) {    \
        struct subject subject;                                         \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject);    \
        return answer ? answer : value_into(&subject.gpu, value, into); \
    }

#define LONG_READING(function, value)                                          \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned long long *into) { \
        struct subject subject;                                                \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject);           \
        return answer ? answer : value_of(&subject.gpu, value, into);          \
    }

/* One number, and the microseconds over which it was taken. */
#define SAMPLED(function, value)                                                         \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned *into, unsigned *period) {   \
        struct subject subject;                                                          \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject);                     \
        if (answer == NVML_SUCCESS && period == NULL) answer = NVML_ERROR_INVALID_ARGUMENT; \
        if (answer == NVML_SUCCESS && subject.gpu.mig) answer = NVML_ERROR_NOT_SUPPORTED; \
        if (answer == NVML_SUCCESS) *period = 167000;                                    \
        return answer ? answer : value_into(&subject.gpu, value, into);                  \
    }

/* One text. */
#define TEXT(function, expression)                                               \
    API nvmlReturn_t function(nvmlDevice_t device, char *into, unsigned length) { \
        struct subject subject;                                                  \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject);             \
        return answer ? answer : report_text(&subject, into, length, expression);  \
    }

#endif
