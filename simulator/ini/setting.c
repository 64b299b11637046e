/* One setting of an INI file: text to value, or what is wrong with it. */
#include "setting.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool set_text(char *into, const char *key, const char *value, struct fault *fault) {
    if (*value == '\0' || strlen(value) > MAX_TEXT)
        return fault_at(fault, "%s must have 1 to %d characters", key, MAX_TEXT);
    strcpy(into, value);
    return true;
}

bool set_number(unsigned *into, const char *key, const char *value, unsigned long long largest,
                struct fault *fault) {
    unsigned long long found;
    if (!number_of(value, largest, &found))
        return fault_at(fault, "%s must be a whole number from 0 to %llu, not \"%s\"", key, largest,
                        value);
    *into = (unsigned)found;
    return true;
}

bool set_choice(bool *into, const char *key, const char *value, const char *yes, const char *no,
                struct fault *fault) {
    *into = strcmp(value, yes) == 0;
    return *into || strcmp(value, no) == 0 ||
           fault_at(fault, "%s must be %s or %s, not \"%s\"", key, yes, no, value);
}

struct failure_words failure_words(char *value) {
    struct failure_words words = {.kind = value};
    char *on = strstr(value, " on ");
    if (on != NULL) {
        *on = '\0';
        words.call = on + 4;
    }
    words.number = strchr(value, '=');
    if (words.number != NULL) *words.number++ = '\0';
    return words;
}

bool names_call(const char *named, const char *call) {
    size_t length = strlen(named);
    if (length == 0) return true;
    if (strncmp(named, call, length) != 0) return false;
    const char *rest = call + length;
    return *rest == '\0' || (strncmp(rest, "_v", 2) == 0 && isdigit((unsigned char)rest[2]));
}
