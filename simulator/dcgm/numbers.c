/* Numbers of the scenario in DCGM's units: of a GPU or slice, of its NVLinks, of
 * its memory errors by place. */
#include "numbers.h"

#include <limits.h>
#include <math.h>

#define BLACKWELL 10
#define KIB_PER_MIB 1024

/* What a driver that returns garbage makes of a number. */
static void put_garbage(const struct field *field, struct sample *into) {
    put_number(field, NAN, LLONG_MIN, into);
}

/* A slice's own number where it has one, else its GPU's. */
static long long number_at(const struct place *place, const struct field *field) {
    return place->instance != NULL && field->slice >= 0 ? place->instance->values[field->slice]
                                                        : place->board->values[field->value];
}

bool read_value(const struct place *place, const struct field *field, struct sample *into) {
    long long number = number_at(place, field);
    if (number == GARBAGE || place->board->failure.kind == FAILURE_GARBAGE) {
        put_garbage(field, into);
        return true;
    }
    if (number < 0) return false;
    double real = (double)number / field->divisor;
    put_number(field, real, (long long)real, into);
    return true;
}

/* Of one link, or of all. */
static bool sum_of(const struct place *place, int value, long long *into) {
    const struct gpu *gpu = place->board;
    *into = 0;
    for (unsigned i = 0; i < gpu->product->nvlink_count; i++) {
        long long count = gpu->links[i].values[value];
        if (place->link >= 0 && place->link != (int)i) continue;
        if (count < 0) return false;
        *into += count;
    }
    return gpu->product->nvlink_count > 0;
}

/* On a GPU in MIG mode the counters are 0. */
bool read_links(const struct place *place, const struct field *field, struct sample *into) {
    const struct gpu *gpu = place->board;
    bool since_blackwell = gpu->product->architecture >= BLACKWELL;
    long long sent = 0, received = 0;
    if (field->source == SOURCE_BANDWIDTH) {
        bool good = sum_of(place, LINK_TX_KIB, &sent) && sum_of(place, LINK_RX_KIB, &received);
        put_number(field, 0, (sent + received) / KIB_PER_MIB, into);
        return good;
    }
    if (since_blackwell != (field->source == SOURCE_NEW_LINKS)) return false;
    if (!gpu->mig && !sum_of(place, field->value, &sent)) return false;
    put_number(field, 0, sent, into);
    return true;
}

/* [volatile, aggregate][corrected total, uncorrected total, SRAM corrected, parity, SEC-DED] */
static const enum value errors[2][5] = {
    {VALUE_ECC_SBE_VOLATILE, VALUE_ECC_DBE_VOLATILE, VALUE_SRAM_CORRECTED_VOLATILE,
     VALUE_SRAM_PARITY_VOLATILE, VALUE_SRAM_SECDED_VOLATILE},
    {VALUE_ECC_SBE_AGGREGATE, VALUE_ECC_DBE_AGGREGATE, VALUE_SRAM_CORRECTED_AGGREGATE,
     VALUE_SRAM_PARITY_AGGREGATE, VALUE_SRAM_SECDED_AGGREGATE},
};

static long long counted(const struct gpu *gpu, enum value value) {
    return gpu->values[value] > 0 ? gpu->values[value] : 0;
}

/* Device memory (318, 319, 328, 329) is the total without SRAM (342 to 345). */
bool read_errors(const struct gpu *gpu, unsigned field, long long *into) {
    bool sram = field >= 342 && field <= 345;
    bool dram = field == 318 || field == 319 || field == 328 || field == 329;
    if (!sram && !dram) return false;
    const enum value *of = errors[sram ? field >= 344 : field >= 328];
    bool uncorrected = field % 2 == 1;
    long long there = uncorrected ? counted(gpu, of[3]) + counted(gpu, of[4]) : counted(gpu, of[2]);
    long long all = gpu->values[of[uncorrected]];
    *into = sram ? there : all > there ? all - there : 0;
    return all >= 0 && gpu->values[VALUE_ECC_MODE] == 1;
}
