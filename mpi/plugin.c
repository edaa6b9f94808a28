// Libraries that a rank's program opens by path: each rank has a separate copy, as processes would.
//
// A plugin, such as an extension module of an interpreter, uses symbols of the program that opens
// it. The images of all ranks define the same symbols. So a small library that depends on the copy
// and then on the rank's image is opened in place of the copy, and the loader binds the copy's
// symbols in these two.
#define _GNU_SOURCE  // dladdr, memfd_create
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/image/image.h"
#include "mpi/internal.h"

typedef struct plugin {
    struct plugin *next;
    const mpi_rank *owner;
    dev_t device;
    ino_t file;
    char both[256];  // path of the library that depends on both
} plugin;

static plugin *plugins;  // newest first; freed when the process ends
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
static atomic_int opened;

// ---- The library that depends on both -----------------------------------------------------------
enum { NAMES_MAX = 3 * 512 + PATH_MAX };
typedef struct both_file {
    ElfW(Ehdr) head;
    ElfW(Phdr) parts[3];
    ElfW(Dyn) dynamic[8];
    ElfW(Sym) none;
    char names[NAMES_MAX];
} both_file;

static size_t add_name(both_file *of, size_t *used, const char *name) {
    size_t at = *used, length = strlen(name) + 1;
    LS_ASSERT(length <= sizeof of->names - at);
    memcpy(of->names + at, name, length);
    *used += length;
    return at;
}

static both_file *make_both(const char *copy, const char *image, const char *search) {
    both_file *made = ls_mpi__alloc(sizeof *made);
    ElfW(Ehdr) *head = &made->head;
    Dl_info about;
    size_t used = 1, names = offsetof(both_file, names), table = offsetof(both_file, dynamic);
    if (dladdr((const void *)&plugins, &about) != 0) {  // the ELF machine of this host
        memcpy(head, about.dli_fbase, sizeof *head);
    }
    head->e_type = ET_DYN;
    head->e_phoff = offsetof(both_file, parts);
    head->e_phnum = 3;
    head->e_entry = head->e_shoff = head->e_shnum = head->e_shstrndx = 0;
    made->parts[0] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_align = 65536};
    made->parts[0].p_filesz = made->parts[0].p_memsz = sizeof *made;
    made->parts[1] = (ElfW(Phdr)){.p_type = PT_DYNAMIC, .p_flags = PF_R | PF_W, .p_align = 8};
    made->parts[1].p_offset = made->parts[1].p_vaddr = made->parts[1].p_paddr = table;
    made->parts[1].p_filesz = made->parts[1].p_memsz = sizeof made->dynamic;
    made->parts[2] = (ElfW(Phdr)){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
    made->dynamic[0] = (ElfW(Dyn)){DT_NEEDED, {add_name(made, &used, copy)}};
    made->dynamic[1] = (ElfW(Dyn)){DT_NEEDED, {add_name(made, &used, image)}};
    made->dynamic[2] = (ElfW(Dyn)){DT_RPATH, {add_name(made, &used, search)}};
    made->dynamic[3] = (ElfW(Dyn)){DT_STRTAB, {names}};
    made->dynamic[4] = (ElfW(Dyn)){DT_STRSZ, {sizeof made->names}};
    made->dynamic[5] = (ElfW(Dyn)){DT_SYMTAB, {offsetof(both_file, none)}};
    made->dynamic[6] = (ElfW(Dyn)){DT_SYMENT, {sizeof(ElfW(Sym))}};
    return made;
}

// ---- The search path of a library ---------------------------------------------------------------
static off_t place_of(int file, const ElfW(Ehdr) * head, ElfW(Addr) address) {
    ElfW(Phdr) part;
    for (int i = 0; i < head->e_phnum; i++) {
        off_t at = (off_t)(head->e_phoff + (size_t)i * sizeof part);
        if (pread(file, &part, sizeof part, at) == (ssize_t)sizeof part && part.p_type == PT_LOAD &&
            address - part.p_vaddr < part.p_filesz) {
            return (off_t)(address - part.p_vaddr + part.p_offset);
        }
    }
    return -1;
}

static void expand(char *out, size_t bytes, const char *search, const char *folder) {
    size_t used = 0;
    for (const char *at = search; *at != 0 && used + 1 < bytes;) {
        size_t skipped = strncmp(at, "$ORIGIN", 7) == 0 ? 7 : 0;
        skipped = strncmp(at, "${ORIGIN}", 9) == 0 ? 9 : skipped;
        int wrote = skipped > 0 ? snprintf(out + used, bytes - used, "%s", folder)
                                : snprintf(out + used, bytes - used, "%c", *at);
        used += wrote > 0 ? (size_t)wrote : 0;
        at += skipped > 0 ? skipped : 1;
    }
    out[used < bytes ? used : bytes - 1] = 0;
}

// The copy is in another folder than the library: writes the search path of the copy into `out`,
// with the library's folder in it.
static void take_search_path(char *out, size_t bytes, int file, const char *path) {
    ElfW(Ehdr) head;
    ElfW(Phdr) part, dynamic = {0};
    ElfW(Dyn) entry;
    ElfW(Addr) names = 0;
    off_t at = 0, found = -1;
    ElfW(Xword) name = 0;
    char search[PATH_MAX] = "", folder[PATH_MAX];
    out[0] = 0;
    if (pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head) {
        return;
    }
    for (int i = 0; i < head.e_phnum; i++) {
        at = (off_t)(head.e_phoff + (size_t)i * sizeof part);
        bool whole = pread(file, &part, sizeof part, at) == (ssize_t)sizeof part;
        dynamic = whole && part.p_type == PT_DYNAMIC ? part : dynamic;
    }
    for (size_t i = 0; i < dynamic.p_filesz; i += sizeof entry) {
        at = (off_t)(dynamic.p_offset + i);
        if (pread(file, &entry, sizeof entry, at) != (ssize_t)sizeof entry ||
            entry.d_tag == DT_NULL) {
            break;
        }
        names = entry.d_tag == DT_STRTAB ? entry.d_un.d_ptr : names;
        if (entry.d_tag == DT_RUNPATH || (entry.d_tag == DT_RPATH && found < 0)) {
            found = at;
            name = entry.d_un.d_val;
        }
    }
    off_t text = found >= 0 ? place_of(file, &head, names) : -1;
    if (text < 0 || realpath(path, folder) == NULL ||
        pread(file, search, sizeof search - 1, text + (off_t)name) <= 0) {
        return;
    }
    entry = (ElfW(Dyn)){.d_tag = DT_DEBUG};
    if (pwrite(file, &entry, sizeof entry, found) == (ssize_t)sizeof entry) {
        *strrchr(folder, '/') = 0;
        expand(out, bytes, search, folder);
    }
}

// ---- Opening ------------------------------------------------------------------------------------
static int unnamed(char *path, size_t bytes) {
    const char *folder = ls_mpi__state.folder;
    return ls_mpi__unnamed_file(path, bytes, folder,
                                ls_mpi__state.rank_count + atomic_fetch_add(&opened, 1));
}

static void *open_both(plugin *of, const char *path, int mode, const char *image) {
    char copy[256], search[PATH_MAX];
    void *handle = NULL;
    int second = -1, first = unnamed(copy, sizeof copy);
    if (first >= 0 && ls_mpi__copy_file(first, copy, path) == LS_OK) {
        take_search_path(search, sizeof search, first, path);
        second = unnamed(of->both, sizeof of->both);
    }
    if (second >= 0) {
        both_file *made = make_both(copy, image, search);
        if (write(second, made, sizeof *made) == (ssize_t)sizeof *made) {
            handle = dlopen(of->both, mode | RTLD_DEEPBIND);
        }
        free(made);
        (void)close(second);
    }
    if (first >= 0) {
        (void)close(first);
    }
    return handle;
}

static plugin *find(const mpi_rank *owner, const struct stat *about) {
    (void)pthread_mutex_lock(&looking);
    plugin *at = plugins;
    while (at != NULL &&
           (at->owner != owner || at->device != about->st_dev || at->file != about->st_ino)) {
        at = at->next;
    }
    (void)pthread_mutex_unlock(&looking);
    return at;
}

static void *open_copy(const mpi_rank *owner, const char *path, int mode, const char *image) {
    struct stat about;
    if (stat(path, &about) != 0) {
        return dlopen(path, mode);
    }
    plugin *known = find(owner, &about);
    void *handle = known != NULL ? dlopen(known->both, mode | RTLD_NOLOAD) : NULL;
    if (handle != NULL || (mode & RTLD_NOLOAD) != 0) {
        return handle;
    }
    plugin *made = ls_mpi__alloc(sizeof *made);
    *made = (plugin){.owner = owner, .device = about.st_dev, .file = about.st_ino};
    handle = open_both(made, path, mode, image);
    (void)pthread_mutex_lock(&looking);
    made->next = plugins;
    plugins = made;
    (void)pthread_mutex_unlock(&looking);
    return handle;
}

void *ls_mpi_open_library(const char *path, int mode, const void *caller) {
    const mpi_rank *owner = ls_mpi__rank_of_code(caller);
    Dl_info about;
    if (owner == NULL || dladdr(caller, &about) == 0) {
        return dlopen(path, mode);
    }
    if (path == NULL) {
        return dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    if (strchr(path, '/') == NULL) {
        return dlopen(path, mode);
    }
    // A library that this process or another library uses exists once.
    void *shared = dlopen(path, mode | RTLD_NOLOAD);
    return shared != NULL ? shared : open_copy(owner, path, mode, about.dli_fname);
}
