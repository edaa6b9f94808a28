// Chooses what runs next: a thread of a block or of the host, the network, or a stream. Threads are
// switched only where they communicate or wait: between two such places another thread can observe
// nothing that no clock orders, which is a race in any order.
#include <stdlib.h>

#include "base/random.h"
#include "device/internal.h"

#define STREAM     0x64766963u  // of random draws
#define BEAT_EVERY 4096         // turns between two signs of life for the watchdog

uint64_t ls_device__draw(uint64_t bound) {
    device_state *s = &ls_device__state;
    return s->random && bound > 1 ? ls_random_below(bound, s->seed, STREAM, 0, s->draws++) : 0;
}

// ---- Queues -------------------------------------------------------------------------------------
static void push(device_queue *queue, device_thread *thread, bool first) {
    thread->next = NULL;
    if (queue->first == NULL) {
        queue->first = queue->last = thread;
    } else if (first) {
        thread->next = queue->first;
        queue->first = thread;
    } else {
        queue->last->next = thread;
        queue->last = thread;
    }
}

static device_thread *pop(device_queue *queue) {
    device_thread *thread = queue->first;
    queue->first = thread->next;
    queue->last = queue->first == NULL ? NULL : queue->last;
    thread->next = NULL;
    return thread;
}

void ls_device__group_open(device_group *group, int rank) {
    *group = (device_group){.rank = rank, .at = -1};
    group->priority = ls_device__draw(UINT64_C(1) << 32) + (UINT64_C(1) << 40);
}

static void list_group(device_group *group) {
    device_state *s = &ls_device__state;
    if (s->group_count == s->group_room) {
        s->group_room = s->group_room * 2 + 64;
        s->groups = realloc(s->groups, (size_t)s->group_room * sizeof(device_group *));
        LS_ASSERT(s->groups != NULL);
    }
    group->at = s->group_count;
    s->groups[s->group_count++] = group;
}

static void unlist_group(device_group *group) {
    device_state *s = &ls_device__state;
    device_group *last = s->groups[--s->group_count];
    s->groups[group->at] = last;
    last->at = group->at;
    group->at = -1;
}

void ls_device__ready(device_thread *thread) {
    device_group *group = thread->group;
    push(&group->ready, thread, ls_device__draw(4) == 1);
    thread->waits = false;
    if (group->at < 0) {
        list_group(group);
    }
}

void ls_device__wake(device_queue *queue) {
    while (queue->first != NULL) {
        ls_device__ready(pop(queue));
    }
}

// ---- Threads stop -------------------------------------------------------------------------------
void ls_device__yield(void) {
    device_thread *self = ls_device__state.running;
    if (self == NULL) {
        return;
    }
    if (ls_device__state.bursts && ls_device__draw(16) == 0) {
        self->group->priority = ls_device__draw(UINT64_C(1) << 32);
    }
    ls_device__ready(self);
    ls_device__suspend();
}

void ls_cuda_yield(void) {
    ls_device__yield();
}

void ls_device__wait(device_queue *queue, device_describe why, const void *on, uint64_t least,
                     ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    self->why = why;
    self->on = on;
    self->least = least;
    self->at = at;
    self->waits = true;
    push(queue, self, false);
    ls_device__suspend();
}

void ls_device__changed(void) {
    ls_device__state.changed = true;
}

static void describe_spin(ls_text *text, const device_thread *thread) {
    (void)thread;
    ls_text_puts(text, "spins on a flag that nobody changes");
}

void ls_device__spin(ls_cuda_site at) {
    ls_device__state.changed = false;
    ls_device__wait(&ls_device__state.spinning, describe_spin, NULL, 0, at);
}

// ---- Choosing -----------------------------------------------------------------------------------
static bool held_back(const device_group *group) {
    const ls_spmd_options *options = &ls_device__state.run->options;
    return options->schedule == LS_SCHEDULE_DELAY && group->rank == options->delayed_rank;
}

static device_group *choose_group(device_group *last) {
    device_state *s = &ls_device__state;
    if (last != NULL && last->at >= 0 && !held_back(last) &&
        (!s->random || (!s->bursts && ls_device__draw(4) > 0))) {
        return last;
    }
    device_group *best = NULL;
    if (s->random && !s->bursts) {
        return s->groups[ls_device__draw((uint64_t)s->group_count)];
    }
    for (int i = 0; i < s->group_count; i++) {
        device_group *at = s->groups[i];
        bool better = best == NULL || (held_back(best) && !held_back(at)) ||
                      (s->bursts && at->priority > best->priority);
        best = better ? at : best;
    }
    return best;
}

static device_put *choose_put(void) {
    device_state *s = &ls_device__state;
    int from = (int)ls_device__draw((uint64_t)s->flying_count);
    for (int i = 0; i < s->flying_count; i++) {
        device_put *put = s->flying[(from + i) % s->flying_count];
        if (ls_device__state.core->put_due(put)) {
            return put;
        }
    }
    return NULL;
}

static device_stream *choose_stream(void) {
    device_stream *due[64];
    int count = 0;
    for (device_stream *at = ls_device__state.streams; at != NULL && count < 64; at = at->next) {
        if (ls_device__state.core->stream_due(at)) {
            due[count++] = at;
        }
    }
    return count > 0 ? due[ls_device__draw((uint64_t)count)] : NULL;
}

static void run_thread(device_group *group) {
    device_thread *thread = pop(&group->ready);
    if (group->ready.first == NULL) {
        unlist_group(group);
    }
    ls_device__resume(thread);
    ls_device__state.running = NULL;
    if (ls_device__state.overflowed) {
        (void)LS_FAIL(LS_ERR_LIMIT, "a thread needs more than %zu bytes of stack",
                      thread->stack_bytes);
        ls_device__fail(LS_ERR_LIMIT, ls_error_last()->text);
    }
    if (thread->ended) {
        ls_device__stack_give(thread);
        if (thread->block != NULL && thread->block->live == 0) {
            ls_device__state.core->block_close(thread->block);
        }
    }
}

// One step of any participant; false: none can run.
static bool step(device_group **last) {
    device_state *s = &ls_device__state;
    if (s->changed && s->spinning.first != NULL) {
        ls_device__wake(&s->spinning);
    }
    bool idle = s->group_count == 0;
    if (idle || ls_device__draw(8) == 1) {
        device_stream *stream = choose_stream();
        if (stream != NULL) {
            ls_device__state.core->stream_step(stream);
            return true;
        }
    }
    if (s->flying_count > 0 && (idle || (s->random && ls_device__draw((uint64_t)s->eager) == 0))) {
        device_put *put = choose_put();
        if (put != NULL) {
            ls_device__state.core->put_step(put);
            return true;
        }
    }
    if (idle) {
        return s->core->kernels_widen();
    }
    *last = choose_group(*last);
    device_group *group = *last;
    *last = group->ready.first->ended ? NULL : group;
    run_thread(group);
    *last = group->at >= 0 ? group : NULL;
    return true;
}

void ls_device__run(void) {
    device_state *s = &ls_device__state;
    device_group *last = NULL;
    for (uint64_t turn = 1; !s->over; turn++) {
        if (!step(&last)) {
            s->core->explain();
            return;
        }
        if (turn % BEAT_EVERY == 0) {
            atomic_fetch_add_explicit(&s->run->beat, 1, memory_order_relaxed);
            s->over = s->over || s->run->status != LS_OK;
        }
    }
}
