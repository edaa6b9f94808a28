// The simulator's calls on a device. Private to this folder.
#pragma once

#include "backends/match.h"
#include "kernels/device.h"

// The event's math on the device. Other buffers are copied in first, and the results out after.
// LS_ERR_MEMORY names rank, call and bytes.
int ls_sim_device__math(ls_device *device, const ls_event *event, const ls_order *order);

// The device's memory, as a backend's.
int ls_sim_device__alloc(ls_backend *backend, void **out, size_t bytes);
void ls_sim_device__free(ls_backend *backend, void *pointer, size_t bytes);
int ls_sim_device__copy_in(ls_backend *backend, void *out, const void *host, size_t bytes);
int ls_sim_device__copy_out(ls_backend *backend, void *host, const void *in, size_t bytes);
