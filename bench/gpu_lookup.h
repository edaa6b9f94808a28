// The pooled lookup and a copy on one GPU. Private to the bench.
#pragma once

#include "bench/bench.h"

// 1 M rows x 128 f32, 65,536 bags of 20 uniform ids, beside a device copy of as many bytes.
int ls_bench__lookup_row(ls_bench *bench);
// A device copy's bytes read and written per second, and the memory of GPU 0.
int ls_bench__device_copy(double *gb_per_s, int64_t *memory_bytes);
// Two constants of the planner's model, from pooled lookups on GPU 0: the time of one that does
// next to nothing, in microseconds, as one of many without a pause; and how many times faster than
// from memory (`hbm_gb_per_s`) rows are read that are in the cache.
int ls_bench__lookup_constants(double *kernel_us, double *cache_speedup, double hbm_gb_per_s);
// Another: the time of a shard's update that has one id, in microseconds, as one of many; it waits
// for the number of rows.
int ls_bench__update_constant(double *update_us);
