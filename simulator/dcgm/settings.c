/* What dcgm.ini says of an engine. */
#include "settings.h"

#include <string.h>

const struct host_engine *host_engine(const struct settings *settings, const char *address) {
    if (*address == '\0') return &settings->embedded;
    for (int i = 0; i < settings->listener_count; i++)
        if (strcmp(settings->listeners[i].address, address) == 0) return &settings->listeners[i];
    return NULL;
}
