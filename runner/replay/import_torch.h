// Shared by the files that read torch's results.
#pragma once

#include "formats/safetensors.h"
#include "planner/plan.h"
#include "runner/replay/import.h"

// A lookup: the contents of its file and its arguments.
typedef struct ls_torch_lookup {
    const ls_safetensors *file;
    const char *name;  // of the file
    const json_t *args;
    bool bag, renormalised;  // there is a max_norm
    double max_norm, norm_type;
    const ls_safetensor *weight, *output, *ids;
    int64_t *id_values;  // [ids->count]
    int64_t *lengths;    // [batch]
    int64_t batch;
    float *values;  // [output->count] the output
    int ranks;      // of the run that reproduces it
} ls_torch_lookup;

// import_torch.c
const char *ls_torch__mode(const ls_torch_lookup *lookup);
// LS_ERR_FORMAT: there is none, or of another type.
int ls_torch__find(const ls_safetensor **out, const ls_safetensors *file, const char *name,
                   ls_dtype dtype);
// The same for a tensor whose shape the file gives separately.
int ls_torch__find_shaped(const ls_safetensor **out, const ls_safetensors *file, const char *name,
                          ls_dtype dtype, const ls_shape *shape);
ls_shape ls_torch__shape(const ls_safetensor *tensor);
// *(T **)out = the numbers of a tensor, in the arena.
int ls_torch__read(void *out, ls_arena *arena, const ls_safetensors *file,
                   const ls_safetensor *tensor);
// Appends the numbers of a tensor, as a scenario names them.
void ls_torch__write_file(ls_text *out, const char *file, const char *tensor);
// Appends a scenario of the lookup, whose table is called weight and whose feature ids.
void ls_torch__write_lookup(ls_text *out, ls_torch_lookup *lookup, ls_sharding sharding, int ranks);

// import_torch_train.c: each adds the file's results, if any. The weights after the lookup, which
// max_norm scales and nothing else changes.
int ls_torch__weight_after(ls_import *import, ls_torch_lookup *lookup, ls_arena *arena);
// The gradients of the weights and of the ids' weights.
int ls_torch__gradients(ls_import *import, ls_torch_lookup *lookup, ls_arena *arena);
// The arguments of the kind optimizer.
extern const ls_import_key ls_torch__optimizer_keys[];
// An entry of that kind: dense steps.
int ls_torch__optimizer(ls_import *import, const ls_safetensors *file, const json_t *args);

// import_torch_quantised.c: a stage for the bytes of each layout in the file, and one for the
// dequantised values.
int ls_torch__quantised(ls_import *import, const ls_safetensors *file, const json_t *args);
