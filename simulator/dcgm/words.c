/* One setting of dcgm.ini: what each key takes, and what to say when it does
 * not fit. */
#include "words.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"

static const struct {
    const char *name;
    bool with_number;
} outage_rows[OUTAGE_COUNT] = {
    {"none", false},  {"dead", false}, {"hung", false}, {"segfault", false},
    {"abort", false}, {"error", true}, {"slow", true},
};

static const char *const blank_names[BLANK_COUNT] = {"blank", "not_found", "not_supported",
                                                     "not_permitted"};
static const char *const status_names[ENTITY_STATUS_COUNT] = {
    "unknown", "ok", "unsupported", "inaccessible", "lost", "fake", "disabled", "detached"};

static bool set_outage_kind(struct outage *outage, const char *kind, const char *number,
                            struct fault *fault) {
    for (int i = 0; i < OUTAGE_COUNT; i++) {
        if (strcmp(kind, outage_rows[i].name) != 0) continue;
        if (outage_rows[i].with_number != (number != NULL)) break;
        outage->kind = (enum outage_kind)i;
        unsigned found = 0;
        bool negative = number != NULL && *number == '-';
        if (number && !set_number(&found, kind, number + negative, 3600000, fault)) return false;
        outage->number = negative ? -(long)found : (long)found;
        return true;
    }
    return fault_at(fault,
                    "unknown failure \"%s\"; use none, dead, hung, segfault, abort, "
                    "error=<dcgmReturn_t> or slow=<milliseconds>, each also with \"on <dcgm call>\"",
                    kind);
}

static bool set_outage(struct outage *outage, char *value, struct fault *fault) {
    memset(outage, 0, sizeof *outage);
    struct failure_words words = failure_words(value);
    if (words.call != NULL && strncmp(words.call, "dcgm", 4) != 0)
        return fault_at(fault, "\"%s\" is not a DCGM call; name it as in dcgmWatchFields", words.call);
    if (words.call != NULL && !set_text(outage->call, "call", words.call, fault)) return false;
    return set_outage_kind(outage, words.kind, words.number, fault);
}

static bool set_profiling(struct profiling *into, char *value, struct fault *fault) {
    char *rest = NULL;
    into->count = 0;
    if (strcmp(value, "none") == 0) return true;
    for (char *word = strtok_r(value, " ,\t", &rest); word; word = strtok_r(NULL, " ,\t", &rest)) {
        unsigned long long id;
        if (!number_of(word, 65535, &id) || !is_profiling((unsigned)id) ||
            into->count == MAX_PROFILING)
            return fault_at(fault,
                            "profiling must be \"none\" or up to %d field ids from 1001, not \"%s\"",
                            MAX_PROFILING, word);
        into->fields[into->count++] = (unsigned short)id;
    }
    return true;
}

static bool set_first_sample(struct settings *settings, const char *value, struct fault *fault) {
    static const char *const names[] = {"read", "blank", "late"};
    for (int i = 0; i < 3; i++)
        if (strcmp(value, names[i]) == 0) {
            settings->first_sample = (enum first_sample)i;
            return true;
        }
    return fault_at(fault, "first_sample must be read, blank or late, not \"%s\"", value);
}

bool set_engine(struct settings *settings, const char *key, char *value, struct fault *fault) {
    struct host_engine *embedded = &settings->embedded;
    if (strcmp(key, "version") == 0) return set_text(settings->version, key, value, fault);
    if (strcmp(key, "failure") == 0) return set_outage(&embedded->outage, value, fault);
    if (strcmp(key, "profiling") == 0) return set_profiling(&settings->profiling, value, fault);
    if (strcmp(key, "first_sample") == 0) return set_first_sample(settings, value, fault);
    if (strcmp(key, "xid_119") == 0)
        return set_choice(&settings->ignores_119, key, value, "ignored", "stops", fault);
    if (strcmp(key, "links") == 0)
        return set_choice(&settings->lists_links, key, value, "listed", "refused", fault);
    if (strcmp(key, "driver_calls") == 0)
        return set_choice(&embedded->driver_calls_stopped, key, value, "stopped", "made", fault);
    if (strcmp(key, "nvswitch") == 0)
        return set_choice(&settings->no_switch_module, key, value, "missing", "there", fault);
    if (strcmp(key, "cpu_hierarchy") == 0)
        return set_choice(&settings->old_cpu_call, key, value, "v1", "v2", fault);
    return fault_at(fault,
                    "unknown setting \"%s\" in [engine]; use version, failure, profiling, "
                    "first_sample, xid_119, links, driver_calls, nvswitch or cpu_hierarchy",
                    key);
}

bool set_listen(struct host_engine *engine, const char *key, char *value, struct fault *fault) {
    unsigned number = 0;
    if (strcmp(key, "failure") == 0) return set_outage(&engine->outage, value, fault);
    if (strcmp(key, "started") == 0)
        return set_number(&engine->started, key, value, 0xFFFFFFFF, fault);
    if (strcmp(key, "driver_calls") == 0)
        return set_choice(&engine->driver_calls_stopped, key, value, "stopped", "made", fault);
    if (strcmp(key, "since_event") == 0) {
        if (!set_number(&number, key, value, 0x7FFFFFFF, fault)) return false;
        engine->since_event = number;
        return true;
    }
    return fault_at(fault,
                    "unknown setting \"%s\" in [listen %s]; use failure, started, driver_calls or "
                    "since_event",
                    key, engine->address);
}

static bool set_status(struct place_settings *place, const char *value, struct fault *fault) {
    for (int i = 0; i < ENTITY_STATUS_COUNT; i++)
        if (strcmp(value, status_names[i]) == 0) {
            place->status = i;
            return true;
        }
    return fault_at(fault,
                    "unknown status \"%s\"; use ok, detached, lost, unsupported, inaccessible, "
                    "disabled, fake or unknown",
                    value);
}

static bool set_value(struct override *override, const struct field *field, const char *value,
                       struct fault *fault) {
    char *end;
    unsigned code = 0;
    for (int i = 0; i < BLANK_COUNT; i++)
        if (strcmp(value, blank_names[i]) == 0) {
            override->blank = i;
            return true;
        }
    if (strncmp(value, "error=-", 7) == 0) {
        if (!set_number(&code, "error", value + 7, 99, fault)) return false;
        override->status = -(int)code;
        return true;
    }
    if (field->type == 's') return set_text(override->text, "a text field", value, fault);
    override->real = strtod(value, &end);
    errno = 0;
    if (*value == '\0' || *end != '\0')
        return fault_at(fault,
                        "field %u must be a number, blank, not_found, not_supported, "
                        "not_permitted or error=-<code>, not \"%s\"",
                        field->id, value);
    override->whole = strtoll(value, &end, 10);
    if (*end != '\0' || errno != 0)
        override->whole = isfinite(override->real) ? (long long)override->real : 0;
    return true;
}

static bool set_override(struct settings *settings, int place, const char *number, char *value,
                          struct fault *fault) {
    unsigned long long id;
    const struct field *field = number_of(number, 65535, &id) ? field_of((unsigned)id) : NULL;
    if (field == NULL)
        return fault_at(fault, "\"field %s\" is none that this DCGM has; see dcgm_fields.py", number);
    if (settings->override_count == MAX_OVERRIDES)
        return fault_at(fault, "more than %d field values; remove some", MAX_OVERRIDES);
    struct override *override = &settings->overrides[settings->override_count++];
    *override = (struct override){.place = place, .field = field->id, .blank = -1};
    return set_value(override, field, value, fault);
}

/* Of a switch, a link of one, a CPU or a core. */
static bool set_node_part(struct place_settings *place, const char *key, char *value,
                           struct fault *fault) {
    if (place->kind == FE_SWITCH && strcmp(key, "links") == 0)
        return set_number(&place->links, key, value, LINKS_PER_SWITCH, fault);
    if (place->of_switch && strcmp(key, "state") == 0)
        return set_choice(&place->down, key, value, "down", "up", fault);
    if (place->kind == FE_CPU && strcmp(key, "first_core") == 0)
        return set_number(&place->first_core, key, value, MAX_CORES - 1, fault);
    if (place->kind == FE_CPU && strcmp(key, "cores") == 0)
        return set_number(&place->cores, key, value, MAX_CORES, fault);
    if (place->kind == FE_CPU && strcmp(key, "serial") == 0)
        return set_text(place->serial, key, value, fault);
    return fault_at(fault, "unknown setting \"%s\"; use field <id>%s", key,
                    place->kind == FE_SWITCH ? " or links"
                    : place->of_switch       ? " or state"
                    : place->kind == FE_CPU  ? ", cores, first_core or serial"
                                             : "");
}

bool set_place(struct settings *settings, int number, const char *key, char *value,
                struct fault *fault) {
    struct place_settings *place = &settings->places[number];
    bool gpu = place->kind == FE_GPU;
    unsigned id = 0;
    if (strncmp(key, "field ", 6) == 0)
        return set_override(settings, number, key + 6, value, fault);
    if (place->of_switch || place->kind == FE_SWITCH || place->kind >= FE_CPU)
        return set_node_part(place, key, value, fault);
    if (gpu && strcmp(key, "status") == 0) return set_status(place, value, fault);
    if (gpu && strcmp(key, "attached") == 0)
        return set_number(&place->attached, key, value, 0xFFFFFFFF, fault);
    if (gpu && strcmp(key, "profiling") == 0) return set_profiling(&place->profiling, value, fault);
    if (gpu || place->kind == FE_LINK || strcmp(key, "id") != 0)
        return fault_at(fault, "unknown setting \"%s\"; use field <id>%s", key,
                        gpu                      ? ", status, attached or profiling"
                        : place->kind == FE_LINK ? ""
                                                 : " or id");
    if (!set_number(&id, key, value, MAX_GPUS * INSTANCES_PER_GPU - 1, fault)) return false;
    place->id = (int)id;
    return true;
}
