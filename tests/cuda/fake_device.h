// A device whose memory the host cannot touch: the host's kernels on pages that are closed but
// while one of them runs. What would crash or silently pass on a GPU crashes here: host code that
// reads a device's pointer, a kernel that is given the host's.
#ifndef LS_TESTS_CUDA_FAKE_DEVICE_H
#define LS_TESTS_CUDA_FAKE_DEVICE_H

#include "kernels/device.h"

// A handle of memory that another process gives out: a file that it has open.
typedef struct fake_handle {
    int32_t pid, file;
    uint64_t bytes;  // a multiple of a page
    char rest[LS_DEVICE_HANDLE_BYTES - 16];
} fake_handle;

// The one fake device.
ls_device *fake_device(void);
// Fails the allocation after the next `count` with LS_ERR_MEMORY; -1: none.
void fake_device_fail_after(long count);
// Arrays that were not freed yet.
size_t fake_device_live(void);
// Times that a kernel or copy ran, so that a run that never used the device is seen.
size_t fake_device_used(void);

#endif
