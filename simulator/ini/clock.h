/* The time, and waiting. */
#ifndef DRAGUARD_SIMULATOR_CLOCK_H
#define DRAGUARD_SIMULATOR_CLOCK_H

#define WATCH_MS 5 /* how often a blocked call looks whether its file changed */

void wait_ms(long milliseconds);
long long now_usec(void);     /* of the day, for what is reported */
long long elapsed_usec(void); /* for waits: this clock is never set */

#endif
