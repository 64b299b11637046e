/* A file that is read again when it changed: its version, its text. */
#ifndef DRAGUARD_SIMULATOR_INI_FILE_H
#define DRAGUARD_SIMULATOR_INI_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

bool same_version(const struct stat *left, const struct stat *right);
/* As much of it as there is; the caller frees. NULL: no memory. */
char *text_of_file(int file, size_t size);

#endif
