/* What an outage of an engine does to a call. */
#include "outage.h"

#include <signal.h>
#include <stdlib.h>

bool outage_applies(const struct outage *outage, const char *call) {
    return outage->kind != OUTAGE_NONE && names_call(outage->call, call);
}

static void crash(int signal_number) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    abort();
}

dcgmReturn_t engine_dies(struct engine *engine) {
    if (engine->address[0] == '\0') crash(SIGSEGV);
    engine->lost = true;
    return DCGM_ST_CONNECTION_NOT_VALID;
}

dcgmReturn_t meet(const struct outage *outage, bool embedded, bool slept) {
    switch (outage->kind) {
    case OUTAGE_ERROR: return (dcgmReturn_t)outage->number;
    case OUTAGE_SLOW: return slept ? DCGM_ST_OK : DCGM_ST_TIMEOUT;
    case OUTAGE_HUNG: return DCGM_ST_TIMEOUT;
    case OUTAGE_SEGFAULT:
        if (embedded) crash(SIGSEGV);
        return DCGM_ST_CONNECTION_NOT_VALID;
    case OUTAGE_ABORT:
        if (embedded) crash(SIGABRT);
        return DCGM_ST_CONNECTION_NOT_VALID;
    case OUTAGE_DEAD: return DCGM_ST_CONNECTION_NOT_VALID;
    default: return DCGM_ST_OK;
    }
}
