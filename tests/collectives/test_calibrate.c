// Calibration on the simulator, whose order is known: the measured order must give its bits.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/calibrate_internal.h"
#include "kernels/kernels.h"
#include "formats/json.h"
#include "tests/figures.h"

#define COUNT ((size_t)4099)

typedef struct job {
    ls_world *world;
    ls_backend *backend;
    ls_comm *comm;
    ls_order *order;
    int ranks;
} job;

static void open_job(job *j, const char *order, int ranks) {
    const ls_world_options options = {.mesh = {.ndim = 1, .dim = {ranks}}};
    *j = (job){.ranks = ranks};
    cr_assert_eq(ls_world_create(&j->world, &options), LS_OK);
    cr_assert_eq(ls_backend_sim_create(&j->backend, j->world), LS_OK);
    cr_assert_eq(ls_comm_create(&j->comm, j->backend, NULL, ranks, "world"), LS_OK);
    cr_assert_eq(ls_order_parse(&j->order, order), LS_OK, "%s", ls_error_last()->text);
    j->backend->order = j->order;
}

static void close_job(job *j) {
    ls_comm_free(j->comm);
    ls_backend_free(j->backend);
    ls_world_free(j->world);
    ls_order_free(j->order);
}

static int told_last, told_total;

static void note_progress(const char *what, int done, int total) {
    cr_expect_not_null(strstr("all_reduce reduce_scatter", what), "%s", what);
    cr_expect_eq(done, told_last++);
    told_total = total;
}

// Calibrates and reads the file back as an order. Leaves no other file.
static int calibrate(ls_order **out, job *j, ls_text *text, bool all_reduce_only) {
    const size_t counts[] = {1, 515, COUNT};
    const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F16, LS_F64};
    const ls_calibrate_options options = {.counts = counts,
                                          .count_count = 3,
                                          .dtypes = dtypes,
                                          .dtype_count = 4,
                                          .all_reduce_only = all_reduce_only,
                                          .progress = note_progress};
    char dir[] = "/tmp/lockstep-calibrate-XXXXXX", path[128], order[160];
    cr_assert_not_null(mkdtemp(dir));
    ls_json json;
    told_last = told_total = 0;
    ls_json_begin(&json, text, 1);
    ls_json_object_open(&json);
    ls_json_member_int(&json, "lockstep_order", 1);
    ls_json_member_int(&json, "ranks", j->ranks);
    int status = ls_calibrate_orders(&json, j->comm, &options, dir);
    if (status == LS_OK) {
        ls_json_object_close(&json);
        snprintf(path, sizeof path, "%s/machine.json", dir);
        snprintf(order, sizeof order, "measured:%s", path);
        FILE *file = fopen(path, "w");
        fputs(ls_text_string(text), file);
        fclose(file);
        status = ls_order_parse(out, order);
        unlink(path);
    }
    cr_expect_eq(rmdir(dir), 0);
    cr_expect(told_last == told_total || status != LS_OK);
    return status;
}

static void check_order(const char *name, int ranks) {
    job j;
    ls_text text = {0};
    ls_order *measured = NULL;
    open_job(&j, name, ranks);
    cr_assert_eq(calibrate(&measured, &j, &text, false), LS_OK, "%s: %s", name,
                 ls_error_last()->text);
    float *in[8], *a = calloc(COUNT, 4), *b = calloc(COUNT, 4);
    const void *pointers[8];
    double premul[8];
    for (int r = 0; r < ranks; r++) {
        in[r] = calloc(COUNT, 4);
        pointers[r] = in[r];
        premul[r] = 1.1 - 0.3 * r;
        for (size_t i = 0; i < COUNT; i++) {
            in[r][i] = (float)((double)((i * 7919u + (size_t)r * 104729u) % 1009u) / 1009.0 - 0.4);
        }
    }
    const ls_op ops[] = {LS_SUM, LS_PROD, LS_PREMUL_SUM};
    for (size_t k = 0; k < 3; k++) {
        ls_reduction reduction = {.in = pointers,
                                  .in_count = ranks,
                                  .dtype = LS_F32,
                                  .op = ops[k],
                                  .premul = ops[k] == LS_PREMUL_SUM ? premul : NULL,
                                  .count = COUNT};
        cr_assert_eq(ls_order_reduce(j.order, LS_ORDER_ALL_REDUCE, a, &reduction, 0, 0, COUNT),
                     LS_OK);
        cr_assert_eq(ls_order_reduce(measured, LS_ORDER_ALL_REDUCE, b, &reduction, 0, 0, COUNT),
                     LS_OK);
        cr_expect_eq(memcmp(a, b, COUNT * 4), 0, "%s, %s", name, ls_op_name(ops[k]));
        for (int block = 0; block < ranks; block++) {
            cr_assert_eq(
                ls_order_reduce(j.order, LS_ORDER_REDUCE_SCATTER, a, &reduction, block, 0, COUNT),
                LS_OK);
            cr_assert_eq(
                ls_order_reduce(measured, LS_ORDER_REDUCE_SCATTER, b, &reduction, block, 0, COUNT),
                LS_OK);
            cr_expect_eq(memcmp(a, b, COUNT * 4), 0, "%s, block %d", name, block);
        }
    }
    for (int r = 0; r < ranks; r++) {
        free(in[r]);
    }
    free(a);
    free(b);
    ls_order_free(measured);
    ls_text_free(&text);
    close_job(&j);
}

// Rings, their chunks and fused products are recognised, whatever the ring.
Test(calibrate, rings) {
    check_order("ring:proto=ll", 4);
    check_order("ring:proto=ll", 3);
    check_order("ring:proto=simple,rings=0-2-1-3", 4);
    check_order("ring:proto=ll,rings=0-4-3-2-1", 5);
}

// A tree is recognised: the same for all elements.
Test(calibrate, trees) {
    check_order("tree:proto=ll", 4);
    check_order("tree:proto=simple", 3);
}

// Two ranks have one order; one rank has none, and more than sixteen are not measured.
Test(calibrate, numbers_of_ranks) {
    check_order("rank", 2);
    static const int refused[] = {1, 17};
    for (int i = 0; i < 2; i++) {
        job j;
        ls_text text = {0};
        ls_order *measured = NULL;
        open_job(&j, "rank", refused[i]);
        cr_expect_eq(calibrate(&measured, &j, &text, true), LS_ERR_UNSUPPORTED, "%d ranks",
                     refused[i]);
        ls_text_free(&text);
        close_job(&j);
    }
}

// Rank order is recognised, with products that are rounded before they are added.
Test(calibrate, rank_order) {
    check_order("rank", 4);
    check_order("rank", 7);
}

// Kernels that add in f32 are distinguished from those that round at every step.
Test(calibrate, accumulator) {
    job j;
    ls_text text = {0};
    ls_order *measured = NULL;
    open_job(&j, "symmetric:kernel=ll", 4);
    cr_assert_eq(calibrate(&measured, &j, &text, true), LS_OK, "%s", ls_error_last()->text);
    const char *bf16 = strstr(ls_text_string(&text), "\"dtype\": \"bf16\"");
    cr_assert_not_null(bf16);
    cr_expect_not_null(strstr(bf16, "\"accumulator\": \"f32\""));
    ls_order_free(measured);
    ls_text_free(&text);
    close_job(&j);
}

// The same machine has the same text, also with more ranks than can be read back here.
Test(calibrate, says_what_it_said) {
    static const struct {
        const char *order;
        int ranks;
    } machines[] = {{"ring:proto=ll", 4},       {"ring:proto=ll128", 8},
                    {"tree:proto=simple", 5},   {"ring:proto=simple,rings=0-2-1-3", 4},
                    {"symmetric:kernel=ll", 4}, {"rank", 16}};
    enum { MACHINES = sizeof machines / sizeof *machines };
    const char *names[MACHINES];
    ls_text texts[MACHINES] = {{0}};
    for (int i = 0; i < MACHINES; i++) {
        job j;
        ls_order *measured = NULL;
        names[i] = machines[i].order;
        open_job(&j, machines[i].order, machines[i].ranks);
        cr_assert_eq(calibrate(&measured, &j, &texts[i], i >= 4), LS_OK, "%s: %s", names[i],
                     ls_error_last()->text);
        ls_order_free(measured);
        close_job(&j);
    }
    figures_expect("tests/collectives/calibrations.txt", "unit/calibrate",
                   "What is written of a machine is not what it was.", names, texts, MACHINES);
}

// Trees from sizes of the smallest subtrees with two ranks: if two sums meet, one is a child of the
// other's head. Sizes that fit no tree are reported.
Test(calibrate, trees_of_sizes) {
    static const int meets[16] = {1, 2, 4, 4, 2, 1, 4, 4, 4, 4, 1, 2, 4, 4, 2, 1};
    static const int three[9] = {1, 3, 3, 3, 1, 2, 3, 2, 1}, never[4] = {1, 1, 1, 1};
    char tree[32];
    cr_expect_eq(ls_calibrate__tree(tree, sizeof tree, meets, 4), LS_OK);
    cr_expect_str_eq(tree, "0(1+2(3))");
    cr_expect_eq(ls_calibrate__tree(tree, 9, meets, 4), LS_ERR_LIMIT);
    cr_expect_eq(ls_calibrate__tree(tree, 10, meets, 4), LS_OK);
    cr_expect_eq(ls_calibrate__tree(tree, sizeof tree, three, 3), LS_OK);
    cr_expect_str_eq(tree, "0(1(2))");
    cr_expect_eq(ls_calibrate__tree(tree, sizeof tree, never, 2), LS_ERR_FINDING);
}

// ---- A backend whose order is not fixed ----
static const ls_backend_ops *fixed;
static ls_order *orders[2];

static int run_in_turns(ls_backend *backend, ls_call *calls, int count) {
    static int turn;
    backend->order = orders[turn++ % 2];
    return fixed->run(backend, calls, count);
}

// Values that no sum of the ranks' terms has.
static int run_astray(ls_backend *backend, ls_call *calls, int count) {
    int status = fixed->run(backend, calls, count);
    const double half = 0.5;
    for (int i = 0; i < count; i++) {
        for (size_t e = 0; e < calls[i].count; e++) {
            char *at = (char *)calls[i].recv + e * ls_dtype_bytes(calls[i].dtype);
            ls_element_from_f64(at, calls[i].dtype, half);
        }
    }
    return status;
}

static void expect_told(int (*run)(ls_backend *backend, ls_call *calls, int count),
                        const char *what) {
    job j;
    ls_text text = {0};
    ls_order *measured = NULL;
    open_job(&j, "rank", 5);
    orders[0] = j.order;
    cr_assert_eq(ls_order_parse(&orders[1], "ring:proto=ll,rings=0-4-3-2-1"), LS_OK);
    fixed = j.backend->ops;
    ls_backend_ops ops = *fixed;
    ops.run = run;
    j.backend->ops = &ops;
    cr_expect_eq(calibrate(&measured, &j, &text, true), LS_ERR_FINDING);
    cr_expect_not_null(strstr(ls_error_last()->text, what), "%s", ls_error_last()->text);
    j.backend->ops = fixed;
    ls_order_free(orders[1]);
    ls_text_free(&text);
    close_job(&j);
}

// Answers that fit no order are reported.
Test(calibrate, orders_that_are_none_are_told) {
    expect_told(run_in_turns, "the probe results match no tree of 5 ranks");
    expect_told(run_astray, "the backend has no fixed order of summation");
}
