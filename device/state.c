// The state of a run, and memory for it.
#include <stdlib.h>

#include "device/internal.h"

device_state ls_device__state;
const ls_cuda_thread ls_device__no_thread = {.block_dim = {1, 1, 1}, .grid_dim = {1, 1, 1}};
static ls_cuda_thread none = {.block_dim = {1, 1, 1}, .grid_dim = {1, 1, 1}};
ls_cuda_thread *ls_cuda_self = &none;

void ls_device__no_self(void) {
    ls_cuda_self = &none;
}

void *ls_device__alloc(size_t bytes) {
    void *made = calloc(1, bytes > 0 ? bytes : 1);
    LS_ASSERT(made != NULL);
    return made;
}
