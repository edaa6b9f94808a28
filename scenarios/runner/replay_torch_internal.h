// What the files of the torch replay share.
#ifndef LS_SCENARIOS_RUNNER_REPLAY_TORCH_INTERNAL_H
#define LS_SCENARIOS_RUNNER_REPLAY_TORCH_INTERNAL_H

#include <jansson.h>

#include "scenarios/runner/result.h"

// The JSON file at `path`: *out is NULL, and *error says why, where it is not JSON. A status other
// than LS_OK where it cannot be read. The caller drops *out with json_decref.
int ls_torch__load_json(json_t **out, const char *path, json_error_t *error);

// Room for `count` more stages of a case; the stages point into results->arena.
int ls_torch__stages(ls_results *results, ls_case_result *result, int count);
// Turns the last error into the case's: class error, the sentence kept.
void ls_torch__case_error(ls_results *results, ls_case_result *result);

// One embedding or embedding_bag entry: fills *result's stages. `args` is the manifest's. An error
// is one of the file (or of memory), and becomes the case's.
int ls_torch__embedding(ls_results *results, ls_case_result *result, const char *path, bool bag,
                        const json_t *args);
// Why the entry cannot be replayed, or NULL.
const char *ls_torch__embedding_unsupported(bool bag, const json_t *args);

// Every entry of a dtensor_*.json file, one case each.
int ls_torch__dtensor(ls_results *results, const char *path, const char *name, const char *dir);

#endif
