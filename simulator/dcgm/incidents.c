/* The incidents of dcgm.ini's [health] section:
 *   incident 1 = gpu=0 gi=7 system=memory health=fail code=4 text=any words to the end */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct word {
    const char *name;
    unsigned number;
};

static const struct word systems[] = {
    {"pcie", 0x1},      {"nvlink", 0x2},  {"pmu", 0x4},      {"mcu", 0x8},
    {"memory", 0x10},   {"sm", 0x20},     {"inforom", 0x40}, {"thermal", 0x80},
    {"power", 0x100},   {"driver", 0x200}, {"nvswitch_nonfatal", 0x400},
    {"nvswitch_fatal", 0x800}, {"xid", 0xFFFFFFFF}, {NULL, 0},
};
static const struct word results[] = {
    {"pass", HEALTH_PASS}, {"warn", HEALTH_WARN}, {"fail", HEALTH_FAIL}, {NULL, 0}};

static bool look_up(const struct word *words, const char *value, unsigned *into) {
    for (; words->name != NULL; words++)
        if (strcmp(words->name, value) == 0) {
            *into = words->number;
            return true;
        }
    return false;
}

static bool take_word(struct incident *incident, const char *name, const char *value,
                      struct fault *fault) {
    unsigned long long number = 0;
    bool good = false;
    if (strcmp(name, "system") == 0)
        return look_up(systems, value, &incident->system) ||
               fault_at(fault, "unknown system \"%s\"; use pcie, nvlink, memory, thermal, xid ...",
                        value);
    if (strcmp(name, "health") == 0)
        return look_up(results, value, &incident->health) ||
               fault_at(fault, "health must be pass, warn or fail, not \"%s\"", value);
    if (strcmp(name, "gpu") == 0) {
        good = number_of(value, MAX_GPUS - 1, &number);
        incident->gpu = (unsigned)number;
    } else if (strcmp(name, "gi") == 0) {
        good = number_of(value, 127, &number);
        incident->gi = (int)number;
    } else if (strcmp(name, "code") == 0) {
        good = number_of(value, 0xFFFFFFFF, &number);
        incident->code = (unsigned)number;
    }
    return good || fault_at(fault,
                            "cannot read \"%s\" of an incident; write gpu=<number> system=<name> "
                            "health=<result> [gi=<NVML gi>] [code=<number>] [text=...]",
                            name);
}

bool take_incident(struct settings *settings, char *value, struct fault *fault) {
    if (settings->incident_count == MAX_INCIDENTS)
        return fault_at(fault, "more than %d incidents; remove some", MAX_INCIDENTS);
    struct incident *incident = &settings->incidents[settings->incident_count++];
    *incident = (struct incident){.gi = -1, .health = HEALTH_FAIL, .system = 0xFFFFFFFF};
    char *text = strstr(value, " text=");
    if (text != NULL) {
        *text = '\0';
        strncpy(incident->message, text + 6, MESSAGE_SIZE - 1);
    }
    char *rest = NULL;
    for (char *word = strtok_r(value, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        char *equals = strchr(word, '=');
        if (equals != NULL) *equals++ = '\0';
        if (!take_word(incident, word, equals ? equals : "", fault)) return false;
    }
    return true;
}
