// NVSHMEM's extensions are in nvshmem.h.
#ifndef LS_DEVICE_INCLUDE_NVSHMEMX_H
#define LS_DEVICE_INCLUDE_NVSHMEMX_H

#include <nvshmem.h>

#endif
