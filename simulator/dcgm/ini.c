/* dcgm.ini text to settings: lines and sections. The grammar is told in
 * simulator/dcgm_file.py, which writes such files. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define MAX_KEYS (MAX_INCIDENTS + 64)

struct reader {
    struct settings *settings;
    struct fault *fault;
    enum ini_section section;
    bool seen[INI_COUNT];
    int place; /* of INI_PLACE */
    int key_count;
    char keys[MAX_KEYS][64];
};

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
    return text;
}

static bool open_once(struct reader *reader, enum ini_section section, const char *name) {
    if (reader->seen[section])
        return fault_at(reader->fault, "section [%s] is there twice; join the two", name);
    reader->seen[section] = true;
    reader->section = section;
    return true;
}

static bool open_listener(struct reader *reader, const char *address) {
    struct settings *settings = reader->settings;
    if (*address == '\0' || strlen(address) > MAX_TEXT)
        return fault_at(reader->fault, "a listener's address must have 1 to %d characters",
                        MAX_TEXT);
    if (host_engine(settings, address) != NULL)
        return fault_at(reader->fault, "section [listen %s] is there twice; join the two", address);
    if (settings->listener_count == MAX_LISTENERS)
        return fault_at(reader->fault, "more than %d listeners; remove some", MAX_LISTENERS);
    struct host_engine *engine = &settings->listeners[settings->listener_count++];
    memset(engine, 0, sizeof *engine);
    strcpy(engine->address, address);
    engine->since_event = -1;
    reader->section = INI_LISTEN;
    return true;
}

static bool same_place(const struct place_settings *one, const struct place_settings *other) {
    return one->kind == other->kind && one->gpu == other->gpu && one->gi == other->gi &&
           one->of_switch == other->of_switch;
}

static unsigned long long largest_of(unsigned kind) {
    switch (kind) {
    case FE_SWITCH: return MAX_SWITCHES - 1;
    case FE_CPU: return MAX_CPUS - 1;
    case FE_CPU_CORE: return MAX_CORES - 1;
    default: return MAX_GPUS - 1;
    }
}

/* "3" of [gpu 3], "3/7" of [gi 3/7]. */
static bool read_place(const char *text, bool with_gi, struct place_settings *into) {
    char gpu[16] = "";
    const char *slash = strchr(text, '/');
    unsigned long long found, gi = 0;
    if ((slash != NULL) != with_gi || strlen(text) >= sizeof gpu) return false;
    snprintf(gpu, sizeof gpu, "%.*s", (int)(slash ? slash - text : (long)strlen(text)), text);
    if (!number_of(gpu, largest_of(into->of_switch ? FE_SWITCH : into->kind), &found)) return false;
    unsigned long long most = into->of_switch ? LINKS_PER_SWITCH - 1 : 127;
    if (slash != NULL && !number_of(slash + 1, most, &gi)) return false;
    into->gpu = (unsigned)found;
    into->gi = (unsigned)gi;
    return true;
}

/* A section of an entity: its first word, and whether it is a part of another. */
static const struct {
    const char *word;
    unsigned kind;
    bool part, of_switch;
} place_rows[] = {
    {"gpu ", FE_GPU, false, false},       {"gi ", FE_GPU_I, true, false},
    {"ci ", FE_GPU_CI, true, false},      {"link ", FE_LINK, true, false},
    {"switch ", FE_SWITCH, false, false}, {"switch_link ", FE_LINK, true, true},
    {"cpu ", FE_CPU, false, false},       {"core ", FE_CPU_CORE, false, false},
};

static bool open_place(struct reader *reader, int row, const char *name, const char *text) {
    struct settings *settings = reader->settings;
    struct place_settings place = {.kind = place_rows[row].kind,
                                   .of_switch = place_rows[row].of_switch,
                                   .status = -1,
                                   .id = -1,
                                   .profiling = {.count = -1}};
    if (!read_place(text, place_rows[row].part, &place))
        return fault_at(reader->fault,
                        "cannot read section [%s]; write [gpu <number>], [gi <gpu>/<NVML gi>], "
                        "[ci <gpu>/<NVML gi>], [link <gpu>/<link>], [switch <number>], "
                        "[switch_link <switch>/<link>], [cpu <number>] or [core <number>]",
                        name);
    for (int i = 0; i < settings->place_count; i++)
        if (same_place(&settings->places[i], &place))
            return fault_at(reader->fault, "section [%s] is there twice; join the two", name);
    if (settings->place_count == MAX_PLACES)
        return fault_at(reader->fault, "more than %d places; remove some", MAX_PLACES);
    reader->place = settings->place_count;
    settings->places[settings->place_count++] = place;
    reader->section = INI_PLACE;
    return true;
}

static bool open_section(struct reader *reader, char *line) {
    line[strlen(line) - 1] = '\0';
    char *name = trimmed(line + 1);
    reader->key_count = 0;
    if (strcmp(name, "engine") == 0) return open_once(reader, INI_ENGINE, name);
    if (strcmp(name, "health") == 0) return open_once(reader, INI_HEALTH, name);
    if (strncmp(name, "listen ", 7) == 0) return open_listener(reader, trimmed(name + 7));
    for (size_t i = 0; i < sizeof place_rows / sizeof place_rows[0]; i++) {
        size_t length = strlen(place_rows[i].word);
        if (strncmp(name, place_rows[i].word, length) == 0)
            return open_place(reader, (int)i, name, trimmed(name + length));
    }
    return fault_at(reader->fault,
                    "unknown section [%s]; use [engine], [listen <address>], [gpu <number>], "
                    "[gi <gpu>/<NVML gi>], [ci <gpu>/<NVML gi>], [link <gpu>/<link>], "
                    "[switch <number>], [switch_link <switch>/<link>], [cpu <number>], "
                    "[core <number>] or [health]",
                    name);
}

static bool first_time(struct reader *reader, const char *key) {
    for (int i = 0; i < reader->key_count; i++)
        if (strncmp(reader->keys[i], key, sizeof reader->keys[i] - 1) == 0)
            return fault_at(reader->fault, "\"%s\" is set twice in this section; remove one", key);
    if (reader->key_count < MAX_KEYS)
        snprintf(reader->keys[reader->key_count++], sizeof reader->keys[0], "%s", key);
    return true;
}

static bool apply_setting(struct reader *reader, const char *key, char *value) {
    struct settings *settings = reader->settings;
    struct fault *fault = reader->fault;
    switch (reader->section) {
    case INI_ENGINE: return take_engine(settings, key, value, fault);
    case INI_LISTEN:
        return take_listen(&settings->listeners[settings->listener_count - 1], key, value, fault);
    case INI_PLACE: return take_place(settings, reader->place, key, value, fault);
    case INI_HEALTH:
        return take_health(settings, key, value, fault);
    default:
        return fault_at(fault, "\"%s\" stands before any section; put it below [engine]", key);
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
    return first_time(reader, key) && apply_setting(reader, key, value);
}

static void defaults(struct settings *settings) {
    memset(settings, 0, sizeof *settings);
    strcpy(settings->version, "4.6.0");
    settings->embedded.since_event = -1;
    settings->profiling.count = -1;
}

bool settings_parse(char *text, struct settings *into, struct fault *fault) {
    struct reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) return fault_at(fault, "no memory to read it; free some");
    reader->settings = into;
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
    return good;
}
