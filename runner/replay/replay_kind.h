// What a folder holds that can be replayed.
#ifndef LS_RUNNER_REPLAY_REPLAY_KIND_H
#define LS_RUNNER_REPLAY_REPLAY_KIND_H

#include "runner/result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_replay_kind {
    bool manifest;   // there is one, of whatever
    bool recording;  // of ours
    bool nccl;       // a list of NCCL's results
    bool torch;      // a list of torch's results, or dtensor_*.json beside whatever else is there
} ls_replay_kind;

// What the folder itself holds, by its manifest and the names of its files; all false: nothing.
// LS_ERR_FORMAT where it looks like a part of one: a manifest that cannot be read or that nobody
// knows, files of ranks without a manifest.
int ls_replay_kind_of(ls_replay_kind *out, const char *dir);

// Adds a skipped case where results lie in a folder without a manifest (*.bin, *.safetensors).
int ls_replay_unnamed(ls_results *results, const char *dir);

#ifdef __cplusplus
}
#endif
#endif
