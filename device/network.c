// The network: puts that read their source and arrive later, in any order, unless a strong signal
// follows them.
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"

static const ls_cuda_devcomm *comm_of(const void *comm) {
    return comm;
}

static device_resources *resources_of(const void *comm) {
    return comm_of(comm)->resources;
}

// ---- Puts ---------------------------------------------------------------------------------------
static bool in_window(const ls_cuda_put *put, const device_window *window, size_t offset,
                      size_t bytes, int rank) {
    if (offset <= window->bytes && bytes <= window->bytes - offset) {
        return true;
    }
    ls_text text = {0};
    ls_device__who(&text, ls_device__state.running->unit, UINT32_MAX);
    ls_text_printf(&text,
                   ": %s of %zu bytes at offset %zu of window %d of rank %d, which has %zu "
                   "bytes",
                   put->call, bytes, offset, window->number, rank, window->bytes);
    int ranks[2] = {ls_device__state.running->unit->rank, rank};
    ls_device__find(LS_FINDING_BUFFER_TOO_SMALL, ranks, ranks[0] == ranks[1] ? 1 : 2, put->at,
                    &text);
    return false;
}

static bool valid(const ls_cuda_put *put) {
    const ls_cuda_devcomm *comm = comm_of(put->comm);
    if (put->peer < 0 || put->peer >= comm->nranks) {
        ls_device__invalid(comm->rank, put->at, "%s to rank %d of %d", put->call, put->peer,
                           comm->nranks);
        return false;
    }
    if (put->to == NULL) {
        return true;
    }
    const device_window *to = ls_device__member(put->to, put->peer);
    if (to == NULL) {
        ls_device__invalid(comm->rank, put->at, "%s to a window that rank %d has not registered",
                           put->call, put->peer);
        return false;
    }
    return in_window(put, to, put->to_offset, put->bytes, put->peer) &&
           (put->from == NULL ||
            in_window(put, put->from, put->from_offset, put->bytes, comm->rank));
}

static void *target_of(const device_put *put) {
    const device_window *to = ls_device__member(put->what.to, put->what.peer);
    return (char *)to->base + put->what.to_offset;
}

static const void *source_of(const device_put *put) {
    const device_window *from = put->what.from;
    if (from != NULL) {
        return (const char *)from->base + put->what.from_offset;
    }
    return put->what.plain != NULL ? put->what.plain : &put->what.value;
}

// The accesses of a put are judged when it is issued: they are unordered until it is awaited.
static void judge(device_put *put) {
    const ls_cuda_put *what = &put->what;
    if (what->to == NULL || what->bytes == 0 || put->number == 0) {
        return;
    }
    void *there = target_of(put), *here = (void *)(uintptr_t)source_of(put);
    ls_device__access_by(put->unit, put->number, what->gets ? there : here, what->bytes, false,
                         &what->at);
    ls_device__access_by(put->unit, put->number, what->gets ? here : there, what->bytes, true,
                         &what->at);
}

static void fly(device_put *put) {
    device_state *s = &ls_device__state;
    if (s->flying_count == s->flying_room) {
        s->flying_room = s->flying_room * 2 + 64;
        s->flying = realloc(s->flying, (size_t)s->flying_room * sizeof(device_put *));
        LS_ASSERT(s->flying != NULL);
    }
    s->flying[s->flying_count++] = put;
}

static device_cell *signal_of(const device_put *put) {
    const ls_cuda_put *what = &put->what;
    if (what->signal == LS_CUDA_PUT_NONE) {
        return NULL;
    }
    if (what->signal_window != NULL) {
        device_window *window = ls_device__member(what->signal_window, what->peer);
        return window != NULL && what->signal_at + 8 <= window->bytes
                   ? ls_device__window_cell(window, what->signal_at)
                   : NULL;
    }
    device_resources *all = resources_of(what->comm);
    return what->signal_at < (uint64_t)all->signals
               ? &all->cells[LS_CUDA_SIGNAL][what->peer][what->signal_at]
               : NULL;
}

static void take(device_put *put) {
    const ls_cuda_put *what = &put->what;
    put->taken = true;
    if (what->to != NULL && what->bytes > 0) {
        put->data = ls_device__alloc(what->bytes);
        memcpy(put->data, what->gets ? target_of(put) : source_of(put), what->bytes);
    }
    ls_cuda_cell cell = {.comm = what->comm,
                         .kind = LS_CUDA_COUNTER,
                         .number = (uint64_t)what->counter,
                         .at = what->at};
    const ls_cuda_devcomm *comm = comm_of(what->comm);
    if (what->counter >= 0 && what->counter < put->comm->counters) {
        device_cell *counter = &put->comm->cells[LS_CUDA_COUNTER][put->rank][cell.number];
        ls_device__clock_put(&counter->known, put->number, false);
        ls_device__cell_set(counter, counter->value + 1);
    } else if (what->counter >= 0) {
        ls_device__invalid(comm->rank, what->at,
                           "counter %d; ncclDevCommCreate was asked for %d "
                           "(ginCounterCount)",
                           what->counter, put->comm->counters);
    }
}

// A signal makes the data of puts visible. It releases stores of its own device to other devices
// only as far as a fence has.
static void keep_released(device_clock *known, const device_clock *released, int rank) {
    for (uint32_t i = 0; i < known->units && i < (uint32_t)ls_device__state.unit_count; i++) {
        const device_unit *unit = ls_device__state.units[i];
        if (unit->rank == rank && unit->block >= 0) {
            known->ticks[i] = ls_device__clock_at(released, (int)i);
        }
    }
}

void ls_cuda_put_data(const ls_cuda_put *what) {
    device_state *s = &ls_device__state;
    device_thread *self = s->running;
    ls_device__yield();
    s->calls += 1;
    if (!valid(what)) {
        return;
    }
    device_put *put = ls_device__alloc(sizeof *put);
    put->what = *what;
    put->comm = resources_of(what->comm);
    put->rank = comm_of(what->comm)->rank;
    put->unit = self->unit;
    put->tick = ls_device__clock_at(&self->unit->known, self->unit->id);
    put->number = s->put_count + 1 < PUTS_MAX ? ++s->put_count : 0;
    s->puts_by_number[put->number] = put;
    put->order_of_issue = ++s->puts_issued;
    put->all = s->puts;
    s->puts = put;
    ls_device__clock_copy(&put->known, &self->unit->known);
    ls_device__clock_copy(&put->order, &self->unit->order);
    ls_device__clock_join(&put->order, &self->unit->known);
    if (!what->wide && what->peer != put->rank) {
        keep_released(&put->known, &self->unit->released[1], put->rank);
    }
    judge(put);
    put->signal = signal_of(put);
    if (what->signal != LS_CUDA_PUT_NONE && put->signal == NULL) {
        ls_device__invalid(put->rank, what->at,
                           "%s: signal %llu; ncclDevCommCreate was asked for %d (ginSignalCount)",
                           what->call, (unsigned long long)what->signal_at, put->comm->signals);
    } else if (put->signal != NULL) {
        ls_device__cell_change(put->signal, put);
    }
    ls_device__unit_step(self->unit);
    put->after = self->fence;
    if (what->eager) {
        take(put);
        ls_device__clock_put(&self->unit->known, put->number, false);
    }
    put->next_of_thread = self->puts;
    self->puts = put;
    fly(put);
}

// A strong signal comes after what the rank has put to the peer in the context before.
bool ls_device__put_due(const device_put *put) {
    bool strong = put->what.signal == LS_CUDA_PUT_STRONG;
    if (!put->taken || (!strong && put->after == 0)) {
        return true;
    }
    for (int i = 0; i < ls_device__state.flying_count; i++) {
        const device_put *other = ls_device__state.flying[i];
        if (other->comm == put->comm && other->rank == put->rank && other != put &&
            other->what.peer == put->what.peer && other->what.context == put->what.context &&
            other->order_of_issue < put->order_of_issue &&
            (strong || other->order_of_issue <= put->after)) {
            return false;
        }
    }
    return true;
}

// Threads that wait for the put's word or its signal acquire what it releases.
static void arrive(device_put *put, const device_clock *channel) {
    const ls_cuda_put *what = &put->what;
    device_cell *cell = put->signal;
    if (what->to != NULL && !what->gets && what->bytes <= 8) {
        device_clock seen = {0};
        ls_device__clock_join(&seen, put->after > 0 ? channel : &put->known);
        ls_device__clock_join(&seen, &put->known);
        ls_device__clock_put(&seen, put->number, true);
        ls_device__release_at(target_of(put), what->peer, &seen);
        ls_device__clock_free(&seen);
    }
    if (cell == NULL) {
        return;
    }
    ls_device__clock_join(&cell->known, &put->known);
    ls_device__clock_join(&cell->order, &put->order);
    ls_device__clock_put(&cell->known, put->number, true);
    if (what->signal == LS_CUDA_PUT_STRONG || put->after > 0) {
        ls_device__clock_join(&cell->known, channel);
    }
    ls_device__cell_set(cell, what->sets ? what->add : ls_device__cell_value(cell) + what->add);
}

static void land(device_put *put) {
    const ls_cuda_put *what = &put->what;
    put->landed = true;
    if (put->data != NULL) {
        void *to = what->gets ? (void *)(uintptr_t)source_of(put) : target_of(put);
        memcpy(to, put->data, what->bytes);
        free(put->data);
        put->data = NULL;
        ls_device__changed();
    }
    device_clock *channel = ls_device__channel(put->comm, put->rank, what->peer, what->context);
    ls_device__clock_put(channel, put->number, true);
    arrive(put, channel);
    ls_device__clock_free(&put->known);
    ls_device__clock_keep_ticks(&put->order);
}

void ls_device__put_step(device_put *put) {
    device_state *s = &ls_device__state;
    if (!put->taken) {
        take(put);
    } else {
        land(put);
        for (int i = 0; i < s->flying_count; i++) {
            if (s->flying[i] == put) {
                memmove(&s->flying[i], &s->flying[i + 1],
                        (size_t)(s->flying_count - i - 1) * sizeof(device_put *));
                s->flying_count -= 1;
                break;
            }
        }
    }
    ls_device__wake(&put->waiting);
}

static void describe_flush(ls_text *text, const device_thread *thread) {
    (void)thread;
    ls_text_puts(text, "waits in flush for its puts");
}

void ls_cuda_flush(const void *comm, int context, bool arrives, ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    ls_device__yield();
    ls_device__state.calls += 1;
    for (device_put **link = &self->puts; *link != NULL;) {
        device_put *put = *link;
        if ((comm != NULL && put->comm != resources_of(comm)) ||
            (context >= 0 && put->what.context != context)) {
            link = &put->next_of_thread;
            continue;
        }
        while (!put->taken || ((put->what.gets || arrives) && !put->landed)) {
            ls_device__wait(&put->waiting, describe_flush, put, 0, at);
        }
        ls_device__clock_put(&self->unit->known, put->number, false);
        if (put->landed && (put->what.gets || arrives)) {
            ls_device__clock_put(&self->unit->known, put->number, true);
        }
        *link = put->next_of_thread;
    }
    ls_device__unit_step(self->unit);
}

void ls_device__network_close(void) {
    for (device_put *at = ls_device__state.puts, *next; at != NULL; at = next) {
        next = at->all;
        ls_device__clock_free(&at->known);
        ls_device__clock_free(&at->order);
        free(at->data);
        free(at);
    }
    free(ls_device__state.flying);
}
