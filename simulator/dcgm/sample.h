/* One sample: a number, a text or a blank, in the type of its field. */
#ifndef DRAGUARD_SIMULATOR_DCGM_SAMPLE_H
#define DRAGUARD_SIMULATOR_DCGM_SAMPLE_H

#include "field.h"

struct sample {
    long long ts; /* usec since 1970 */
    int status;
    union {
        long long whole;
        double real;
    };
    char *text; /* of a string field */
};

void put_number(const struct field *field, double real, long long whole, struct sample *into);
void put_text(const char *text, struct sample *into);
void blank_sample(const struct field *field, int blank, struct sample *into);

#endif
