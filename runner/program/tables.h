// Shared by the files that execute scenarios with tables: the tables and their plan in the form of
// the module and its oracle, and the inputs of each step. Private to the runner.
#pragma once

#include "runner/program/execute.h"

// One step's batches and the gradients of its outputs, of some ranks.
typedef struct ls_tables_feed {
    const ls_keyed_jagged **inputs;  // [rank_count]
    const void *const **gradients;   // [rank_count][features, in table order]; NULL: no backward
    int rank_count;
    ls_arena *arena;  // of the gradients and the lists
} ls_tables_feed;

typedef struct ls_tables {
    const ls_scenario *scenario;
    ls_table *tables;  // [table_count]
    ls_plan plan;
    ls_training training;  // if the steps have a backward
} ls_tables;

// In `arena`. plan NULL: the scenario's own.
int ls_tables__make(ls_tables *out, const ls_scenario *scenario, const ls_plan *plan,
                    ls_arena *arena);
// The inputs of `ranks` [count] (NULL: 0, 1, ...) in a step; free it, also after an error.
int ls_tables__feed(ls_tables_feed *out, const ls_tables *tables, int step, const int *ranks,
                    int count);
void ls_tables__feed_free(ls_tables_feed *feed);
