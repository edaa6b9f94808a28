// Observes a run's updates, for work.c.
#pragma once

#include "runner/plan/work.h"

// Gradients that arrived for one shard and feature, in the order in which the run reported them.
typedef struct ls_arrival {
    int rank, table, feature, shard;
    ls_dtype dtype;
    const void *values;
    struct ls_arrival *next;
} ls_arrival;

typedef struct ls_update_watch {
    ls_work *steps;
    const ls_plan *plan;
    ls_arena *arena;
    int update_room;
    ls_arrival *arrivals;
} ls_update_watch;

int ls_work__see_update(ls_update_watch *w, const ls_stage_output *output);
// Assembles the observations after the run.
int ls_work__join_updates(ls_update_watch *w);
// The shard number in the field's label, or, without one, the only shard of the table on the rank.
int ls_work__shard(const ls_plan_table *table, int rank, const char *field);
