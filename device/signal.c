// Signals and counters: their values, what a wait makes known, and baselines, from which warps
// count.
#include <stdlib.h>

#include "device/internal.h"

// A thing that changes a signal: for baselines, which may be read before or after it.
typedef struct device_change {
    device_put *put;
    struct device_change *next;
} device_change;

// The value of a signal from which a warp counts what comes.
typedef struct device_baseline {
    device_unit *unit;
    uint32_t tick;
    uint64_t start;      // of its unit
    device_clock known;  // before it
    uint64_t value;
    bool awaited;
    ls_cuda_site at;
    struct device_baseline *next;
} device_baseline;

static const ls_cuda_devcomm *comm_of(const void *comm) {
    return comm;
}

static device_resources *resources_of(const void *comm) {
    return comm_of(comm)->resources;
}

// ---- Cells --------------------------------------------------------------------------------------
device_cell *ls_device__window_cell(device_window *window, uint64_t offset) {
    device_cell *at = window->cells;
    for (; at != NULL && at->offset != offset; at = at->next) {
    }
    if (at == NULL) {
        at = ls_device__alloc(sizeof *at);
        at->offset = offset;
        at->next = window->cells;
        window->cells = at;
        at->memory = (uint64_t *)(void *)((char *)window->base + offset);
    }
    return at;
}

static device_cell *cell_of(const ls_cuda_cell *cell) {
    const ls_cuda_devcomm *comm = comm_of(cell->comm);
    device_resources *all = comm->resources;
    if (cell->window != NULL) {
        return ls_device__window_cell(cell->window, cell->number);
    }
    int count = cell->kind == LS_CUDA_SIGNAL ? all->signals : all->counters;
    if (cell->number >= (uint64_t)count) {
        ls_device__invalid(comm->rank, cell->at, "%s %llu; ncclDevCommCreate was asked for %d (%s)",
                           cell->kind == LS_CUDA_SIGNAL ? "signal" : "counter",
                           (unsigned long long)cell->number, count,
                           cell->kind == LS_CUDA_SIGNAL ? "ginSignalCount" : "ginCounterCount");
        return NULL;
    }
    return &all->cells[cell->kind][comm->rank][cell->number];
}

static uint64_t low_bits(uint64_t value, int bits) {
    return bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value;
}

uint64_t ls_device__cell_value(const device_cell *cell) {
    return cell->memory != NULL ? *cell->memory : cell->value;
}

void ls_device__cell_set(device_cell *cell, uint64_t value) {
    *(cell->memory != NULL ? cell->memory : &cell->value) = value;
    ls_device__wake(&cell->waiting);
    ls_device__changed();
}

// ---- Baselines ----------------------------------------------------------------------------------
static void check_baseline(const device_baseline *base, const device_put *put) {
    if (!base->awaited || put->number == 0 ||
        ls_device__clock_has(&base->known, put->number, true) ||
        base->tick <= ls_device__clock_at(&put->order, base->unit->id)) {
        return;
    }
    ls_text text = {0};
    ls_device__who(&text, base->unit, base->tick);
    ls_text_printf(&text, " reads the signal (%s:%d) and waits for more than that; ", base->at.file,
                   base->at.line);
    ls_device__who(&text, put->unit, put->tick);
    ls_text_printf(&text,
                   " raises it (%s:%d), and no barrier orders the two, so the increment may be "
                   "part of the value that was read, and the wait then never ends",
                   put->what.at.file, put->what.at.line);
    int ranks[2] = {base->unit->rank, put->unit->rank};
    ls_device__race(ranks, base->at, &text);
}

static void keep_baseline(device_cell *cell, device_unit *unit, ls_cuda_site at) {
    device_baseline *base = cell->baselines;
    for (; base != NULL && base->unit != unit; base = base->next) {
    }
    if (base == NULL) {
        base = ls_device__alloc(sizeof *base);
        base->unit = unit;
        base->next = cell->baselines;
        cell->baselines = base;
    } else if (!base->awaited && base->start == unit->start && base->at.line == at.line) {
        return;  // another lane has read it, and knows what it saw
    }
    ls_device__clock_copy(&base->known, &unit->known);
    base->tick = ls_device__clock_at(&unit->known, unit->id);
    base->value = ls_device__cell_value(cell);
    base->awaited = false;
    base->start = unit->start;
    base->at = at;
}

static void await_baseline(const device_cell *cell, const device_unit *unit, uint64_t least) {
    for (device_baseline *base = cell->baselines; base != NULL; base = base->next) {
        if (base->unit == unit && least != 0) {
            base->awaited = true;
            for (const device_change *at = cell->changes; at != NULL; at = at->next) {
                check_baseline(base, at->put);
            }
        }
    }
}

void ls_device__cell_change(device_cell *cell, device_put *put) {
    device_change *made = ls_device__alloc(sizeof *made);
    made->put = put;
    made->next = cell->changes;
    cell->changes = made;
    for (const device_baseline *base = cell->baselines; base != NULL; base = base->next) {
        check_baseline(base, put);
    }
}

// ---- Signals and counters -----------------------------------------------------------------------
uint64_t ls_cuda_cell_read(const ls_cuda_cell *what) {
    device_cell *cell = cell_of(what);
    device_unit *unit = ls_device__state.running->unit;
    if (cell == NULL) {
        return 0;
    }
    ls_device__yield();
    ls_device__state.calls += 1;
    if (what->kind == LS_CUDA_SIGNAL) {
        keep_baseline(cell, unit, what->at);
    }
    ls_device__clock_join(&unit->known, &cell->known);
    ls_device__unit_step(unit);
    uint64_t value = low_bits(ls_device__cell_value(cell), what->bits);
    device_thread *self = ls_device__state.running;
    if (self->spin_at == (void *)cell && self->spin_value == value &&
        self->spin_line == what->at.line) {
        ls_device__wait(&cell->waiting, ls_device__describe_cell, cell, value + 1, what->at);
        value = low_bits(ls_device__cell_value(cell), what->bits);
        ls_device__clock_join(&unit->known, &cell->known);
    }
    self->spin_at = (void *)cell;
    self->spin_value = value;
    self->spin_line = what->at.line;
    return value;
}

void ls_device__describe_cell(ls_text *text, const device_thread *thread) {
    const device_cell *cell = thread->on;
    ls_text_printf(text, "waits for a signal or counter to reach %llu; it is %llu",
                   (unsigned long long)thread->least,
                   (unsigned long long)ls_device__cell_value(cell));
    if (cell->changes == NULL) {
        ls_text_puts(text, ", and nobody has raised it");
    } else {
        const device_put *put = cell->changes->put;
        ls_text_printf(text, ", last raised by rank %d (%s:%d)", put->rank, put->what.at.file,
                       put->what.at.line);
    }
}

int ls_device__raiser(const device_cell *cell) {
    return cell->changes != NULL ? cell->changes->put->rank : -1;
}

static bool reached(uint64_t least, uint64_t value, int bits) {
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    return ((value - least) & mask) <= mask >> 1;
}

void ls_cuda_cell_wait(const ls_cuda_cell *what, uint64_t least, const char *call) {
    device_cell *cell = cell_of(what);
    device_unit *unit = ls_device__state.running->unit;
    (void)call;
    if (cell == NULL) {
        return;
    }
    ls_device__yield();
    ls_device__state.calls += 1;
    if (what->kind == LS_CUDA_SIGNAL) {
        await_baseline(cell, unit, least);
    }
    while (!reached(least, ls_device__cell_value(cell), what->bits)) {
        ls_device__wait(&cell->waiting, ls_device__describe_cell, cell, least, what->at);
    }
    ls_device__clock_join(&unit->known, &cell->known);
    ls_device__clock_join(&unit->order, &cell->order);
    ls_device__unit_step(unit);
}

void ls_cuda_cell_reset(const ls_cuda_cell *what) {
    device_cell *cell = cell_of(what);
    device_unit *unit = ls_device__state.running->unit;
    if (cell == NULL) {
        return;
    }
    ls_device__yield();
    for (const device_change *at = cell->changes; at != NULL; at = at->next) {
        if (!ls_device__clock_has(&unit->known, at->put->number, what->kind == LS_CUDA_SIGNAL)) {
            ls_text text = {0};
            ls_device__who(&text, unit, UINT32_MAX);
            ls_text_puts(&text, " resets a signal or counter which ");
            ls_device__who(&text, at->put->unit, at->put->tick);
            ls_text_printf(&text, " raises (%s:%d); nothing orders the two", at->put->what.at.file,
                           at->put->what.at.line);
            int ranks[2] = {unit->rank, at->put->rank};
            ls_device__race(ranks, what->at, &text);
        }
    }
    ls_device__cell_forget(cell);
    ls_device__cell_set(cell, 0);
    ls_device__unit_step(unit);
}

void ls_device__cell_forget(device_cell *cell) {
    for (device_change *at = cell->changes, *next; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    for (device_baseline *at = cell->baselines, *next; at != NULL; at = next) {
        next = at->next;
        ls_device__clock_free(&at->known);
        free(at);
    }
    cell->changes = NULL;
    cell->baselines = NULL;
}

uint64_t *ls_cuda_shadow(const void *comm, uint64_t number) {
    device_resources *all = resources_of(comm);
    return &all->shadows[comm_of(comm)->rank][number];
}
