// Streams run their work in order. Also events, and CUDA's runtime calls on memory.
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"

#define EXPORT __attribute__((visibility("default")))
enum { CUDA_SUCCESS = 0, CUDA_INVALID_VALUE = 1, CUDA_NO_MEMORY = 2, CUDA_BAD_DEVICE = 101 };

static device_unit *host_unit(void) {
    return ls_device__state.running->unit;
}

static device_stream *make_stream(int rank, bool plain, bool apart) {
    device_stream *made = ls_device__alloc(sizeof *made);
    made->rank = rank;
    made->plain = plain;
    made->apart = apart;
    made->unit = ls_device__unit_make(rank, -2, 0, &(device_clock){0});
    made->next = ls_device__state.streams;
    ls_device__state.streams = made;
    return made;
}

void ls_device__streams_open(void) {
    for (int r = ls_device__state.rank_count - 1; r >= 0; r--) {
        (void)make_stream(r, true, false);
    }
}

static void free_work(device_work *work) {
    if (work->kernel != NULL && work->kernel->blocks == NULL) {
        ls_device__kernel_free(work->kernel);
    }
    ls_device__clock_free(&work->known);
    free(work);
}

void ls_device__streams_close(void) {
    for (device_stream *at = ls_device__state.streams, *next; at != NULL; at = next) {
        next = at->next;
        for (device_work *work = at->first, *after; work != NULL; work = after) {
            after = work->next;
            free_work(work);
        }
        free(at);
    }
}

static device_stream *default_of(int rank) {
    device_stream *at = ls_device__state.streams;
    for (; at != NULL && !(at->plain && at->rank == rank); at = at->next) {
    }
    return at;
}

device_stream *ls_device__stream_of(void *handle, int device) {
    // NULL and the constants of the legacy and the per-thread stream
    return (uintptr_t)handle <= 2 ? default_of(device) : handle;
}

static device_stream *stream_of(void *handle) {
    return ls_device__stream_of(handle, ls_device__state.running->rank);
}

static bool busy(const device_stream *stream) {
    return stream->running != NULL || stream->calls != NULL;
}

static bool idle(const device_stream *stream) {
    return stream->first == NULL && !busy(stream);
}

// The default stream waits for the others of its device, and they for it.
static bool others_idle(const device_stream *stream, uint64_t given, device_clock *into) {
    for (device_stream *at = ls_device__state.streams; at != NULL; at = at->next) {
        bool meets = at != stream && at->rank == stream->rank && !at->apart && !stream->apart &&
                     (at->plain || stream->plain);
        if (meets && ((busy(at) && at->running_given < given) ||
                      (at->first != NULL && at->first->given < given))) {
            return false;
        }
        if (meets && into != NULL) {
            ls_device__clock_join(into, &at->unit->known);
        }
    }
    return true;
}

bool ls_device__stream_due(const device_stream *stream) {
    const device_work *work = stream->first;
    return work != NULL && !busy(stream) && others_idle(stream, work->given, NULL) &&
           (work->kind != WORK_AWAIT || work->event->done >= work->number);
}

void ls_device__stream_done(device_stream *stream) {
    if (idle(stream)) {
        ls_device__wake(&stream->waiting);
    }
}

static void copy(device_stream *stream, const device_work *work) {
    ls_device__access_by(stream->unit, 0, work->from, work->bytes, false, &work->at);
    ls_device__access_by(stream->unit, 0, work->to, work->bytes, true, &work->at);
    memmove(work->to, work->from, work->bytes);
    ls_device__changed();
}

static void do_work(device_stream *stream, device_work *work) {
    switch (work->kind) {
    case WORK_KERNEL:
        stream->running = work->kernel;
        stream->running_given = work->given;
        ls_device__clock_copy(&work->kernel->start, &stream->unit->known);
        ls_device__kernel_start(work->kernel);
        break;
    case WORK_COPY:
        copy(stream, work);
        break;
    case WORK_SET:
        ls_device__access_by(stream->unit, 0, work->to, work->bytes, true, &work->at);
        memset(work->to, work->value, work->bytes);
        ls_device__changed();
        break;
    case WORK_RECORD:
        ls_device__clock_copy(&work->event->known, &stream->unit->known);
        work->event->done = work->number;
        ls_device__wake(&work->event->waiting);
        break;
    case WORK_AWAIT:
        ls_device__clock_join(&stream->unit->known, &work->event->known);
        break;
    case WORK_HOST:
        work->call(work->arg);
        break;
    case WORK_CALLS:
        stream->calls = work->batch;
        stream->running_given = work->given;
        ls_device__state.core->calls_arrive(work->batch);
        break;
    }
}

void ls_device__stream_step(device_stream *stream) {
    device_work *work = stream->first;
    stream->first = work->next;
    stream->last = stream->first == NULL ? NULL : stream->last;
    ls_device__clock_join(&stream->unit->known, &work->known);
    (void)others_idle(stream, work->given, &stream->unit->known);
    ls_device__unit_step(stream->unit);
    do_work(stream, work);
    ls_device__unit_step(stream->unit);
    if (work->kind == WORK_KERNEL) {
        ls_device__clock_free(&work->known);
        free(work);
    } else {
        free_work(work);
    }
    ls_device__stream_done(stream);
}

static device_work *give(device_stream *stream, device_work_kind kind, ls_cuda_site at) {
    device_work *work = ls_device__alloc(sizeof *work);
    work->kind = kind;
    work->at = at;
    work->given = ++ls_device__state.given;
    ls_device__clock_copy(&work->known, &host_unit()->known);
    ls_device__unit_step(host_unit());
    if (stream->last != NULL) {
        stream->last->next = work;
    } else {
        stream->first = work;
    }
    stream->last = work;
    ls_device__state.calls += 1;
    return work;
}

void ls_device__stream_calls(device_stream *stream, device_batch *batch, ls_cuda_site at) {
    give(stream, WORK_CALLS, at)->batch = batch;
}

void ls_device__describe_host(ls_text *text, const device_thread *thread) {
    ls_text_printf(text, "waits in %s", (const char *)thread->on);
}

static void finish(device_stream *stream, const char *call, ls_cuda_site at) {
    while (!idle(stream)) {
        ls_device__wait(&stream->waiting, ls_device__describe_host, call, 0, at);
    }
    ls_device__clock_join(&host_unit()->known, &stream->unit->known);
}

// ---- CUDA's runtime -----------------------------------------------------------------------------
int ls_cuda_launch_kernel(const ls_cuda_launch *launch) {
    ls_cuda_dim b = launch->block, g = launch->grid;
    uint64_t threads = (uint64_t)b.x * b.y * b.z, blocks = (uint64_t)g.x * g.y * g.z;
    device_stream *stream = stream_of(launch->stream);
    if (threads == 0 || threads > 1024 || blocks == 0 || blocks * threads > 1u << 20) {
        ls_device__invalid(stream->rank, launch->at,
                           "%s is launched with %llu blocks of %llu threads; a block has 1 to 1024 "
                           "threads, and all of a launch are at most 1048576",
                           launch->name, (unsigned long long)blocks, (unsigned long long)threads);
        launch->drop(launch->arg);
        return CUDA_INVALID_VALUE;
    }
    device_kernel *kernel = ls_device__alloc(sizeof *kernel);
    kernel->launch = *launch;
    kernel->stream = stream;
    kernel->ended = ls_device__stream_done;
    kernel->rank = stream->rank;
    give(stream, WORK_KERNEL, launch->at)->kernel = kernel;
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_allocate(void **out, size_t bytes, const char *name, ls_cuda_site at) {
    *out = ls_device__allocate(ls_device__state.running->rank, bytes, name, at);
    return *out != NULL ? CUDA_SUCCESS : CUDA_NO_MEMORY;
}

EXPORT int ls_cuda_free(void *at, ls_cuda_site site) {
    device_thread *self = ls_device__state.running;
    for (device_stream *s = ls_device__state.streams; s != NULL; s = s->next) {
        if (s->rank == self->rank) {
            finish(s, "cudaFree", site);  // which waits for the device
        }
    }
    if (at != NULL && !ls_device__release(at)) {
        ls_device__invalid(self->rank, site, "cudaFree of %p, which is not an allocation", at);
        return CUDA_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static bool fits(const void *at, size_t bytes, const char *call, ls_cuda_site site) {
    const device_allocation *in = ls_device__allocation(at);
    size_t offset = in != NULL ? (size_t)((const char *)at - in->start) : 0;
    if (!ls_device__is_device(at) ||
        (in != NULL && !in->freed && offset <= in->bytes && bytes <= in->bytes - offset)) {
        return true;
    }
    int rank = ls_device__state.running->rank;
    ls_text text = {0};
    ls_text_printf(
        &text, "%s of %zu bytes at offset %zu of %s of rank %d, which %s %zu bytes", call, bytes,
        offset, in != NULL ? in->name : "nothing", in != NULL ? in->rank : rank,
        in != NULL && in->freed ? "was freed and had" : "has", in != NULL ? in->bytes : 0);
    ls_device__find(LS_FINDING_BUFFER_TOO_SMALL, &rank, 1, site, &text);
    return false;
}

EXPORT int ls_cuda_copy(void *to, const void *from, size_t bytes, void *handle, bool waits,
                        ls_cuda_site at) {
    device_stream *stream = stream_of(handle);
    if (!fits(to, bytes, "a copy to", at) || !fits(from, bytes, "a copy from", at)) {
        return CUDA_INVALID_VALUE;
    }
    device_work *work = give(stream, WORK_COPY, at);
    work->to = to;
    work->from = from;
    work->bytes = bytes;
    if (waits) {
        finish(stream, "cudaMemcpy", at);
    }
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_set(void *to, int value, size_t bytes, void *handle, bool waits,
                       ls_cuda_site at) {
    device_stream *stream = stream_of(handle);
    if (!fits(to, bytes, "a memset", at)) {
        return CUDA_INVALID_VALUE;
    }
    device_work *work = give(stream, WORK_SET, at);
    work->to = to;
    work->value = value;
    work->bytes = bytes;
    if (waits) {
        finish(stream, "cudaMemset", at);
    }
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_host_call(void *handle, void (*call)(void *), void *arg, ls_cuda_site at) {
    device_work *work = give(stream_of(handle), WORK_HOST, at);
    work->call = call;
    work->arg = arg;
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_stream_make(void **out, bool apart) {
    *out = make_stream(ls_device__state.running->rank, false, apart);
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_stream_finish(void *handle, ls_cuda_site at) {
    finish(stream_of(handle), "cudaStreamSynchronize", at);
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_stream_idle(void *handle) {
    ls_device__yield();
    return idle(stream_of(handle)) ? 1 : 0;
}

EXPORT int ls_cuda_device_finish(ls_cuda_site at) {
    for (device_stream *s = ls_device__state.streams; s != NULL; s = s->next) {
        if (s->rank == ls_device__state.running->rank) {
            finish(s, "cudaDeviceSynchronize", at);
        }
    }
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_device_set(int device) {
    if (device < 0 || device >= ls_device__state.rank_count) {
        return CUDA_BAD_DEVICE;
    }
    ls_device__state.running->rank = device;
    host_unit()->rank = device;
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_device(void) {
    return ls_device__state.running->rank;
}

EXPORT int ls_cuda_device_count(void) {
    return ls_device__state.rank_count;
}

EXPORT int ls_cuda_is_device(const void *at) {
    const device_allocation *in = ls_device__allocation(at);
    return in != NULL ? in->rank : -1;
}

// ---- Events -------------------------------------------------------------------------------------
EXPORT int ls_cuda_event_make(void **out) {
    *out = ls_device__alloc(sizeof(device_event));
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_event_record(void *handle, void *stream, ls_cuda_site at) {
    device_event *event = handle;
    device_work *work = give(stream_of(stream), WORK_RECORD, at);
    work->event = event;
    work->number = ++event->wanted;
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_event_await(void *stream, void *handle, ls_cuda_site at) {
    device_event *event = handle;
    device_work *work = give(stream_of(stream), WORK_AWAIT, at);
    work->event = event;
    work->number = event->wanted;
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_event_finish(void *handle, ls_cuda_site at) {
    device_event *event = handle;
    uint64_t wanted = event->wanted;
    while (event->done < wanted) {
        ls_device__wait(&event->waiting, ls_device__describe_host, "cudaEventSynchronize", 0, at);
    }
    ls_device__clock_join(&host_unit()->known, &event->known);
    return CUDA_SUCCESS;
}

EXPORT int ls_cuda_event_done(void *handle) {
    const device_event *event = handle;
    ls_device__yield();
    return event->done >= event->wanted ? 1 : 0;
}
