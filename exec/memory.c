// Pieces of the job's memory, and first-fit stretches of them.
#define _GNU_SOURCE  // memfd_create
#include "exec/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_LEAST ((uint64_t)1 << 20)   // a piece has the size of all before it,
#define PIECE_MOST  ((uint64_t)32 << 20)  // at most this, and more for one large call
#define ALIGN_BYTES ((size_t)256)
#define HEAD_BYTES  ALIGN_BYTES          // of a stretch: how many are to read it
#define PAGE_BYTES  ((uint64_t)4 << 10)  // between pieces: a device maps each separately

// A stretch that is free or lent.
struct ls_exec_gap {
    uint64_t offset, bytes;
    ls_exec_gap *next;  // ascending
};

typedef struct head {
    uint64_t taken;  // bytes of the file in use
} head;

static int map(ls_exec_memory *out, int file, size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (at == MAP_FAILED) {
        int error = errno;
        (void)close(file);
        return LS_FAIL(LS_ERR_MEMORY,
                       "cannot reserve %zu GiB of addresses for shared memory (ulimit -v?): %s",
                       bytes >> 30, strerror(error));
    }
    (void)madvise(at, bytes, MADV_HUGEPAGE);  // where the system has them for shared memory
    (void)madvise(at, bytes, MADV_DONTDUMP);
    *out = (ls_exec_memory){.base = at, .bytes = bytes, .file = file};
    return LS_OK;
}

int ls_exec_memory__create(ls_exec_memory *out) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t bytes = (size_t)(pages > 0 ? pages : 1 << 20) * (size_t)page;
    // Untouched memory costs nothing. Memory of a process is not reused after its end.
    bytes *= 4;
    int file = memfd_create("lockstep", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        int error = errno;
        if (file >= 0) {
            (void)close(file);
        }
        return LS_FAIL(LS_ERR_MEMORY, "cannot create shared memory: %s", strerror(error));
    }
    LS_TRY(map(out, file, bytes));
    ((head *)(void *)out->base)->taken = PAGE_BYTES;
    return LS_OK;
}

static size_t size_of(int file) {
    struct stat about;
    return fstat(file, &about) == 0 ? (size_t)about.st_size : 0;
}

int ls_exec_memory__open(ls_exec_memory *out, int file) {
    return map(out, file, size_of(file));
}

static void free_list(ls_exec_gap *list) {
    while (list != NULL) {
        ls_exec_gap *next = list->next;
        free(list);
        list = next;
    }
}

void ls_exec_memory__close(ls_exec_memory *memory) {
    if (memory->base == NULL) {
        return;
    }
    free_list(memory->free);
    free_list(memory->lent);
    (void)munmap(memory->base, memory->bytes);
    (void)close(memory->file);
    *memory = (ls_exec_memory){.file = -1};
}

bool ls_exec_memory__holds(const ls_exec_memory *memory, uint64_t offset, uint64_t bytes) {
    const head *at = (const void *)memory->base;
    uint64_t taken = __atomic_load_n(&at->taken, __ATOMIC_ACQUIRE);
    taken = taken < memory->bytes ? taken : memory->bytes;  // whatever a process has written there
    return offset >= PAGE_BYTES + HEAD_BYTES && offset % ALIGN_BYTES == 0 && offset <= taken &&
           bytes <= taken - offset;
}

uint32_t *ls_exec_memory__readers(char *base, uint64_t offset) {
    LS_ASSERT(offset >= PAGE_BYTES + HEAD_BYTES);
    return (void *)(base + offset - HEAD_BYTES);
}

static uint64_t whole(size_t bytes) {
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES + HEAD_BYTES;
}

// The stretch joins its neighbours; where there is no memory for a note of it, it is lost, and
// nothing worse.
void ls_exec_gap__put(ls_exec_gap **list, uint64_t offset, uint64_t bytes) {
    ls_exec_gap **at = list, *before = NULL;
    while (*at != NULL && (*at)->offset < offset) {
        before = *at;
        at = &(*at)->next;
    }
    ls_exec_gap *after = *at;
    bool joins_before = before != NULL && before->offset + before->bytes == offset;
    bool joins_after = after != NULL && offset + bytes == after->offset;
    if (joins_before) {
        before->bytes += bytes + (joins_after ? after->bytes : 0);
        before->next = joins_after ? after->next : after;
        free(joins_after ? after : NULL);
    } else if (joins_after) {
        after->offset = offset;
        after->bytes += bytes;
    } else {
        ls_exec_gap *made = calloc(1, sizeof *made);
        if (made != NULL) {
            *made = (ls_exec_gap){offset, bytes, after};
            *at = made;
        }
    }
}

static bool is_read(const ls_exec_memory *memory, uint64_t stretch) {
    const uint32_t *readers = ls_exec_memory__readers(memory->base, stretch + HEAD_BYTES);
    return __atomic_load_n(readers, __ATOMIC_ACQUIRE) != 0;
}

static void take_back(ls_exec_memory *memory) {
    for (ls_exec_gap **at = &memory->lent; *at != NULL;) {
        ls_exec_gap *gap = *at;
        if (is_read(memory, gap->offset)) {
            at = &gap->next;
            continue;
        }
        *at = gap->next;
        ls_exec_gap__put(&memory->free, gap->offset, gap->bytes);
        free(gap);
    }
}

bool ls_exec_gap__take(uint64_t *offset, ls_exec_gap **list, uint64_t bytes) {
    for (ls_exec_gap **at = list; *at != NULL; at = &(*at)->next) {
        ls_exec_gap *gap = *at;
        if (gap->bytes < bytes) {
            continue;
        }
        *offset = gap->offset;
        gap->offset += bytes;
        gap->bytes -= bytes;
        if (gap->bytes == 0) {
            *at = gap->next;
            free(gap);
        }
        return true;
    }
    return false;
}

// Small at first, because allocated pages are cleared; large with a device, which registers each.
static uint64_t piece_bytes(const ls_exec_memory *memory) {
    if (memory->made != NULL || memory->pieces > PIECE_MOST) {
        return PIECE_MOST;
    }
    return memory->pieces > PIECE_LEAST ? memory->pieces : PIECE_LEAST;
}

static int add_piece(ls_exec_memory *memory, uint64_t least) {
    uint64_t bytes = piece_bytes(memory);
    bytes = least > bytes ? (least + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES : bytes;
    head *at = (void *)memory->base;
    uint64_t size = memory->bytes;
    uint64_t first =
        bytes < size ? __atomic_fetch_add(&at->taken, bytes + PAGE_BYTES, __ATOMIC_ACQ_REL) : size;
    // Allocated now, so that a lack of memory is reported here.
    if (first > size || bytes > size - first ||
        posix_fallocate(memory->file, (off_t)first, (off_t)bytes) != 0) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot allocate %llu bytes of shared memory",
                       (unsigned long long)bytes);
    }
    if (memory->made != NULL) {
        LS_TRY(memory->made(memory->made_arg, memory->base + first, bytes));
    }
    memory->pieces += bytes;
    ls_exec_gap__put(&memory->free, first, bytes);
    return LS_OK;
}

int ls_exec_memory__take(uint64_t *offset, ls_exec_memory *memory, size_t bytes) {
    if (bytes > SIZE_MAX / 2) {
        return LS_FAIL(LS_ERR_OVERFLOW, "a buffer of %zu bytes", bytes);
    }
    take_back(memory);
    if (!ls_exec_gap__take(offset, &memory->free, whole(bytes))) {
        LS_TRY(add_piece(memory, whole(bytes)));
        bool taken = ls_exec_gap__take(offset, &memory->free, whole(bytes));
        LS_TRY(taken ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    }
    *offset += HEAD_BYTES;
    __atomic_store_n(ls_exec_memory__readers(memory->base, *offset), 0, __ATOMIC_RELEASE);
    return LS_OK;
}

void ls_exec_memory__give(ls_exec_memory *memory, uint64_t offset, size_t bytes) {
    uint64_t stretch = offset - HEAD_BYTES;
    if (!is_read(memory, stretch)) {
        ls_exec_gap__put(&memory->free, stretch, whole(bytes));
        return;
    }
    ls_exec_gap *made = calloc(1, sizeof *made);
    if (made != NULL) {  // else it is lost, and nothing worse
        *made = (ls_exec_gap){stretch, whole(bytes), memory->lent};
        memory->lent = made;
    }
}
