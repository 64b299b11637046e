/* One sample: a number, a text or a blank, in the type of its field. */
#include "sample.h"

#include <stdlib.h>
#include <string.h>

#include "abi.h"

void blank_sample(const struct field *field, int blank, struct sample *into) {
    static const char *const texts[BLANK_COUNT] = {"<<<NULL>>>", "<<<NOT_FOUND>>>",
                                                   "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>"};
    free(into->text);
    into->text = NULL;
    if (field->type == 'd')
        into->real = FP64_BLANK + blank;
    else
        into->whole = INT64_BLANK + blank;
    if (field->type == 's') into->text = strdup(texts[blank]);
}

void put_number(const struct field *field, double real, long long whole, struct sample *into) {
    if (field->type == 'd')
        into->real = real;
    else
        into->whole = whole;
}

void put_text(const char *text, struct sample *into) { into->text = strdup(text); }
