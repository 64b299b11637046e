/* The fields that this DCGM has, by id. */
#include "field.h"

#include <stddef.h>

#include "../ini/scenario.h"
#include "fields.h"

#define FIRST_PROFILING 1001
#define LAST_PROFILING 1099

const int default_profiling_count = sizeof default_profiling / sizeof default_profiling[0];

const struct field *field_of(unsigned id) {
    return id < FIELD_LIMIT && field_rows[id].type != 0 ? &field_rows[id] : NULL;
}

bool is_profiling(unsigned id) { return id >= FIRST_PROFILING && id <= LAST_PROFILING; }
