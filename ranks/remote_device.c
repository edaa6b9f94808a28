// Data of remote ranks in a device's memory: the math runs there. Data that a check reads byte by
// byte is left to ls_remote_move, through ordinary memory; a small query of the device decides.
#include "kernels/device.h"
#include "ranks/internal.h"
#include "ranks/remote.h"

void ls_remote_place(ls_request *request, const void *send, void *recv) {
    LS_ASSERT(request->staged && request->state == LS_REQUEST_MATCHED);
    request->staged_send = send;
    request->staged_recv = recv;
}

// Whether a check wants to see the bytes before the data moves.
static int is_wanted_before(bool *out, const ls_spmd *run, const ls_meet *meet, int size,
                            ls_device *device) {
    const ls_call *call = &meet->requests[0]->call;
    *out = run->replicas != NULL;
    for (int m = 0; m < size; m++) {
        const ls_request *request = meet->requests[m];
        *out = *out || request->flip != 0;
        bool sends = request->staged_send != NULL && request->send_bytes > 0;
        if (!*out && sends && !ls_collective_of(call->kind)->reduces && ls_values__on(run, call)) {
            LS_TRY(device->ops->any_special(device, out, request->staged_send,
                                            request->send_bytes / ls_dtype_bytes(call->dtype),
                                            call->dtype));
        }
    }
    return LS_OK;
}

// Whether a reduction's results have a NaN or an infinity: then its source is searched.
static int is_wanted_after(bool *out, const ls_spmd *run, const ls_meet *meet, int size,
                           ls_device *device) {
    const ls_call *call = &meet->requests[0]->call;
    *out = false;
    if (!ls_collective_of(call->kind)->reduces || !ls_values__on(run, call)) {
        return LS_OK;
    }
    bool alike = ls_collective_of(call->kind)->replicates;  // one result decides for all
    for (int m = 0; m < size && !*out && (m == 0 || !alike); m++) {
        const ls_request *request = meet->requests[m];
        if (request->staged_recv != NULL && request->recv_bytes > 0) {
            LS_TRY(device->ops->any_special(device, out, request->staged_recv,
                                            request->recv_bytes / ls_dtype_bytes(call->dtype),
                                            call->dtype));
        }
    }
    return LS_OK;
}

static int move(bool *done, ls_spmd *run, ls_meet *meet, int size, ls_device *device) {
    bool wanted = false;
    LS_TRY(is_wanted_before(&wanted, run, meet, size, device));
    if (wanted) {
        return LS_OK;
    }
    for (int m = 0; m < size; m++) {
        meet->calls[m] = ls_flight__call(meet->requests[m]);
    }
    run->backend->device = device;
    int status =
        ls_collective_of(meet->calls[0]->kind)->math(meet->calls, size, run->backend->order);
    run->backend->device = NULL;
    LS_TRY(status);
    LS_TRY(is_wanted_after(&wanted, run, meet, size, device));
    LS_TRY(device->ops->wait(device));
    *done = !wanted;
    return LS_OK;
}

int ls_remote_move_on(bool *done, ls_spmd *run, ls_request *const *requests, int size,
                      ls_device *device) {
    void *memory = NULL;
    *done = false;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(ls_call *)));
    ls_meet meet = {.shared = requests[0]->comm->shared,
                    .requests = (ls_request **)(uintptr_t)requests,
                    .calls = memory};
    ls_rank *first = requests[0]->rank;
    ls_schedule__enter(first);
    int status = move(done, run, &meet, size, device);
    // A remote rank's data is staged: its sent data still exists, also of a call in place.
    if (status == LS_OK && *done) {
        ls_move move = {
            .shared = meet.shared, .requests = requests, .size = size, .device = device};
        ls_checks__moving(run, &move);
        ls_checks__moved(run, &move);
        ls_checks__over(run, &move);
    }
    for (int m = 0; m < size && status == LS_OK && *done; m++) {
        ls_request__done(requests[m], LS_OK);
    }
    ls_schedule__leave(first);
    ls_free(memory, (size_t)size, sizeof(ls_call *));
    return status;
}
