// The monotonic clock.
#include <criterion/criterion.h>
#include <time.h>

#include "base/time.h"

Test(time, never_goes_back) {
    double before = ls_time_now();
    ls_time_sleep(0.001);
    cr_assert(ls_time_now() > before);
    cr_assert(ls_time_wall_ns() > INT64_C(1600000000) * 1000000000);
}

extern _Atomic int64_t ls_gdb_stopped_ns;

Test(time, of_a_stop_in_a_debugger_does_not_count) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    double before = ls_time_now();
    ls_gdb_stopped_ns = ((int64_t)now.tv_sec - 10) * 1000000000 + now.tv_nsec;
    double after = ls_time_now();
    cr_assert(after <= before - 10 + 1e-6);  // ten seconds ago it was stopped
    cr_assert(ls_gdb_stopped_ns == 0);
    ls_time_sleep(0.001);
    cr_assert(ls_time_now() > after);
}
