// Helpers of the planner's tests: short notations for tables and problems.
#pragma once

#include <criterion/criterion.h>

#include "planner/planner.h"

static inline ls_planner_table make_table(const char *name, int64_t rows, int64_t columns,
                                          const ls_planner_feature *feature) {
    return (ls_planner_table){.name = name,
                              .rows = rows,
                              .columns = columns,
                              .element_bytes = 4,
                              .features = feature,
                              .feature_count = 1};
}

// The option of a table with this sharding type and kernel; fails the test when there is none.
static inline const ls_planner_option *find_option(const ls_planner_problem *problem, int table,
                                                   ls_sharding sharding, ls_planner_kernel kernel) {
    for (int i = 0; i < ls_planner_option_count(problem, table); i++) {
        const ls_planner_option *option = ls_planner_option_at(problem, table, i);
        if (option->sharding == sharding && option->kernel == kernel) {
            return option;
        }
    }
    cr_assert_fail("no option %s %s", ls_sharding_name(sharding), ls_planner_kernel_name(kernel));
    return NULL;
}
