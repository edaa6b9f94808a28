// The same of a program of ranks/ranks.h: ways in which rank 1 ends.
#define _GNU_SOURCE
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ranks/ranks.h"

LS_API int spmd_main(ls_rank *self, void *arg);
int spmd_main(ls_rank *self, void *arg) {
    const char *way = ((const ls_spmd_arguments *)arg)->values[1];
    ls_rank_comm *world = ls_rank_world(self);
    float one[4] = {1, 1, 1, 1}, sum[4];
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rank = ls_rank_id(self);
    LS_TRY(ls_barrier(world));  // line: last
    if (rank == 1 && strcmp(way, "fault") == 0) {
        *(volatile int *)8 = 1;
    } else if (rank == 1 && strcmp(way, "abort") == 0) {
        abort();
    } else if (rank == 1 && strcmp(way, "exit_group") == 0) {
        syscall(SYS_exit_group, 0);
    } else if (rank == 1 && strcmp(way, "err") == 0) {
        err(0, "over");
    } else if (rank == 1 && strcmp(way, "chdir") == 0) {
        return chdir("/") == 0 ? ls_barrier(world) : 1;
    } else if (strcmp(way, "bad_send") == 0) {
        // line: bad_send
        return ls_all_reduce(rank == 1 ? closed : one, sum, 4, LS_F32, LS_SUM, world);
    } else if (strcmp(way, "bad_recv") == 0) {
        // line: bad_recv
        return ls_all_reduce(one, rank == 1 ? closed : sum, 4, LS_F32, LS_SUM, world);
    }
    return ls_barrier(world);
}
