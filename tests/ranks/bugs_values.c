// Programs whose values are wrong: replicas that differ, the first NaN, the first Inf.
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
