// Replaying what NCCL really returned: a directory of results with their manifest (nccl_truth),
// each computed again in the simulator under the recorded algorithm and protocol, and classed.
#ifndef LS_RUNNER_REPLAY_REPLAY_NCCL_H
#define LS_RUNNER_REPLAY_REPLAY_NCCL_H

#include "runner/result.h"

#ifdef __cplusplus
extern "C" {
#endif

// Replays every result of DIR and adds one case each to `results`, in the manifest's order,
// whatever the number of threads (0: as many as there are processors, at most 8). Classes:
// bit_exact under the recorded algorithm, protocol and channels (where the channels that the tuner
// allowed are not recorded, every number is tried; the stage's name says which fit and its order
// names one); reordered, with the order that gives these bits; within_bound; wrong, at the first
// such element. What is not supported is skipped (keys that nothing
// reads as a case of their own), what is malformed is an error case. `summary`
// (may be NULL) gets one line per group (world, op, dtype, algorithm, protocol), then what is not
// bit exact in full. The directory may be hostile. LS_ERR_IO, LS_ERR_FORMAT, LS_ERR_MEMORY.
int ls_replay_nccl(ls_results *results, ls_text *summary, const char *dir, int threads);

#ifdef __cplusplus
}
#endif
#endif
