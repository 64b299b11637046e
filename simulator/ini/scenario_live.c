/* The scenario as its file has it now: read again when the file changed, the
 * last good one kept when the new one is bad. */
#include "scenario_live.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "scenario_parse.h"

#define PATH_VARIABLE "DRAGUARD_SIM_SCENARIO"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct scenario *current, *spare;
static struct stat seen;
static bool logged_unreadable;

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
    if (!logged_unreadable)
        fprintf(stderr, "%s:0: cannot be read: %s; create it, or point " PATH_VARIABLE " at one\n",
                path, strerror(errno));
    logged_unreadable = true;
    memset(&seen, 0, sizeof seen);
}

static void reload(const char *path) {
    struct stat now;
    if (stat(path, &now) == 0 && same_version(&now, &seen)) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file == -1 || fstat(file, &now) == -1) {
        unreadable(path);
    } else {
        char *text = text_of_file(file, (size_t)now.st_size);
        logged_unreadable = false;
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
    else if (!logged_unreadable) {
        fprintf(stderr, "the simulator: " PATH_VARIABLE
                        " is not set; point it at a scenario.ini\n");
        logged_unreadable = true;
    }
    return current;
}

void scenario_unlock(void) { pthread_mutex_unlock(&lock); }
