// Tools for random scenarios: draws that depend only on (seed, case), and a tree of JSON values
// that is written as a scenario file (scenario_text.h). Missing memory is recorded in the draw, and
// reported once the tree is complete.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define LS_FUZZ_RANKS_MAX 8
#define LS_FUZZ_AXES_MAX  3

typedef struct ls_fuzz_draw {
    uint64_t seed;
    uint32_t number;  // of the case
    uint64_t index;   // of the next draw
    bool failed;      // there was no memory for a part of the tree
} ls_fuzz_draw;

int64_t ls_fuzz_below(ls_fuzz_draw *draw, int64_t bound);              // [0, bound)
int64_t ls_fuzz_range(ls_fuzz_draw *draw, int64_t low, int64_t high);  // both included
bool ls_fuzz_chance(ls_fuzz_draw *draw, int percent);
// numbers [count] of sum `total`, some of them 0.
void ls_fuzz_parts(ls_fuzz_draw *draw, int64_t *out, int count, int64_t total);

#define LS_FUZZ_COUNT(type, ...) ((int64_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define LS_FUZZ_ONE(type, draw, ...)                                                               \
    (((type[]){__VA_ARGS__})[ls_fuzz_below(draw, LS_FUZZ_COUNT(type, __VA_ARGS__))])
#define LS_FUZZ_WORD(draw, ...)   LS_FUZZ_ONE(const char *const, draw, __VA_ARGS__)
#define LS_FUZZ_NUMBER(draw, ...) LS_FUZZ_ONE(const int64_t, draw, __VA_ARGS__)
#define LS_FUZZ_REAL(draw, ...)   LS_FUZZ_ONE(const double, draw, __VA_ARGS__)

// ---- The tree: what is made is the parent's at once, and borrowed from it -----------------------
void ls_fuzz_set(ls_fuzz_draw *draw, json_t *object, const char *key, json_t *value);
void ls_fuzz_set_text(ls_fuzz_draw *draw, json_t *object, const char *key, const char *text);
void ls_fuzz_set_int(ls_fuzz_draw *draw, json_t *object, const char *key, int64_t value);
void ls_fuzz_set_real(ls_fuzz_draw *draw, json_t *object, const char *key, double value);
void ls_fuzz_set_true(ls_fuzz_draw *draw, json_t *object, const char *key);
void ls_fuzz_set_ints(ls_fuzz_draw *draw, json_t *object, const char *key, const int64_t *values,
                      int count);
json_t *ls_fuzz_object(ls_fuzz_draw *draw, json_t *object, const char *key);
json_t *ls_fuzz_array(ls_fuzz_draw *draw, json_t *object, const char *key);
json_t *ls_fuzz_push_object(ls_fuzz_draw *draw, json_t *array);
json_t *ls_fuzz_push_array(ls_fuzz_draw *draw, json_t *array);
void ls_fuzz_push_int(ls_fuzz_draw *draw, json_t *array, int64_t value);
void ls_fuzz_push_text(ls_fuzz_draw *draw, json_t *array, const char *text);

// ---- Shared by kinds of scenarios ---------------------------------------------------------------
typedef struct ls_fuzz_mesh {
    int64_t shape[LS_FUZZ_AXES_MAX];
    int axes, ranks;
} ls_fuzz_mesh;

// Draws a mesh of at most so many axes, and writes it into the scenario.
void ls_fuzz_mesh_make(ls_fuzz_mesh *out, ls_fuzz_draw *draw, json_t *scenario, int axes_max);
int ls_fuzz_mesh_at(const ls_fuzz_mesh *mesh, int rank, int axis);  // coordinate of a rank
bool ls_fuzz_dtype_whole(const char *dtype);                        // of integers
const char *ls_fuzz_float(ls_fuzz_draw *draw);
const char *ls_fuzz_integer(ls_fuzz_draw *draw);
// Sources of numbers. count: up to this many may be listed one by one; 0: none. finite: only values
// whose sum does not overflow.
void ls_fuzz_values(ls_fuzz_draw *draw, json_t *object, const char *key, const char *dtype,
                    int64_t count, bool finite);
void ls_fuzz_order(ls_fuzz_draw *draw, json_t *scenario);  // sometimes an order of the sums

// ---- The kinds: each fills in a scenario that has its version, name and seed --------------------
void ls_fuzz_make_tables(ls_fuzz_draw *draw, json_t *scenario);
void ls_fuzz_make_buffers(ls_fuzz_draw *draw, json_t *scenario);
void ls_fuzz_make_tensors(ls_fuzz_draw *draw, json_t *scenario);
// Has tables trained that scenario["tables"] describes.
void ls_fuzz_make_training(ls_fuzz_draw *draw, json_t *scenario, json_t *tables);
// Injects one defect.
void ls_fuzz_inject(ls_fuzz_draw *draw, json_t *scenario);
