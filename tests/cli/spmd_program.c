// Programs for lockstep spmd: a correct one; one that a rank leaves early; one that exits; one
// whose child exits, which is correct; and one whose ranks test a call for completion.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/ranks/ranks.h>

LS_API int spmd_main(ls_rank *self, void *arg);
LS_API int leaves(ls_rank *self, void *arg);
LS_API int exits(ls_rank *self, void *arg);
LS_API int has_child(ls_rank *self, void *arg);
LS_API int tests(ls_rank *self, void *arg);

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

int exits(ls_rank *self, void *arg) {
    (void)arg;
    if (ls_rank_id(self) == 1) {
        exit(0);
    }
    return ls_barrier(ls_rank_world(self));
}

int has_child(ls_rank *self, void *arg) {
    int status = 0;
    (void)arg;
    pid_t child = ls_rank_id(self) > 0 ? fork() : -1;
    if (child == 0 && ls_rank_id(self) == 1) {
        exit(5);
    } else if (child == 0) {
        _exit(5);
    }
    bool ended = child < 0 || (waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
    LS_TRY(ls_barrier(ls_rank_world(self)));
    return ended ? 0 : 1;
}

int tests(ls_rank *self, void *arg) {
    ls_request *open = NULL;
    bool done = false;
    (void)arg;
    LS_TRY(ls_barrier_async(ls_rank_world(self), &open));
    while (!done) {
        LS_TRY(ls_test(&done, &open));
    }
    return 0;
}
