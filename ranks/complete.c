// Moves the data of calls that have matched.
#include "ranks/internal.h"

// Elsewhere: the backend's own threads move the data, one set of calls at a time.
static int complete_elsewhere(ls_spmd *run, const ls_call *const *calls, int size) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(ls_call)));
    ls_call *copies = memory;
    for (int i = 0; i < size; i++) {
        copies[i] = *calls[i];
    }
    ls_backend *backend = run->backend;
    int status = backend->ops->run(backend, copies, size);
    for (int i = 0; status == LS_OK && backend->observer != NULL && i < size; i++) {
        backend->observer(backend->observer_arg, &copies[i]);
    }
    ls_free(memory, (size_t)size, sizeof(ls_call));
    return status;
}

int ls_spmd__complete(ls_spmd *run, const ls_call *const *calls, int size) {
    if (run->options.shape_only) {
        return LS_OK;
    }
    if (run->borrowed) {
        return complete_elsewhere(run, calls, size);
    }
    bool p2p = calls[0]->kind == LS_SEND;
    // In a parallel run other communicators proceed meanwhile: they do not access these buffers.
    if (run->parallel && !p2p) {
        (void)pthread_mutex_unlock(&run->mutex);
    }
    int status = run->remote != NULL && !p2p
                     ? ls_remote__math(run, calls, size)
                     : ls_collective_of(calls[0]->kind)->math(calls, size, run->backend->order);
    if (run->parallel && !p2p) {
        (void)pthread_mutex_lock(&run->mutex);
    }
    return status;
}
