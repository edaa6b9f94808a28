// A device whose memory the host cannot access: the host's kernels run on pages that are protected
// except during a kernel. Errors that crash or pass silently on a GPU crash here: host code that
// reads a device pointer, a kernel that gets a host pointer.
#pragma once

#include "kernels/device.h"

// A handle of another process's memory: an open file.
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
// Number of kernels and copies so far, to detect a run that never used the device.
size_t fake_device_used(void);
