/* One setting of a scenario file: what each key takes, and what to say when it
 * does not fit. */
#include "scenario_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct pair {
    const char *name;
    char *value;
};

static bool set_ascii(char *into, const char *key, const char *value, struct fault *fault) {
    if (!set_text(into, key, value, fault)) return false;
    for (const char *c = value; *c; c++)
        if (*c < ' ' || *c > '~')
            return fault_at(fault, "%s must be plain ASCII; remove other characters", key);
    return true;
}

/* "none" is NVML's "no instance". */
static bool set_instance_id(unsigned *into, const char *key, const char *value,
                            struct fault *fault) {
    if (strcmp(value, "none") != 0) return set_number(into, key, value, 127, fault);
    *into = NO_INSTANCE;
    return true;
}

static bool set_call(struct failure *failure, const char *call, struct fault *fault) {
    if (strncmp(call, "nvml", 4) != 0)
        return fault_at(fault, "\"%s\" is not an NVML call; name it as in nvmlDeviceGetTemperature",
                        call);
    return set_ascii(failure->call, "call", call, fault);
}

static bool set_failure_kind(struct failure *failure, const char *kind, const char *number,
                             struct fault *fault) {
    for (int i = 0; i < FAILURE_COUNT; i++) {
        const struct failure_row *row = &failure_rows[i];
        if (strcmp(kind, row->name) != 0 || (row->largest > 0) != (number != NULL)) continue;
        failure->kind = (enum failure_kind)i;
        unsigned found = 0;
        if (number && !set_number(&found, kind, number, row->largest, fault)) return false;
        failure->number = (long)found;
        return true;
    }
    return fault_at(fault,
                    "unknown failure \"%s\"; use none, lost, gone, unbound, removed, hung, segfault, "
                    "garbage, error=<code> or slow=<milliseconds>, the last five also with \"on "
                    "<nvml call>\"",
                    kind);
}

static bool set_failure(struct failure *failure, char *value, struct fault *fault) {
    memset(failure, 0, sizeof *failure);
    struct failure_words words = failure_words(value);
    if (words.call != NULL && !set_call(failure, words.call, fault)) return false;
    if (!set_failure_kind(failure, words.kind, words.number, fault)) return false;
    if (words.call != NULL && failure->kind <= FAILURE_REMOVED)
        return fault_at(fault, "failure %s is of the whole GPU; leave out \"on %s\"", words.kind,
                        failure->call);
    return true;
}

/* "a=1 b=2" into pairs, each of which must be one of `names`. */
static int split(char *text, const char *names, struct pair *pairs, struct fault *fault) {
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        char *equals = strchr(word, '=');
        if (equals != NULL) *equals++ = '\0';
        char padded[TEXT_SIZE + 2];
        snprintf(padded, sizeof padded, " %s ", word);
        if (equals == NULL || count == MAX_WORDS || strstr(names, padded) == NULL) {
            fault_at(fault, "cannot read \"%s\"; write name=value with these names:%s", word,
                     names);
            return -1;
        }
        pairs[count++] = (struct pair){word, equals};
    }
    return count;
}

static const char *pair_value(const struct pair *pairs, int count, const char *name,
                              const char *otherwise) {
    for (int i = 0; i < count; i++)
        if (strcmp(pairs[i].name, name) == 0) return pairs[i].value;
    return otherwise;
}

/* One number of a table, or UNSUPPORTED. */
static bool set_reading(long long *into, const struct value_row *row, const char *value,
                        struct fault *fault) {
    unsigned long long found, largest = (unsigned long long)row->largest;
    if (strcmp(value, UNSUPPORTED) == 0) {
        *into = -1;
        return true;
    }
    if (!number_of(value, largest, &found))
        return fault_at(fault, "%s must be a whole number from 0 to %llu or \"%s\", not \"%s\"",
                        row->name, largest, UNSUPPORTED, value);
    *into = (long long)found;
    return true;
}

/* The numbers of a table that stand in a line of words; the others are as in a healthy GPU. */
static bool set_readings(long long *into, const struct value_row *rows, int count,
                         const struct pair *pairs, int pair_count, struct fault *fault) {
    for (int i = 0; i < count; i++) {
        const char *value = pair_value(pairs, pair_count, rows[i].name, NULL);
        into[i] = rows[i].healthy;
        if (value != NULL && !set_reading(&into[i], &rows[i], value, fault)) return false;
    }
    return true;
}

static bool set_mig_instance(struct gpu *gpu, char *value, struct fault *fault) {
    struct pair pairs[MAX_WORDS];
    int count = split(value, INSTANCE_WORDS, pairs, fault);
    if (count < 0) return false;
    if (gpu->instance_count == MAX_INSTANCES)
        return fault_at(fault, "more than %d instances; remove some", MAX_INSTANCES);
    struct instance *instance = &gpu->instances[gpu->instance_count];
    const char *profile = pair_value(pairs, count, "profile", "");
    instance->profile = gpu->product ? profile_of(gpu->product, profile) : NULL;
    if (instance->profile == NULL)
        return fault_at(fault, "unknown profile \"%s\"; put product above it and use one of its MIG profiles",
                        profile);
    gpu->instance_count++;
    return set_number(&instance->gi, "gi", pair_value(pairs, count, "gi", ""), 127, fault) &&
           set_number(&instance->ci, "ci", pair_value(pairs, count, "ci", "0"), 127, fault) &&
           set_number(&instance->start, "start", pair_value(pairs, count, "start", ""), 7, fault) &&
           set_ascii(instance->uuid, "uuid", pair_value(pairs, count, "uuid", ""), fault) &&
           set_readings(instance->values, slice_rows, SLICE_COUNT, pairs, count, fault);
}

/* Who a process belongs to matters to the folders beside the library, not to it. */
static bool no_bad_text(const char *key, const char *value, struct fault *fault) {
    char unused[TEXT_SIZE];
    return value == NULL || set_ascii(unused, key, value, fault);
}

static bool set_process(struct gpu *gpu, char *value, struct fault *fault) {
    struct pair pairs[MAX_WORDS];
    int count = split(value, PROCESS_WORDS, pairs, fault);
    if (count < 0) return false;
    if (gpu->process_count == MAX_PROCESSES)
        return fault_at(fault, "more than %d processes; remove some", MAX_PROCESSES);
    struct process *process = &gpu->processes[gpu->process_count++];
    const char *type = pair_value(pairs, count, "type", "compute");
    unsigned memory = 0;
    process->graphics = strcmp(type, "graphics") == 0;
    process->mps = strcmp(type, "mps") == 0;
    if (!process->graphics && !process->mps && strcmp(type, "compute") != 0)
        return fault_at(fault, "type must be compute, graphics or mps, not \"%s\"", type);
    bool good =
        set_number(&process->pid, "pid", pair_value(pairs, count, "pid", ""), 0xFFFFFFFF, fault) &&
        set_number(&memory, "memory_mib", pair_value(pairs, count, "memory_mib", "0"), 0xFFFFFFFF,
                   fault) &&
        set_instance_id(&process->gi, "gi", pair_value(pairs, count, "gi", "none"), fault) &&
        set_instance_id(&process->ci, "ci", pair_value(pairs, count, "ci", "none"), fault) &&
        set_readings(process->values, process_rows, PROCESS_COUNT, pairs, count, fault) &&
        no_bad_text("pod", pair_value(pairs, count, "pod", NULL), fault) &&
        no_bad_text("container", pair_value(pairs, count, "container", NULL), fault);
    process->memory_mib = memory;
    return good;
}

/* The key says which link. */
static bool set_link(struct gpu *gpu, const char *number, char *value, struct fault *fault) {
    struct pair pairs[MAX_WORDS];
    unsigned link = 0;
    if (!set_number(&link, "link", number, MAX_LINKS - 1, fault)) return false;
    int count = split(value, LINK_WORDS, pairs, fault);
    if (count < 0) return false;
    gpu->links[link].named = true;
    return set_readings(gpu->links[link].values, link_rows, LINK_COUNT, pairs, count, fault);
}

static bool set_product(struct gpu *gpu, char *value, struct fault *fault) {
    gpu->product = product_of(value);
    return gpu->product != NULL ||
           fault_at(fault, "unknown product \"%s\"; use one of: %s", value, PRODUCT_NAMES);
}

/* An x of the form is a hexadecimal digit. */
static bool looks_like(const char *form, const char *value) {
    for (size_t i = 0; i <= strlen(form); i++)
        if (form[i] == 'x' ? !isxdigit((unsigned char)value[i]) : value[i] != form[i]) return false;
    return true;
}

static bool set_pci(struct gpu *gpu, char *value, struct fault *fault) {
    if (!looks_like("xxxx:xx:xx.0", value))
        return fault_at(fault, "pci must look like 0000:18:00.0, not \"%s\"", value);
    sscanf(value, "%4x:%2x:%2x", &gpu->pci_domain, &gpu->pci_bus, &gpu->pci_device);
    return set_ascii(gpu->pci_text, "pci", value, fault);
}

static bool set_cluster(struct gpu *gpu, char *value, struct fault *fault) {
    if (!looks_like("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", value))
        return fault_at(fault,
                        "cluster_uuid must look like 01234567-89ab-cdef-0123-456789abcdef, not "
                        "\"%s\"",
                        value);
    return set_ascii(gpu->cluster_uuid, "cluster_uuid", value, fault);
}

bool set_gpu(struct gpu *gpu, int number, const char *key, char *value, struct fault *fault) {
    for (int i = 0; i < VALUE_COUNT; i++)
        if (strcmp(key, value_rows[i].name) == 0)
            return set_reading(&gpu->values[i], &value_rows[i], value, fault);
    if (strcmp(key, "product") == 0) return set_product(gpu, value, fault);
    if (strcmp(key, "uuid") == 0) return set_ascii(gpu->uuid, key, value, fault);
    if (strcmp(key, "shown_uuid") == 0) return set_ascii(gpu->shown_uuid, key, value, fault);
    if (strcmp(key, "cluster_uuid") == 0) return set_cluster(gpu, value, fault);
    if (strcmp(key, "serial") == 0) return set_ascii(gpu->serial, key, value, fault);
    if (strcmp(key, "pci") == 0) return set_pci(gpu, value, fault);
    if (strcmp(key, "mig") == 0) return set_choice(&gpu->mig, key, value, "on", "off", fault);
    if (strcmp(key, "failure") == 0) return set_failure(&gpu->failure, value, fault);
    if (strncmp(key, "instance ", 9) == 0) return set_mig_instance(gpu, value, fault);
    if (strncmp(key, "process ", 8) == 0) return set_process(gpu, value, fault);
    if (strncmp(key, "link ", 5) == 0) return set_link(gpu, key + 5, value, fault);
    if (strcmp(key, "minor") != 0)
        return fault_at(fault, "unknown setting \"%s\" in [gpu %d]; use one of: %s", key, number,
                        GPU_KEYS);
    gpu->has_minor = true;
    return set_number(&gpu->minor, key, value, 255, fault);
}

static bool set_node_failure(struct scenario *scenario, char *value, struct fault *fault) {
    if (!set_failure(&scenario->failure, value, fault)) return false;
    enum failure_kind kind = scenario->failure.kind;
    bool whole = kind != FAILURE_NONE && kind <= FAILURE_REMOVED;
    return (!whole && kind != FAILURE_GARBAGE) ||
           fault_at(fault, "a node cannot be %s; use error=<code> on nvmlInitWithFlags",
                    failure_rows[kind].name);
}

/* "none" is the truth. */
static bool set_count(struct scenario *scenario, const char *value, struct fault *fault) {
    unsigned found = 0;
    scenario->count = -1;
    if (strcmp(value, "none") == 0) return true;
    if (!set_number(&found, "count", value, 2 * MAX_GPUS, fault)) return false;
    scenario->count = (int)found;
    return true;
}

bool set_node(struct scenario *scenario, const char *key, char *value, struct fault *fault) {
    if (strcmp(key, "driver") == 0) return set_ascii(scenario->driver, key, value, fault);
    if (strcmp(key, "nvml") == 0) return set_ascii(scenario->nvml, key, value, fault);
    if (strcmp(key, "cuda") == 0) return set_number(&scenario->cuda, key, value, 99999, fault);
    if (strcmp(key, "count") == 0) return set_count(scenario, value, fault);
    if (strcmp(key, "failure") == 0) return set_node_failure(scenario, value, fault);
    return fault_at(fault, "unknown setting \"%s\" in [node]; use one of: %s", key, NODE_KEYS);
}

static bool set_event_type(struct event *event, const char *name, struct fault *fault) {
    for (int i = 0; i < EVENT_TYPE_COUNT; i++)
        if (strcmp(event_type_rows[i].name, name) == 0) {
            event->type = event_type_rows[i].bit;
            return true;
        }
    return fault_at(fault, "unknown event type \"%s\"; use one of: %s", name, EVENT_TYPE_NAMES);
}

static bool set_event_number(struct scenario *scenario, const char *key, struct event *event,
                             struct fault *fault) {
    unsigned long long before =
        scenario->event_count ? scenario->events[scenario->event_count - 1].number : 0;
    if (strncmp(key, "event ", 6) != 0 ||
        !number_of(key + 6, 0x7FFFFFFFFFFFFFFF, &event->number) || event->number <= before)
        return fault_at(fault,
                        "\"%s\" must be \"event <number>\" with a number above %llu; numbers only "
                        "grow",
                        key, before);
    return true;
}

bool set_event(struct scenario *scenario, const char *key, char *value, struct fault *fault) {
    struct pair pairs[MAX_WORDS];
    struct event event = {0};
    if (!set_event_number(scenario, key, &event, fault)) return false;
    int count = split(value, EVENT_WORDS, pairs, fault);
    if (count < 0) return false;
    if (scenario->event_count == MAX_EVENTS)
        return fault_at(fault, "more than %d events; remove the oldest", MAX_EVENTS);
    unsigned data = 0;
    if (!set_event_type(&event, pair_value(pairs, count, "type", ""), fault) ||
        !set_number(&event.gpu, "gpu", pair_value(pairs, count, "gpu", ""), MAX_GPUS - 1, fault) ||
        !set_number(&data, "data", pair_value(pairs, count, "data", "0"), 0xFFFFFFFF, fault) ||
        !set_instance_id(&event.gi, "gi", pair_value(pairs, count, "gi", "none"), fault) ||
        !set_instance_id(&event.ci, "ci", pair_value(pairs, count, "ci", "none"), fault))
        return false;
    event.data = data;
    scenario->events[scenario->event_count++] = event;
    return true;
}
