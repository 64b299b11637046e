/* The text of an INI file, cut into sections and settings. */
#include "ini.h"

#include <ctype.h>
#include <string.h>

char *ini_trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
    return text;
}

bool ini_open_once(struct ini *ini, int section, const char *name) {
    if (ini->opened & 1u << section)
        return fault_at(ini->fault, "section [%s] is there twice; join the two", name);
    ini->opened |= 1u << section;
    ini->section = section;
    return true;
}

/* The keys stay where they are in the text. */
static bool first_time(struct ini *ini, const char *key) {
    if (ini->keys_repeat) return true;
    for (int i = 0; i < ini->key_count; i++)
        if (strcmp(ini->keys[i], key) == 0)
            return fault_at(ini->fault, "\"%s\" is set twice in this section; remove one", key);
    if (ini->key_count < INI_KEYS) ini->keys[ini->key_count++] = key;
    return true;
}

static bool read_line(struct ini *ini, char *line) {
    line = ini_trimmed(line);
    size_t length = strlen(line);
    if (length == 0 || line[0] == '#') return true;
    if (line[0] == '[' && line[length - 1] == ']') {
        line[length - 1] = '\0';
        ini->key_count = 0;
        ini->keys_repeat = false;
        return ini->grammar->open(ini, ini_trimmed(line + 1));
    }
    char *equals = strchr(line, '=');
    if (equals == NULL || equals == line)
        return fault_at(ini->fault,
                        "cannot read this line; write [section], key = value or # comment");
    *equals = '\0';
    char *key = ini_trimmed(line), *value = ini_trimmed(equals + 1);
    if (!first_time(ini, key)) return false;
    if (ini->section == 0)
        return fault_at(ini->fault, "\"%s\" stands before any section; put it below [%s]", key,
                        ini->grammar->first);
    return ini->grammar->set(ini, key, value);
}

bool ini_read(char *text, const struct ini_grammar *grammar, void *into, struct fault *fault) {
    struct ini ini = {.grammar = grammar, .into = into, .fault = fault};
    fault->line = 0;
    bool good = true;
    while (good && text != NULL) {
        char *next = strchr(text, '\n');
        if (next != NULL) *next++ = '\0';
        fault->line++;
        good = read_line(&ini, text);
        text = next;
    }
    return good;
}
