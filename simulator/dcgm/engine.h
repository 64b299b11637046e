/* An engine that a client holds a handle of, and one call to it. */
#ifndef DRAGUARD_SIMULATOR_DCGM_ENGINE_H
#define DRAGUARD_SIMULATOR_DCGM_ENGINE_H

#include <stdbool.h>

#include "../ini/scenario.h"
#include "abi.h"
#include "field.h"
#include "sample.h"
#include "settings.h"

struct entity {
    unsigned kind, id;
};

struct series {
    struct entity entity;
    const struct field *field;
    long long every, due; /* usec */
    double keep_seconds;
    int keep_samples, count, room;
    bool begun; /* a first sample was due */
    struct sample *samples;
    struct series *next;
};

#define SERIES_BUCKETS 1024

struct group {
    bool used;
    char name[STR_LENGTH];
    unsigned count;
    struct entity entities[MAX_ENTITIES];
    unsigned health_systems;
};

struct field_group {
    bool used;
    char name[STR_LENGTH];
    unsigned count;
    unsigned short fields[MAX_FIELDS_PER_GROUP];
};

struct xid_seen {
    struct entity entity;
    unsigned code;
};

/* Which instance has which DCGM id: [0] GPU instances, [1] compute instances. */
struct instance_index {
    short gpu[2][MAX_GPUS * INSTANCES_PER_GPU], instance[2][MAX_GPUS * INSTANCES_PER_GPU];
    short id[2][MAX_GPUS][MAX_INSTANCES];
};

struct engine {
    dcgmHandle_t handle;
    char address[TEXT_SIZE]; /* "": embedded */
    bool manual, lost, blind;
    unsigned started;
    unsigned long long seen_event, first_event;
    long long last_stamp;
    unsigned attached[MAX_GPUS];
    struct series *series[SERIES_BUCKETS];
    struct group groups[MAX_GROUPS];
    struct field_group field_groups[MAX_FIELD_GROUPS];
    unsigned long long layout; /* of the GPUs and instances when the index was made */
    char slots[MAX_GPUS * INSTANCES_PER_GPU][TEXT_SIZE]; /* instance UUID by DCGM id */
    struct instance_index index;
    unsigned health_of_all[4]; /* watched systems of the special groups */
    unsigned long long health_taken; /* as often another client took all watches away */
    int xid_count;
    struct xid_seen xids[MAX_INCIDENTS];
    struct engine *next;
};

/* One call: valid between begin and finish. */
struct call {
    struct engine *engine;
    const struct scenario *scenario; /* NULL: no good one was ever read */
    const struct settings *settings;
};

#endif
