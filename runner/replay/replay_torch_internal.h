// What the files of the torch replay share.
#ifndef LS_RUNNER_REPLAY_REPLAY_TORCH_INTERNAL_H
#define LS_RUNNER_REPLAY_REPLAY_TORCH_INTERNAL_H

#include "formats/safetensors.h"
#include "runner/replay/replay_internal.h"

// Room for `count` more stages of a case; the stages point into results->arena.
int ls_torch__stages(ls_results *results, ls_case_result *result, int count);

// What of an entry nothing replays, by name.
typedef struct ls_torch_rest {
    ls_text gradients;
    ls_text unknown;  // tensors, arguments and keys
} ls_torch_rest;

// A tensor of the file, read into *out [*count]; NULL where it is absent and `optional`.
int ls_torch__tensor(void **out, size_t *count, const ls_safetensors *file, const char *name,
                     ls_dtype dtype, bool optional);
// Names what of a lookup's file and arguments nothing here reads.
void ls_torch__rest(ls_torch_rest *rest, const ls_safetensors *file, bool bag, const json_t *args);

typedef struct ls_torch_weights {
    const float *weight;  // [count / columns, columns]
    size_t count, columns;
} ls_torch_weights;
// Adds the stage weight_after, where the file has that tensor: a lookup leaves the weights alone.
int ls_torch__weights_after(ls_results *results, ls_case_result *result,
                            const ls_torch_weights *before, const ls_safetensors *file);

// One embedding or embedding_bag entry: fills *result's stages, and *rest. `args` is the
// manifest's. An error is one of the file (or of memory), and becomes the case's.
int ls_torch__embedding(ls_results *results, ls_case_result *result, ls_torch_rest *rest,
                        const char *path, bool bag, const json_t *args);
// Why the entry cannot be replayed, or NULL.
const char *ls_torch__embedding_unsupported(bool bag, const json_t *args);

// Every entry of a dtensor_*.json file, one case each.
int ls_torch__dtensor(ls_results *results, const char *path, const char *name, const char *dir);

#endif
