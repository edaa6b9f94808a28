// The NCCL backend at its limits: mismatched calls and hangs, more ranks than GPUs, and state that
// one run keeps for the next. If a deadline is tested, the checks before each call are off. Exit
// 77: too few GPUs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/nccl/nccl.h"
#include "collectives/finding.h"

#define DEADLINE 5.0
#define COUNT    ((size_t)1 << 20)

static int failures;

static void expect(bool good, const char *what) {
    printf("%s %s\n", good ? "ok  " : "FAIL", what);
    failures += good ? 0 : 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

typedef struct job {
    ls_world *world;
    ls_backend *backend;
    ls_comm *comm;
    ls_call calls[8];
    float *buffers[8];
    int ranks;
} job;

static bool open_job_of(job *j, int ranks, const int *order, const ls_nccl_options *nccl) {
    *j = (job){.ranks = ranks};
    const ls_world_options options = {.mesh = {.ndim = 1, .dim = {ranks}}};
    if (ls_world_create(&j->world, &options) != LS_OK ||
        ls_backend_nccl_create(&j->backend, j->world, nccl) != LS_OK ||
        ls_comm_create(&j->comm, j->backend, order, ranks, "world") != LS_OK) {
        printf("%s\n", ls_error_last()->text);
        return false;
    }
    for (int r = 0; r < ranks; r++) {
        j->buffers[r] = calloc(COUNT, sizeof(float));
        for (size_t i = 0; i < COUNT; i++) {
            j->buffers[r][i] = (float)r;
        }
        j->calls[r] = (ls_call){.kind = LS_ALL_REDUCE,
                                .comm = j->comm,
                                .rank = r,
                                .dtype = LS_F32,
                                .op = LS_SUM,
                                .count = COUNT,
                                .send = j->buffers[r],
                                .recv = j->buffers[r],
                                LS_HERE};
    }
    return true;
}

static bool open_job(job *j, int ranks, bool unchecked) {
    const ls_nccl_options nccl = {.deadline_seconds = DEADLINE, .unchecked = unchecked};
    return open_job_of(j, ranks, NULL, &nccl);
}

static void close_job(job *j) {
    ls_comm_free(j->comm);
    ls_backend_free(j->backend);
    ls_world_free(j->world);
    for (int r = 0; r < j->ranks; r++) {
        free(j->buffers[r]);
    }
}

// A sum is correct, in place, on all ranks.
static void test_sum(int ranks) {
    job j;
    if (!open_job(&j, ranks, false)) {
        expect(false, "the job opens");
        return;
    }
    int status = ls_backend_run(j.backend, j.calls, ranks);
    float sum = (float)(ranks * (ranks - 1) / 2);
    bool good = status == LS_OK;
    for (int r = 0; r < ranks; r++) {
        good = good && j.buffers[r][0] == sum && j.buffers[r][COUNT - 1] == sum;
    }
    expect(good, "a sum of all ranks");
    close_job(&j);
}

// The next run reuses communicators, and gets the same log facts of NCCL as the first; members in
// another order form another communicator.
static void test_kept(int ranks) {
    ls_nccl_kept kept = {0};
    const ls_nccl_options nccl = {.deadline_seconds = DEADLINE, .kept = &kept};
    int turned[8];
    for (int r = 0; r < ranks; r++) {
        turned[r] = ranks - 1 - r;
    }
    float sum = (float)(ranks * (ranks - 1) / 2);
    for (int run = 0; run < 6; run++) {
        job j;
        double start = now();
        if (!open_job_of(&j, ranks, run % 2 == 0 ? NULL : turned, &nccl)) {
            expect(false, "the job opens");
            break;
        }
        double opened = now() - start;
        int status = ls_backend_run(j.backend, j.calls, ranks);
        bool good = status == LS_OK;
        for (int r = 0; r < ranks; r++) {
            good = good && j.buffers[r][0] == sum && j.buffers[r][COUNT - 1] == sum;
        }
        ls_call_used used = {0};
        bool known = j.backend->ops->used(j.backend, &j.calls[run % 2 == 0 ? 0 : ranks - 1], &used);
        printf("     opened in %.3f s: %s\n", opened,
               known && used.order != NULL ? used.order : "order not known");
        expect(good, "a sum over what was kept");
        expect(known, "what NCCL used is known");
        close_job(&j);
    }
    expect(kept.first != NULL, "something is kept");
    ls_nccl_kept_free(&kept);
    expect(kept.first == NULL, "and nothing after");
}

// A rank that never calls: the others end within the deadline, and the rank is named.
static void test_missing(int ranks) {
    job j;
    if (!open_job(&j, ranks, true)) {
        expect(false, "the job opens");
        return;
    }
    double start = now();
    j.calls[1] = j.calls[ranks - 1];  // rank 1 makes no call
    int status = ls_backend_run(j.backend, j.calls, ranks - 1);
    double seconds = now() - start;
    printf("     %.1f s: %s\n", seconds, ls_error_last()->text);
    expect(status == LS_ERR_TIMEOUT || status == LS_ERR_MISMATCH, "it fails");
    expect(seconds > DEADLINE * 0.9 && seconds < DEADLINE + 5, "within the deadline");
    expect(ls_check_last()->found && ls_check_last()->id == LS_FINDING_MISSING_RANK &&
               ls_check_last()->ranks[0] == 1,
           "the finding is collective.missing_rank and names rank 1");
    expect(ls_backend_run(j.backend, j.calls, 1) == LS_ERR_BACKEND, "nothing runs after an abort");
    close_job(&j);
}

// A wrong count: the run ends, and the rank is named.
static void test_count(int ranks) {
    job j;
    if (!open_job(&j, ranks, true)) {
        expect(false, "the job opens");
        return;
    }
    double start = now();
    j.calls[2].count = COUNT / 2;
    int status = ls_backend_run(j.backend, j.calls, ranks);
    printf("     %.1f s: %s\n", now() - start, status == LS_OK ? "" : ls_error_last()->text);
    expect(now() - start < DEADLINE + 5, "it ends within the deadline");
    expect(status == LS_OK || (ls_check_last()->found && ls_check_last()->ranks[0] == 2),
           "NCCL either gives something or hangs and rank 2 is named");
    close_job(&j);
    if (!open_job(&j, ranks, false)) {
        expect(false, "the job opens");
        return;
    }
    j.calls[2].count = COUNT / 2;
    status = ls_backend_run(j.backend, j.calls, ranks);
    expect(status == LS_ERR_MISMATCH && ls_check_last()->id == LS_FINDING_COUNT_MISMATCH &&
               ls_check_last()->ranks[0] == 2,
           "with the checks on, collective.count_mismatch of rank 2 before NCCL is asked");
    j.calls[2].count = COUNT;
    expect(ls_backend_run(j.backend, j.calls, ranks) == LS_OK, "and the backend goes on");
    close_job(&j);
}

// More ranks than GPUs, operations that NCCL lacks: one clear line each.
static void test_limits(int devices) {
    job j;
    const ls_world_options options = {.mesh = {.ndim = 1, .dim = {devices + 1}}};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    int status = ls_world_create(&world, &options);
    status = status == LS_OK ? ls_backend_nccl_create(&backend, world, NULL) : status;
    printf("     %s\n", ls_error_last()->text);
    expect(status == LS_ERR_BACKEND && strstr(ls_error_last()->text, "GPUs") != NULL,
           "more ranks than GPUs are refused");
    ls_world_free(world);
    if (!open_job(&j, devices < 3 ? devices : 3, false)) {
        expect(false, "the job opens");
        return;
    }
    for (int r = 0; r < j.ranks; r++) {
        j.calls[r].dtype = LS_I32;
        j.calls[r].op = LS_BXOR;
    }
    expect(ls_backend_run(j.backend, j.calls, j.ranks) == LS_ERR_UNSUPPORTED, "bxor is refused");
    close_job(&j);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int devices = ls_nccl_device_count();
    if (devices < 2) {
        printf("skipped: %d GPUs, 2 are needed%s%s\n", devices, devices == 0 ? ": " : "",
               devices == 0 ? ls_error_last()->text : "");
        return 77;
    }
    int ranks = devices > 8 ? 8 : devices;
    test_sum(ranks);
    test_kept(ranks);
    test_missing(ranks);
    if (ranks > 2) {
        test_count(ranks);
    }
    test_limits(devices);
    printf("%d failed\n", failures);
    return failures == 0 ? 0 : 1;
}
