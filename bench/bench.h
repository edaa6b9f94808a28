// bench: how long things take and how much memory, each beside a yardstick measured in the same
// run. A suite is a function that appends rows; the table of suites is in bench.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#define LS_BENCH_ROWS_MAX 256
#define LS_BENCH_TEXT_MAX 64

// One measurement. Where a figure does not apply it is 0.
typedef struct ls_bench_row {
    const char *suite;
    char name[LS_BENCH_TEXT_MAX];
    int ranks;
    uint64_t elements;          // per rank, in the larger of its two buffers; planner: tables
    uint64_t bytes_moved;       // half of all bytes read and written: what a memcpy of them moves
    double time_ms;             // median
    double time_ms_min;         //
    const char *yardstick;      // the yardstick's name; NULL: a memcpy of bytes_moved
    double yardstick_ms;        // its median time
    double gb_per_s;            // of the bus (collectives on GPUs) or the memory; 0: no figure
    double ratio;               // least time / least time of the yardstick
    double ratio_limit;         // 0: none
    double time_ms_limit;       // 0: none
    double memory_ratio;        // peak memory of the run / memory of the ranks' buffers
    double memory_ratio_limit;  // 0: none
    uint64_t memory_bytes;      // peak memory of the process
    uint64_t memory_bytes_limit;
    int repetitions;
} ls_bench_row;

// The sizes that a user asks for; 0 and NULL: the suite's own.
typedef struct ls_bench_sizes {
    int64_t rows, dim, bags, length;  // of lookups: always set
    int threads;
    const char *row_type;
    int ranks;      // of collectives
    int64_t count;  // elements of a rank's larger buffer
    const char *dtype;
} ls_bench_sizes;

typedef struct ls_bench {
    ls_bench_sizes sizes;
    int repetitions;                                          // per row; the median is reported
    const char *only;                                         // a suite's or row's name; NULL: all
    void (*progress)(const char *what, int done, int total);  // may be NULL
    int (*suite)(struct ls_bench *bench);  // runs instead of the table's; or NULL
    ls_bench_row rows[LS_BENCH_ROWS_MAX];
    int row_count;
} ls_bench;

// Runs the suites. The caller sets repetitions, only and progress.
int ls_bench_run(ls_bench *bench);
// Whether a row keeps its limits.
bool ls_bench_row_holds(const ls_bench_row *row);
void ls_bench_write_text(ls_text *out, const ls_bench *bench);
void ls_bench_write_json(ls_text *out, const ls_bench *bench);

// ---- For suites ---------------------------------------------------------------------------------
// A new row with its suite, name and repetitions set, or NULL when `only` leaves it out.
ls_bench_row *ls_bench__row(ls_bench *bench, const char *suite, const char *name);
// The same, where `only` may also be `kind`.
ls_bench_row *ls_bench__row_of(ls_bench *bench, const char *suite, const char *kind,
                               const char *name);
double ls_bench__now_ms(void);
double ls_bench__cpu_ms(void);  // processor time of this process, all threads
// Median and least of samples [count]; sorts them.
double ls_bench__median(double *samples, int count);
// A memcpy that is not optimised away.
void ls_bench__copy(void *to, const void *from, size_t bytes);
// Runs `once` and a memcpy of row->bytes_moved by turns, so that both see the same machine, and
// sets the row's times, yardstick and ratio.
int ls_bench__measure(ls_bench_row *row, int (*once)(void *arg), void *arg);
// The same, where a way is given: before each turn the pages of `fresh` (NULL: none) and of the
// memcpy's target are given back, so that both take them anew; times may be those of the processor,
// of all threads together; and something else may stand beside it than a memcpy (row->yardstick
// says what). The kernel adds a thread's time when it switches threads: where several work, only
// the mean of many turns is right.
typedef struct ls_bench_way {
    int (*beside)(void *arg);  // NULL: the memcpy
    void *fresh;
    size_t fresh_bytes;
    bool processor_time, mean;
} ls_bench_way;
int ls_bench__measure_way(ls_bench_row *row, int (*once)(void *arg), void *arg,
                          const ls_bench_way *way);
// ids [count] in [0, rows) by Zipf's law with exponent 1.05, its ranks spread over the table.
int ls_bench__draw_zipf(int64_t *ids, size_t count, size_t rows);
// Memory this process holds now, and the most it held since the last reset; 0 where /proc is
// silent.
uint64_t ls_bench__memory_now(void);
void ls_bench__memory_reset(void);
uint64_t ls_bench__memory_peak(void);

int ls_bench_suite_collectives(ls_bench *bench);
int ls_bench_suite_lookup(ls_bench *bench);
int ls_bench_suite_orders(ls_bench *bench);
// Only when asked for by name: it takes minutes.
int ls_bench_suite_planner(ls_bench *bench);
int ls_bench_suite_ranks(ls_bench *bench);
int ls_bench_suite_scenarios(ls_bench *bench);
int ls_bench_suite_sharded(ls_bench *bench);
int ls_bench_suite_training(ls_bench *bench);
