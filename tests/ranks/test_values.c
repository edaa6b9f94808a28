// NaN and infinities in chains of results, traced at the end: each report names the member that
// contributed it, or the reduction that made it.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "ranks/ranks.h"

#define RANKS 4
#define COUNT 20000  // more than one range
#define AT    (COUNT - 2)

typedef struct chain {
    const char *name;
    bool inclusive, in_place;
    ls_dtype dtype;
    ls_op op;
    float value;   // of element AT,
    int by;        // that this rank sends
    float others;  // that the others send; all other elements are 1
    const char *checks;
    ls_finding_id id;
    int ranks[RANKS], rank_count;
    const char *contains;
} chain;

static const chain chains[] = {
    {"nan",
     true,
     false,
     LS_F32,
     LS_SUM,
     NAN,
     1,
     1,
     NULL,
     LS_FINDING_VALUE_NAN_FIRST,
     {1},
     1,
     "it is in what rank 1 sent"},
    {"nan in place",
     true,
     true,
     LS_F32,
     LS_PROD,
     NAN,
     1,
     1,
     NULL,
     LS_FINDING_VALUE_NAN_FIRST,
     {1},
     1,
     "it is in what rank 1 sent"},
    {"nan before the others",
     false,
     true,
     LS_F32,
     LS_SUM,
     NAN,
     0,
     1,
     NULL,
     LS_FINDING_VALUE_NAN_FIRST,
     {0},
     1,
     "it is in what rank 0 sent"},
    {"inf that is multiplied by zero",
     true,
     false,
     LS_F32,
     LS_PROD,
     INFINITY,
     2,
     0,
     "value.inf_first",
     LS_FINDING_VALUE_NAN_FIRST,
     {2},
     1,
     "it is in what rank 2 sent"},
    {"inf",
     true,
     false,
     LS_F16,
     LS_SUM,
     INFINITY,
     2,
     1,
     "value.inf_first",
     LS_FINDING_VALUE_INF_FIRST,
     {2},
     1,
     "it is in what rank 2 sent"},
    {"a sum too large",
     true,
     false,
     LS_F32,
     LS_SUM,
     3e38f,
     0,
     3e38f,
     NULL,
     LS_FINDING_VALUE_INF_FIRST,
     {0, 1, 2, 3},
     4,
     "the reduction produced it"},
    {"inf that a smaller one hides",
     true,
     false,
     LS_F32,
     LS_MIN,
     INFINITY,
     0,
     1,
     "value.inf_first",
     LS_FINDING_VALUE_INF_FIRST,
     {0},
     1,
     "it is in what rank 0 sent"},
    {"inf that saturates",
     true,
     false,
     LS_F8E5M2,
     LS_SUM,
     INFINITY,
     0,
     1,
     "value.inf_first",
     LS_FINDING_VALUE_INF_FIRST,
     {0},
     1,
     "it is in what rank 0 sent"},
};

static int run_chain(ls_rank *self, void *arg) {
    const chain *c = arg;
    size_t element = ls_dtype_bytes(c->dtype);
    char send[COUNT * sizeof(float)], result[COUNT * sizeof(float)];
    for (size_t i = 0; i < COUNT; i++) {
        ls_element_from_f64(send + i * element, c->dtype, i == AT ? (double)c->others : 1);
    }
    if (ls_rank_id(self) == c->by) {
        ls_element_from_f64(send + AT * element, c->dtype, (double)c->value);
        if (c->dtype == LS_F8E5M2 && isinf(c->value)) {
            send[AT] = 0x7c;  // conversions saturate
        }
    }
    void *out = c->in_place ? send : result;
    ls_rank_comm *world = ls_rank_world(self);
    return c->inclusive ? ls_scan(send, out, COUNT, c->dtype, c->op, world)
                        : ls_exscan(send, out, COUNT, c->dtype, c->op, world);
}

Test(values, what_a_chain_carries_is_told_of_its_member) {
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        chain c = chains[i];
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = RANKS, .checks = c.checks};
        cr_assert_eq(ls_spmd_run(&result, run_chain, &c, &options), LS_ERR_FINDING, "%s", c.name);
        cr_assert_eq(ls_spmd_finding_count(result), 1, "%s", c.name);
        const ls_finding *finding = ls_spmd_finding(result, 0);
        cr_assert_eq(finding->id, c.id, "%s: %s", c.name, finding->text);
        cr_assert(finding->rank_count == c.rank_count &&
                      memcmp(finding->ranks, c.ranks, sizeof(int) * (size_t)c.rank_count) == 0,
                  "%s: %s", c.name, finding->text);
        cr_assert_not_null(strstr(finding->text, c.contains), "%s: %s", c.name, finding->text);
        ls_spmd_result_free(result);
        c.value = c.others = 1;
        cr_assert_eq(ls_spmd_run(&result, run_chain, &c, &options), LS_OK, "%s", c.name);
        ls_spmd_result_free(result);
    }
}

// ---- Before the wait ----
typedef struct early {
    ls_dtype dtype;
    bool uses;  // a number that is computed from it
} early;

static int receives_later(ls_rank *self, void *arg) {
    const early *e = arg;
    size_t element = ls_dtype_bytes(e->dtype);
    char sent[5 * sizeof(double)] = {0}, got[5 * sizeof(double)] = {0};
    double value = 1, sum = 0;
    int wrong = 0;
    ls_request *request = NULL;
    ls_rank_comm *world = ls_rank_world(self);
    LS_TRY(ls_all_reduce_async(sent, got, 5, e->dtype, LS_SUM, world, &request));
    for (size_t i = 0; i < 5; i++) {
        const char *at = got + i * element;
        wrong += isnan(ls_element_to_f64(at, e->dtype)) && memcmp(at, got, element) == 0 ? 0 : 1;
    }
    value += e->uses ? ls_element_to_f64(got + 3 * element, e->dtype) : 0;
    LS_TRY(ls_wait(request));
    for (size_t i = 0; i < 5; i++) {
        wrong += ls_element_to_f64(got + i * element, e->dtype) == 0 ? 0 : 1;
    }
    LS_TRY(ls_all_reduce(&value, &sum, 1, LS_F64, LS_SUM, world));
    return wrong;
}

// A receive buffer is NaN until data arrives, in every type with NaN, and a value computed from it
// names the call.
Test(values, what_is_in_flight_is_no_number) {
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        early e = {(ls_dtype)dtype, false};
        if (!ls_dtype_is_float(e.dtype)) {
            continue;
        }
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 2};
        cr_expect_eq(ls_spmd_run(&result, receives_later, &e, &options), LS_OK, "%d: %s", dtype,
                     ls_error_last()->text);
        ls_spmd_result_free(result);
        e.uses = e.dtype == LS_F32 || e.dtype == LS_F64;
        if (e.uses) {
            cr_assert_eq(ls_spmd_run(&result, receives_later, &e, &options), LS_ERR_FINDING);
            const ls_finding *finding = ls_spmd_finding(result, 0);
            cr_expect_eq(finding->id, LS_FINDING_BUFFER_USE_BEFORE_WAIT, "%s", finding->text);
            cr_expect_not_null(strstr(finding->text, "used the result of its call"));
            ls_spmd_result_free(result);
        }
    }
}
