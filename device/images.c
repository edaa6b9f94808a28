// Copies of the program: one, or one for each rank where ranks are processes. Each run finds their
// variables as the first one did.
#define _GNU_SOURCE  // dl_iterate_phdr, dladdr, memfd_create
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "device/image/image.h"
#include "device/internal.h"

static struct {
    int count;
    ls_device_program mains[RANKS_MAX];
    const char *low[RANKS_MAX];
    size_t bytes;
} images;

// ---- The program's variables: each run finds them as the first did ------------------------------
typedef struct segment {
    char *low, *copy;
    size_t bytes;
} segment;
static segment segments[2 * RANKS_MAX];
static int segment_count;

static void keep(char *low, char *high) {
    if (high > low && segment_count < 2 * RANKS_MAX) {
        segment *made = &segments[segment_count++];
        *made = (segment){low, ls_device__alloc((size_t)(high - low)), (size_t)(high - low)};
        memcpy(made->copy, low, made->bytes);
    }
}

static int keep_variables(struct dl_phdr_info *info, size_t size, void *arg) {
    uintptr_t inside = (uintptr_t)arg;
    char *low = NULL, *high = NULL, *closed = NULL, *closed_end = NULL;
    bool is = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        is = is || (part->p_type == PT_LOAD && inside >= start && inside < end);
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) != 0) {
            low = (char *)start;
            high = (char *)end;
        } else if (part->p_type == PT_GNU_RELRO) {
            closed = (char *)start;
            closed_end = (char *)((end + 4095) / 4096 * 4096);
        }
    }
    if (is) {
        images.low[images.count] = (const char *)info->dlpi_addr;
        images.bytes = (size_t)(high - (char *)info->dlpi_addr);
    }
    if (is && low != NULL) {
        keep(low, closed != NULL ? closed : low);
        keep(closed != NULL ? closed_end : low, high);
    }
    return is ? 1 : 0;
}

static int copy_program(const char *path, int *file) {
    int in = open(path, O_RDONLY | O_CLOEXEC);
    *file = memfd_create("lockstep-device", MFD_CLOEXEC);
    off_t left = in >= 0 ? lseek(in, 0, SEEK_END) : -1;
    bool done = left > 0 && *file >= 0 && lseek(in, 0, SEEK_SET) == 0;
    while (done && left > 0) {
        ssize_t moved = sendfile(*file, in, NULL, (size_t)left);
        done = moved > 0;
        left -= moved > 0 ? moved : 0;
    }
    int error = errno;
    if (in >= 0) {
        (void)close(in);
    }
    return done ? LS_OK : LS_FAIL(LS_ERR_RESOURCE, "%s: %s", path, strerror(error));
}

static int open_copy(const char *program, int number) {
    char path[64];
    int file = -1;
    LS_TRY(copy_program(program, &file));
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, LS_DEVICE_IMAGE_MAIN) : NULL;
    if (symbol == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "%s", dlerror());
    }
    memcpy(&images.mains[number], &symbol, sizeof symbol);
    return LS_OK;  // the file stays open: debuggers read it
}

ls_device_program ls_device__image_main(int rank) {
    return images.mains[rank];
}

void ls_device__images_name(void) {
    for (int i = 0; i < images.count; i++) {
        ls_device__state.images[i] = images.low[i];
    }
    ls_device__state.image_bytes = images.bytes;
}

int ls_device__images_open(ls_device_program main, int count) {
    Dl_info about;
    images.mains[0] = main;
    for (; images.count < count; images.count++) {
        if (images.count > 0) {
            LS_TRY(dladdr((void *)(uintptr_t)main, &about) != 0
                       ? open_copy(about.dli_fname, images.count)
                       : LS_FAIL(LS_ERR_INVALID, "the program has no file"));
        }
        (void)dl_iterate_phdr(keep_variables, (void *)(uintptr_t)images.mains[images.count]);
    }
    for (int i = 0; i < segment_count; i++) {
        memcpy(segments[i].low, segments[i].copy, segments[i].bytes);
    }
    return LS_OK;
}
