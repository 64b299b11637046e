/* The time, and waiting. */
#include "clock.h"

#include <errno.h>
#include <time.h>

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
