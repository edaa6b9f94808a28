// Tests of rank-dependent integers.
#include <criterion/criterion.h>
#include <string.h>

#include "local_tensor/local_tensor.h"

static ls_world *make_world(void) {
    ls_world *world = NULL;
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = LS_MESH(2, 2)}) == LS_OK);
    return world;
}

static ls_rank_int *make(ls_world *world, int64_t a, int64_t b, int64_t c, int64_t d) {
    ls_rank_int *value = NULL;
    cr_assert(ls_rank_int_create(&value, world, (const int64_t[]){a, b, c, d}) == LS_OK);
    return value;
}

// Every operation on signs that differ: division rounds down, the remainder follows the divisor.
Test(rank_int, arithmetic) {
    ls_world *world = make_world();
    ls_rank_int *a = make(world, 7, -7, 7, -7);
    ls_rank_int *b = make(world, 2, 2, -2, -2);
    static const int64_t want[7][4] = {{9, -5, 5, -9}, {5, -9, 9, -5}, {14, -14, -14, 14},
                                       {3, -4, -4, 3}, {1, 1, -1, -1}, {2, -7, -2, -7},
                                       {7, 2, 7, -2}};
    for (int op = LS_INT_ADD; op <= LS_INT_MAX; op++) {
        ls_rank_int *result = NULL;
        cr_assert(ls_rank_int_binary(&result, (ls_int_op)op, a, b) == LS_OK);
        for (int rank = 0; rank < 4; rank++) {
            cr_expect(ls_rank_int_at(result, rank) == want[op][rank], "operation %d, rank %d", op,
                      rank);
        }
        ls_rank_int_free(result);
    }
    ls_rank_int_free(a);
    ls_rank_int_free(b);
    ls_world_free(world);
}

// Division by zero and overflow name the rank on which they happen.
Test(rank_int, failures_name_the_rank) {
    ls_world *world = make_world();
    ls_rank_int *a = make(world, 1, 2, INT64_MIN, INT64_MAX);
    ls_rank_int *b = make(world, 1, 0, -1, 2);
    ls_rank_int *result = NULL;
    cr_expect(ls_rank_int_binary(&result, LS_INT_FLOORDIV, a, b) == LS_ERR_INVALID);
    cr_expect_str_eq(ls_error_last()->text, "rank 1: 2 // 0 divides by zero");
    cr_expect(ls_error_last()->rank == 1 && result == NULL);
    cr_expect(ls_rank_int_binary(&result, LS_INT_MOD, a, b) == LS_ERR_INVALID);
    cr_expect(ls_rank_int_binary(&result, LS_INT_ADD, a, b) == LS_ERR_OVERFLOW);
    cr_expect(ls_error_last()->rank == 2);
    cr_expect(ls_rank_int_binary(&result, LS_INT_MUL, a, b) == LS_ERR_OVERFLOW);
    ls_rank_int *minus = NULL;
    cr_assert(ls_rank_int_same(&minus, world, -1) == LS_OK);
    cr_expect(ls_rank_int_binary(&result, LS_INT_FLOORDIV, a, minus) == LS_ERR_OVERFLOW);
    cr_assert(ls_rank_int_binary(&result, LS_INT_MOD, a, minus) == LS_OK);
    cr_expect(ls_rank_int_at(result, 2) == 0);
    ls_rank_int_free(result);
    ls_rank_int_free(minus);
    ls_rank_int_free(a);
    ls_rank_int_free(b);
    ls_world_free(world);
}

// A comparison has one answer for all ranks; if they disagree (rank == 0, for example) it is an
// error that names the ranks on both sides.
Test(rank_int, comparisons_never_split_the_ranks) {
    ls_world *world = make_world();
    ls_rank_int *rank = NULL;
    ls_rank_int *zero = NULL;
    ls_rank_int *four = NULL;
    bool answer = false;
    cr_assert(ls_rank_int_rank(&rank, world) == LS_OK);
    cr_assert(ls_rank_int_same(&zero, world, 0) == LS_OK);
    cr_assert(ls_rank_int_same(&four, world, 4) == LS_OK);
    static const bool want[6] = {false, true, true, true, false, false};
    for (int how = LS_INT_EQ; how <= LS_INT_GE; how++) {
        answer = !want[how];
        cr_assert(ls_rank_int_compare(&answer, (ls_int_compare)how, rank, four) == LS_OK);
        cr_expect(answer == want[how], "comparison %d", how);
    }
    cr_expect(ls_rank_int_compare(&answer, LS_INT_EQ, rank, zero) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text,
                     "ranks disagree on a comparison: true on 0 (rank 0: 0 == 0), false on 1-3 "
                     "(rank 1: 1 == 0)");
    int64_t value = 0;
    cr_assert(ls_rank_int_value(&value, four) == LS_OK);
    cr_expect(value == 4);
    cr_expect(ls_rank_int_value(&value, rank) == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text,
                     "ranks disagree on a value: rank 0 has 0, rank 1 has 1");
    ls_rank_int_free(rank);
    ls_rank_int_free(zero);
    ls_rank_int_free(four);
    ls_world_free(world);
}

// Coordinates, and integers of two worlds, which must not mix.
Test(rank_int, coordinates_and_worlds) {
    ls_world *world = make_world();
    ls_world *other = make_world();
    ls_rank_int *a = NULL;
    ls_rank_int *b = NULL;
    cr_assert(ls_rank_int_coordinate(&a, world, 0) == LS_OK);
    cr_expect(ls_rank_int_at(a, 1) == 0 && ls_rank_int_at(a, 2) == 1);
    ls_rank_int_free(a);
    cr_expect(ls_rank_int_coordinate(&a, world, 2) == LS_ERR_INVALID);
    cr_assert(ls_rank_int_rank(&a, world) == LS_OK);
    cr_assert(ls_rank_int_rank(&b, other) == LS_OK);
    bool answer = false;
    ls_rank_int *sum = NULL;
    cr_expect(ls_rank_int_compare(&answer, LS_INT_EQ, a, b) == LS_ERR_INVALID);
    cr_expect(ls_rank_int_binary(&sum, LS_INT_ADD, a, b) == LS_ERR_INVALID);
    ls_world_free(other);  // a rank-dependent integer outlives its world
    ls_rank_int_free(b);
    ls_rank_int_free(a);
    ls_world_free(world);
}
