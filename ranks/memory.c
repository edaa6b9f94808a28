// A rank's memory: what it allocated, which of it was never written, what it freed. And what
// programs say about their own reads and writes.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

// A signalling NaN in f32 and bf16, which no arithmetic produces; as an integer it is unlikely.
#define POISON     UINT32_C(0x7fa5c3d2)
#define FREED_KEPT 32  // freed allocations of a rank kept, to tell use after free

static const ls_allocator *allocator_of(const ls_rank *rank) {
    return rank->run->options.allocator;
}

static size_t room_of(size_t bytes) {
    return (bytes + 63) / 64 * 64 + 64;
}

static void poison(char *start, size_t bytes) {
    const uint32_t word = POISON;
    for (size_t at = 0; at < bytes; at += sizeof word) {
        memcpy(start + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
    }
}

// The place of the first allocation that starts after `pointer`.
static int place_after(const ls_rank *rank, const void *pointer) {
    int low = 0, high = rank->allocation_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if ((uintptr_t)rank->allocations[middle].start <= (uintptr_t)pointer) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

ls_allocation *ls_memory__find(ls_rank *rank, const void *pointer) {
    int after = place_after(rank, pointer);
    if (pointer == NULL || after == 0) {
        return NULL;
    }
    ls_allocation *allocation = &rank->allocations[after - 1];
    size_t offset = (size_t)((uintptr_t)pointer - (uintptr_t)allocation->start);
    return offset < allocation->bytes || (offset == 0 && allocation->bytes == 0) ? allocation
                                                                                 : NULL;
}

static void drop(ls_rank *rank, int index) {
    ls_allocation *allocation = &rank->allocations[index];
    ls_free(allocator_of(rank), allocation->start, room_of(allocation->bytes), 1);
    memmove(allocation, allocation + 1,
            (size_t)(rank->allocation_count - index - 1) * sizeof *allocation);
    rank->allocation_count -= 1;
}

void ls_memory__close(ls_rank *rank) {
    for (int i = 0; i < rank->allocation_count; i++) {
        ls_free(allocator_of(rank), rank->allocations[i].start, room_of(rank->allocations[i].bytes),
                1);
    }
    ls_free(NULL, rank->allocations, (size_t)rank->allocation_room, sizeof(ls_allocation));
    rank->allocations = NULL;
    rank->allocation_count = 0;
}

static int make_room(ls_rank *rank) {
    if (rank->allocation_count < rank->allocation_room) {
        return LS_OK;
    }
    int room = rank->allocation_room == 0 ? 16 : 2 * rank->allocation_room;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, (size_t)room, sizeof(ls_allocation)));
    if (rank->allocation_count > 0) {
        memcpy(memory, rank->allocations, (size_t)rank->allocation_count * sizeof(ls_allocation));
    }
    ls_free(NULL, rank->allocations, (size_t)rank->allocation_room, sizeof(ls_allocation));
    rank->allocations = memory;
    rank->allocation_room = room;
    return LS_OK;
}

static void *allocate(ls_rank *rank, size_t bytes, const char *file, int line) {
    rank->allocations_made += 1;
    if (ls_fault__allocation_fails(rank, rank->allocations_made) || bytes > PTRDIFF_MAX - 128 ||
        make_room(rank) != LS_OK) {
        (void)LS_FAIL_RANK(LS_ERR_MEMORY, rank->id, "rank %d: no %zu bytes at %s:%d", rank->id,
                           bytes, file, line);
        return NULL;
    }
    void *memory = NULL;
    if (ls_alloc(&memory, allocator_of(rank), room_of(bytes), 1) != LS_OK) {
        return NULL;
    }
    if (rank->run->checks[LS_FINDING_BUFFER_UNINITIALISED]) {
        poison(memory, bytes);
    }
    int at = place_after(rank, memory);
    memmove(&rank->allocations[at + 1], &rank->allocations[at],
            (size_t)(rank->allocation_count - at) * sizeof(ls_allocation));
    rank->allocations[at] = (ls_allocation){.start = memory,
                                            .number = rank->allocations_made,
                                            .bytes = bytes,
                                            .file = file,
                                            .line = line};
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

bool ls_memory__meets(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes != 0 && b_bytes != 0 && (x < y ? y - x < a_bytes : x - y < b_bytes);
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
        if (at->freed && !ls_replica__holds(rank, at->start, at->bytes)) {
            drop(rank, i);
            rank->freed_allocations -= 1;
        }
    }
}

// A request that is not complete and uses the memory; NULL: none.
static const ls_request *open_use(const ls_rank *rank, const char *start, size_t bytes,
                                  bool writes_only) {
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        bool reads = ls_memory__meets(start, bytes, at->call.send, at->send_bytes);
        bool writes = ls_memory__meets(start, bytes, at->call.recv, at->recv_bytes);
        if (at->asynchronous && (writes || (reads && !writes_only))) {
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
    const ls_request *used = open_use(rank, allocation->start, allocation->bytes, false);
    if (used != NULL) {
        add_memory_finding(rank, LS_FINDING_BUFFER_USE_BEFORE_WAIT, file, line,
                           "frees memory before it waits for the call that uses it, made at",
                           used->call.file, used->call.line);
        if (used->state != LS_REQUEST_DONE) {
            return;  // the data would be moved into freed memory
        }
    }
    allocation->freed = true;
    allocation->freed_file = file;
    allocation->freed_line = line;
    rank->freed_allocations += 1;
    ls_replica__freed(rank, allocation);
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

// ---- What was written --------------------------------------------------------------------------
ptrdiff_t ls_memory__poisoned(ls_allocation *allocation, const char *at, size_t bytes) {
    size_t start = (size_t)(at - allocation->start), end = start + bytes;
    if (start >= allocation->clean_start && end <= allocation->clean_end) {
        return -1;
    }
    const uint32_t word = POISON;
    for (size_t i = (start + 3) / 4 * 4; i + 4 <= end; i += 4) {
        if (memcmp(allocation->start + i, &word, sizeof word) == 0) {
            return (ptrdiff_t)(i - start);
        }
    }
    if (allocation->clean_start == allocation->clean_end || start > allocation->clean_end ||
        end < allocation->clean_start) {
        allocation->clean_start = start;
        allocation->clean_end = end;
    } else {
        allocation->clean_start = start < allocation->clean_start ? start : allocation->clean_start;
        allocation->clean_end = end > allocation->clean_end ? end : allocation->clean_end;
    }
    return -1;
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
    const ls_request *used = open_use(rank, memory, bytes, !write);
    if (used != NULL) {
        char what[96];
        (void)snprintf(what, sizeof what,
                       "%s a buffer before it waits for the call that %s it, made at", verb,
                       write ? "uses" : "fills");
        add_memory_finding(rank, LS_FINDING_BUFFER_USE_BEFORE_WAIT, file, line, what,
                           used->call.file, used->call.line);
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
    if (ls_alloc(&view.copy, NULL, bytes, 1) == LS_OK &&
        ops->read_device(run->backend, view.copy, at, bytes) == LS_OK) {
        view.data = view.copy;
    }
    return view;
}

void ls_memory__unview(ls_view *view) {
    if (view->copy != NULL) {
        ls_free(NULL, view->copy, view->bytes, 1);
    }
}
