/* The scenario as its file has it now: read again when the file changed, the
 * last good one kept when the new one is bad. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

#define PATH_VARIABLE "DRAGUARD_SIM_SCENARIO"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct scenario *current, *spare;
static struct stat seen;
static bool told_unreadable;

void wait_ms(long milliseconds) {
    struct timespec left = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    while (nanosleep(&left, &left) == -1 && errno == EINTR) {
    }
}

static long long usec_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

long long now_usec(void) { return usec_of(CLOCK_REALTIME); }

long long elapsed_usec(void) { return usec_of(CLOCK_MONOTONIC); }

static bool same_version(const struct stat *one, const struct stat *other) {
    return one->st_ino == other->st_ino && one->st_dev == other->st_dev &&
           one->st_size == other->st_size && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/* NULL when it cannot be read to the end; the caller frees. */
static char *content(int file, size_t size) {
    char *text = malloc(size + 1);
    size_t have = 0;
    while (text != NULL && have < size) {
        ssize_t got = read(file, text + have, size - have);
        if (got <= 0) break;
        have += (size_t)got;
    }
    if (text != NULL) text[have] = '\0';
    return text;
}

static void take(const char *path, char *text) {
    struct fault fault = {0};
    if (spare == NULL) spare = malloc(sizeof *spare);
    if (spare == NULL) return;
    if (scenario_parse(text, spare, &fault)) {
        struct scenario *old = current;
        current = spare;
        spare = old;
    } else {
        fprintf(stderr, "%s:%d: %s\n", path, fault.line, fault.what);
    }
}

static void unreadable(const char *path) {
    if (!told_unreadable)
        fprintf(stderr, "%s:0: cannot be read: %s; create it, or point " PATH_VARIABLE " at one\n",
                path, strerror(errno));
    told_unreadable = true;
    memset(&seen, 0, sizeof seen);
}

static void reload(const char *path) {
    struct stat now;
    if (stat(path, &now) == 0 && same_version(&now, &seen)) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file == -1 || fstat(file, &now) == -1) {
        unreadable(path);
    } else {
        char *text = content(file, (size_t)now.st_size);
        told_unreadable = false;
        seen = now;
        if (text != NULL) take(path, text);
        free(text);
    }
    if (file != -1) close(file);
}

const struct scenario *scenario_lock(void) {
    pthread_mutex_lock(&lock);
    const char *path = getenv(PATH_VARIABLE);
    if (path != NULL)
        reload(path);
    else if (!told_unreadable) {
        fprintf(stderr, "the simulator: " PATH_VARIABLE
                        " is not set; point it at a scenario.ini\n");
        told_unreadable = true;
    }
    return current;
}

void scenario_unlock(void) { pthread_mutex_unlock(&lock); }
