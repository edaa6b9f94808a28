// Runs a program: each rank gets a copy of its image, so its globals are separate, and its own
// main.
#define _GNU_SOURCE  // dl_iterate_phdr, dlinfo, unshare
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/image/image.h"
#include "mpi/coll.h"
#include "mpi/rma.h"
#include "mpi/signals.h"
#include "ranks/seen.h"

extern char **environ;

#define SYMBOLS_BYTES_MAX (UINT64_C(1) << 28)

typedef struct image {
    void *library;
    ls_mpi_image_main_function main;
    char path[512];
    bool ended;  // its main and its exit handlers have returned
} image;

typedef struct launch {
    const ls_mpi_options *options;
    image *images;  // [ranks]
    char folder[256];
    char **environment;  // of the process
} launch;

// ---- Images -------------------------------------------------------------------------------------
int ls_mpi__copy_file(int out, const char *to, const char *from) {
    struct stat about;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &about) != 0) {
        int status = LS_FAIL(LS_ERR_IO, "%s: %s", from, strerror(errno));
        if (in >= 0) {
            (void)close(in);
        }
        return status;
    }
    int status = LS_OK;
    for (off_t left = about.st_size; left > 0 && status == LS_OK;) {
        ssize_t moved = sendfile(out, in, NULL, (size_t)left);
        left -= moved > 0 ? moved : 0;
        status = moved <= 0 ? LS_FAIL(LS_ERR_RESOURCE, "%s: %s", to, strerror(errno)) : LS_OK;
    }
    (void)close(in);
    return status;
}

// Opens an executable that a build system has linked without lockstep-cc (docs/mpi.md): clears the
// flag in the copy that forbids dlopen. Its thread-local variables would not be separate.
static int open_executable(int file, const char *path) {
    ElfW(Ehdr) head;
    int status = LS_OK;
    if (pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head) {
        status = LS_FAIL(LS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    ElfW(Phdr) part, dynamic = {0};
    bool pie = false, threads = false;
    for (int i = 0; status == LS_OK && i < head.e_phnum; i++) {
        off_t at = (off_t)(head.e_phoff + (size_t)i * sizeof part);
        bool whole = pread(file, &part, sizeof part, at) == (ssize_t)sizeof part;
        dynamic = whole && part.p_type == PT_DYNAMIC ? part : dynamic;
        threads = threads || (whole && part.p_type == PT_TLS);
    }
    for (size_t at = 0; status == LS_OK && at < dynamic.p_filesz; at += sizeof(ElfW(Dyn))) {
        ElfW(Dyn) entry;
        off_t place = (off_t)(dynamic.p_offset + at);
        if (pread(file, &entry, sizeof entry, place) == (ssize_t)sizeof entry &&
            entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0) {
            entry.d_un.d_val &= ~(ElfW(Xword))DF_1_PIE;
            pie = pwrite(file, &entry, sizeof entry, place) == (ssize_t)sizeof entry;
        }
    }
    return status == LS_OK && pie && threads
               ? LS_FAIL(LS_ERR_UNSUPPORTED,
                         "%s: an executable with thread-local variables; "
                         "link it with lockstep-cc",
                         path)
               : status;
}

// Makes the external variables local in the symbol table, which only debuggers read: gdb before 15
// takes the first library's variable of a name for all of them, since a program may have a copy.
static void separate_variables(int file) {
    ElfW(Ehdr) head;
    ElfW(Shdr) section;
    bool good = pread(file, &head, sizeof head, 0) == (ssize_t)sizeof head &&
                head.e_shentsize == sizeof section;
    for (int i = 0; good && i < head.e_shnum; i++) {
        off_t at = (off_t)(head.e_shoff + (size_t)i * sizeof section);
        good = pread(file, &section, sizeof section, at) == (ssize_t)sizeof section;
        ElfW(Sym) *symbols = NULL;
        if (good && section.sh_type == SHT_SYMTAB && section.sh_size < SYMBOLS_BYTES_MAX) {
            symbols = malloc(section.sh_size);
        }
        size_t count =
            symbols != NULL && pread(file, symbols, section.sh_size, (off_t)section.sh_offset) ==
                                   (ssize_t)section.sh_size
                ? section.sh_size / sizeof *symbols
                : 0;
        for (size_t k = 0; k < count; k++) {
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_OBJECT) {
                symbols[k].st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
            }
        }
        if (count > 0) {
            (void)!pwrite(file, symbols, count * sizeof *symbols, (off_t)section.sh_offset);
        }
        free(symbols);
    }
}

typedef struct code {
    uintptr_t base, low, high;
} code;

static int find_code(struct dl_phdr_info *info, size_t size, void *arg) {
    code *at = arg;
    (void)size;
    if (info->dlpi_addr != at->base) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
        at->high = header->p_type == PT_LOAD && end > at->high ? end : at->high;
    }
    at->low = at->base;
    return 1;
}

int ls_mpi__unnamed_file(char *path, size_t bytes, const char *folder, int number) {
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0700);
    if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        file = memfd_create("lockstep-mpi", MFD_CLOEXEC);
    }
    if (file < 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "no temporary file in %s: %s", folder, strerror(errno));
    }
    size_t used = (size_t)snprintf(path, bytes, "/proc/thread-self/fd");
    for (int bit = 0; bit < 24; bit++) {
        used += (size_t)snprintf(path + used, bytes - used, "%s",
                                 (number >> bit) % 2 != 0 ? "/." : "//");
    }
    (void)snprintf(path + used, bytes - used, "/%d", file);
    return file;
}

static int load_image(launch *l, int rank, int file) {
    image *made = &l->images[rank];
    LS_TRY(ls_mpi__copy_file(file, l->folder, l->options->image));
    LS_TRY(open_executable(file, l->options->image));
    if (l->options->images != NULL) {
        separate_variables(file);
    }
    made->library = dlopen(made->path, RTLD_NOW | RTLD_LOCAL);
    if (made->library == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "%s", dlerror());
    }
    void *symbol = dlsym(made->library, LS_MPI_IMAGE_MAIN);
    if (symbol == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "%s was not linked by lockstep-cc or lockstep-c++",
                       l->options->image);
    }
    memcpy(&made->main, &symbol, sizeof symbol);
    ls_mpi__state.ranks[rank].library = made->library;
    struct link_map *map = NULL;
    if (dlinfo(made->library, RTLD_DI_LINKMAP, &map) == 0) {
        code found = {.base = map->l_addr};
        (void)dl_iterate_phdr(find_code, &found);
        ls_mpi__state.ranks[rank].code_low = (const char *)found.low;
        ls_mpi__state.ranks[rank].code_high = (const char *)found.high;
    }
    return LS_OK;
}

static int open_image(launch *l, int rank) {
    image *made = &l->images[rank];
    const char *slash = strrchr(l->options->image, '/');
    int file;
    if (l->options->images != NULL) {
        const char *folder = l->options->images;
        int length = snprintf(made->path, sizeof made->path, "%s/%.200s.%d", folder,
                              slash != NULL ? slash + 1 : l->options->image, rank);
        if (length < 0 || (size_t)length >= sizeof made->path) {
            return LS_FAIL(LS_ERR_INVALID, "%.200s...: the path is too long", folder);
        }
        file = open(made->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
        file = file >= 0 ? file : LS_FAIL(LS_ERR_RESOURCE, "%s: %s", made->path, strerror(errno));
    } else {
        file = ls_mpi__unnamed_file(made->path, sizeof made->path, l->folder, rank);
    }
    if (file < 0) {
        return file;
    }
    int status = load_image(l, rank, file);
    (void)close(file);
    return status;
}

static int open_images(launch *l) {
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(l->folder, sizeof l->folder, "%.200s",
                   tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    ls_mpi__state.folder = l->folder;
    // OpenMP's threads sleep instead of spinning, because a rank waits for those that run. libgomp
    // reads this when it is loaded with the first image.
    bool unset = getenv("OMP_WAIT_POLICY") == NULL;
    (void)(unset ? setenv("OMP_WAIT_POLICY", "passive", 0) : 0);
    int status = LS_OK;
    for (int r = 0; r < l->options->spmd.ranks && status == LS_OK; r++) {
        status = open_image(l, r);
    }
    (void)(unset ? unsetenv("OMP_WAIT_POLICY") : 0);
    return status;
}

static void close_images(launch *l) {
    for (int r = 0; l->images != NULL && r < l->options->spmd.ranks; r++) {
        // A rank that did not reach its end still has exit handlers registered.
        if (l->images[r].library != NULL && l->images[r].ended) {
            (void)dlclose(l->images[r].library);
        }
        if (l->options->images != NULL) {
            (void)unlink(l->images[r].path);
        }
    }
    free(l->images);
}

// ---- A rank -------------------------------------------------------------------------------------
static void open_rank(mpi_rank *me, ls_rank *rank) {
    ls_mpi__state.run = rank->run;
    me->rank = rank;
    ls_schedule__enter(rank);
    ls_mpi__types_open(me);
    ls_mpi__ops_open(me);
    ls_mpi__infos_open(me);
    ls_mpi__handle_constant(me, MPI_KIND_GROUP, 1, ls_mpi__group_make(0));
    ls_mpi__comms_open(me);
    ls_schedule__leave(rank);
}

// Redirects the rank's output to a separate file.
static int print_apart(const char *folder, int rank) {
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/rank_%05d.out", folder, rank);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) {
        return LS_FAIL(LS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    (void)close(file);
    return LS_OK;
}

// A process has an environment of its own. Ranks that run in parallel share one.
static char **own_environment(char **of) {
    size_t count = 0;
    while (of[count] != NULL) {
        count += 1;
    }
    char **made = ls_mpi__alloc((count + 1) * sizeof *made);
    memcpy(made, of, count * sizeof *made);
    return made;
}

static int program(ls_rank *self, void *arg) {
    launch *l = arg;
    mpi_rank *me = &ls_mpi__state.ranks[self->id];
    // A process has a table of open files of its own: a descriptor that it closes stays open for
    // others.
    int status = unshare(CLONE_FILES) == 0
                     ? LS_OK
                     : LS_FAIL(LS_ERR_RESOURCE, "no table of open files: %s", strerror(errno));
    if (status == LS_OK && l->options->printed != NULL) {
        status = print_apart(l->options->printed, self->id);
    }
    if (status != LS_OK) {
        ls_schedule__enter(self);
        ls_spmd__fail(self->run, status, ls_error_last()->text);
        ls_schedule__leave(self);
        return 1;
    }
    self->environment = self->run->parallel ? NULL : own_environment(l->environment);
    environ = self->environment != NULL ? self->environment : environ;
    open_rank(me, self);
    // Programs change their arguments.
    char **argv = ls_mpi__alloc((size_t)(l->options->argc + 1) * sizeof *argv);
    for (int i = 0; i < l->options->argc; i++) {
        argv[i] = strdup(l->options->argv[i]);
    }
    me->argc = l->options->argc;
    me->argv = argv;
    status = l->images[self->id].main(l->options->argc, argv, environ);
    l->images[self->id].ended = !self->run->has_threads;  // which may be in libraries of the image
    ls_mpi__returned(me);
    return status;
}

// exit and _exit of a program that lockstep-cc linked; at once: without a flush.
void ls_mpi_exit(int status, int at_once) {
    if (ls_seen__forked) {
        (void)(at_once != 0 ? 0 : fflush(NULL));
        _exit(status);
    }
    mpi_rank *me = ls_mpi__enter_any("exit");
    ls_mpi__returned(me);
    ls_mpi__end(me, status);
}

static void close_rank(mpi_rank *me) {
    ls_mpi__signals_close(me);
    ls_mpi__handles_close(me);
    for (int i = 0; i < me->argc; i++) {
        free(me->argv[i]);
    }
    free(me->argv);
    ls_mpi__threads_close(me);
}

// Prepares everything that ranks share or read of each other before any rank starts, since the
// schedule may start any of them first.
static void make_state(const ls_mpi_options *options) {
    int count = options->spmd.ranks;
    ls_mpi__state = (mpi_state){.options = options, .rank_count = count};
    ls_mpi__state.ranks = ls_mpi__alloc((size_t)count * sizeof(mpi_rank));
    ls_mpi__types_make();
    ls_mpi__ops_make();
    for (int r = 0; r < count; r++) {
        mpi_rank *rank = &ls_mpi__state.ranks[r];
        rank->id = r;
        ls_mpi__threads_open(rank);
        ls_mpi__signals_open(rank);
    }
}

int ls_mpi_run(ls_spmd_result **out, const ls_mpi_options *options) {
    LS_ASSERT(ls_mpi__state.options == NULL);
    int count = options->spmd.ranks;
    launch l = {.options = options, .environment = environ};
    *out = NULL;
    make_state(options);
    l.images = ls_mpi__alloc((size_t)count * sizeof *l.images);
    int status = open_images(&l);
    if (status == LS_OK) {
        ls_mpi__objects_open(options->image);
        if (options->printed != NULL) {  // flush, so that the next rank does not write this rank's
                                         // output
            (void)fflush(stdout);
            (void)setvbuf(stdout, NULL, _IONBF, 0);
        }
        status = ls_spmd__run_front(out, program, &l, &options->spmd, &ls_mpi__front);
        (void)fflush(NULL);
    }
    environ = l.environment;
    ls_mpi__objects_close();
    ls_mpi__blocks_end();
    close_images(&l);
    for (int r = 0; r < count; r++) {
        close_rank(&ls_mpi__state.ranks[r]);
    }
    ls_mpi__race_end();
    ls_mpi__explore_end();
    ls_mpi__parts_end();
    free(ls_mpi__state.ranks);
    ls_mpi__state = (mpi_state){0};
    return status;
}
