// Runs whose calls the caller's backend completes: the matcher and its checks are the same, and
// memory that only a device can read is examined in copies.
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bugs.h"

// A simulator that declares all memory in `hidden` to be readable only by a device, and counts.
#define PAGE 4096
static _Alignas(PAGE) char hidden[4 * PAGE];
static int completed, copied, unreadable = -1;  // the page that cannot be copied
static int closed = PROT_READ | PROT_WRITE;     // PROT_NONE: a direct read crashes
static const ls_backend_ops *simulator;

static bool is_hidden(ls_backend *backend, const void *pointer) {
    (void)backend;
    return (const char *)pointer >= hidden && (const char *)pointer < hidden + sizeof hidden;
}

static int read_hidden(ls_backend *backend, void *host, const void *device, size_t bytes) {
    (void)backend;
    char *page = hidden + (size_t)((const char *)device - hidden) / PAGE * PAGE;
    if (unreadable >= 0 && page == hidden + unreadable * PAGE) {
        return LS_FAIL(LS_ERR_BACKEND, "the device does not answer");
    }
    cr_assert_eq(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
    memcpy(host, device, bytes);
    cr_assert_eq(mprotect(page, PAGE, closed), 0);
    copied += 1;
    return LS_OK;
}

static int count_and_run(ls_backend *backend, ls_call *calls, int call_count) {
    completed += 1;
    cr_assert_eq(mprotect(hidden, sizeof hidden, PROT_READ | PROT_WRITE), 0);
    int status = simulator->run(backend, calls, call_count);
    cr_assert_eq(mprotect(hidden, sizeof hidden, closed), 0);
    return status;
}

static int fail_to_run(ls_backend *backend, ls_call *calls, int call_count) {
    (void)backend, (void)call_count;
    return LS_FAIL_RANK(LS_ERR_TIMEOUT, calls[0].rank, "the device does not answer");
}

static int fail_to_enter(ls_backend *backend, int rank) {
    (void)backend;
    return rank == 1 ? LS_FAIL_RANK(LS_ERR_BACKEND, rank, "rank 1 has no device") : LS_OK;
}

typedef struct fixture {
    ls_world *world;
    ls_backend *backend;
    ls_backend_ops ops;
} fixture;

static void open_fixture(fixture *f, int ranks) {
    const ls_world_options options = {.mesh = LS_MESH(ranks), .seed = 3};
    cr_assert_eq(ls_world_create(&f->world, &options), LS_OK);
    cr_assert_eq(ls_backend_sim_create(&f->backend, f->world), LS_OK);
    simulator = f->backend->ops;
    f->ops = *simulator;
    f->ops.is_device = is_hidden;
    f->ops.read_device = read_hidden;
    f->ops.run = count_and_run;
    f->backend->ops = &f->ops;
    completed = copied = 0;
    unreadable = -1;
    closed = PROT_READ | PROT_WRITE;
    cr_assert_eq(mprotect(hidden, sizeof hidden, closed), 0);
}

static void close_fixture(fixture *f) {
    closed = PROT_READ | PROT_WRITE;  // the search for leaks reads it
    cr_assert_eq(mprotect(hidden, sizeof hidden, closed), 0);
    ls_backend_free(f->backend);
    ls_world_free(f->world);
}

// Every call goes to the backend and has the expected result.
Test(ranks_backend, completes_the_calls) {
    int rounds = 1;
    for (int schedule = 0; schedule <= LS_SCHEDULE_PARALLEL; schedule++) {
        fixture f;
        ls_spmd_result *result = NULL;
        open_fixture(&f, 4);
        const ls_spmd_options options = {
            .ranks = 4, .schedule = (ls_schedule_kind)schedule, .backend = f.backend};
        int status = ls_spmd_run(&result, every_call, &rounds, &options);
        cr_assert_eq(status, LS_OK, "%s", ls_error_last()->text);
        cr_assert_gt(completed, 50);
        ls_spmd_result_free(result);
        close_fixture(&f);
    }
}

// The bugs are found as in the simulator: the same findings, with the same words.
Test(ranks_backend, finds_the_same_bugs) {
    for (int i = 0; i < bug_count; i++) {
        fixture f;
        ls_spmd_result *here = NULL, *there = NULL;
        bug_run run = {0};
        ls_spmd_options options = {
            .ranks = bugs[i].ranks, .checks = bugs[i].checks, .lookahead = bugs[i].lookahead};
        open_fixture(&f, bugs[i].ranks);
        int status = ls_spmd_run(&here, bugs[i].program, &run, &options);
        options.backend = f.backend;
        cr_assert_eq(ls_spmd_run(&there, bugs[i].program, &run, &options), status, "%s",
                     bugs[i].name);
        cr_assert_eq(ls_spmd_finding_count(there), ls_spmd_finding_count(here), "%s", bugs[i].name);
        for (int k = 0; k < ls_spmd_finding_count(here); k++) {
            const ls_finding *a = ls_spmd_finding(here, k), *b = ls_spmd_finding(there, k);
            cr_assert_eq(a->id, b->id, "%s", bugs[i].name);
            cr_assert_str_eq(a->where, b->where);
            cr_assert_str_eq(a->text, b->text);
        }
        ls_spmd_result_free(here);
        ls_spmd_result_free(there);
        close_fixture(&f);
    }
}

// ---- Memory that only a device reads ----
static int nan_in_hidden(ls_rank *self, void *arg) {
    (void)arg;
    float *data = (float *)(void *)hidden + 16 * ls_rank_id(self);
    for (int i = 0; i < 16; i++) {
        data[i] = ls_rank_id(self) == 1 && i == 9 ? NAN : 1;
    }
    return ls_all_reduce(data, data, 16, LS_F32, LS_SUM, ls_rank_world(self));
}

static int replicas_in_hidden(ls_rank *self, void *arg) {
    (void)arg;
    float *data = (float *)(void *)hidden + 16 * ls_rank_id(self);
    for (int i = 0; i < 16; i++) {
        data[i] = ls_rank_id(self) == 2 && i == 5 ? 3 : 1;
    }
    return ls_check_replica(data, 16, LS_F32, ls_rank_world(self));
}

static void expect_finding(ls_spmd_program program, ls_finding_id id, int rank) {
    fixture f;
    ls_spmd_result *result = NULL;
    open_fixture(&f, 3);
    const ls_spmd_options options = {.ranks = 3, .backend = f.backend};
    cr_assert_eq(ls_spmd_run(&result, program, NULL, &options), LS_ERR_FINDING);
    cr_assert_eq(ls_spmd_finding(result, 0)->id, id);
    cr_assert_gt(copied, 0);
    if (rank >= 0) {
        cr_assert_eq(ls_spmd_finding(result, 0)->ranks[0], rank);
    }
    ls_spmd_result_free(result);
    close_fixture(&f);
}

// The first NaN, and replicas that differ, are found in a device's memory.
Test(ranks_backend, looks_into_device_memory) {
    expect_finding(nan_in_hidden, LS_FINDING_VALUE_NAN_FIRST, -1);
    expect_finding(replicas_in_hidden, LS_FINDING_REPLICA_DIVERGED, 2);
}

// Memory that the program itself writes; others read it only through copies.
static float *fill_page(ls_rank *self) {
    int rank = ls_rank_id(self);
    float *data = (float *)(void *)(hidden + rank * PAGE);
    for (int i = 0; i < 16; i++) {
        data[i] = rank == 2 && i == 5 ? 3 : 1;
    }
    closed = PROT_NONE;
    cr_assert_eq(mprotect(data, PAGE, closed), 0);
    return data;
}

static int asked_in_hidden(ls_rank *self, void *arg) {
    (void)arg;
    return ls_check_replica(fill_page(self), 16, LS_F32, ls_rank_world(self));
}

static int declared_in_hidden(ls_rank *self, void *arg) {
    (void)arg;
    ls_rank_comm *world = ls_rank_world(self);
    float *data = fill_page(self), loss[2] = {1, 1};
    LS_TRY(ls_replica_declare(data, 16, LS_F32, world));
    LS_TRY(ls_all_reduce(loss, loss + 1, 1, LS_F32, LS_SUM, world));
    LS_TRY(ls_barrier(world));
    return ls_all_reduce(data, data, 1, LS_F32, LS_SUM, world);
}

// Replicas that only a device reads are compared in copies, and not if one cannot be copied.
Test(ranks_backend, replicas_of_a_device) {
    static const ls_spmd_program programs[] = {asked_in_hidden, declared_in_hidden};
    for (int i = 0; i < 2; i++) {
        for (int page = -1; page < 3; page++) {
            fixture f;
            ls_spmd_result *result = NULL;
            open_fixture(&f, 3);
            unreadable = page;
            const ls_spmd_options options = {
                .ranks = 3, .backend = f.backend, .checks = "-value.*,-handle.leak"};
            (void)ls_spmd_run(&result, programs[i], NULL, &options);
            cr_assert_not_null(result, "%s", ls_error_last()->text);
            int count = ls_spmd_finding_count(result);
            cr_assert_eq(count, page < 0 ? 1 : 0, "program %d, page %d: %s", i, page,
                         ls_error_last()->text);
            if (page < 0) {
                const ls_finding *finding = ls_spmd_finding(result, 0);
                cr_assert_eq(finding->id, LS_FINDING_REPLICA_DIVERGED, "%s", finding->text);
                cr_assert_eq(finding->rank_count, 1, "%s", finding->text);
                cr_assert_eq(finding->ranks[0], 2, "%s", finding->text);
                cr_assert_not_null(strstr(finding->text, "element 5 of 16 is 3 (bits 40400000) on "
                                                         "rank 2, 1 (bits 3f800000) on rank 0"),
                                   "%s", finding->text);
            }
            ls_spmd_result_free(result);
            close_fixture(&f);
        }
    }
}

// ---- One rank of a process ----
static char handed[256];  // the calls of the backend, in order

static int note_and_run(ls_backend *backend, ls_call *calls, int call_count) {
    size_t at = strlen(handed);
    for (int i = 0; i < call_count; i++) {
        at += (size_t)snprintf(
            handed + at, sizeof handed - at, "%s%s%s", i > 0 ? "+" : "",
            strcmp(calls[i].comm->name, "world") == 0 ? "" : "part:", ls_kind_name(calls[i].kind));
    }
    (void)snprintf(handed + at, sizeof handed - at, " ");
    return simulator->run(backend, calls, call_count);
}

static void expect_handed(const char *calls) {
    cr_assert_str_eq(handed, calls);
    handed[0] = 0;
}

static int grouped_and_later(ls_rank *self, void *arg) {
    (void)arg;
    float a[2] = {1, 2}, b[2] = {3, 4}, c[2] = {0}, d[2] = {0};
    ls_rank_comm *world = ls_rank_world(self), *part = NULL;
    ls_request *requests[3] = {NULL};
    LS_TRY(ls_rank_axis(&part, self, 0));
    handed[0] = 0;
    // In a group: by communicator, then all messages at once.
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_send(b, 2, LS_F32, 0, world));
    LS_TRY(ls_all_reduce(a, a, 2, LS_F32, LS_SUM, part));
    LS_TRY(ls_recv(c, 2, LS_F32, 0, world));
    LS_TRY(ls_broadcast(d, d, 2, LS_F32, 0, world));
    expect_handed("");
    LS_TRY(ls_group_end(self));
    expect_handed("broadcast part:all_reduce send+recv ");
    cr_assert_eq(c[1], 4);
    // One by one: in program order, up to the one that is waited for.
    LS_TRY(ls_all_reduce_async(a, a, 2, LS_F32, LS_SUM, part, &requests[0]));
    LS_TRY(ls_broadcast_async(b, b, 2, LS_F32, 0, world, &requests[1]));
    LS_TRY(ls_all_gather_async(c, c, 2, LS_F32, world, &requests[2]));
    expect_handed("");
    LS_TRY(ls_wait(requests[1]));
    expect_handed("part:all_reduce broadcast ");
    LS_TRY(ls_wait(requests[2]));
    expect_handed("all_gather ");
    return ls_wait(requests[0]);
}

// A backend that completes its calls at once: the others match in the same order.
Test(ranks_backend, order_of_one_rank) {
    fixture f;
    ls_spmd_result *result = NULL;
    open_fixture(&f, 1);
    f.ops.run = note_and_run;
    int status = ls_spmd_run_backend(&result, grouped_and_later, NULL, f.backend, NULL);
    cr_assert_eq(status, LS_OK, "%s", ls_error_last()->text);
    expect_handed("");
    ls_spmd_result_free(result);
    close_fixture(&f);
}

// ---- Failures ----
static int one_message(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    return ls_rank_id(self) == 0 ? ls_send(data, 2, LS_F32, 1, ls_rank_world(self))
                                 : ls_recv(data, 2, LS_F32, 0, ls_rank_world(self));
}

static int one_sum(ls_rank *self, void *arg) {
    (void)arg;
    float data[2] = {1, 2};
    return ls_all_reduce(data, data, 2, LS_F32, LS_SUM, ls_rank_world(self));
}

// A backend that fails ends the run on all ranks, with its status and its message.
Test(ranks_backend, failures_end_the_run) {
    ls_spmd_program programs[] = {one_sum, one_message};
    for (int i = 0; i < 2; i++) {
        fixture f;
        ls_spmd_result *result = NULL;
        open_fixture(&f, 2);
        f.ops.run = fail_to_run;
        const ls_spmd_options options = {.ranks = 2, .backend = f.backend};
        cr_assert_eq(ls_spmd_run(&result, programs[i], NULL, &options), LS_ERR_TIMEOUT);
        cr_assert_not_null(strstr(ls_error_last()->text, "the device does not answer"));
        for (int rank = 0; rank < 2; rank++) {
            cr_assert_neq(ls_spmd_exit_status(result, rank), 0);
        }
        ls_spmd_result_free(result);
        result = NULL;
        f.ops.run = count_and_run;
        f.ops.enter_rank = fail_to_enter;
        cr_assert_eq(ls_spmd_run(&result, programs[i], NULL, &options), LS_ERR_BACKEND);
        cr_assert_not_null(strstr(ls_error_last()->text, "rank 1 has no device"));
        ls_spmd_result_free(result);
        close_fixture(&f);
    }
}

// The backend must hold the ranks of the run, and has its own reduction order.
Test(ranks_backend, must_fit_the_run) {
    fixture f;
    ls_spmd_result *result = NULL;
    ls_order *order = NULL;
    open_fixture(&f, 2);
    const ls_spmd_options more = {.ranks = 3, .backend = f.backend};
    cr_assert_eq(ls_spmd_run(&result, one_sum, NULL, &more), LS_ERR_INVALID);
    cr_assert_null(result);
    cr_assert_eq(ls_order_parse(&order, "rank"), LS_OK);
    const ls_spmd_options ordered = {.ranks = 2, .backend = f.backend, .order = order};
    cr_assert_eq(ls_spmd_run(&result, one_sum, NULL, &ordered), LS_ERR_INVALID);
    cr_assert_null(result);
    ls_order_free(order);
    close_fixture(&f);
}
