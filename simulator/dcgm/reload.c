/* dcgm.ini as the file has it now: read again when it changed, the last good
 * settings kept when the new ones are bad. No file at all means a healthy
 * embedded engine and no stand-alone one. */
#include "reload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../ini/file.h"
#include "parse.h"

#define PATH_VARIABLE "DRAGUARD_SIM_DCGM"
#define SCENARIO_VARIABLE "DRAGUARD_SIM_SCENARIO"
#define PATH_SIZE 4096

static struct settings *current, *spare;
static struct stat seen;
static bool looked;
static unsigned generation;

static bool find_path(char *into) {
    const char *path = getenv(PATH_VARIABLE), *scenario = getenv(SCENARIO_VARIABLE);
    const char *slash = scenario ? strrchr(scenario, '/') : NULL;
    if (path == NULL && scenario == NULL) return false;
    int length = path ? snprintf(into, PATH_SIZE, "%s", path)
                      : snprintf(into, PATH_SIZE, "%.*sdcgm.ini",
                                 slash ? (int)(slash + 1 - scenario) : 0, scenario);
    return length > 0 && length < PATH_SIZE;
}

/* "" when there is no file, NULL when it cannot be read; the caller frees. */
static char *content(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file == -1) return errno == ENOENT ? strdup("") : NULL;
    memset(&seen, 0, sizeof seen);
    if (fstat(file, &seen) == -1) seen.st_size = 0;
    char *text = text_of_file(file, (size_t)seen.st_size);
    close(file);
    return text;
}

static void take(const char *path, char *text) {
    struct fault fault = {0};
    if (settings_parse(text, spare, &fault)) {
        struct settings *old = current;
        current = spare;
        spare = old;
        generation++;
    } else {
        fprintf(stderr, "%s:%d: %s\n", path, fault.line, fault.what);
    }
}

static bool changed(const char *path) {
    struct stat now;
    if (stat(path, &now) == -1) {
        bool was_there = seen.st_ino != 0;
        memset(&seen, 0, sizeof seen);
        return was_there || !looked;
    }
    return !looked || !same_version(&now, &seen);
}

static void make_room(void) {
    char nothing[] = "";
    struct fault fault;
    if (current == NULL) current = malloc(sizeof *current);
    if (spare == NULL) spare = malloc(sizeof *spare);
    if (current == NULL || spare == NULL) abort();
    settings_parse(nothing, current, &fault);
}

const struct settings *settings_now(void) {
    char path[PATH_SIZE];
    if (current == NULL) make_room();
    if (!find_path(path) || !changed(path)) return current;
    looked = true;
    char *text = content(path);
    if (text == NULL)
        fprintf(stderr, "%s:0: cannot be read: %s; check its permissions\n", path, strerror(errno));
    else
        take(path, text);
    free(text);
    return current;
}

unsigned settings_generation(void) { return generation; }
