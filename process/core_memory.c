// See core_memory.h. Which pages the process has written is in its pagemap.
#define _GNU_SOURCE
#include "process/core_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "process/core.h"

#define PAGE        4096u
#define BATCH       256u                 // pages at a time
#define PARTS_MAX   60000u               // the format has 65,535
#define ZEROS_BYTES (UINT64_C(1) << 20)  // one piece of the file for all zeros
#define HOLE_MAX    (UINT64_C(1) << 30)  // a larger one is reserved, not used
#define MAPPING_MAX (UINT64_C(1) << 36)  // larger ones are shadows of sanitizers

// In the order in which they are written.
typedef enum kind { KIND_GLOBALS, KIND_MEMORY, KIND_SHARED } kind;

struct ls_core_mapping {
    uint64_t low, high;
    uint64_t done_low, done_high;  // written already, as a stack
    kind kind;
    bool stack;  // of a thread: below its pointer it is not in use
    unsigned flags;
};

// ---- Mappings -----------------------------------------------------------------------------------
static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

// Whether a debugger needs it, and what it is.
static bool wanted(ls_core_mapping *out, const char *mode, uint64_t inode, const char *name) {
    bool shared = mode[3] == 's';
    bool memory = starts(name, "/dev/shm/") || starts(name, "/memfd:") || starts(name, "/SYSV") ||
                  starts(name, "/dev/zero");
    if (starts(name, "[vv") || starts(name, "[vsyscall") || (starts(name, "/dev/") && !memory)) {
        return false;
    }
    out->kind = inode != 0 || starts(name, "[vdso") ? KIND_GLOBALS : KIND_MEMORY;
    out->kind = shared ? KIND_SHARED : out->kind;
    out->flags =
        (mode[0] == 'r' ? PF_R : 0u) | (mode[1] == 'w' ? PF_W : 0u) | (mode[2] == 'x' ? PF_X : 0u);
    return (!shared || memory) && out->high - out->low <= MAPPING_MAX;
}

static int add_mapping(ls_core_memory *m, const ls_core_mapping *one) {
    if (m->count == m->capacity) {
        size_t room = m->capacity == 0 ? 256 : 2 * m->capacity;
        ls_core_mapping *grown = realloc(m->mappings, room * sizeof *grown);
        if (grown == NULL) {
            return LS_FAIL(LS_ERR_MEMORY, "no memory for the mappings of a core file");
        }
        m->mappings = grown;
        m->capacity = room;
    }
    m->mappings[m->count++] = *one;
    return LS_OK;
}

static int read_mappings(ls_core_memory *m) {
    char path[64], line[4096 + 256];
    (void)snprintf(path, sizeof path, "/proc/%ld/smaps", (long)m->process);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return LS_FAIL(ls_status_of_errno(errno), "%s: %s", path, strerror(errno));
    }
    ls_core_mapping now = {0};
    bool keep = false;
    int status = LS_OK;
    while (status == LS_OK && fgets(line, sizeof line, file) != NULL) {
        unsigned long long low, high, inode;
        char mode[5] = "";
        int name = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%llx-%llx %4s %*x %*s %llu %n", &low, &high, mode, &inode, &name) == 4) {
            now = (ls_core_mapping){.low = low, .high = high};
            keep = wanted(&now, mode, inode, line + name);
        } else if (starts(line, "VmFlags:") && keep && strstr(line, " dd") == NULL) {
            status = add_mapping(m, &now);
        }
    }
    (void)fclose(file);
    return status;
}

int ls_core_memory__put(int file, const void *data, size_t bytes, uint64_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = pwrite(file, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (wrote < 0 && errno != EINTR) {
            return LS_FAIL(ls_status_of_errno(errno), "%s", strerror(errno));
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return LS_OK;
}

// ---- Parts --------------------------------------------------------------------------------------
static bool has_room(const ls_core_memory *m, uint64_t bytes) {
    uint64_t parts = (m->part_count + 2) * sizeof *m->parts;
    return m->part_count < PARTS_MAX && m->end + bytes + parts + ZEROS_BYTES <= LS_CORE_BYTES_MAX;
}

static int add_part(ls_core_memory *m, const ls_core_mapping *of, uint64_t at, uint64_t bytes,
                    uint64_t offset) {
    if (!has_room(m, 0)) {
        m->left_out += bytes;
        return LS_OK;
    }
    m->parts[m->part_count++] = (ElfW(Phdr)){.p_type = PT_LOAD,
                                             .p_offset = offset,
                                             .p_vaddr = at,
                                             .p_filesz = bytes,
                                             .p_memsz = bytes,
                                             .p_flags = of->flags,
                                             .p_align = 1};
    return LS_OK;
}

static int add_data(ls_core_memory *m, const ls_core_mapping *of, uint64_t at, const char *data,
                    uint64_t bytes) {
    ElfW(Phdr) *last = m->part_count > 0 ? &m->parts[m->part_count - 1] : NULL;
    LS_TRY(ls_core_memory__put(m->file, data, bytes, m->end));
    uint64_t offset = m->end;
    m->end += bytes;
    if (last != NULL && last->p_vaddr + last->p_memsz == at &&
        last->p_offset + last->p_filesz == offset && last->p_flags == of->flags) {
        last->p_filesz = last->p_memsz += bytes;
        return LS_OK;
    }
    return add_part(m, of, at, bytes, offset);
}

// A hole of the file has the zeros, which takes no disk.
static int add_zeros(ls_core_memory *m, const ls_core_mapping *of, uint64_t at, uint64_t bytes) {
    if (bytes > HOLE_MAX) {
        return LS_OK;
    }
    if (m->zeros == 0) {
        m->zeros = m->end;
        m->end += ZEROS_BYTES;
    }
    for (uint64_t done = 0; done < bytes;) {
        uint64_t piece = bytes - done < ZEROS_BYTES ? bytes - done : ZEROS_BYTES;
        LS_TRY(add_part(m, of, at + done, piece, m->zeros));
        done += piece;
    }
    return LS_OK;
}

// ---- Pages --------------------------------------------------------------------------------------
#define PAGE_THERE (UINT64_C(3) << 62)  // in memory, or swapped out
#define PAGE_FILE  (UINT64_C(1) << 61)  // of a file, or shared

// Whether the core file has the page; without it its content is in a file, or zero.
static bool is_own(const ls_core_mapping *of, uint64_t page) {
    return (page & PAGE_THERE) != 0 && (of->kind == KIND_SHARED || (page & PAGE_FILE) == 0);
}

static bool is_zero(const char *page) {
    return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

// A hole that began at `from`. Only anonymous memory reads as zeros, and only a stack's used part.
static int end_hole(ls_core_memory *m, const ls_core_mapping *of, uint64_t from, uint64_t at) {
    bool zeros = of->kind == KIND_MEMORY && !of->stack && (of->flags & PF_R) != 0;
    return at > from && zeros ? add_zeros(m, of, from, at - from) : LS_OK;
}

static int write_range(ls_core_memory *m, const ls_core_mapping *of, uint64_t low, uint64_t high) {
    uint64_t pages[BATCH], hole = low;
    for (uint64_t at = low; at < high; at += BATCH * PAGE) {
        uint64_t count = (high - at) / PAGE < BATCH ? (high - at) / PAGE : BATCH;
        ssize_t want = (ssize_t)(count * sizeof *pages);
        bool known = pread(m->pages, pages, (size_t)want, (off_t)(at / PAGE * 8)) == want;
        for (uint64_t i = 0; known && i < count; i++) {
            uint64_t page = at + i * PAGE;
            if (!is_own(of, pages[i]) ||
                pread(m->memory, m->buffer, PAGE, (off_t)page) != (ssize_t)PAGE) {
                continue;
            }
            bool zero = is_zero(m->buffer);
            if (zero && of->kind == KIND_MEMORY && !of->stack) {
                continue;
            }
            LS_TRY(end_hole(m, of, hole, page));
            hole = page + PAGE;
            if (zero) {
                LS_TRY(add_zeros(m, of, page, PAGE));
            } else if (has_room(m, PAGE)) {
                LS_TRY(add_data(m, of, page, m->buffer, PAGE));
            } else {
                m->left_out += PAGE;
            }
        }
    }
    return end_hole(m, of, hole, high);
}

int ls_core_memory__stack(ls_core_memory *m, uintptr_t pointer, size_t threads) {
    for (size_t i = 0; i < m->count; i++) {
        ls_core_mapping *of = &m->mappings[i];
        if (pointer < of->low || pointer >= of->high) {
            continue;
        }
        of->stack = true;
        uint64_t most = LS_CORE_BYTES_MAX / 2 / threads / PAGE * PAGE;
        uint64_t low = (pointer - 128) / PAGE * PAGE;  // the ABI's red zone
        low = low < of->low ? of->low : low;
        uint64_t high = of->high - low < most ? of->high : low + most;
        if (of->done_high > of->done_low) {
            return LS_OK;  // several threads on one mapping
        }
        of->done_low = low;
        of->done_high = high;
        return write_range(m, of, low, high);
    }
    return LS_OK;
}

// Small ones first: large arrays matter less than the heap, which has the list of libraries.
static int compare(const void *a, const void *b) {
    const ls_core_mapping *x = a, *y = b;
    uint64_t x_bytes = x->high - x->low, y_bytes = y->high - y->low;
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    return (x_bytes > y_bytes) - (x_bytes < y_bytes);
}

int ls_core_memory__rest(ls_core_memory *m) {
    qsort(m->mappings, m->count, sizeof *m->mappings, compare);
    for (size_t i = 0; i < m->count; i++) {
        const ls_core_mapping *of = &m->mappings[i];
        bool done = of->done_high > of->done_low;
        LS_TRY(write_range(m, of, of->low, done ? of->done_low : of->high));
        LS_TRY(write_range(m, of, done ? of->done_high : of->high, of->high));
    }
    return LS_OK;
}

// ---- Open and close -----------------------------------------------------------------------------
static int open_file(int *out, pid_t process, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%ld/%s", (long)process, name);
    *out = open(path, O_RDONLY | O_CLOEXEC);
    return *out >= 0 ? LS_OK : LS_FAIL(ls_status_of_errno(errno), "%s: %s", path, strerror(errno));
}

int ls_core_memory__open(ls_core_memory *m) {
    m->memory = m->pages = -1;
    m->buffer = malloc(PAGE);
    m->parts = malloc(PARTS_MAX * sizeof *m->parts);
    if (m->buffer == NULL || m->parts == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for a core file");
    }
    LS_TRY(open_file(&m->memory, m->process, "mem"));
    LS_TRY(open_file(&m->pages, m->process, "pagemap"));
    return read_mappings(m);
}

void ls_core_memory__close(ls_core_memory *m) {
    if (m->buffer != NULL && m->memory >= 0) {
        (void)close(m->memory);
    }
    if (m->buffer != NULL && m->pages >= 0) {
        (void)close(m->pages);
    }
    free(m->buffer);
    free(m->parts);
    free(m->mappings);
}
