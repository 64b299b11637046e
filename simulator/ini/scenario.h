/* The scenario in memory: the node, its GPUs and what happened to them. */
#ifndef DRAGUARD_SIMULATOR_SCENARIO_H
#define DRAGUARD_SIMULATOR_SCENARIO_H

#include <stdbool.h>

#include "facts.h"
#include "setting.h"

/* Instead of the id of a GPU or compute instance: NVML's "no instance". */
#define NO_INSTANCE 0xFFFFFFFFu

struct failure {
    enum failure_kind kind;
    long number;          /* of FAILURE_ERROR: nvmlReturn_t, of FAILURE_SLOW: milliseconds */
    char call[TEXT_SIZE]; /* "" is every call */
};

/* In place of a number: the GPU answers garbage for it. */
#define GARBAGE (-9223372036854775807LL - 1)

struct instance {
    unsigned gi, ci, start;
    const struct profile *profile;
    char uuid[TEXT_SIZE];
    long long values[SLICE_COUNT];
};

struct process {
    unsigned pid, gi, ci;
    unsigned long long memory_mib;
    bool graphics, mps;
    long long values[PROCESS_COUNT];
};

struct link {
    bool named;
    long long values[LINK_COUNT];
};

struct gpu {
    int line; /* of its section, for messages */
    const struct product *product;
    char uuid[TEXT_SIZE], serial[TEXT_SIZE], pci_text[TEXT_SIZE];
    char shown_uuid[TEXT_SIZE];   /* "" or what NVML reports instead of the uuid */
    char cluster_uuid[TEXT_SIZE]; /* "" is all zeros */
    unsigned minor, pci_domain, pci_bus, pci_device;
    bool has_minor, mig;
    struct failure failure;
    long long values[VALUE_COUNT]; /* -1: unsupported */
    int instance_count, process_count;
    struct instance instances[MAX_INSTANCES];
    struct process processes[MAX_PROCESSES];
    struct link links[MAX_LINKS];
};

struct event {
    unsigned long long number, type, data;
    unsigned gpu, gi, ci;
};

struct scenario {
    char driver[TEXT_SIZE], nvml[TEXT_SIZE];
    unsigned cuda;
    int count; /* what nvmlDeviceGetCount returns; -1: the truth */
    struct failure failure; /* of calls that belong to no GPU */
    int gpu_count, event_count;
    struct gpu gpus[MAX_GPUS];
    struct event events[MAX_EVENTS];
};

#endif
