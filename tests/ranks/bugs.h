// SPMD programs with one defect each, and their corrected versions: findings that the checks must
// and must not report.
#pragma once

#include "ranks/ranks.h"

#define BUG_RANKS_MAX 8

typedef struct bug {
    const char *name;
    ls_spmd_program program;  // arg: a bug_run
    int ranks;
    ls_finding_id finding;
    int fault_ranks[BUG_RANKS_MAX];  // the ranks at fault, ascending
    int fault_rank_count;            // -1: the ranks depend on the schedule
    const char *contains;            // in the finding's text
    const char *checks;
    int lookahead;
    bool deadlock;  // the run's status is LS_ERR_DEADLOCK
} bug;

typedef struct bug_run {
    bool clean;  // the version without the defect
    int line;    // set by the program: the place of the finding; 0: any
} bug_run;

int bug_kind(ls_rank *self, void *arg);
int bug_counts(ls_rank *self, void *arg);
int bug_count_overflow(ls_rank *self, void *arg);
int bug_dtype(ls_rank *self, void *arg);
int bug_op(ls_rank *self, void *arg);
int bug_root(ls_rank *self, void *arg);
int bug_root_range(ls_rank *self, void *arg);
int bug_splits_swapped(ls_rank *self, void *arg);
int bug_group_members(ls_rank *self, void *arg);
int bug_group_null(ls_rank *self, void *arg);
int bug_order(ls_rank *self, void *arg);
int bug_verb(ls_rank *self, void *arg);
int bug_order_async(ls_rank *self, void *arg);
int bug_left_out(ls_rank *self, void *arg);
int bug_left_out_alike(ls_rank *self, void *arg);
int bug_extra(ls_rank *self, void *arg);
int bug_extra_inside(ls_rank *self, void *arg);
int bug_out_of_batches(ls_rank *self, void *arg);
int bug_unmatched_send(ls_rank *self, void *arg);
int bug_unmatched_recv(ls_rank *self, void *arg);
int bug_p2p_count(ls_rank *self, void *arg);
int bug_p2p_dtype(ls_rank *self, void *arg);
int bug_p2p_order(ls_rank *self, void *arg);
int bug_grouped_on_one_rank(ls_rank *self, void *arg);
int bug_ring(ls_rank *self, void *arg);
int bug_self_send(ls_rank *self, void *arg);
int bug_cross(ls_rank *self, void *arg);
int bug_cross_survives(ls_rank *self, void *arg);
int bug_overlap(ls_rank *self, void *arg);
int bug_shared_memory(ls_rank *self, void *arg);
int bug_too_small(ls_rank *self, void *arg);
int bug_uninitialised(ls_rank *self, void *arg);
int bug_modified(ls_rank *self, void *arg);
int bug_use_before_wait(ls_rank *self, void *arg);
int bug_read_before_wait(ls_rank *self, void *arg);
int bug_request_leak(ls_rank *self, void *arg);
int bug_comm_leak(ls_rank *self, void *arg);
int bug_memory_leak(ls_rank *self, void *arg);
int bug_wait_twice(ls_rank *self, void *arg);
int bug_comm_after_destroy(ls_rank *self, void *arg);
int bug_buffer_after_free(ls_rank *self, void *arg);
int bug_replica(ls_rank *self, void *arg);
int bug_replica_touched(ls_rank *self, void *arg);
int bug_replica_always(ls_rank *self, void *arg);
int bug_replica_asked(ls_rank *self, void *arg);
int bug_replica_freed(ls_rank *self, void *arg);
int bug_replica_other_count(ls_rank *self, void *arg);
int bug_nan_first(ls_rank *self, void *arg);
int bug_inf_first(ls_rank *self, void *arg);
int bug_nan_sent(ls_rank *self, void *arg);

extern const bug bugs[];
extern const int bug_count;

// A program that makes every call, without a defect.
int every_call(ls_rank *self, void *arg);
// Calls at random, most of them wrong; arg: a seed (uint64_t).
int hostile(ls_rank *self, void *arg);
