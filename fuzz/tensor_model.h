// The model of the tensors of a random program: shape and placement of the whole, and the shape
// that each rank has, so that only programs that can run come out. Private to make_tensors.c,
// make_steps.c and make_steps_own.c.
#pragma once

#include "fuzz/draw.h"

#define LS_FUZZ_TENSORS_MAX 24
#define LS_FUZZ_DIMS_MAX    3

typedef struct ls_fuzz_place {
    char kind;       // 'R', 'S' or 'P'
    int dim;         // S
    const char *op;  // P; else ""
    bool sized;      // S: parts of the sizes below
    int64_t sizes[LS_FUZZ_RANKS_MAX];
} ls_fuzz_place;

typedef struct ls_fuzz_shape {
    int dims;
    int64_t at[LS_FUZZ_DIMS_MAX];
} ls_fuzz_shape;

typedef struct ls_fuzz_tensor {
    char name[8];
    const char *dtype;
    bool placed;  // the two below are known
    ls_fuzz_shape shape;
    ls_fuzz_place places[LS_FUZZ_AXES_MAX];
    bool cut;  // shards are known: one for each rank
    ls_fuzz_shape shards[LS_FUZZ_RANKS_MAX];
} ls_fuzz_tensor;

typedef struct ls_fuzz_program {
    ls_fuzz_draw *draw;
    ls_fuzz_mesh mesh;
    json_t *tensors, *steps;
    ls_fuzz_tensor of[LS_FUZZ_TENSORS_MAX];
    int count;
} ls_fuzz_program;

// Appends a random step, or none where no tensor fits the kind that was drawn.
void ls_fuzz_step(ls_fuzz_program *program);

// The steps of make_steps_own.c.
void ls_fuzz_look_up(ls_fuzz_program *program);
void ls_fuzz_check_equal(ls_fuzz_program *program);
void ls_fuzz_bring_together(ls_fuzz_program *program, const char *kind);
void ls_fuzz_place_own(ls_fuzz_program *program);
void ls_fuzz_change(ls_fuzz_program *program);
void ls_fuzz_full(ls_fuzz_program *program);

// Any of the tensors that fit; NULL: there is none.
typedef bool (*ls_fuzz_fits_fn)(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                                const ls_fuzz_tensor *other);
ls_fuzz_tensor *ls_fuzz_pick(ls_fuzz_program *program, ls_fuzz_fits_fn fits,
                             const ls_fuzz_tensor *other);
// It has a placement; it is whole and has elements; the same on every rank.
bool ls_fuzz_fits_placed(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                         const ls_fuzz_tensor *other);
bool ls_fuzz_fits_values(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                         const ls_fuzz_tensor *other);
bool ls_fuzz_fits_replicated(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                             const ls_fuzz_tensor *other);
// A step's keys; the result, which replaces the operand or (always) has a separate name.
json_t *ls_fuzz_push_step(ls_fuzz_program *program, const char *kind, const char *tensor);
void ls_fuzz_put(ls_fuzz_program *program, json_t *keys, ls_fuzz_tensor *operand,
                 const ls_fuzz_tensor *made, bool always);

// The placements of a tensor of so many dims. partial: chance of P, in percent.
void ls_fuzz_places(ls_fuzz_program *program, ls_fuzz_place *out, const char *dtype, int dims,
                    int partial);
void ls_fuzz_places_text(char *out, size_t bytes, const ls_fuzz_program *program,
                         const ls_fuzz_place *places);
// Makes a tensor's shards what its placements say. at (or NULL): where they start.
void ls_fuzz_cut(const ls_fuzz_program *program, ls_fuzz_tensor *tensor);
void ls_fuzz_offset(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor, int rank,
                    ls_fuzz_shape *at, ls_fuzz_shape *size);
int64_t ls_fuzz_elements(const ls_fuzz_shape *shape);
bool ls_fuzz_same_shape(const ls_fuzz_shape *a, const ls_fuzz_shape *b);
// As torch.chunk cuts.
int64_t ls_fuzz_chunk(int64_t *start, int64_t size, int64_t count, int64_t index);
