/* The text of an INI file, cut into sections and settings: each section's header and each
 * `key = value` goes to the grammar of the file, which knows what they mean. */
#ifndef DRAGUARD_SIMULATOR_INI_H
#define DRAGUARD_SIMULATOR_INI_H

#include <stdbool.h>

#include "setting.h"

#define INI_KEYS (2 * MAX_EVENTS) /* remembered of one section, to find a repeated one */

struct ini;

struct ini_grammar {
    /* A section begins: sets `section`, to more than 0. */
    bool (*open)(struct ini *ini, char *name);
    bool (*set)(struct ini *ini, const char *key, char *value);
    const char *first; /* a section that a setting before any could belong to */
};

struct ini {
    const struct ini_grammar *grammar;
    void *into;
    struct fault *fault;
    int section;      /* the open one as the grammar numbers them; 0: none yet */
    bool keys_repeat; /* in the open section */
    unsigned opened;  /* a bit for each that may be there once */
    int key_count;
    const char *keys[INI_KEYS];
};

/* Text (is cut up) to `into`; false fills fault. */
bool ini_read(char *text, const struct ini_grammar *grammar, void *into, struct fault *fault);
/* For `open`: a section that may be there once. */
bool ini_open_once(struct ini *ini, int section, const char *name);
char *ini_trimmed(char *text);

#endif
