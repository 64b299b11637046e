/* A file that is read again when it changed: its version, its text. */
#include "file.h"

#include <stdlib.h>
#include <unistd.h>

bool same_version(const struct stat *left, const struct stat *right) {
    return left->st_ino == right->st_ino && left->st_dev == right->st_dev &&
           left->st_size == right->st_size && left->st_mtim.tv_sec == right->st_mtim.tv_sec &&
           left->st_mtim.tv_nsec == right->st_mtim.tv_nsec;
}

char *text_of_file(int file, size_t size) {
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
