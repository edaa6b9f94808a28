// The clock: monotonic, and virtual if a test drives it.
#include <criterion/criterion.h>

#include "base/time.h"

Test(time, never_goes_back) {
    double before = ls_time_now();
    ls_time_sleep(0.001);
    cr_assert(ls_time_now() > before);
    cr_assert(ls_time_wall_ns() > INT64_C(1600000000) * 1000000000);
}

Test(time, of_a_test_passes_by_sleeping_alone) {
    ls_time_make_virtual(true);
    double before = ls_time_now();
    cr_assert(ls_time_now() == before);
    ls_time_sleep(3600.25);
    cr_assert(ls_time_now() == before + 3600.25);
    ls_time_make_virtual(false);
    double real = ls_time_now();
    ls_time_sleep(0.001);
    cr_assert(ls_time_now() > real);
}
