// A GPU behind the table of kernels/device.h.
#pragma once

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// The first GPU that CUDA sees (CUDA_VISIBLE_DEVICES chooses). LS_ERR_BACKEND: there is none, and
// why. Not to be freed.
int ls_device_cuda_open(ls_device **out);

// One line about it, for people; LS_ERR_BACKEND likewise.
int ls_device_cuda_describe(char *out, size_t out_bytes);

#ifdef __cplusplus
}
#endif
