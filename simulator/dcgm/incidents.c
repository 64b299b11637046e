/* dcgm.ini's [health] section: incidents, and what other clients do to the watches.
 *   incident 1 = gpu=0 gi=7 system=memory health=fail code=4 text=any words to the end
 *   all_gpus = 2    the mask at which another client keeps the group of all GPUs; 0: none does
 *   taken = 1       how often another client has cleared the masks of all other groups */
#include "incidents.h"

#include <stdlib.h>
#include <string.h>

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

static bool set_word(struct incident *incident, const char *name, const char *value,
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

/* dcgmErrorMeta by DCGM_FR_*: dcgmErrorSeverity_t and dcgmErrorCategory_t. The numbers of both are
 * those of dcgm_errors.h; which code has which is this simulator's choice. */
static const struct {
    unsigned code, severity, category;
} meta_rows[] = {
    {0, 0, 0},   /* OK: NONE, NONE */
    {4, 6, 10},  /* VOLATILE_DBE_DETECTED: RESET, HARDWARE_MEMORY */
    {40, 4, 9},  /* THERMAL_VIOLATIONS: TRIAGE, HARDWARE_THERMAL */
    {81, 6, 10}, /* UNCONTAINED_ERROR: RESET, HARDWARE_MEMORY */
};
#define SEVERITY_UNKNOWN 3

API unsigned dcgmErrorGetPriorityByCode(unsigned code) {
    for (size_t i = 0; i < sizeof meta_rows / sizeof meta_rows[0]; i++)
        if (meta_rows[i].code == code) return meta_rows[i].severity;
    return SEVERITY_UNKNOWN;
}

API unsigned dcgmErrorGetCategoryByCode(unsigned code) {
    for (size_t i = 0; i < sizeof meta_rows / sizeof meta_rows[0]; i++)
        if (meta_rows[i].code == code) return meta_rows[i].category;
    return 0;
}

static bool set_incident(struct settings *settings, char *value, struct fault *fault) {
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
        if (!set_word(incident, word, equals ? equals : "", fault)) return false;
    }
    return true;
}

bool set_health(struct settings *settings, const char *key, char *value, struct fault *fault) {
    if (strncmp(key, "incident ", 9) == 0) return set_incident(settings, value, fault);
    if (strcmp(key, "all_gpus") == 0)
        return number_of(value, 0xFFFFFFFF, &settings->health_of_all) ||
               fault_at(fault, "all_gpus must be a mask of systems, not \"%s\"", value);
    if (strcmp(key, "taken") == 0)
        return number_of(value, 1000000, &settings->health_taken) ||
               fault_at(fault, "taken must be a number of times, not \"%s\"", value);
    return fault_at(fault, "unknown setting \"%s\" in [health]; use incident <n>, all_gpus or taken",
                    key);
}
