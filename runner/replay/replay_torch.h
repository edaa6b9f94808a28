// Replaying what torch really returned: a directory of its results with their manifest (safetensors
// of embedding and embedding_bag calls), and lists of DTensor shards (dtensor_*.json). Each is
// computed again in the simulator, sharded in every way that applies, and compared.
#ifndef LS_RUNNER_REPLAY_REPLAY_TORCH_H
#define LS_RUNNER_REPLAY_REPLAY_TORCH_H

#include "runner/result.h"

#ifdef __cplusplus
extern "C" {
#endif

// Replays DIR and adds to `results` one case per entry of the manifest and one per DTensor entry,
// in their order. An embedding case has a stage per sharding type and world (1, 3 and 4 ranks, the
// last on two hosts): bit_exact, within_bound (torch's output and ours both within the derived
// bound of the exact value; where nothing is summed that means equal) or wrong. A DTensor case
// has a stage per way to the shards. What is not supported (max_norm, optimizers, quantised rows)
// is skipped with the reason, and so, as a case of its own, is what of a file or an entry
// nothing reads (gradients, unknown tensors and keys); what is malformed is an error case. The
// directory may be hostile. LS_ERR_IO, LS_ERR_FORMAT, LS_ERR_MEMORY.
int ls_replay_torch(ls_results *results, const char *dir);

#ifdef __cplusplus
}
#endif
#endif
