// A fused training step on one GPU. Private to the bench.
#pragma once

#include "bench/bench.h"

// The step of training.c's sizes, beside a device copy of the bytes that have to move.
int ls_bench__gpu_step_row(ls_bench *bench);
