// Allocation, the arena, and checked size arithmetic.
#define _DEFAULT_SOURCE  // madvise
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT        64u
#define LARGE_BYTES      ((size_t)1 << 20)
#define HUGE_BYTES       ((size_t)4 << 20)
#define HUGE_PAGE_BYTES  ((size_t)2 << 20)
#define PIECE_BYTES      ((size_t)4096)  // a page; one of a copy that is all zero is not written
#define LARGE_COPY_BYTES ((size_t)64 << 10)

// Under the address sanitizer an arena poisons its free memory and a gap after each allocation, so
// that an overrun is detected as with malloc.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define ARENA_GAP_BYTES             ((size_t)ALIGNMENT)
#define ARENA_CLOSE(pointer, bytes) ASAN_POISON_MEMORY_REGION(pointer, bytes)
#define ARENA_OPEN(pointer, bytes)  ASAN_UNPOISON_MEMORY_REGION(pointer, bytes)
#else
#define ARENA_GAP_BYTES             ((size_t)0)
#define ARENA_CLOSE(pointer, bytes) ((void)(pointer))
#define ARENA_OPEN(pointer, bytes)  ((void)(pointer))
#endif

static size_t align_up(size_t size) {
    return (size + (ALIGNMENT - 1)) & ~(size_t)(ALIGNMENT - 1);
}

// Rows of a large table are scattered: with pages of 4 KiB, address translation takes as long as
// reading the rows. Only a hint: nothing but time depends on it.
static void want_huge_pages(uintptr_t start, uintptr_t end) {
#if defined(MADV_HUGEPAGE)
    start = (start + HUGE_PAGE_BYTES - 1) & ~(uintptr_t)(HUGE_PAGE_BYTES - 1);
    end &= ~(uintptr_t)(HUGE_PAGE_BYTES - 1);
    if (end > start) {
        int error = errno;
        (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
        errno = error;
    }
#else
    (void)start, (void)end;
#endif
}

// Maps pages that will all be read at once: each unwritten page would be a separate fault. Only a
// hint, as above.
static void map_for_reading(const void *pointer, size_t bytes) {
#if defined(MADV_POPULATE_READ)
    uintptr_t start = (uintptr_t)pointer & ~(uintptr_t)(PIECE_BYTES - 1);
    if (bytes >= LARGE_COPY_BYTES) {
        int error = errno;
        (void)madvise((void *)start, (uintptr_t)pointer + bytes - start, MADV_POPULATE_READ);
        errno = error;
    }
#else
    (void)pointer, (void)bytes;
#endif
}

static size_t alloc_limit = SIZE_MAX / 2;

void ls_alloc_limit(uint64_t bytes) {
    alloc_limit = bytes < SIZE_MAX / 2 ? (size_t)bytes : SIZE_MAX / 2;
}

static void *allocate(size_t size, bool zeroed) {
    if (size > alloc_limit) {
        return NULL;
    }
    size_t rounded = align_up(size);
    if (rounded >= LARGE_BYTES) {
        // Large blocks: let the kernel hand out zero pages instead of touching them all here.
        void *pointer = zeroed ? calloc(1, rounded + ALIGNMENT) : malloc(rounded + ALIGNMENT);
        if (pointer == NULL) {
            return NULL;
        }
        uintptr_t address = ((uintptr_t)pointer + ALIGNMENT) & ~(uintptr_t)(ALIGNMENT - 1);
        ((void **)address)[-1] = pointer;
        if (rounded >= HUGE_BYTES) {
            want_huge_pages(address, address + rounded);
        }
        return (void *)address;
    }
    void *pointer = aligned_alloc(ALIGNMENT, rounded);
    if (pointer != NULL && zeroed) {
        memset(pointer, 0, rounded);
    }
    return pointer;
}

#define ADDRESSES_START ((uintptr_t)1 << 56)
#define ADDRESSES_END   ((uintptr_t)1 << 62)

int ls_addresses_take(void **out, uintptr_t *next, size_t bytes) {
    uintptr_t start = *next == 0 ? ADDRESSES_START : *next;
    if (bytes > ADDRESSES_END - start - 2 * ALIGNMENT) {
        return LS_FAIL(LS_ERR_MEMORY, "the buffers of this run exceed the address space");
    }
    *out = (char *)start;
    *next = align_up(start + bytes + ALIGNMENT);
    return LS_OK;
}

int ls_size_mul(size_t *out, size_t a, size_t b) {
    if (__builtin_mul_overflow(a, b, out)) {
        return LS_FAIL(LS_ERR_OVERFLOW, "%zu * %zu overflows size_t", a, b);
    }
    return LS_OK;
}

int ls_size_add(size_t *out, size_t a, size_t b) {
    if (__builtin_add_overflow(a, b, out)) {
        return LS_FAIL(LS_ERR_OVERFLOW, "%zu + %zu overflows size_t", a, b);
    }
    return LS_OK;
}

static size_t block_bytes(size_t count, size_t size) {
    size_t bytes = count * size;
    return bytes != 0 ? bytes : 1;
}

static int take(void **out, size_t count, size_t size, bool zeroed) {
    LS_ASSERT(out != NULL);
    *out = NULL;
    size_t bytes = 0;
    LS_TRY(ls_size_mul(&bytes, count, size));
    *out = allocate(block_bytes(count, size), zeroed);
    if (*out == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot allocate %zu bytes", bytes);
    }
    return LS_OK;
}

int ls_alloc(void **out, size_t count, size_t size) {
    return take(out, count, size, true);
}

void ls_free(void *pointer, size_t count, size_t size) {
    if (pointer == NULL) {
        return;
    }
    if (align_up(block_bytes(count, size)) >= LARGE_BYTES) {
        free(((void **)pointer)[-1]);
    } else {
        free(pointer);
    }
}

// The arena: a list of blocks. The first ones are small, since thousands of ranks have an arena
// each; a large request gets a separate block.
#define ARENA_FIRST_BYTES ((size_t)4 * 1024)
#define ARENA_BLOCK_BYTES ((size_t)64 * 1024)
#define ARENA_LARGE_BYTES ((size_t)32 << 20)  // from here on blocks are
#define ARENA_WHOLE_BYTES ((size_t)2 << 20)   // so large, of pages that the kernel has zeroed,
#define ARENA_FULL_BYTES  ((size_t)16 << 20)  // or, where all will be written, of huge ones

struct arena_block {
    struct arena_block *next;
    size_t bytes;  // of the whole block, this header included
    size_t used;   // offset of the next free byte
    bool mapped;   // it has separate pages
    bool written;  // its rest may not be zero
};

static int block_take(struct arena_block **out, size_t bytes, bool zeroed, bool mapped) {
    void *memory = NULL;
    if (mapped) {
        memory = bytes > alloc_limit ? MAP_FAILED
                                     : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            return LS_FAIL(LS_ERR_MEMORY, "cannot allocate %zu bytes", bytes);
        }
    } else {
        LS_TRY(take(&memory, 1, bytes, zeroed));
    }
    *out = memory;
    (*out)->bytes = bytes;
    (*out)->mapped = mapped;
    (*out)->written = false;
    return LS_OK;
}

static void block_free(struct arena_block *block) {
    ARENA_OPEN(block, block->bytes);
    if (block->mapped) {
        (void)munmap(block, block->bytes);
    } else {
        ls_free(block, 1, block->bytes);
    }
}

struct ls_arena {
    struct arena_block *blocks;
    struct arena_block *spare;  // adopted, of which nothing is handed out yet
    size_t bytes;
    bool full;  // nearly all that it hands out is written
    bool failed;
};

int ls_arena_create(ls_arena **out) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_arena)));
    *out = memory;
    return LS_OK;
}

void ls_arena_will_be_full(ls_arena *arena) {
    arena->full = true;
}

static void blocks_free(struct arena_block *block) {
    while (block != NULL) {
        struct arena_block *next = block->next;
        block_free(block);
        block = next;
    }
}

void ls_arena_free(ls_arena *arena) {
    if (arena == NULL) {
        return;
    }
    blocks_free(arena->blocks);
    blocks_free(arena->spare);
    ls_free(arena, 1, sizeof *arena);
}

// Puts a list of blocks before another one.
static void splice(struct arena_block **list, struct arena_block **blocks) {
    struct arena_block **end = blocks;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = *list;
    *list = *blocks;
    *blocks = NULL;
}

void ls_arena_adopt(ls_arena *arena, ls_arena *from) {
    size_t header = align_up(sizeof(struct arena_block));
    for (struct arena_block *block = from->blocks; block != NULL; block = block->next) {
        block->used = header;
        block->written = true;
        ARENA_CLOSE((char *)block + header, block->bytes - header);
    }
    splice(&arena->spare, &from->blocks);
    splice(&arena->spare, &from->spare);
    arena->bytes += from->bytes;
    from->bytes = 0;
}

static struct arena_block *spare_take(ls_arena *arena, size_t wanted) {
    for (struct arena_block **at = &arena->spare; *at != NULL; at = &(*at)->next) {
        struct arena_block *block = *at;
        if (block->bytes >= wanted) {
            *at = block->next;
            return block;
        }
    }
    return NULL;
}

// The size of the next shared block: as much as exists already, between two limits. An arena with
// the arrays of thousands of ranks exceeds the limit: most of these arrays may be zero, and
// unwritten pages cost nothing.
static size_t shared_bytes(const ls_arena *arena) {
    if (arena->bytes >= ARENA_LARGE_BYTES) {
        return arena->full ? ARENA_FULL_BYTES : ARENA_WHOLE_BYTES;
    }
    size_t bytes = arena->bytes > ARENA_FIRST_BYTES ? arena->bytes : ARENA_FIRST_BYTES;
    return bytes < ARENA_BLOCK_BYTES ? bytes : ARENA_BLOCK_BYTES;
}

static void *arena_take(ls_arena *arena, size_t count, size_t size, bool zeroed) {
    size_t bytes = 0;
    if (ls_size_mul(&bytes, count, size) != LS_OK) {
        arena->failed = true;
        return NULL;
    }
    if (bytes > SIZE_MAX / 4) {
        arena->failed = true;
        (void)LS_FAIL(LS_ERR_MEMORY, "cannot allocate %zu bytes", bytes);
        return NULL;
    }
    size_t rounded = align_up(bytes != 0 ? bytes : 1) + ARENA_GAP_BYTES;
    size_t header = align_up(sizeof(struct arena_block));
    struct arena_block *block = arena->blocks;
    if (block == NULL || block->bytes - block->used < rounded) {
        size_t wanted = header + rounded, shared = shared_bytes(arena);
        struct arena_block *fresh = spare_take(arena, wanted);
        if (fresh == NULL) {
            size_t block_size = wanted > shared ? wanted : shared;
            // The rest of a shared block is handed out as zeroed.
            if (block_take(&fresh, block_size, zeroed || wanted <= shared,
                           block_size == ARENA_WHOLE_BYTES) != LS_OK) {
                arena->failed = true;
                return NULL;
            }
            fresh->used = header;
            ARENA_CLOSE((char *)fresh + header, block_size - header);
            arena->bytes += block_size;
        }
        if (block != NULL && fresh->bytes - header - rounded < block->bytes - block->used) {
            // Keep filling the current block; the large one is used up at once.
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            arena->blocks = fresh;
        }
        block = fresh;
    }
    void *pointer = (char *)block + block->used;
    block->used += rounded;
    ARENA_OPEN(pointer, bytes);
    if (zeroed && block->written) {
        memset(pointer, 0, bytes);
    }
    return pointer;
}

void *ls_arena_create_with(ls_arena **arena, size_t bytes) {
    *arena = NULL;
    void *object = ls_arena_create(arena) == LS_OK ? arena_take(*arena, 1, bytes, true) : NULL;
    if (object == NULL) {
        ls_arena_free(*arena);
        *arena = NULL;
    }
    return object;
}

void *ls_arena_alloc(ls_arena *arena, size_t count, size_t size) {
    return arena_take(arena, count, size, true);
}

void *ls_arena_alloc_raw(ls_arena *arena, size_t count, size_t size) {
    return arena_take(arena, count, size, false);
}

void *ls_arena_copy(ls_arena *arena, const void *source, size_t bytes) {
    static const char zeros[PIECE_BYTES];
    char *copy = ls_arena_alloc(arena, bytes, 1);
    map_for_reading(source, bytes);
    for (size_t at = 0, piece; copy != NULL && at < bytes; at += piece) {
        piece = PIECE_BYTES - (uintptr_t)(copy + at) % PIECE_BYTES;  // to the end of a page
        piece = bytes - at < piece ? bytes - at : piece;
        if (memcmp((const char *)source + at, zeros, piece) != 0) {
            memcpy(copy + at, (const char *)source + at, piece);
        }
    }
    map_for_reading(copy, copy != NULL ? bytes : 0);
    return copy;
}

void *ls_arena_grow(ls_arena *arena, void *array, int count, int *room, size_t size) {
    if (count < *room) {
        return array;
    }
    int wanted = *room == 0 ? 16 : 2 * *room;
    void *grown = ls_arena_alloc(arena, (size_t)wanted, size);
    if (grown != NULL && count > 0) {
        memcpy(grown, array, (size_t)count * size);
    }
    *room = grown != NULL ? wanted : *room;
    return grown;
}

char *ls_arena_strndup(ls_arena *arena, const char *text, size_t length) {
    char *copy = ls_arena_alloc(arena, length + 1, 1);
    if (copy != NULL && length != 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *ls_arena_strdup(ls_arena *arena, const char *text) {
    return ls_arena_strndup(arena, text, strlen(text));
}

char *ls_arena_printf(ls_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    LS_ASSERT(length >= 0);
    char *text = ls_arena_alloc(arena, (size_t)length + 1, 1);
    if (text != NULL) {
        va_start(args, format);
        (void)vsnprintf(text, (size_t)length + 1, format, args);
        va_end(args);
    }
    return text;
}

bool ls_arena_failed(const ls_arena *arena) {
    return arena->failed;
}

void ls_arena_fail(ls_arena *arena) {
    arena->failed = true;
}

size_t ls_arena_bytes(const ls_arena *arena) {
    return arena->bytes;
}
