// Programs with wrong values: replicas that differ, the first NaN, the first Inf.
#include <math.h>

#include "bugs.h"

#define HERE(run, call) ((run)->line = __LINE__, (call))
#define WORLD           ls_rank_world(self)

// ---- Values ----
int bug_replica(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float weights[4] = {1, 2, 3, 4};
    if (ls_rank_id(self) == 2 && !run->clean) {
        weights[3] += 1e-6f;
    }
    return HERE(run, ls_check_replica(weights, 4, LS_F32, WORLD));
}

// Averaged in two buckets; one rank omits half of the second.
int bug_replica_touched(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float weights[4] = {1, 2, 3, 4};
    LS_TRY(ls_replica_declare(weights, 4, LS_F32, WORLD));
    LS_TRY(ls_broadcast(weights, weights, 2, LS_F32, 0, WORLD));
    if (ls_rank_id(self) == 1 && !run->clean) {
        weights[2] *= 2;
    }
    LS_TRY(HERE(run, ls_broadcast(weights, weights, 2, LS_F32, 0, WORLD)));
    LS_TRY(ls_broadcast(weights, weights, 2, LS_F32, 0, WORLD));  // reported once
    return ls_replica_forget(weights, WORLD);
}

// Selected, the check runs after every collective; the step itself accesses other memory.
int bug_replica_always(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float weights[2] = {1, 0}, loss = 1;
    LS_TRY(ls_replica_declare(weights, 2, LS_F32, WORLD));
    LS_TRY(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, WORLD));
    if (ls_rank_id(self) == 3 && !run->clean) {
        weights[1] = -0.0f;
    }
    LS_TRY(HERE(run, ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, WORLD)));
    return ls_replica_forget(weights, WORLD);
}

// Two ranks have drifted in the same way, and three are the majority.
int bug_replica_asked(ls_rank *self, void *arg) {
    bug_run *run = arg;
    double weights[3] = {1, 2, 3};
    int64_t steps[1] = {7};
    LS_TRY(ls_replica_declare(steps, 1, LS_I64, WORLD));
    LS_TRY(ls_replica_declare(weights, 3, LS_F64, WORLD));
    if (ls_rank_id(self) % 4 == 0 && !run->clean) {
        weights[1] += 1e-12;
    }
    LS_TRY(HERE(run, ls_check_replicas(WORLD)));
    LS_TRY(ls_replica_forget(weights, WORLD));
    return ls_replica_forget(steps, WORLD);
}

// The ranks free their copies at different times; then the contents at that time are compared.
int bug_replica_freed(ls_rank *self, void *arg) {
    bug_run *run = arg;
    int32_t *table = ls_rank_alloc(self, 4 * sizeof *table), other = 0;
    LS_TRY(ls_replica_declare(table, 4, LS_I32, WORLD));
    for (int i = 0; i < 4; i++) {
        table[i] = i == 2 && ls_rank_id(self) == 1 && !run->clean ? -5 : i;
    }
    for (int i = 0; i < 40 * ls_rank_id(self); i++) {  // more than are kept for themselves
        ls_rank_free(self, ls_rank_alloc(self, 16));
    }
    run->line = __LINE__ + 1;
    ls_rank_free(self, table);
    return ls_all_reduce(&other, &other, 1, LS_I32, LS_SUM, WORLD);
}

int bug_replica_other_count(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float weights[4] = {1, 2, 3, 4};
    bool odd = ls_rank_id(self) == 0 && !run->clean;
    LS_TRY(HERE(run, ls_replica_declare(weights, odd ? 3 : 4, LS_F32, WORLD)));
    LS_TRY(ls_barrier(WORLD));
    return ls_replica_forget(weights, WORLD);
}

int bug_nan_first(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    LS_TRY(ls_all_reduce(a, b, 4, LS_F32, LS_SUM, WORLD));
    if (ls_rank_id(self) == 1 && !run->clean) {
        a[2] = NAN;
    }
    LS_TRY(HERE(run, ls_all_reduce(a, b, 4, LS_F32, LS_SUM, WORLD)));
    return ls_all_reduce(b, b, 4, LS_F32, LS_SUM, WORLD);
}

int bug_inf_first(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[1] = {run->clean ? 1.0f : 3e38f}, b[1];
    return HERE(run, ls_all_reduce(a, b, 1, LS_F32, LS_SUM, WORLD));
}

int bug_nan_sent(ls_rank *self, void *arg) {
    bug_run *run = arg;
    float a[2] = {1, 2}, b[8];
    if (ls_rank_id(self) == 1 && !run->clean) {
        a[0] = NAN;
    }
    return HERE(run, ls_all_gather(a, b, 2, LS_F32, WORLD));
}
