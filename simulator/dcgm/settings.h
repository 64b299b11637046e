/* What dcgm.ini says: engines and their outages, entities, incidents. */
#ifndef DRAGUARD_SIMULATOR_DCGM_SETTINGS_H
#define DRAGUARD_SIMULATOR_DCGM_SETTINGS_H

#include <stdbool.h>

#include "../ini/setting.h"
#include "abi.h"

#define MAX_LISTENERS 8
#define MAX_PLACES (MAX_GPUS * (1 + 2 * MAX_INSTANCES + MAX_LINKS) + MAX_SWITCHES + 512)
#define MAX_OVERRIDES 1024
#define MAX_INCIDENTS 64
#define MAX_PROFILING 96
#define MESSAGE_SIZE 256

enum outage_kind {
    OUTAGE_NONE,
    OUTAGE_DEAD,
    OUTAGE_HUNG,
    OUTAGE_SEGFAULT,
    OUTAGE_ABORT,
    OUTAGE_ERROR,
    OUTAGE_SLOW,
    OUTAGE_COUNT
};

struct outage {
    enum outage_kind kind;
    long number;          /* of OUTAGE_ERROR: dcgmReturn_t, of OUTAGE_SLOW: milliseconds */
    char call[TEXT_SIZE]; /* "" is every call */
};

struct profiling {
    int count; /* -1: as stated elsewhere */
    unsigned short fields[MAX_PROFILING];
};

struct host_engine {
    char address[TEXT_SIZE]; /* host:port or a path; "" is the embedded engine */
    struct outage outage;
    unsigned started;            /* changes with each restart */
    long long since_event;       /* events of the scenario after it are its history; -1: none */
    bool driver_calls_stopped;
};

struct override {
    int place;
    unsigned short field;
    int status; /* answered in place of a value when not 0 */
    int blank;  /* -1: a value */
    double real;
    long long whole;
    char text[TEXT_SIZE];
};

/* What dcgm.ini says of one entity. */
struct place_settings {
    /* FE_*; gpu is the GPU, switch or CPU; gi is NVML's id, or the link or core of it. */
    unsigned kind, gpu, gi;
    bool of_switch; /* of FE_LINK */
    unsigned links, first_core, cores; /* of FE_SWITCH: its links that are up; of FE_CPU */
    char serial[TEXT_SIZE];            /* of FE_CPU */
    bool down;                         /* of a switch's FE_LINK */
    int status;             /* -1: as the scenario has it */
    unsigned attached;      /* changes each time the GPU was unbound and bound again */
    int id;                 /* of the entity in DCGM; -1: the next free one */
    struct profiling profiling;
};

struct incident {
    unsigned gpu, system, health, code;
    int gi; /* NVML's id; -1: the GPU itself */
    char message[MESSAGE_SIZE];
};

struct settings {
    char version[TEXT_SIZE];
    struct host_engine embedded, listeners[MAX_LISTENERS];
    bool ignores_119, lists_links, no_switch_module, old_cpu_call;
    enum first_sample { FIRST_READ, FIRST_BLANK, FIRST_LATE } first_sample;
    struct profiling profiling;
    int listener_count, place_count, override_count, incident_count;
    struct place_settings places[MAX_PLACES];
    struct override overrides[MAX_OVERRIDES];
    struct incident incidents[MAX_INCIDENTS];
    unsigned long long health_taken, health_of_all; /* [health] */
};

/* NULL: no engine listens at this address; "" is the embedded engine. */
const struct host_engine *host_engine(const struct settings *settings, const char *address);

#endif
