// See core.h. The file begins with its notes and the pages; the program headers are at its end.
#define _GNU_SOURCE  // PTRACE_SEIZE, the registers' sets
#include "process/core.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "process/core_memory.h"

#define STOP_TRIES  10000  // of a thread, a millisecond each
#define NOTES_BYTES 4096   // of a thread, and of the process

typedef struct thread {
    pid_t id;
    int signal;  // that it was about to receive; 0: none
    prstatus_t status;
    elf_fpregset_t floats;
} thread;

typedef struct core {
    pid_t process;
    thread *threads;
    size_t count, capacity;
} core;

// ---- Threads ------------------------------------------------------------------------------------
static bool has(const core *c, pid_t id) {
    size_t i = 0;
    while (i < c->count && c->threads[i].id != id) {
        i += 1;
    }
    return i < c->count;
}

// A thread that has ended in the meantime is left out.
static bool stop(thread *out, pid_t id) {
    *out = (thread){.id = id};
    if (ptrace(PTRACE_SEIZE, id, NULL, NULL) != 0) {
        return false;
    }
    int how = 0;
    pid_t got = 0;
    (void)ptrace(PTRACE_INTERRUPT, id, NULL, NULL);
    for (int i = 0; i < STOP_TRIES && (got = waitpid(id, &how, __WALL | WNOHANG)) == 0; i++) {
        (void)usleep(1000);
    }
    if (got != id || !WIFSTOPPED(how)) {
        (void)ptrace(PTRACE_DETACH, id, NULL, NULL);
        return false;
    }
    out->signal = how >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(how);
    out->status.pr_pid = id;
    out->status.pr_cursig = SIGTRAP;
    struct iovec general = {&out->status.pr_reg, sizeof out->status.pr_reg};
    struct iovec floats = {&out->floats, sizeof out->floats};
    out->status.pr_fpvalid = ptrace(PTRACE_GETREGSET, id, NT_PRFPREG, &floats) == 0;
    if (ptrace(PTRACE_GETREGSET, id, NT_PRSTATUS, &general) != 0) {
        (void)ptrace(PTRACE_DETACH, id, NULL, NULL);
        return false;
    }
    return true;
}

static int add_thread(core *c, pid_t id) {
    if (c->count == c->capacity) {
        size_t room = c->capacity == 0 ? 64 : 2 * c->capacity;
        thread *grown = realloc(c->threads, room * sizeof *grown);
        if (grown == NULL) {
            return LS_FAIL(LS_ERR_MEMORY, "no memory for the threads of a core file");
        }
        c->threads = grown;
        c->capacity = room;
    }
    c->count += stop(&c->threads[c->count], id) ? 1 : 0;
    return LS_OK;
}

// Until a pass finds no new thread: those that run may start others.
static int stop_all(core *c, pid_t first) {
    char path[64];
    LS_TRY(add_thread(c, first));
    int why = errno;
    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)c->process);
    for (size_t before = SIZE_MAX; before != c->count;) {
        before = c->count;
        DIR *tasks = opendir(path);
        int status = LS_OK;
        for (const struct dirent *at; tasks != NULL && (at = readdir(tasks)) != NULL;) {
            pid_t id = (pid_t)strtol(at->d_name, NULL, 10);
            if (id > 0 && !has(c, id) && status == LS_OK) {
                status = add_thread(c, id);
            }
        }
        if (tasks != NULL) {
            (void)closedir(tasks);
        }
        LS_TRY(status);
    }
    return c->count > 0 ? LS_OK
                        : LS_FAIL(LS_ERR_RESOURCE, "cannot trace process %ld: %s", (long)c->process,
                                  strerror(why));
}

static void release(core *c) {
    for (size_t i = 0; i < c->count; i++) {
        (void)ptrace(PTRACE_DETACH, c->threads[i].id, NULL, (void *)(intptr_t)c->threads[i].signal);
    }
    free(c->threads);
}

// ---- Notes --------------------------------------------------------------------------------------
static void note(ls_text *out, uint32_t type, const void *data, size_t bytes) {
    static const char zeros[4] = "";
    const ElfW(Nhdr) head = {.n_namesz = 5, .n_descsz = (uint32_t)bytes, .n_type = type};
    ls_text_append(out, (const char *)&head, sizeof head);
    ls_text_append(out, "CORE\0\0\0", 8);
    ls_text_append(out, data, bytes);
    ls_text_append(out, zeros, (4 - bytes % 4) % 4);
}

static size_t read_whole(char *out, size_t room, pid_t process, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%ld/%s", (long)process, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, out, room) : 0;
    if (file >= 0) {
        (void)close(file);
    }
    return got > 0 ? (size_t)got : 0;
}

static void add_notes(ls_text *out, const core *c) {
    char vector[NOTES_BYTES], words[sizeof((prpsinfo_t *)0)->pr_psargs] = "";
    prpsinfo_t about = {.pr_sname = 'R', .pr_pid = c->process};
    size_t length = read_whole(words, sizeof words - 1, c->process, "cmdline");
    for (size_t i = 0; i < length; i++) {
        words[i] = words[i] == 0 ? ' ' : words[i];
    }
    memcpy(about.pr_psargs, words, sizeof words);
    length = read_whole(about.pr_fname, sizeof about.pr_fname - 1, c->process, "comm");
    about.pr_fname[length > 0 ? length - 1 : 0] = 0;
    for (size_t i = 0; i < c->count; i++) {
        note(out, NT_PRSTATUS, &c->threads[i].status, sizeof c->threads[i].status);
        if (i == 0) {
            note(out, NT_PRPSINFO, &about, sizeof about);
            note(out, NT_AUXV, vector, read_whole(vector, sizeof vector, c->process, "auxv"));
        }
        if (c->threads[i].status.pr_fpvalid) {
            note(out, NT_FPREGSET, &c->threads[i].floats, sizeof c->threads[i].floats);
        }
    }
}

// ---- The file -----------------------------------------------------------------------------------
static uintptr_t stack_of(const thread *t) {
#if defined(__x86_64__)
    return (uintptr_t)((const struct user_regs_struct *)&t->status.pr_reg)->rsp;
#elif defined(__aarch64__)
    return (uintptr_t)((const struct user_regs_struct *)&t->status.pr_reg)->sp;
#else
    (void)t;
    return 0;
#endif
}

static int machine(void) {
    ElfW(Ehdr) own = {0};
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!read(file, &own, sizeof own);
        (void)close(file);
    }
    return own.e_machine;
}

static int write_all(ls_core_written *out, const core *c, ls_core_memory *memory, int file) {
    ls_text notes = {0};
    add_notes(&notes, c);
    ElfW(Ehdr) head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_CORE,
        .e_machine = (ElfW(Half))machine(),
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(ElfW(Ehdr)),
        .e_phentsize = sizeof(ElfW(Phdr))};
    const ElfW(Phdr) first = {
        .p_type = PT_NOTE, .p_offset = sizeof head, .p_filesz = notes.length, .p_align = 4};
    int status = notes.failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the notes") : LS_OK;
    status =
        status == LS_OK ? ls_core_memory__put(file, notes.data, notes.length, sizeof head) : status;
    memory->file = file;
    memory->end = sizeof head + notes.length;
    for (size_t i = 0; i < c->count && status == LS_OK; i++) {
        status = ls_core_memory__stack(memory, stack_of(&c->threads[i]), c->count);
    }
    status = status == LS_OK ? ls_core_memory__rest(memory) : status;
    ls_text_free(&notes);
    LS_TRY(status);
    head.e_phoff = memory->end;
    head.e_phnum = (ElfW(Half))(memory->part_count + 1);
    size_t bytes = memory->part_count * sizeof *memory->parts;
    LS_TRY(ls_core_memory__put(file, &first, sizeof first, memory->end));
    LS_TRY(ls_core_memory__put(file, memory->parts, bytes, memory->end + sizeof first));
    LS_TRY(ls_core_memory__put(file, &head, sizeof head, 0));
    *out = (ls_core_written){.bytes = memory->end + sizeof first + bytes,
                             .left_out = memory->left_out};
    return LS_OK;
}

int ls_core_write(ls_core_written *out, const char *path, pid_t process, pid_t first) {
    LS_ASSERT(out != NULL && path != NULL && process > 0 && first > 0);
    core c = {.process = process};
    ls_core_memory memory = {.process = process};
    *out = (ls_core_written){0};
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        return LS_FAIL(ls_status_of_errno(errno), "%s: %s", path, strerror(errno));
    }
    struct sigaction before;
    (void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, &before);  // an error
    int status = stop_all(&c, first);
    status = status == LS_OK ? ls_core_memory__open(&memory) : status;
    status = status == LS_OK ? write_all(out, &c, &memory, file) : status;
    release(&c);
    (void)sigaction(SIGXFSZ, &before, NULL);
    ls_core_memory__close(&memory);
    (void)close(file);
    if (status != LS_OK) {
        (void)unlink(path);
    }
    return status;
}
