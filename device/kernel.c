// Kernels: their blocks and threads, and what threads of a block or a warp do together.
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"

// ---- Units --------------------------------------------------------------------------------------
device_unit *ls_device__unit_make(int rank, int block, int warp, const device_clock *known) {
    device_state *s = &ls_device__state;
    device_unit **at = &s->free_units[rank], *unit = NULL;
    for (; *at != NULL; at = &(*at)->next_free) {
        device_unit *old = *at;
        uint32_t tick = ls_device__clock_at(&old->known, old->id);
        if (ls_device__clock_at(known, old->id) >= tick) {  // nothing of it is unordered to this
            *at = old->next_free;
            unit = old;
            break;
        }
    }
    if (unit == NULL && s->free_units[rank] != NULL && s->unit_count >= UNITS_APART) {
        unit = s->free_units[rank];
        s->free_units[rank] = unit->next_free;
    }
    if (unit == NULL) {
        LS_ASSERT(s->unit_count < UNITS_MAX);
        unit = ls_device__alloc(sizeof *unit);
        unit->id = s->unit_count;
        s->units[s->unit_count++] = unit;
    }
    uint32_t tick = ls_device__clock_at(&unit->known, unit->id);
    unit->past_block = unit->block;
    unit->past_warp = unit->warp;
    unit->past_since = unit->since;
    unit->rank = rank;
    unit->block = block;
    unit->warp = warp;
    unit->fenced = false;
    unit->start += 1;
    unit->since = tick + 1;
    ls_device__clock_copy(&unit->known, known);
    ls_device__clock_copy(&unit->order, known);
    ls_device__clock_copy(&unit->released[0], known);
    ls_device__clock_copy(&unit->released[1], known);
    ls_device__clock_copy(&unit->pending, &(device_clock){0});
    ls_device__clock_tick(&unit->known, unit->id, tick + 1);
    return unit;
}

void ls_device__unit_free(device_unit *unit) {
    unit->next_free = ls_device__state.free_units[unit->rank];
    ls_device__state.free_units[unit->rank] = unit;
}

void ls_device__unit_step(device_unit *unit) {
    ls_device__clock_tick(&unit->known, unit->id, ls_device__clock_at(&unit->known, unit->id) + 1);
}

void ls_device__acquire(device_unit *unit) {
    if (unit->pending.units > 0 || unit->pending.words > 0) {
        ls_device__clock_join(&unit->known, &unit->pending);
        ls_device__clock_copy(&unit->pending, &(device_clock){0});
    }
}

// ---- Several threads together -------------------------------------------------------------------
// What a fence has released is released for those that come behind a barrier, too.
static void give_clocks(device_barrier *b, const device_unit *unit) {
    ls_device__clock_join(&b->known, &unit->known);
    ls_device__clock_join(&b->order, &unit->order);
    ls_device__clock_join(&b->order, &unit->known);
    ls_device__clock_join(&b->pending, &unit->pending);
    for (int i = 0; unit->fenced && i < 2; i++) {
        ls_device__clock_join(&b->released[i], &unit->released[i]);
        b->fenced = true;
    }
}

static void take_clocks(const device_barrier *b, device_unit *unit) {
    ls_device__clock_join(&unit->known, &b->known);
    ls_device__clock_join(&unit->order, &b->order);
    ls_device__clock_join(&unit->pending, &b->pending);
    for (int i = 0; b->fenced && i < 2; i++) {
        ls_device__clock_join(&unit->released[i], &b->released[i]);
        unit->fenced = true;
    }
    ls_device__unit_step(unit);
}

static void free_barrier(device_barrier *barrier) {
    ls_device__clock_free(&barrier->known);
    ls_device__clock_free(&barrier->order);
    ls_device__clock_free(&barrier->pending);
    ls_device__clock_free(&barrier->released[0]);
    ls_device__clock_free(&barrier->released[1]);
    barrier->fenced = false;
}

// All units that wait, and the own one, know what each of them knew.
static void join_waiting(device_barrier *m, const device_queue *waiting, device_unit *own) {
    const device_unit *last = own;
    give_clocks(m, own);
    for (const device_thread *at = waiting->first; at != NULL; at = at->next) {
        if (at->unit != last && at->unit != own) {
            give_clocks(m, at->unit);
        }
        last = at->unit;
    }
    last = own;
    take_clocks(m, own);
    for (const device_thread *at = waiting->first; at != NULL; at = at->next) {
        if (at->unit != last && at->unit != own) {
            take_clocks(m, at->unit);
        }
        last = at->unit;
    }
}

static void release(device_barrier *barrier, device_unit *own) {
    join_waiting(barrier, &barrier->waiting, own);
    free_barrier(barrier);
    barrier->arrived = 0;
    barrier->generation += 1;
    ls_device__wake(&barrier->waiting);
}

static void describe_barrier(ls_text *text, const device_thread *thread) {
    const device_barrier *barrier = thread->on;
    ls_text_printf(text, "waits at a barrier of its block (%u of %llu threads are there)",
                   barrier->arrived, (unsigned long long)thread->least);
}

static void describe_grid(ls_text *text, const device_thread *thread) {
    (void)thread;
    ls_text_puts(text, "waits at a barrier of its grid");
}

void ls_cuda_barrier(int id, unsigned count, ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    device_block *block = self->block;
    if (id < 0 || id >= BARRIERS_MAX) {
        ls_device__invalid(self->unit->rank, at, "barrier %d; a block has %d", id, BARRIERS_MAX);
        return;
    }
    device_barrier *barrier = &block->barriers[id];
    if (barrier->arrived == 0) {
        barrier->at = at;
    } else if (count == 0 && !ls_device__state.diverged &&
               (barrier->at.line != at.line || barrier->at.file != at.file)) {
        ls_device__state.diverged = true;  // later ones follow from the first
        ls_device__invalid(
            self->unit->rank, at,
            "threads of block %d reach a barrier of their block at different places: here and at "
            "%s:%d; all threads of a block must reach the same barrier, or some may hang",
            block->index, barrier->at.file, barrier->at.line);
    }
    barrier->arrived += 1;
    unsigned wanted = count > 0 ? count : block->live;
    if (barrier->arrived >= wanted) {
        release(barrier, self->unit);
        return;
    }
    uint64_t generation = barrier->generation;
    while (barrier->generation == generation) {
        ls_device__wait(&barrier->waiting, describe_barrier, barrier, wanted, at);
    }
}

void ls_cuda_grid_barrier(ls_cuda_site at) {
    ls_cuda_barrier(0, 0, at);
    device_thread *self = ls_device__state.running;
    device_kernel *kernel = self->block->kernel;
    device_barrier *barrier = &kernel->grid;
    if (self == self->block->threads) {
        barrier->arrived += 1;
        uint64_t generation = barrier->generation;
        if (barrier->arrived == (unsigned)kernel->block_count) {
            release(barrier, self->unit);
        }
        while (barrier->generation == generation) {
            ls_device__wait(&barrier->waiting, describe_grid, barrier, 0, at);
        }
    }
    ls_cuda_barrier(0, 0, at);
}

// ---- Warps --------------------------------------------------------------------------------------
static device_warp *warp_of(const device_thread *self) {
    size_t index = (size_t)(self - self->block->threads) / LANES;
    return &self->block->warps[index];
}

int ls_cuda_on_host(void) {
    return ls_device__state.running->block == NULL ? 1 : 0;
}

unsigned ls_cuda_live_lanes(void) {
    return warp_of(ls_device__state.running)->live;
}

static void describe_exchange(ls_text *text, const device_thread *thread) {
    const device_exchange *e = thread->on;
    ls_text_printf(text, "waits for lanes 0x%x of its warp (0x%x are there)", e->mask, e->arrived);
}

static void finish_exchange(device_exchange *e, device_unit *unit) {
    e->arrived = 0;
    e->generation += 1;
    ls_device__unit_step(unit);
    ls_device__wake(&e->waiting);
}

void ls_cuda_exchange(unsigned mask, uint64_t value, uint64_t *out, ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    device_warp *warp = warp_of(self);
    mask &= warp->live;
    device_exchange *e = warp->exchanges;
    for (; e != NULL && e->mask != mask; e = e->next) {
    }
    if (e == NULL) {
        e = ls_device__alloc(sizeof *e);
        e->mask = mask;
        e->next = warp->exchanges;
        warp->exchanges = e;
    }
    uint64_t generation = e->generation, *values = e->values[generation % 2];
    values[self->seen.lane] = value;
    e->arrived |= 1u << self->seen.lane;
    if ((e->arrived & warp->live) == (mask & warp->live)) {
        finish_exchange(e, self->unit);
    }
    while (e->generation == generation) {
        ls_device__wait(&e->waiting, describe_exchange, e, 0, at);
    }
    if (out != NULL) {
        memcpy(out, values, sizeof e->values[0]);
    }
}

bool ls_device__waits_in_block(const device_thread *thread) {
    return thread->why == describe_barrier || thread->why == describe_grid ||
           thread->why == describe_exchange;
}

// ---- Shared memory ------------------------------------------------------------------------------
void *ls_cuda_shared(const void *key, size_t bytes) {
    device_thread *self = ls_device__state.running;
    device_block *block = self->block;
    for (device_variable *at = block->variables; at != NULL; at = at->next) {
        if (at->key == key) {
            return at->at;
        }
    }
    device_variable *made = ls_device__alloc(sizeof *made);
    made->key = key;
    made->at =
        ls_device__allocate(block->kernel->rank, bytes, "shared memory", block->kernel->launch.at);
    made->next = block->variables;
    block->variables = made;
    LS_ASSERT(made->at != NULL);
    return made->at;
}

void *ls_cuda_dynamic_shared(void) {
    device_block *block = ls_device__state.running->block;
    if (block->dynamic == NULL) {
        block->dynamic = ls_device__allocate(block->kernel->rank, block->kernel->launch.shared,
                                             "dynamic shared memory", block->kernel->launch.at);
        LS_ASSERT(block->dynamic != NULL);
    }
    return block->dynamic;
}

long long ls_cuda_clock(void) {
    static long long ticks;
    device_thread *self = ls_device__state.running;
    if (self != NULL) {
        self->group->priority = ls_device__draw(UINT64_C(1) << 32);
        ls_device__yield();
    }
    return ticks += 1000;
}

// ---- Threads ------------------------------------------------------------------------------------
static void run_kernel(device_thread *self) {
    self->block->kernel->launch.run(self->block->kernel->launch.arg);
    ls_device__thread_end(self);
}

static unsigned threads_of(const device_kernel *kernel) {
    ls_cuda_dim b = kernel->launch.block;
    return b.x * b.y * b.z;
}

static void make_threads(device_block *block, unsigned count) {
    const ls_cuda_launch *launch = &block->kernel->launch;
    ls_cuda_dim b = launch->block, g = launch->grid;
    unsigned index = (unsigned)block->index;
    block->threads = ls_device__alloc(count * sizeof *block->threads);
    for (unsigned t = 0; t < count; t++) {
        device_thread *thread = &block->threads[t];
        thread->seen =
            (ls_cuda_thread){.thread_idx = {t % b.x, t / b.x % b.y, t / b.x / b.y},
                             .block_idx = {index % g.x, index / g.x % g.y, index / g.x / g.y},
                             .block_dim = b,
                             .grid_dim = g,
                             .lane = t % LANES};
        thread->rank = block->kernel->rank;
        thread->group = &block->group;
        thread->block = block;
        thread->unit = block->warps[t / LANES].unit;
        thread->main = run_kernel;
        LS_ASSERT(ls_device__stack_take(thread, false));
        ls_device__ready(thread);
    }
}

static void open_block(device_kernel *kernel, int index) {
    device_block *block = &kernel->blocks[index];
    unsigned count = threads_of(kernel);
    ls_device__state.resident[kernel->rank] += count;
    block->kernel = kernel;
    block->index = index;
    block->live = count;
    ls_device__group_open(&block->group, kernel->rank);
    block->warps = ls_device__alloc((size_t)kernel->warp_count * sizeof *block->warps);
    for (int w = 0; w < kernel->warp_count; w++) {
        unsigned left = count - (unsigned)w * LANES;
        block->warps[w].unit = ls_device__unit_make(kernel->rank, index, w, &kernel->start);
        block->warps[w].unit->kernel = kernel->launch.name;
        block->warps[w].live = left >= LANES ? ~0u : (1u << left) - 1;
    }
    make_threads(block, count);
}

// A device begins blocks in order, as many as there is room for. The others begin when one has
// ended, or when nothing else can run: a block may wait for one of another device.
static void open_blocks(device_kernel *kernel) {
    unsigned *resident = &ls_device__state.resident[kernel->rank];
    while (kernel->opened < kernel->block_count &&
           (*resident == 0 || *resident + threads_of(kernel) <= RESIDENT_MAX)) {
        open_block(kernel, kernel->opened++);
    }
}

bool ls_device__kernels_widen(void) {
    bool any = false;
    for (device_kernel *k = ls_device__state.kernels; k != NULL; k = k->next) {
        if (k->opened < k->block_count) {
            open_block(k, k->opened++);
            any = true;
        }
    }
    return any;
}

void ls_device__kernel_start(device_kernel *kernel) {
    ls_cuda_dim b = kernel->launch.block, g = kernel->launch.grid;
    kernel->block_count = (int)(g.x * g.y * g.z);
    kernel->warp_count = (int)((b.x * b.y * b.z + LANES - 1) / LANES);
    kernel->left = kernel->block_count;
    kernel->blocks = ls_device__alloc((size_t)kernel->block_count * sizeof *kernel->blocks);
    kernel->next = ls_device__state.kernels;
    ls_device__state.kernels = kernel;
    open_blocks(kernel);
}

static void end_block(device_block *block) {
    device_kernel *kernel = block->kernel;
    for (int w = 0; w < kernel->warp_count; w++) {
        device_unit *unit = block->warps[w].unit;
        ls_device__acquire(unit);
        ls_device__clock_join(&kernel->end, &unit->known);
        ls_device__unit_free(unit);
    }
    ls_device__state.resident[kernel->rank] -= threads_of(kernel);
    kernel->left -= 1;
    if (kernel->left == 0) {
        ls_device__clock_join(&kernel->stream->unit->known, &kernel->end);
        kernel->stream->running = NULL;
        kernel->ended(kernel->stream);
    } else {
        open_blocks(kernel);
    }
}

// Those of its block and warp that wait wait for one less.
static void leave_block(device_thread *thread) {
    device_block *block = thread->block;
    device_warp *warp = warp_of(thread);
    warp->live &= ~(1u << thread->seen.lane);
    block->live -= 1;
    for (device_exchange *e = warp->exchanges; e != NULL; e = e->next) {
        if (e->arrived != 0 && (e->arrived & warp->live) == (e->mask & warp->live)) {
            finish_exchange(e, thread->unit);
        }
    }
    device_barrier *barrier = &block->barriers[0];
    if (barrier->arrived > 0 && barrier->arrived >= block->live) {
        release(barrier, thread->unit);
    }
    if (block->live == 0) {
        end_block(block);
    }
}

void ls_device__thread_end(device_thread *thread) {
    thread->ended = true;
    if (thread->block != NULL) {
        leave_block(thread);
    }
    ls_device__wake(&thread->joiners);
}

void ls_device__block_close(device_block *block) {
    if (block->threads == NULL) {
        return;
    }
    for (int w = 0; w < block->kernel->warp_count; w++) {
        for (device_exchange *e = block->warps[w].exchanges, *next; e != NULL; e = next) {
            next = e->next;
            free(e);
        }
    }
    for (device_variable *at = block->variables, *next; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    for (int i = 0; i < BARRIERS_MAX; i++) {
        free_barrier(&block->barriers[i]);
    }
    for (unsigned t = 0; t < threads_of(block->kernel); t++) {
        ls_device__stack_give(&block->threads[t]);
    }
    free(block->threads);
    free(block->warps);
    block->threads = NULL;
    block->variables = NULL;
}

void ls_device__kernel_free(device_kernel *kernel) {
    for (int i = 0; i < kernel->block_count; i++) {
        ls_device__block_close(&kernel->blocks[i]);
    }
    free_barrier(&kernel->grid);
    ls_device__clock_free(&kernel->start);
    ls_device__clock_free(&kernel->end);
    kernel->launch.drop(kernel->launch.arg);
    free(kernel->blocks);
    free(kernel);
}
