/* Scenario text to struct: lines, sections, settings. The grammar is told in
 * simulator/scenario.py, which reads the same files with the same messages. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum section { SECTION_NONE, SECTION_NODE, SECTION_GPU, SECTION_EVENTS };

struct reader {
    struct scenario *scenario;
    struct fault *fault;
    enum section section;
    bool seen[SECTION_EVENTS + 1];
    char keys[2 * MAX_EVENTS][128]; /* settings seen in this section */
    int key_count;
};

bool fault_at(struct fault *fault, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->what, sizeof fault->what, format, arguments);
    va_end(arguments);
    return false;
}

bool number_of(const char *text, unsigned long long largest, unsigned long long *into) {
    if (*text == '\0' || strlen(text) > 19 || strspn(text, "0123456789") != strlen(text))
        return false;
    *into = strtoull(text, NULL, 10);
    return *into <= largest;
}

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
    return text;
}

static void new_gpu(struct scenario *scenario, int line) {
    struct gpu *gpu = &scenario->gpus[scenario->gpu_count++];
    gpu->line = line;
    for (int i = 0; i < VALUE_COUNT; i++) gpu->values[i] = value_rows[i].healthy;
    for (int i = 0; i < MAX_LINKS; i++)
        for (int k = 0; k < LINK_COUNT; k++) gpu->links[i].values[k] = link_rows[k].healthy;
}

static bool open_gpu(struct reader *reader, const char *number) {
    unsigned long long found;
    int expected = reader->scenario->gpu_count;
    if (!number_of(number, MAX_GPUS - 1, &found) || (int)found != expected)
        return fault_at(reader->fault,
                        "section [gpu %s] is out of order; number GPUs from 0 without gaps, at "
                        "most %d, here [gpu %d]",
                        number, MAX_GPUS, expected);
    new_gpu(reader->scenario, reader->fault->line);
    reader->section = SECTION_GPU;
    return true;
}

static bool open_once(struct reader *reader, enum section section, const char *name) {
    if (reader->seen[section])
        return fault_at(reader->fault, "section [%s] is there twice; join the two", name);
    reader->seen[section] = true;
    reader->section = section;
    return true;
}

static bool open_section(struct reader *reader, char *line) {
    size_t length = strlen(line);
    line[length - 1] = '\0';
    char *name = trimmed(line + 1);
    reader->key_count = 0;
    if (strncmp(name, "gpu ", 4) == 0) return open_gpu(reader, trimmed(name + 4));
    if (strcmp(name, "node") == 0) return open_once(reader, SECTION_NODE, name);
    if (strcmp(name, "events") == 0) return open_once(reader, SECTION_EVENTS, name);
    return fault_at(reader->fault,
                    "unknown section [%s]; use [node], [gpu <number>] or [events]", name);
}

static bool first_time(struct reader *reader, const char *key) {
    for (int i = 0; i < reader->key_count; i++)
        if (strncmp(reader->keys[i], key, sizeof reader->keys[i] - 1) == 0)
            return fault_at(reader->fault, "\"%s\" is set twice in this section; remove one", key);
    if (reader->key_count < (int)(sizeof reader->keys / sizeof reader->keys[0]))
        snprintf(reader->keys[reader->key_count++], sizeof reader->keys[0], "%s", key);
    return true;
}

static bool apply_setting(struct reader *reader, const char *key, char *value) {
    struct scenario *scenario = reader->scenario;
    int last = scenario->gpu_count - 1;
    switch (reader->section) {
    case SECTION_NODE: return set_node(scenario, key, value, reader->fault);
    case SECTION_GPU: return set_gpu(&scenario->gpus[last], last, key, value, reader->fault);
    case SECTION_EVENTS: return set_event(scenario, key, value, reader->fault);
    default:
        return fault_at(reader->fault, "\"%s\" stands before any section; put it below [gpu 0]",
                        key);
    }
}

static bool read_line(struct reader *reader, char *line) {
    line = trimmed(line);
    size_t length = strlen(line);
    if (length == 0 || line[0] == '#') return true;
    if (line[0] == '[' && line[length - 1] == ']') return open_section(reader, line);
    char *equals = strchr(line, '=');
    if (equals == NULL || equals == line)
        return fault_at(reader->fault,
                        "cannot read this line; write [section], key = value or # comment");
    *equals = '\0';
    char *key = trimmed(line), *value = trimmed(equals + 1);
    if (reader->section != SECTION_EVENTS && !first_time(reader, key)) return false;
    return apply_setting(reader, key, value);
}

static void defaults(struct scenario *scenario) {
    memset(scenario, 0, sizeof *scenario);
    strcpy(scenario->driver, DEFAULT_DRIVER);
    strcpy(scenario->nvml, DEFAULT_NVML);
    scenario->cuda = DEFAULT_CUDA;
    scenario->count = -1;
}

bool scenario_parse(char *text, struct scenario *into, struct fault *fault) {
    struct reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) return fault_at(fault, "no memory to read it; free some");
    reader->scenario = into;
    reader->fault = fault;
    fault->line = 0;
    defaults(into);
    bool good = true;
    while (good && text != NULL) {
        char *next = strchr(text, '\n');
        if (next != NULL) *next++ = '\0';
        fault->line++;
        good = read_line(reader, text);
        text = next;
    }
    free(reader);
    return good && scenario_check(into, fault);
}
