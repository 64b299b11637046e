/* Scenario text to struct: lines, sections, settings. The grammar is documented in
 * simulator/scenario.py, which reads the same files with the same messages. */
#include "scenario_parse.h"

#include <string.h>

#include "ini.h"
#include "scenario_check.h"
#include "scenario_settings.h"

enum section { SECTION_NODE = 1, SECTION_GPU, SECTION_EVENTS };

static void new_gpu(struct scenario *scenario, int line) {
    struct gpu *gpu = &scenario->gpus[scenario->gpu_count++];
    gpu->line = line;
    for (int i = 0; i < VALUE_COUNT; i++) gpu->values[i] = value_rows[i].healthy;
    for (int i = 0; i < MAX_LINKS; i++)
        for (int k = 0; k < LINK_COUNT; k++) gpu->links[i].values[k] = link_rows[k].healthy;
}

static bool open_gpu(struct ini *ini, const char *number) {
    struct scenario *scenario = ini->into;
    unsigned long long found;
    int expected = scenario->gpu_count;
    if (!number_of(number, MAX_GPUS - 1, &found) || (int)found != expected)
        return fault_at(ini->fault,
                        "section [gpu %s] is out of order; number GPUs from 0 without gaps, at "
                        "most %d, here [gpu %d]",
                        number, MAX_GPUS, expected);
    new_gpu(scenario, ini->fault->line);
    ini->section = SECTION_GPU;
    return true;
}

static bool open_section(struct ini *ini, char *name) {
    if (strncmp(name, "gpu ", 4) == 0) return open_gpu(ini, ini_trimmed(name + 4));
    if (strcmp(name, "node") == 0) return ini_open_once(ini, SECTION_NODE, name);
    if (strcmp(name, "events") == 0) {
        ini->keys_repeat = true; /* their numbers must grow */
        return ini_open_once(ini, SECTION_EVENTS, name);
    }
    return fault_at(ini->fault, "unknown section [%s]; use [node], [gpu <number>] or [events]",
                    name);
}

static bool apply_setting(struct ini *ini, const char *key, char *value) {
    struct scenario *scenario = ini->into;
    int last = scenario->gpu_count - 1;
    switch (ini->section) {
    case SECTION_NODE: return set_node(scenario, key, value, ini->fault);
    case SECTION_GPU: return set_gpu(&scenario->gpus[last], last, key, value, ini->fault);
    default: return set_event(scenario, key, value, ini->fault);
    }
}

static void defaults(struct scenario *scenario) {
    memset(scenario, 0, sizeof *scenario);
    strcpy(scenario->driver, DEFAULT_DRIVER);
    strcpy(scenario->nvml, DEFAULT_NVML);
    scenario->cuda = DEFAULT_CUDA;
    scenario->count = -1;
}

bool scenario_parse(char *text, struct scenario *into, struct fault *fault) {
    static const struct ini_grammar grammar = {open_section, apply_setting, "gpu 0"};
    defaults(into);
    return ini_read(text, &grammar, into, fault) && scenario_check(into, fault);
}
