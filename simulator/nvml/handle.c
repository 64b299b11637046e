/* Handles: one object per thing for the life of the process, so that a handle
 * taken before a GPU was lost still names it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *all;

static bool is(const struct handle *handle, enum handle_kind kind, const char *uuid,
               const char *mig_uuid, unsigned gi, unsigned ci) {
    return handle->kind == kind && handle->gi == gi && handle->ci == ci &&
           strcmp(handle->uuid, uuid) == 0 && strcmp(handle->mig_uuid, mig_uuid) == 0;
}

static struct handle *added(enum handle_kind kind, const char *uuid, const char *mig_uuid,
                            unsigned gi, unsigned ci) {
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL) abort();
    handle->kind = kind;
    strcpy(handle->uuid, uuid);
    strcpy(handle->mig_uuid, mig_uuid);
    handle->gi = gi;
    handle->ci = ci;
    handle->next = all;
    all = handle;
    return handle;
}

struct handle *handle_of(enum handle_kind kind, const char *uuid, const char *mig_uuid, unsigned gi,
                         unsigned ci) {
    pthread_mutex_lock(&lock);
    struct handle *found = all;
    while (found != NULL && !is(found, kind, uuid, mig_uuid, gi, ci)) found = found->next;
    if (found == NULL) found = added(kind, uuid, mig_uuid, gi, ci);
    pthread_mutex_unlock(&lock);
    return found;
}

struct handle *gpu_handle(const struct gpu *gpu) {
    return handle_of(HANDLE_GPU, gpu->uuid, "", 0, 0);
}
