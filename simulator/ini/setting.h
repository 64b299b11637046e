/* One setting of an INI file: text to value, or what is wrong with it. */
#ifndef DRAGUARD_SIMULATOR_INI_SETTING_H
#define DRAGUARD_SIMULATOR_INI_SETTING_H

#include <stdbool.h>

#include "facts.h"

#define TEXT_SIZE (MAX_TEXT + 1)

/* What is wrong with a file, and on which line. */
struct fault {
    int line;
    char what[MAX_COMPLAINT + 1];
};

bool fault_at(struct fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* always false, to be returned */
bool number_of(const char *text, unsigned long long largest, unsigned long long *into);
bool set_text(char *into, const char *key, const char *value, struct fault *fault);
bool set_number(unsigned *into, const char *key, const char *value, unsigned long long largest,
                struct fault *fault);
/* One of two words. */
bool set_choice(bool *into, const char *key, const char *value, const char *yes, const char *no,
                struct fault *fault);

/* "kind=number on call" cut into its parts; number and call may be NULL. */
struct failure_words {
    char *kind, *number, *call;
};

struct failure_words failure_words(char *value);
/* Whether a failure on `named` is one of this call; "" is every call. A name also means its
 * versions: nvmlDeviceGetCount is nvmlDeviceGetCount_v2 too. */
bool names_call(const char *named, const char *call);

#endif
