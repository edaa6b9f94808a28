// Runs a program: each rank gets a copy of its image, so that globals are its own, and its own
// main.
#define _GNU_SOURCE  // dl_iterate_phdr, dlinfo, unshare
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/image/image.h"
#include "mpi/coll.h"

extern char **environ;

typedef struct image {
    void *library;
    ls_mpi_image_main_function main;
    char path[512];
} image;

typedef struct launch {
    const ls_mpi_options *options;
    image *images;  // [ranks]
    char folder[256];
} launch;

// ---- Images -------------------------------------------------------------------------------------
static int copy_file(const char *to, const char *from) {
    struct stat about;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &about) != 0) {
        int status = LS_FAIL(LS_ERR_IO, "%s: %s", from, strerror(errno));
        if (in >= 0) {
            (void)close(in);
        }
        return status;
    }
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700), status = LS_OK;
    for (off_t left = about.st_size; out >= 0 && left > 0 && status == LS_OK;) {
        ssize_t moved = sendfile(out, in, NULL, (size_t)left);
        left -= moved > 0 ? moved : 0;
        status = moved <= 0 ? LS_FAIL(LS_ERR_IO, "%s: %s", to, strerror(errno)) : LS_OK;
    }
    status = out < 0 ? LS_FAIL(LS_ERR_IO, "%s: %s", to, strerror(errno)) : status;
    (void)close(in);
    if (out >= 0) {
        (void)close(out);
    }
    return status;
}

// An executable that a build system has linked by itself (docs/mpi.md) is opened as a library is:
// in the copy, the flag that forbids it goes. Its thread-local variables would not be its own.
static int open_executable(const char *path) {
    ElfW(Ehdr) head;
    int status = LS_OK, file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head) {
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
    if (file >= 0) {
        (void)close(file);
    }
    return status == LS_OK && pie && threads
               ? LS_FAIL(LS_ERR_UNSUPPORTED,
                         "%s: an executable with thread-local variables; "
                         "link it with lockstep-cc",
                         path)
               : status;
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

static int open_image(launch *l, int rank) {
    image *made = &l->images[rank];
    const char *slash = strrchr(l->options->image, '/');
    (void)snprintf(made->path, sizeof made->path, "%s/%.200s.%d", l->folder,
                   slash != NULL ? slash + 1 : l->options->image, rank);
    LS_TRY(copy_file(made->path, l->options->image));
    LS_TRY(open_executable(made->path));
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
    struct link_map *map = NULL;
    if (dlinfo(made->library, RTLD_DI_LINKMAP, &map) == 0) {
        code found = {.base = map->l_addr};
        (void)dl_iterate_phdr(find_code, &found);
        ls_mpi__state.ranks[rank].code_low = (const char *)found.low;
        ls_mpi__state.ranks[rank].code_high = (const char *)found.high;
    }
    if (!l->options->keep_images) {
        (void)unlink(made->path);
        made->path[0] = 0;
    }
    return LS_OK;
}

static int open_images(launch *l) {
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(l->folder, sizeof l->folder, "%.200s/lockstep-mpi-XXXXXX",
                   tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(l->folder) == NULL) {
        return LS_FAIL(LS_ERR_IO, "%s: %s", l->folder, strerror(errno));
    }
    for (int r = 0; r < l->options->spmd.ranks; r++) {
        LS_TRY(open_image(l, r));
    }
    if (!l->options->keep_images) {
        (void)rmdir(l->folder);  // they are loaded, and their files gone
    }
    return LS_OK;
}

static void close_images(launch *l) {
    for (int r = 0; l->images != NULL && r < l->options->spmd.ranks; r++) {
        if (l->images[r].library != NULL) {
            (void)dlclose(l->images[r].library);
        }
        if (l->images[r].path[0] != 0) {
            (void)unlink(l->images[r].path);
        }
    }
    (void)rmdir(l->folder);
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

// What it prints goes to a file of its own: as a process, its thread has a table of open files.
static int print_apart(const char *folder, int rank) {
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/rank_%05d.out", folder, rank);
    int file = unshare(CLONE_FILES) == 0 ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) {
        return LS_FAIL(LS_ERR_IO, "%s: %s", path, strerror(errno));
    }
    (void)close(file);
    return LS_OK;
}

static int program(ls_rank *self, void *arg) {
    const launch *l = arg;
    mpi_rank *me = &ls_mpi__state.ranks[self->id];
    if (l->options->printed != NULL && print_apart(l->options->printed, self->id) != LS_OK) {
        ls_schedule__enter(self);
        ls_spmd__fail(self->run, LS_ERR_IO, ls_error_last()->text);
        ls_schedule__leave(self);
        return 1;
    }
    open_rank(me, self);
    // Programs change their arguments.
    char **argv = ls_mpi__alloc((size_t)(l->options->argc + 1) * sizeof *argv);
    for (int i = 0; i < l->options->argc; i++) {
        argv[i] = strdup(l->options->argv[i]);
    }
    me->argc = l->options->argc;
    me->argv = argv;
    int status = l->images[self->id].main(l->options->argc, argv, environ);
    ls_mpi__returned(me);
    return status;
}

// exit, _exit and abort of a program, as lockstep-cc links them.
void ls_mpi_exit(int status) {
    mpi_rank *me = ls_mpi__enter_any("exit");
    ls_mpi__returned(me);
    ls_mpi__end(me, status);
}

// Outside of a rank, as after the run, it does what it does by default.
static void on_signal(int number) {
    ls_rank *rank = ls_schedule__current();
    if (rank != NULL && rank->escape != NULL && pthread_equal(rank->thread, pthread_self()) != 0 &&
        !ls_schedule__inside()) {
        rank->signal = number;
        siglongjmp(*rank->escape, LS_ESCAPE_SIGNAL);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

// ---- The run ------------------------------------------------------------------------------------
const ls_front ls_mpi__front = {.met = ls_mpi__met,
                                .message = ls_mpi__message,
                                .choose = ls_mpi__explore_choose,
                                .survives_signals = true};

static const int signals[] = {SIGABRT, SIGFPE, SIGBUS, SIGILL};
#define SIGNAL_COUNT (sizeof signals / sizeof signals[0])

static void close_rank(mpi_rank *me) {
    ls_mpi__handles_close(me);
    for (int i = 0; i < me->argc; i++) {
        free(me->argv[i]);
    }
    free(me->argv);
    free((void *)me->rivals);
    free(me->clock);
}

// Whatever a rank may look at of another, and all that they share: before any of them starts, since
// the schedule may start any of them first.
static void make_state(const ls_mpi_options *options) {
    int count = options->spmd.ranks;
    ls_mpi__state = (mpi_state){.options = options, .rank_count = count};
    ls_mpi__state.ranks = ls_mpi__alloc((size_t)count * sizeof(mpi_rank));
    ls_mpi__types_make();
    ls_mpi__ops_make();
    for (int r = 0; r < count; r++) {
        mpi_rank *rank = &ls_mpi__state.ranks[r];
        rank->id = r;
        rank->clock = ls_mpi__alloc((size_t)count * sizeof(uint64_t));
        rank->clock[r] = 1;
    }
}

int ls_mpi_run(ls_spmd_result **out, const ls_mpi_options *options) {
    LS_ASSERT(ls_mpi__state.options == NULL);
    int count = options->spmd.ranks;
    launch l = {.options = options};
    *out = NULL;
    make_state(options);
    l.images = ls_mpi__alloc((size_t)count * sizeof *l.images);
    int status = open_images(&l);
    if (status == LS_OK) {
        struct sigaction own = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
        for (size_t i = 0; i < SIGNAL_COUNT; i++) {
            (void)sigaction(signals[i], &own, NULL);
        }
        if (options->printed != NULL) {  // what one rank printed is not for the next to write
            (void)fflush(stdout);
            (void)setvbuf(stdout, NULL, _IONBF, 0);
        }
        ls_spmd_options spmd = options->spmd;
        spmd.front = &ls_mpi__front;
        status = ls_spmd_run(out, program, &l, &spmd);
        (void)fflush(NULL);
    }
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
