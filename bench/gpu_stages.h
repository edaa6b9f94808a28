// The stages of a plan on GPUs. Only in programs with NCCL inside.
#pragma once

#include "runner/plan/stage_times.h"

// Does the steps of a plan on NCCL, a GPU and a thread per rank of this process, and times them by
// GPU events: device buffers throughout, nothing copied from or to the host. Each collective is
// issued in batches of calls without a pause between them, as calibrate does; a rank's lookups are
// one sample together, and so are its updates. Every result is compared with the simulator's.
int ls_bench_gpu_stages(ls_stage_times *out, const ls_work *steps, const ls_plan *plan,
                        ls_arena *arena, void (*progress)(const char *what, int done, int total));
