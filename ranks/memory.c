// A rank's memory: allocations, unwritten and freed memory; and declared reads and writes of
// programs.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

#define RED_BYTES  ((size_t)64)  // before and behind each allocation; must not be written
#define RED_BYTE   0xa7
#define NOT_BESIDE PTRDIFF_MIN
#define FREED_KEPT 32  // freed allocations of a rank that are kept, to detect use after free

static void drop(ls_rank *rank, int index) {
    ls_allocation *allocation = &rank->allocations[index];
    ls_free(allocation->block, allocation->block_bytes, 1);
    memmove(allocation, allocation + 1,
            (size_t)(rank->allocation_count - index - 1) * sizeof *allocation);
    rank->allocation_count -= 1;
}

void ls_memory__close(ls_rank *rank) {
    for (int i = 0; i < rank->allocation_count; i++) {
        ls_free(rank->allocations[i].block, rank->allocations[i].block_bytes, 1);
    }
    ls_free(rank->allocations, (size_t)rank->allocation_room, sizeof(ls_allocation));
    rank->allocations = NULL;
    rank->allocation_count = 0;
}

static int make_room(ls_rank *rank) {
    if (rank->allocation_count < rank->allocation_room) {
        return LS_OK;
    }
    int room = rank->allocation_room == 0 ? 16 : 2 * rank->allocation_room;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)room, sizeof(ls_allocation)));
    if (rank->allocation_count > 0) {
        memcpy(memory, rank->allocations, (size_t)rank->allocation_count * sizeof(ls_allocation));
    }
    ls_free(rank->allocations, (size_t)rank->allocation_room, sizeof(ls_allocation));
    rank->allocations = memory;
    rank->allocation_room = room;
    return LS_OK;
}

// With closed pages (flight.c) a buffer has separate pages, and starts at the beginning of one.
static int place(ls_allocation *made, ls_rank *rank) {
    const ls_spmd *run = rank->run;
    made->pages = run->checks[LS_FINDING_BUFFER_USE_BEFORE_WAIT] && !run->direct && !run->borrowed;
    size_t align = made->pages ? LS_PAGE_BYTES : RED_BYTES;
    size_t room = (RED_BYTES + made->bytes + RED_BYTES + align - 1) / align * align + align;
    LS_TRY(ls_alloc(&made->block, room, 1));
    made->block_bytes = room;
    uintptr_t start = ((uintptr_t)made->block + RED_BYTES + align - 1) & ~(uintptr_t)(align - 1);
    made->start = (char *)made->block + (start - (uintptr_t)made->block);
    if (run->checks[LS_FINDING_BUFFER_UNINITIALISED]) {
        made->origin = ls_poison__memory(rank, made->file, made->line);
        ls_poison__fill(made->start, made->bytes, LS_I32, made->origin);
    }
    memset(made->start - RED_BYTES, RED_BYTE, RED_BYTES);
    memset(made->start + made->bytes, RED_BYTE, RED_BYTES);
    return LS_OK;
}

static void *allocate(ls_rank *rank, size_t bytes, const char *file, int line) {
    rank->allocations_made += 1;
    if (ls_fault__reached(rank, LS_FAULT_ALLOCATION, (int64_t)rank->allocations_made) ||
        bytes > PTRDIFF_MAX - 128 || make_room(rank) != LS_OK) {
        (void)LS_FAIL_RANK(LS_ERR_MEMORY, rank->id, "rank %d: cannot allocate %zu bytes at %s:%d",
                           rank->id, bytes, file, line);
        return NULL;
    }
    ls_allocation made = {
        .number = rank->allocations_made, .bytes = bytes, .file = file, .line = line};
    bool shape = rank->run->options.shape_only;
    void *memory = NULL;
    if ((shape ? ls_addresses_take(&memory, &rank->run->shapes, bytes) : place(&made, rank)) !=
        LS_OK) {
        return NULL;
    }
    made.start = shape ? memory : made.start;
    memory = made.start;
    int at = ls_memory__after(rank, memory);
    memmove(&rank->allocations[at + 1], &rank->allocations[at],
            (size_t)(rank->allocation_count - at) * sizeof(ls_allocation));
    rank->allocations[at] = made;
    rank->allocation_count += 1;
    return memory;
}

void *ls_rank_alloc_at(const char *file, int line, ls_rank *self, size_t bytes) {
    LS_ASSERT(self != NULL);
    ls_schedule__enter(self);
    void *memory = allocate(self, bytes, file, line);
    ls_schedule__leave(self);
    return memory;
}

// ---- Red zones ---------------------------------------------------------------------------------
// Whether a call in flight keeps pages of it closed.
static bool is_closed(const ls_rank *rank, const ls_allocation *allocation) {
    uintptr_t low = (uintptr_t)allocation->start - RED_BYTES;
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        for (int i = 0; i < at->guard_count; i++) {
            if (at->flight->guards[i].low < low + allocation->bytes + 2 * RED_BYTES &&
                low < at->flight->guards[i].high) {
                return true;
            }
        }
    }
    return false;
}

// The first byte next to the allocation that was written, from its start.
static ptrdiff_t written_beside(const ls_allocation *allocation) {
    const unsigned char *start = (const unsigned char *)allocation->start;
    const unsigned char *end = start + allocation->bytes;
    for (size_t i = 0; i < RED_BYTES; i++) {
        if (end[i] != RED_BYTE) {
            return end + i - start;
        }
    }
    for (size_t i = 1; i <= RED_BYTES; i++) {
        if (start[-(ptrdiff_t)i] != RED_BYTE) {
            return -(ptrdiff_t)i;
        }
    }
    return NOT_BESIDE;
}

void ls_memory__check_beside(ls_rank *rank, ls_allocation *allocation, const char *file, int line) {
    if (!rank->run->checks[LS_FINDING_BUFFER_TOO_SMALL] || rank->run->status != LS_OK ||
        allocation->block == NULL || allocation->overrun || is_closed(rank, allocation)) {
        return;
    }
    ptrdiff_t at = written_beside(allocation);
    if (at == NOT_BESIDE) {
        return;
    }
    allocation->overrun = true;
    ls_text text = {0};
    if (at < 0) {
        ls_text_printf(&text, "rank %d has written %td bytes before the start of", rank->id, -at);
    } else {
        ls_text_printf(&text, "rank %d has written %td bytes past the end of", rank->id,
                       at - (ptrdiff_t)allocation->bytes + 1);
    }
    ls_text_printf(&text, " the %zu bytes that it allocated at %s:%d; seen at %s:%d\n",
                   allocation->bytes, allocation->file, allocation->line, file, line);
    ls_findings__history(&text, rank, 4);
    (void)ls_findings__add(rank->run, LS_FINDING_BUFFER_TOO_SMALL, &rank->id, 1, file, line,
                           ls_findings__string(rank->run, &text));
    ls_text_free(&text);
}

// ---- Freeing -----------------------------------------------------------------------------------
static void add_memory_finding(ls_rank *rank, ls_finding_id id, const char *file, int line,
                               const char *what, const char *other_file, int other_line) {
    ls_text text = {0};
    ls_text_printf(&text, "rank %d %s %s:%d\n", rank->id, what, other_file, other_line);
    (void)ls_findings__add(rank->run, id, &rank->id, 1, file, line,
                           ls_findings__string(rank->run, &text));
    ls_text_free(&text);
}

static void drop_oldest_freed(ls_rank *rank) {
    for (int i = 0; rank->freed_allocations > FREED_KEPT && i < rank->allocation_count; i++) {
        const ls_allocation *at = &rank->allocations[i];
        if (at->freed && !ls_checks__holds(rank, at->start, at->bytes)) {
            drop(rank, i);
            rank->freed_allocations -= 1;
        }
    }
}

// A request that is not complete and uses the memory; NULL: none.
static ls_request *open_use(const ls_rank *rank, const char *start, size_t bytes,
                            bool writes_only) {
    for (ls_request *at = rank->open; at != NULL; at = at->next) {
        bool reads = ls_memory__meets(start, bytes, at->call.send, at->send_bytes);
        bool writes = ls_memory__meets(start, bytes, at->call.recv, at->recv_bytes);
        if (at->asynchronous && !at->told && (writes || (reads && !writes_only))) {
            return at;
        }
    }
    return NULL;
}

static void free_memory(ls_rank *rank, void *pointer, const char *file, int line) {
    ls_allocation *allocation = ls_memory__find(rank, pointer);
    if (allocation == NULL || allocation->start != pointer) {
        add_memory_finding(rank, LS_FINDING_HANDLE_USE_AFTER_FREE, file, line,
                           "frees memory that ls_rank_alloc did not give it, at", file, line);
        return;
    }
    if (allocation->freed) {
        add_memory_finding(rank, LS_FINDING_HANDLE_USE_AFTER_FREE, file, line,
                           "frees memory a second time; it was freed at", allocation->freed_file,
                           allocation->freed_line);
        return;
    }
    ls_request *used = open_use(rank, allocation->start, allocation->bytes, false);
    bool known = used != NULL && ls_findings__known(rank->run, LS_FINDING_BUFFER_USE_BEFORE_WAIT,
                                                    rank->id, used->call.file, used->call.line);
    if (known) {
        ls_flight__settle(used, used->call.file, used->call.line);
    } else if (used != NULL) {
        add_memory_finding(rank, LS_FINDING_BUFFER_USE_BEFORE_WAIT, file, line,
                           "frees memory before it waits for the call that uses it, made at",
                           used->call.file, used->call.line);
        ls_flight__settle(used, file, line);
        if (used->state != LS_REQUEST_DONE) {
            allocation->let_go = true;
            return;  // the data would be moved into freed memory
        }
    }
    ls_memory__check_beside(rank, allocation, file, line);
    allocation->freed = true;
    allocation->freed_file = file;
    allocation->freed_line = line;
    rank->freed_allocations += 1;
    ls_checks__freed(rank, allocation);
    drop_oldest_freed(rank);
}

void ls_rank_free_at(const char *file, int line, ls_rank *self, void *pointer) {
    LS_ASSERT(self != NULL);
    if (pointer == NULL) {
        return;
    }
    ls_schedule__enter(self);
    free_memory(self, pointer, file, line);
    ls_schedule__leave(self);
}

// ---- Written memory -----------------------------------------------------------------------------
bool ls_memory__looked_at(const ls_allocation *allocation, const char *at, size_t bytes) {
    size_t start = (size_t)(at - allocation->start);
    return start >= allocation->clean_start && start + bytes <= allocation->clean_end;
}

void ls_memory__look(ls_allocation *allocation, const char *at, size_t bytes) {
    size_t start = (size_t)(at - allocation->start), end = start + bytes;
    if (allocation->clean_start == allocation->clean_end || start > allocation->clean_end ||
        end < allocation->clean_start) {
        allocation->clean_start = start;
        allocation->clean_end = end;
    } else {
        allocation->clean_start = start < allocation->clean_start ? start : allocation->clean_start;
        allocation->clean_end = end > allocation->clean_end ? end : allocation->clean_end;
    }
}

// Touched past its end, or no memory at all: a finding; and how much of it is left.
static size_t within(ls_rank *rank, const ls_allocation *allocation, const void *memory,
                     size_t bytes, const char *verb, const char *file, int line) {
    char what[128];
    if (memory == NULL && bytes > 0) {
        (void)snprintf(what, sizeof what, "%s %zu bytes of a buffer that is NULL, at", verb, bytes);
        add_memory_finding(rank, LS_FINDING_BUFFER_TOO_SMALL, file, line, what, file, line);
        return 0;
    }
    if (allocation == NULL) {
        return bytes < PTRDIFF_MAX ? bytes : 0;
    }
    size_t left = allocation->bytes - (size_t)((const char *)memory - allocation->start);
    if (bytes > left) {
        (void)snprintf(what, sizeof what,
                       "%s %zu bytes of a buffer of which %zu are left, allocated at", verb, bytes,
                       left);
        add_memory_finding(rank, LS_FINDING_BUFFER_TOO_SMALL, file, line, what, allocation->file,
                           allocation->line);
    }
    return bytes < left ? bytes : left;
}

static int touch(ls_rank *rank, const void *memory, size_t bytes, bool write, const char *file,
                 int line) {
    const ls_allocation *allocation = ls_memory__find(rank, memory);
    const char *verb = write ? "writes" : "reads";
    bytes = within(rank, allocation, memory, bytes, verb, file, line);
    if (allocation != NULL && allocation->freed) {
        char what[64];
        (void)snprintf(what, sizeof what, "%s memory that was freed at", verb);
        add_memory_finding(rank, LS_FINDING_HANDLE_USE_AFTER_FREE, file, line, what,
                           allocation->freed_file, allocation->freed_line);
    }
    ls_request *used = open_use(rank, memory, bytes, !write);
    if (used != NULL) {
        char what[96];
        (void)snprintf(what, sizeof what,
                       "%s a buffer before it waits for the call that %s it, made at", verb,
                       write ? "uses" : "fills");
        add_memory_finding(rank, LS_FINDING_BUFFER_USE_BEFORE_WAIT, file, line, what,
                           used->call.file, used->call.line);
        ls_flight__settle(used, file, line);
    }
    return rank->run->status == LS_OK ? LS_OK : ls_spmd__failed(rank->run, rank);
}

int ls_touch_at(const char *file, int line, ls_rank *self, const void *memory, size_t bytes,
                bool write) {
    LS_ASSERT(self != NULL);
    ls_schedule__enter(self);
    int status = touch(self, memory, bytes, write, file, line);
    ls_schedule__leave(self);
    return status;
}

// ---- Device memory -----------------------------------------------------------------------------
ls_view ls_memory__view(const ls_spmd *run, const void *at, size_t bytes) {
    ls_view view = {.data = at, .bytes = bytes};
    const ls_backend_ops *ops = run->backend->ops;
    if (bytes == 0 || ops->is_device == NULL || !ops->is_device(run->backend, at)) {
        return view;
    }
    view.data = NULL;
    if (ls_alloc(&view.copy, bytes, 1) == LS_OK &&
        ops->read_device(run->backend, view.copy, at, bytes) == LS_OK) {
        view.data = view.copy;
    }
    return view;
}

void ls_memory__unview(ls_view *view) {
    if (view->copy != NULL) {
        ls_free(view->copy, view->bytes, 1);
    }
}
