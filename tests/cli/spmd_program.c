// Programs for lockstep spmd: one that is right, and one of which a rank leaves early.
#include <stdio.h>
#include <string.h>

#include "ranks/ranks.h"

LS_API int spmd_main(ls_rank *self, void *arg);
LS_API int leaves(ls_rank *self, void *arg);

int spmd_main(ls_rank *self, void *arg) {
    const ls_spmd_arguments *words = arg;
    float sum[1] = {(float)words->count};
    LS_TRY(ls_all_reduce(sum, sum, 1, LS_F32, LS_SUM, ls_rank_world(self)));
    if (ls_rank_id(self) == 0 && words->count > 1) {
        (void)fprintf(stderr, "%s: %g\n", words->values[1], (double)sum[0]);
    }
    return 0;
}

int leaves(ls_rank *self, void *arg) {
    (void)arg;
    return ls_rank_id(self) == 2 ? 0 : ls_barrier(ls_rank_world(self));
}
