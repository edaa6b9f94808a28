// Data in the GPUs' memory: staging that fronts have made and given out, which one device of this
// process opens and computes on. A check that wants to see bytes gets them in ordinary memory.
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"
#include "kernels/device.h"

_Static_assert(LS_WIRE_HANDLE_BYTES == LS_DEVICE_HANDLE_BYTES, "a handle is a handle");

#define STAGINGS_MAX 1024u      // of a process
#define LEAST_BYTES  "4194304"  // smaller calls are faster through ordinary memory

void ls_exec__set_device(const ls_exec_options *options) {
    if (!options->observe) {
        // Streams that wait must not stand before those they wait for in a GPU's queues.
        (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // another: see front_preload.c
    }
    bool kept = options->kept != LS_EXEC_KEPT_NOTHING;  // then it is wanted here
    if (options->observe || kept || options->open_device == NULL) {
        (void)unsetenv(LS_WIRE_DEVICE);
    } else {
        (void)setenv(LS_WIRE_DEVICE, LEAST_BYTES, 0);  // another: from measuring tools
    }
}

// ---- Memory -------------------------------------------------------------------------------------
// Whether its kernels run: a GPU may be of a kind that they were not built for.
static bool computes(ls_device *device) {
    const float one = 1;
    float got = 0;
    void *at = NULL;
    bool special = true;
    if (device->ops->alloc(device, &at, sizeof one) != LS_OK) {
        return false;
    }
    bool good = device->ops->fill(device, at, LS_F32, &one, 1) == LS_OK &&
                device->ops->any_special(device, &special, at, 1, LS_F32) == LS_OK &&
                device->ops->copy_out(device, &got, at, sizeof got) == LS_OK;
    device->ops->free(device, at, sizeof one);
    return good && got == one && !special;
}

static ls_device *open_device(ls_exec *exec) {
    if (exec->device == NULL && !exec->no_device) {
        ls_device *made = NULL;
        bool open = exec->options->open_device != NULL &&
                    exec->options->open_device(&made) == LS_OK && computes(made);
        exec->device = open ? made : NULL;
        exec->no_device = !open;
    }
    return exec->device;
}

int ls_exec__staging(ls_exec *exec, ls_exec_process *process, const ls_wire_staging *message) {
    if (message->memory != process->staging_count + 1 || process->staging_count >= STAGINGS_MAX ||
        message->slot >= LS_WIRE_SLOTS) {
        return LS_FAIL(LS_ERR_FORMAT, "process %ld gives out memory out of order",
                       (long)process->pid);
    }
    ls_exec_staging *more = realloc(process->stagings, message->memory * sizeof *more);
    LS_TRY(more != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    process->stagings = more;
    ls_device *device = open_device(exec);
    void *at = NULL;
    bool reached = device != NULL && device->ops->import(device, &at, message->handle) == LS_OK;
    more[process->staging_count++] = (ls_exec_staging){reached ? at : NULL, message->bytes};
    ls_exec__answer(process, message->slot, reached ? 1 : 2, LS_ERR_BACKEND);
    return LS_OK;
}

void ls_exec__free_stagings(const ls_exec *exec, ls_exec_process *process) {
    for (uint32_t i = 0; i < process->staging_count; i++) {
        if (process->stagings[i].at != NULL) {
            exec->device->ops->import_end(exec->device, process->stagings[i].at);
        }
    }
    free(process->stagings);
}

// ---- Moving by way of ordinary memory -----------------------------------------------------------
// A member's data here.
typedef struct copy {
    void *send, *recv;
    size_t send_bytes, recv_bytes;
} copy;

static int bring(copy *out, const ls_exec *exec, ls_request *request) {
    const ls_exec_op *op = ls_remote_owner(request);
    const ls_call *call = ls_remote_call_of(request);
    size_t send = 0, recv = 0, element = ls_dtype_bytes(call->dtype);
    ls_device *device = exec->device;
    if (!op->on_device) {
        return LS_OK;
    }
    LS_TRY(ls_call_send_elements(&send, call));
    LS_TRY(ls_call_recv_elements(&recv, call));
    out->send_bytes = op->call.send != NULL ? send * element : 0;
    out->recv_bytes = op->call.recv != NULL ? recv * element : 0;
    out->send = malloc(out->send_bytes + 1);
    out->recv = malloc(out->recv_bytes + 1);
    if (out->send == NULL || out->recv == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot allocate %zu bytes for the buffers of a GPU",
                       out->send_bytes + out->recv_bytes);
    }
    LS_TRY(device->ops->copy_out(device, out->send, op->call.send, out->send_bytes));
    ls_remote_place(request, out->send_bytes > 0 ? out->send : NULL,
                    out->recv_bytes > 0 ? out->recv : NULL);
    return LS_OK;
}

static int move_here(ls_exec *exec, const ls_exec_job *job) {
    copy *copies = calloc((size_t)job->size, sizeof *copies);
    int status = copies != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory");
    for (int m = 0; m < job->size && status == LS_OK; m++) {
        status = bring(&copies[m], exec, job->requests[m]);
    }
    status = status == LS_OK ? ls_remote_move(exec->run, job->requests, job->size, false) : status;
    for (int m = 0; m < job->size && copies != NULL; m++) {
        const ls_exec_op *op = ls_remote_owner(job->requests[m]);
        if (status == LS_OK && copies[m].recv_bytes > 0) {
            status = exec->device->ops->copy_in(exec->device, op->call.recv, copies[m].recv,
                                                copies[m].recv_bytes);
        }
        free(copies[m].send);
        free(copies[m].recv);
    }
    free(copies);
    exec->unmoved =
        exec->unmoved || (status != LS_OK && ls_remote_status(exec->run, NULL) == LS_OK);
    return status;
}

int ls_exec__move(ls_exec *exec, const ls_exec_job *job, bool collected) {
    int there = 0;
    for (int m = 0; m < job->size; m++) {
        const ls_exec_op *op = ls_remote_owner(job->requests[m]);
        there += op->on_device ? 1 : 0;
    }
    if (there == 0) {
        return ls_remote_move(exec->run, job->requests, job->size, collected);
    }
    bool done = false;
    if (there == job->size) {
        // A failure there, such as missing memory, is tried here.
        (void)ls_remote_move_on(&done, exec->run, job->requests, job->size, exec->device);
    }
    return done ? LS_OK : move_here(exec, job);
}
