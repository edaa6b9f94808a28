// Preloaded into mpiexec: between any two readings of its clock the second changes, as it may on a
// busy machine. Its children have the real clock.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

__attribute__((constructor)) static void for_this_process_alone(void) {
    (void)unsetenv("LD_PRELOAD");
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict out,
                                                        void *restrict zone) {
    static time_t looks;
    struct timespec now;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    looks += 2;
    *out = (struct timeval){.tv_sec = now.tv_sec + looks, .tv_usec = now.tv_nsec / 1000};
    return 0;
}
