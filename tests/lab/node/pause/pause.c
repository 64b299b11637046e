/* Does nothing until it is asked to end: what holds a pod's namespaces, and a workload that only
 * holds its devices. As process 1 it also collects what ends below it.
 *
 * `pause crash FILE` instead copies itself to FILE, and crashes there: the kernel then logs the
 * name of the file, whatever is in it. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
    (void)number;
    _exit(0);
}

static void reap(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static int copy_and_run(const char *file) {
    static char piece[65536];
    int from = open("/proc/self/exe", O_RDONLY), into = open(file, O_WRONLY | O_CREAT, 0755);
    ssize_t count;
    if (from < 0 || into < 0) return 1;
    while ((count = read(from, piece, sizeof piece)) > 0)
        if (write(into, piece, (size_t)count) != count) return 1;
    close(into);
    execl(file, file, "here", (char *)NULL);
    return 1;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "crash") == 0) return copy_and_run(words[2]);
    if (count == 2 && strcmp(words[1], "here") == 0) *(volatile int *)NULL = 1;
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGCHLD, reap);
    for (;;) pause();
}
