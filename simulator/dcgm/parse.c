/* dcgm.ini text to settings: lines and sections. The grammar is documented in
 * simulator/dcgm_file.py, which writes such files. */
#include "parse.h"

#include <stdio.h>
#include <string.h>

#include "../ini/ini.h"
#include "incidents.h"
#include "words.h"

enum section { SECTION_ENGINE = 1, SECTION_LISTEN, SECTION_PLACE, SECTION_HEALTH };

static bool open_listener(struct ini *ini, const char *address) {
    struct settings *settings = ini->into;
    if (*address == '\0' || strlen(address) > MAX_TEXT)
        return fault_at(ini->fault, "a listener's address must have 1 to %d characters",
                        MAX_TEXT);
    if (host_engine(settings, address) != NULL)
        return fault_at(ini->fault, "section [listen %s] is there twice; join the two", address);
    if (settings->listener_count == MAX_LISTENERS)
        return fault_at(ini->fault, "more than %d listeners; remove some", MAX_LISTENERS);
    struct host_engine *engine = &settings->listeners[settings->listener_count++];
    memset(engine, 0, sizeof *engine);
    strcpy(engine->address, address);
    engine->since_event = -1;
    ini->section = SECTION_LISTEN;
    return true;
}

static bool same_place(const struct place_settings *left, const struct place_settings *right) {
    return left->kind == right->kind && left->gpu == right->gpu && left->gi == right->gi &&
           left->of_switch == right->of_switch;
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

static bool open_place(struct ini *ini, int row, const char *name, const char *text) {
    struct settings *settings = ini->into;
    struct place_settings place = {.kind = place_rows[row].kind,
                                   .of_switch = place_rows[row].of_switch,
                                   .status = -1,
                                   .id = -1,
                                   .profiling = {.count = -1}};
    if (!read_place(text, place_rows[row].part, &place))
        return fault_at(ini->fault,
                        "cannot read section [%s]; write [gpu <number>], [gi <gpu>/<NVML gi>], "
                        "[ci <gpu>/<NVML gi>], [link <gpu>/<link>], [switch <number>], "
                        "[switch_link <switch>/<link>], [cpu <number>] or [core <number>]",
                        name);
    for (int i = 0; i < settings->place_count; i++)
        if (same_place(&settings->places[i], &place))
            return fault_at(ini->fault, "section [%s] is there twice; join the two", name);
    if (settings->place_count == MAX_PLACES)
        return fault_at(ini->fault, "more than %d places; remove some", MAX_PLACES);
    settings->places[settings->place_count++] = place;
    ini->section = SECTION_PLACE;
    return true;
}

static bool open_section(struct ini *ini, char *name) {
    if (strcmp(name, "engine") == 0) return ini_open_once(ini, SECTION_ENGINE, name);
    if (strcmp(name, "health") == 0) return ini_open_once(ini, SECTION_HEALTH, name);
    if (strncmp(name, "listen ", 7) == 0) return open_listener(ini, ini_trimmed(name + 7));
    for (size_t i = 0; i < sizeof place_rows / sizeof place_rows[0]; i++) {
        size_t length = strlen(place_rows[i].word);
        if (strncmp(name, place_rows[i].word, length) == 0)
            return open_place(ini, (int)i, name, ini_trimmed(name + length));
    }
    return fault_at(ini->fault,
                    "unknown section [%s]; use [engine], [listen <address>], [gpu <number>], "
                    "[gi <gpu>/<NVML gi>], [ci <gpu>/<NVML gi>], [link <gpu>/<link>], "
                    "[switch <number>], [switch_link <switch>/<link>], [cpu <number>], "
                    "[core <number>] or [health]",
                    name);
}

static bool apply_setting(struct ini *ini, const char *key, char *value) {
    struct settings *settings = ini->into;
    struct fault *fault = ini->fault;
    switch (ini->section) {
    case SECTION_ENGINE: return set_engine(settings, key, value, fault);
    case SECTION_LISTEN:
        return set_listen(&settings->listeners[settings->listener_count - 1], key, value, fault);
    case SECTION_PLACE: return set_place(settings, settings->place_count - 1, key, value, fault);
    default: return set_health(settings, key, value, fault);
    }
}

static void defaults(struct settings *settings) {
    memset(settings, 0, sizeof *settings);
    strcpy(settings->version, "4.6.0");
    settings->embedded.since_event = -1;
    settings->profiling.count = -1;
}

bool settings_parse(char *text, struct settings *into, struct fault *fault) {
    static const struct ini_grammar grammar = {open_section, apply_setting, "engine"};
    defaults(into);
    return ini_read(text, &grammar, into, fault);
}
