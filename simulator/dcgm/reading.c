/* What a field says of an entity now: dcgm.ini's word first, else the scenario. */
#include "reading.h"

#include <string.h>

#include "entities.h"
#include "facts.h"
#include "numbers.h"
#include "sample.h"

static const struct override *override_of(const struct call *call, const struct place *place,
                                          const struct field *field) {
    const struct settings *settings = call->settings;
    for (int i = 0; place->settings != NULL && i < settings->override_count; i++)
        if (&settings->places[settings->overrides[i].place] == place->settings &&
            settings->overrides[i].field == field->id)
            return &settings->overrides[i];
    return NULL;
}

static void read_override(const struct override *override, const struct field *field,
                          struct sample *into) {
    into->status = override->status;
    if (override->status != 0 || override->blank >= 0)
        blank_sample(field, override->blank >= 0 ? override->blank : BLANK, into);
    else if (field->type == 's')
        put_text(override->text, into);
    else
        put_number(field, override->real, override->whole, into);
}

const struct profiling *profiling_of(const struct call *call, int gpu) {
    static struct profiling standard;
    struct place place;
    if (standard.count == 0) {
        size_t size = (size_t)default_profiling_count * sizeof default_profiling[0];
        memcpy(standard.fields, default_profiling, size);
        standard.count = default_profiling_count;
    }
    if (place_of(call, (struct entity){FE_GPU, (unsigned)gpu}, &place) && place.settings != NULL &&
        place.settings->profiling.count >= 0)
        return &place.settings->profiling;
    return call->settings->profiling.count >= 0 ? &call->settings->profiling : &standard;
}

bool has_profiling(const struct call *call, int gpu, unsigned field) {
    const struct profiling *profiling = profiling_of(call, gpu);
    for (int i = 0; i < profiling->count; i++)
        if (profiling->fields[i] == field) return true;
    return false;
}

static void read_fact_into(const struct call *call, const struct place *place,
                           const struct field *field, struct sample *into) {
    char text[TEXT_SIZE] = "";
    long long whole = 0;
    if (!read_fact(call, place, field->id, text, &whole))
        blank_sample(field, NOT_FOUND, into);
    else if (field->type == 's')
        put_text(text, into);
    else
        put_number(field, (double)whole / 1000, whole, into); /* doubles are watts here */
}

/* A GPU that NVML does not reach answers blanks with status 0. */
static bool reachable(const struct call *call, const struct place *place) {
    if (call->engine->blind) return false;
    if (place->gpu < 0) return true;
    const struct failure *failure = &place->board->failure;
    return gpu_status(call, place->gpu) == ENTITY_OK && failure->kind != FAILURE_LOST &&
           !(failure->kind == FAILURE_ERROR && failure->call[0] == '\0');
}

/* The number of a GPU or slice where there is one, else 0: the module has the field. */
static int read_profiling(const struct call *call, const struct place *place,
                          const struct field *field, struct sample *into) {
    if (!has_profiling(call, place->gpu, field->id)) return NOT_SUPPORTED;
    if (field->value < 0 || !read_value(place, field, into)) put_number(field, 0, 0, into);
    return -1;
}

/* Which blank it is, -1 for a number. */
static int read_number(const struct call *call, const struct place *place,
                       const struct field *field, struct sample *into) {
    bool good = false;
    switch (field->source) {
    case SOURCE_VALUE: good = field->value >= 0 && read_value(place, field, into); break;
    case SOURCE_MEMORY: good = read_memory(place, field->id, into); break;
    case SOURCE_PROFILING: return read_profiling(call, place, field, into);
    case SOURCE_OLD_LINKS:
    case SOURCE_NEW_LINKS:
    case SOURCE_BANDWIDTH: good = read_links(place, field, into); break;
    default: break;
    }
    return good ? -1 : NOT_FOUND;
}

static void read_source(const struct call *call, const struct place *place,
                        const struct field *field, struct sample *into) {
    if (field->source == SOURCE_FACT) {
        read_fact_into(call, place, field, into);
        return;
    }
    int blank = read_number(call, place, field, into);
    if (blank >= 0) blank_sample(field, blank, into);
}

void read_field(const struct call *call, const struct place *place, const struct field *field,
                struct sample *into) {
    memset(into, 0, sizeof *into);
    const struct override *override = override_of(call, place, field);
    bool needs_gpu = field->source != SOURCE_FACT && field->source != SOURCE_ABSENT;
    if (!reachable(call, place) || (needs_gpu && place->gpu < 0))
        blank_sample(field, BLANK, into);
    else if (override != NULL)
        read_override(override, field, into);
    else if (field->not_on_mig && place->board != NULL && place->board->mig)
        blank_sample(field, NOT_SUPPORTED, into);
    else
        read_source(call, place, field, into);
}
