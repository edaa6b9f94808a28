// The monotonic clock.
#include "base/time.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

#define NS 1000000000

static int64_t read_ns(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * NS + now.tv_nsec;
}

// A debugger that stops this process stores the time in the first one. The time from then until
// this process reads its clock again does not count.
_Atomic int64_t ls_gdb_stopped_ns;
static _Atomic int64_t not_counted_ns;

static int64_t count_ns(void) {
    int64_t now = read_ns(CLOCK_MONOTONIC), stopped = ls_gdb_stopped_ns;
    if (stopped != 0) {  // perhaps since the clock was read
        now = read_ns(CLOCK_MONOTONIC);
        if (atomic_compare_exchange_strong(&ls_gdb_stopped_ns, &stopped, 0)) {
            not_counted_ns += now - stopped;
        }
    }
    return now - not_counted_ns;
}

double ls_time_now(void) {
    return 1e-9 * (double)count_ns();
}

int64_t ls_time_wall_ns(void) {
    return read_ns(CLOCK_REALTIME);
}

void ls_time_sleep(double seconds) {
    LS_ASSERT(seconds >= 0 && seconds < 1e9);
    int64_t ns = llround(seconds * NS);
    (void)nanosleep(&(struct timespec){.tv_sec = ns / NS, .tv_nsec = ns % NS}, NULL);
}
