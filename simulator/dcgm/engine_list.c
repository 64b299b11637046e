/* The engines of this process: the embedded one, and one for each connection. */
#include "engine_list.h"

#include <stdlib.h>
#include <string.h>

#include "../ini/scenario_live.h"
#include "store.h"

static struct engine *engines;
static int opened;
static dcgmHandle_t next_handle = 1;

void library_opened(void) { opened++; }

bool library_is_open(void) { return opened > 0; }

struct engine *engine_of(dcgmHandle_t handle) {
    struct engine *engine = engines;
    while (engine != NULL && engine->handle != handle) engine = engine->next;
    return engine;
}

static bool any(const struct series *series, const void *what) {
    (void)series, (void)what;
    return true;
}

void engine_free(struct engine *engine) {
    struct engine **link = &engines;
    while (*link != engine) link = &(*link)->next;
    *link = engine->next;
    series_forget(engine, any, NULL);
    free(engine);
}

static unsigned long long newest_event(void) {
    const struct scenario *scenario = scenario_lock();
    unsigned long long number = 0;
    if (scenario != NULL && scenario->event_count > 0)
        number = scenario->events[scenario->event_count - 1].number;
    scenario_unlock();
    return number;
}

struct engine *engine_new(const struct host_engine *host) {
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) return NULL;
    bool embedded = host->address[0] == '\0';
    engine->handle = embedded ? EMBEDDED_HANDLE : next_handle++;
    strcpy(engine->address, host->address);
    engine->started = host->started;
    engine->seen_event = host->since_event >= 0 ? (unsigned long long)host->since_event
                                                : newest_event();
    engine->first_event = engine->seen_event;
    engine->next = engines;
    engines = engine;
    return engine;
}

void library_closed(void) {
    opened = 0;
    while (engines != NULL) engine_free(engines);
}
