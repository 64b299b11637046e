/* The gate that every call passes: is the library initialised, does the handle
 * still mean an engine, and which outage is simulated now. Between begin and
 * finish the caller holds the library's and the scenario's lock. */
#include "gate.h"

#include <pthread.h>

#include "../ini/clock.h"
#include "../ini/scenario_live.h"
#include "engine_list.h"
#include "outage.h"
#include "reload.h"
#include "sampling.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct visit {
    struct outage outage; /* a copy, to be waited for without the lock */
    bool slept;
    long long end_ms; /* 0: waits for ever */
};

/* Called with the lock; true: ask again, the lock was given up in between. */
static bool waited(struct visit *visit, dcgmReturn_t *answer) {
    if (*answer != DCGM_ST_TIMEOUT || visit->outage.kind < OUTAGE_HUNG) return false;
    if (visit->outage.kind != OUTAGE_HUNG && visit->outage.kind != OUTAGE_SLOW) return false;
    if (visit->end_ms != 0 && elapsed_usec() / 1000 >= visit->end_ms) {
        *answer = DCGM_ST_CONNECTION_NOT_VALID;
        return false;
    }
    pthread_mutex_unlock(&lock);
    wait_ms(visit->outage.kind == OUTAGE_SLOW ? visit->outage.number : WATCH_MS);
    visit->slept = true;
    pthread_mutex_lock(&lock);
    return true;
}

/* The answer of an engine that may be gone; fills the outage that applies. */
static dcgmReturn_t host_answer(const struct settings *settings, const char *address,
                                const char *name, struct visit *visit) {
    const struct host_engine *host = host_engine(settings, address);
    if (host == NULL) return DCGM_ST_CONNECTION_NOT_VALID;
    visit->outage.kind = OUTAGE_NONE;
    if (!outage_applies(&host->outage, name)) return DCGM_ST_OK;
    visit->outage = host->outage;
    return meet(&host->outage, *address == '\0', visit->slept);
}

dcgmReturn_t begin_library(const char *name, const char *address, long timeout_ms,
                           const struct settings **settings) {
    struct visit visit = {.end_ms = timeout_ms > 0 ? elapsed_usec() / 1000 + timeout_ms : 0};
    dcgmReturn_t answer;
    pthread_mutex_lock(&lock);
    do {
        *settings = settings_now();
        answer = host_answer(*settings, address, name, &visit);
    } while (waited(&visit, &answer));
    if (answer != DCGM_ST_OK) pthread_mutex_unlock(&lock);
    return answer;
}

void finish_library(void) { pthread_mutex_unlock(&lock); }

/* An engine that was restarted since is another one: the connection is lost. */
static bool is_lost(const struct engine *engine, const struct settings *settings) {
    const struct host_engine *host = host_engine(settings, engine->address);
    return engine->lost || host == NULL || host->started != engine->started;
}

static dcgmReturn_t try_engine(struct call *call, dcgmHandle_t handle, const char *name,
                               struct visit *visit) {
    if (!library_is_open()) return DCGM_ST_UNINITIALIZED;
    call->settings = settings_now();
    call->engine = engine_of(handle);
    if (call->engine == NULL) return DCGM_ST_CONNECTION_NOT_VALID;
    dcgmReturn_t answer = is_lost(call->engine, call->settings)
                              ? DCGM_ST_CONNECTION_NOT_VALID
                              : host_answer(call->settings, call->engine->address, name, visit);
    if (answer == DCGM_ST_CONNECTION_NOT_VALID) call->engine->lost = true;
    return answer;
}

dcgmReturn_t begin(dcgmHandle_t handle, const char *name, struct call *call) {
    struct visit visit = {0};
    dcgmReturn_t answer;
    pthread_mutex_lock(&lock);
    do answer = try_engine(call, handle, name, &visit);
    while (waited(&visit, &answer));
    if (answer != DCGM_ST_OK) {
        pthread_mutex_unlock(&lock);
        return answer;
    }
    call->scenario = scenario_lock();
    observe(call, name);
    return call->engine->lost ? finish(DCGM_ST_CONNECTION_NOT_VALID) : DCGM_ST_OK;
}

dcgmReturn_t finish(dcgmReturn_t answer) {
    scenario_unlock();
    pthread_mutex_unlock(&lock);
    return answer;
}
