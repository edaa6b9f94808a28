// Generates the numbers of a scenario. Every value is a pure function of (seed, stream name, rank,
// index), so any part can be generated on any rank, repeatedly.
#pragma once

#include "embedding/jagged.h"
#include "runner/scenario/scenario.h"

// The batch of `rank` in training step `step` (from 0): all features of all tables, in table order,
// with weights if the scenario's inputs are weighted. Lists and files with enough numbers for all
// steps are used step by step; others are reused for every step. ids_out_of_range is not applied
// here. The caller frees *out. LS_ERR_FORMAT, LS_ERR_IO: an input file is unusable; the text names
// it and its feature.
int ls_inputs_jagged(ls_keyed_jagged **out, const ls_scenario *scenario, int step, int rank);

// The number of a feature's ids (an index into inputs.features) on the rank in the step.
int ls_inputs_ids(int64_t *out, const ls_scenario *scenario, int step, int rank, int feature);

// Those ids, at most `most`. The list keeps its memory between calls; its owner frees `at`
// [capacity].
typedef struct ls_id_list {
    int64_t *at;
    size_t count, capacity;
    int64_t all;  // the number of ids on the rank
} ls_id_list;
int ls_inputs_list_ids(ls_id_list *list, const ls_scenario *scenario, int step, int rank,
                       int feature, int64_t most);

// out [count] of dtype: the gradient of `feature`'s output (an index into inputs.features) on
// `rank` in step `step`; count: the output's elements. Drawn for (seed, step, rank, feature), or
// the next of the given numbers.
int ls_inputs_gradient(void *out, const ls_scenario *scenario, int step, int rank, int pair,
                       ls_dtype dtype, size_t count);
// Whether the number of given gradients fits the outputs.
int ls_inputs_check_gradients(const ls_scenario *scenario);

// out [rows, columns] of the table's dtype = rows [row, row + rows) x columns [column, column +
// columns) of the weights of table `table`; the same cell has the same value whatever the block.
int ls_inputs_weights(void *out, const ls_scenario *scenario, int table, int64_t row, int64_t rows,
                      int64_t column, int64_t columns);

// out [count] of dtype: the first `count` values of rank's send buffer in a program's step.
int ls_inputs_step_values(void *out, const ls_scenario *scenario, const ls_scenario_step *step,
                          int rank, ls_dtype dtype, size_t count);

// Checks, before the run, that the lengths, ids and weights of a feature fit together and the
// batch. *wrong (NULL: none in particular): the field at fault. A batch of more than 2^22 samples
// is checked in the run.
int ls_inputs_check(const ls_generator **wrong, const ls_scenario *scenario, int feature);

// The index of `rank` in the group of a step's calls (its own number if it is in none), and the
// group's size.
int ls_inputs_member(const ls_scenario *scenario, const ls_scenario_step *step, int rank,
                     int *size);

// out: the whole logical tensor, dense, of its shape and dtype; part: of partial values, from 0.
int ls_inputs_tensor_values(void *out, const ls_scenario *scenario,
                            const ls_scenario_tensor *tensor, int part);
