// The simulator on a device: the math of matched calls runs where their buffers are, by the
// device's kernels. Data in ordinary memory is copied to the device for the call and back.
#include "backends/sim/sim_device.h"

#include "collectives/check.h"

// ---- Memory -------------------------------------------------------------------------------------
int ls_sim_device__alloc(ls_backend *backend, void **out, size_t bytes) {
    return backend->device->ops->alloc(backend->device, out, bytes > 0 ? bytes : 1);
}

void ls_sim_device__free(ls_backend *backend, void *pointer, size_t bytes) {
    backend->device->ops->free(backend->device, pointer, bytes > 0 ? bytes : 1);
}

int ls_sim_device__copy_in(ls_backend *backend, void *out, const void *host, size_t bytes) {
    return backend->device->ops->copy_in(backend->device, out, host, bytes);
}

int ls_sim_device__copy_out(ls_backend *backend, void *host, const void *in, size_t bytes) {
    return backend->device->ops->copy_out(backend->device, host, in, bytes);
}

// ---- One event ----------------------------------------------------------------------------------
// A call of an event, with its buffers on the device.
typedef struct placed {
    ls_call call;
    void *send, *recv;  // made for the call; NULL: it has its own. In place: only `recv`
    size_t send_bytes, recv_bytes;
    void *host_recv;  // where the results go after; NULL: nowhere
    size_t host_recv_bytes, host_recv_offset;
} placed;

static int make_room(ls_device *device, void **out, size_t bytes, const ls_call *call,
                     const char *what) {
    if (device->ops->alloc(device, out, bytes) != LS_OK) {
        return ls_error_wrap("rank %d: the %s buffer of %s, %zu bytes", call->rank, what,
                             ls_kind_name(call->kind), bytes);
    }
    return LS_OK;
}

// Both sides in one piece of device memory, laid out as they are on the host.
static int place_in_place(ls_device *device, placed *p, const ls_call_extent *extent) {
    const char *send = p->call.send;
    char *recv = p->call.recv, *start = recv, *end = recv + extent->recv_bytes;
    if (send < recv) {
        start = (char *)(uintptr_t)send;
    }
    if (send + extent->send_bytes > end) {
        end = (char *)(uintptr_t)send + extent->send_bytes;
    }
    p->recv_bytes = (size_t)(end - start);
    LS_TRY(make_room(device, &p->recv, p->recv_bytes, &p->call, "in-place"));
    LS_TRY(device->ops->copy_in(device, p->recv, start, p->recv_bytes));
    p->host_recv = recv;
    p->host_recv_bytes = extent->recv_bytes;
    p->host_recv_offset = (size_t)(recv - start);
    p->call.send = (char *)p->recv + (send - start);
    p->call.recv = (char *)p->recv + p->host_recv_offset;
    return LS_OK;
}

static int place(ls_device *device, placed *p, const ls_call *call) {
    ls_call_extent extent;
    p->call = *call;
    LS_TRY(ls_call_check(&extent, call));
    bool has_send = extent.send_bytes > 0, has_recv = extent.recv_bytes > 0;
    bool send_out = has_send && !device->ops->owns(device, call->send);
    bool recv_out = has_recv && !device->ops->owns(device, call->recv);
    if (extent.in_place && send_out && recv_out) {
        return place_in_place(device, p, &extent);
    }
    if (send_out) {
        p->send_bytes = extent.send_bytes;
        LS_TRY(make_room(device, &p->send, p->send_bytes, call, "send"));
        LS_TRY(device->ops->copy_in(device, p->send, call->send, p->send_bytes));
        p->call.send = p->send;
    }
    if (recv_out) {
        p->recv_bytes = p->host_recv_bytes = extent.recv_bytes;
        LS_TRY(make_room(device, &p->recv, p->recv_bytes, call, "receive"));
        p->host_recv = call->recv;
        p->call.recv = p->recv;
    }
    return LS_OK;
}

static int run_placed(ls_device *device, placed *placed_calls, const ls_call **calls,
                      const ls_event *event, const ls_order *order) {
    for (int i = 0; i < event->size; i++) {
        LS_TRY(place(device, &placed_calls[i], event->calls[i]));
        calls[i] = &placed_calls[i].call;
    }
    LS_TRY(event->collective->math(calls, event->size, order));
    for (int i = 0; i < event->size; i++) {
        const placed *p = &placed_calls[i];
        if (p->host_recv != NULL) {
            LS_TRY(device->ops->copy_out(device, p->host_recv,
                                         (const char *)p->recv + p->host_recv_offset,
                                         p->host_recv_bytes));
        }
    }
    return device->ops->wait(device);  // the host may read shared buffers now
}

int ls_sim_device__math(ls_device *device, const ls_event *event, const ls_order *order) {
    size_t size = (size_t)event->size;
    void *memory = NULL, *pointers = NULL;
    LS_TRY(ls_alloc(&memory, size, sizeof(placed)));
    placed *placed_calls = memory;
    int status = ls_alloc(&pointers, size, sizeof(ls_call *));
    status = status == LS_OK ? run_placed(device, placed_calls, pointers, event, order) : status;
    for (size_t i = 0; i < size; i++) {
        device->ops->free(device, placed_calls[i].send, placed_calls[i].send_bytes);
        device->ops->free(device, placed_calls[i].recv, placed_calls[i].recv_bytes);
    }
    ls_free(pointers, size, sizeof(ls_call *));
    ls_free(memory, size, sizeof(placed));
    return status;
}
