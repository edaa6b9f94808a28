// Measurements on GPUs. Only in lockstep-cuda.
#pragma once

#include "formats/json.h"
#include "bench/bench.h"
#include "collectives/collectives.h"

// Bus bandwidth of collectives over all GPUs, and the pooled lookup beside a device copy.
int ls_bench_suite_gpu(ls_bench *bench);

// Latency and bandwidth of each collective over the communicator: times at sizes from 8 B to 64
// MiB, and the line t = latency + bytes / bandwidth that fits them, as the members "links" (every
// size, with the fit and its residuals) and "machine" (what the planner reads) of the object being
// written.
int ls_bench_gpu_links(ls_json *json, ls_comm *comm, void (*progress)(const char *, int, int));
