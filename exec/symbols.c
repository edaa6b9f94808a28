// Addresses of code as functions, files and lines, by elfutils' libdw where the build has it; else
// the module and the offset in it, which addr2line reads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"
#include "process/child.h"
#include "process/descriptor.h"

#ifdef LOCKSTEP_HAVE_DW
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#endif

#define FRAMES_SHOWN 8

// The symbol of one address.
typedef struct symbol {
    char function[128];
    char file[256];
    int line;
} symbol;

#ifdef LOCKSTEP_HAVE_DW
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

typedef struct module {
    struct module *next;
    Dwfl *dwfl;
    Dwfl_Module *dwarf;
    Dwarf_Addr low;
    char path[];
} module;

// Asks go to a process of their own: libdw ends its process, or crashes, where it gets no memory.
typedef struct question {
    size_t offset;
    char path[1024];
} question;

static module *module_of(module **modules, const char *path) {
    for (module *at = *modules; at != NULL; at = at->next) {
        if (strcmp(at->path, path) == 0) {
            return at;
        }
    }
    size_t length = strlen(path);
    module *made = calloc(1, sizeof *made + length + 1);
    if (made == NULL) {
        return NULL;
    }
    memcpy(made->path, path, length + 1);
    made->next = *modules;
    *modules = made;
    made->dwfl = dwfl_begin(&callbacks);
    if (made->dwfl != NULL) {
        dwfl_report_begin(made->dwfl);
        made->dwarf = dwfl_report_offline(made->dwfl, path, path, -1);
        (void)dwfl_report_end(made->dwfl, NULL, NULL);
        if (made->dwarf != NULL) {
            (void)dwfl_module_info(made->dwarf, NULL, &made->low, NULL, NULL, NULL, NULL, NULL);
        }
    }
    return made;
}

// Whether there was the memory for it.
static bool ask(module **modules, symbol *out, const char *path, size_t offset) {
    errno = 0;
    const module *in = module_of(modules, path);
    if (in == NULL || in->dwarf == NULL) {
        return errno != ENOMEM;
    }
    Dwarf_Addr address = in->low + offset;
    const char *function = dwfl_module_addrname(in->dwarf, address);
    Dwfl_Line *line = dwfl_module_getsrc(in->dwarf, address);
    int number = 0;
    const char *file = line != NULL ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;
    (void)snprintf(out->function, sizeof out->function, "%s", function != NULL ? function : "");
    if (file != NULL) {
        (void)snprintf(out->file, sizeof out->file, "%s", file);
        out->line = number;
    }
    return errno != ENOMEM;
}

// Answers until no more questions come. They come at 0; all other open descriptors are the
// coordinator's.
_Noreturn static void answer(int questions) {
    static const struct rlimit no_core = {0, 0};
    module *modules = NULL;
    question asked;
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)dup2(questions, 0);
    ls_descriptors_close(1);  // nor has it anything to say
    while (recv(0, &asked, sizeof asked, 0) == (ssize_t)sizeof asked) {
        symbol found = {.line = 0};
        if (!ask(&modules, &found, asked.path, asked.offset) ||
            send(0, &found, sizeof found, MSG_NOSIGNAL) < 0) {
            break;
        }
    }
    _exit(0);
}

static int start(ls_exec *exec) {
    int ends[2];
    if (exec->symbols > 0) {
        return LS_OK;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "cannot create a socket for line numbers: %s",
                       strerror(errno));
    }
    // A debugger's Ctrl-C reaches the whole group of the terminal, and only the debugged process
    // survives it.
    sigset_t typed, before;
    (void)sigemptyset(&typed);
    (void)sigaddset(&typed, SIGINT);
    (void)sigaddset(&typed, SIGQUIT);
    (void)sigprocmask(SIG_BLOCK, &typed, &before);
    exec->symbols = ls_child_fork(SIGKILL);
    if (exec->symbols == 0) {
        answer(ends[1]);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[1]);
    exec->questions = ends[0];
    if (exec->symbols < 0) {
        (void)close(ends[0]);
        return LS_FAIL(LS_ERR_RESOURCE, "cannot start a process for line numbers: %s",
                       strerror(errno));
    }
    return LS_OK;
}

static int look_up(ls_exec *exec, symbol *out, const char *path, size_t offset) {
    question asked = {.offset = offset};
    (void)snprintf(asked.path, sizeof asked.path, "%s", path);
    LS_TRY(start(exec));
    if (send(exec->questions, &asked, sizeof asked, MSG_NOSIGNAL) < 0 ||
        recv(exec->questions, out, sizeof *out, 0) != (ssize_t)sizeof *out) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for the line numbers of %s", path);
    }
    return LS_OK;
}

void ls_exec__symbols_close(ls_exec *exec) {
    if (exec->symbols > 0) {
        (void)close(exec->questions);
        ls_child_end(exec->symbols, false, NULL);
    }
    exec->symbols = 0;
}
#else
static int look_up(ls_exec *exec, symbol *out, const char *path, size_t offset) {
    (void)exec;
    (void)out;
    (void)path;
    (void)offset;
    return LS_OK;
}

void ls_exec__symbols_close(ls_exec *exec) {
    (void)exec;
}
#endif

// Without lines the module stands for the file, and the offset for what addr2line is asked.
static void complete(symbol *out, const char *path, size_t offset) {
    if (out->file[0] != 0) {
        return;
    }
    const char *name = strrchr(path, '/');
    name = name != NULL ? name + 1 : path;
    (void)snprintf(out->file, sizeof out->file, "%.200s+0x%zx", name, offset);
}

int ls_exec__symbols(ls_exec *exec, ls_exec_site *out, const char *stack) {
    ls_text text = {0};
    const char *at = stack;
    int status = LS_OK;
    for (int frame = 0; *at != 0 && frame < FRAMES_SHOWN; frame++) {
        char *path = NULL, module_path[1024];
        size_t offset = (size_t)strtoull(at, &path, 16), length = strcspn(at, "\n");
        const char *end = at + length;
        path += *path == ' ' ? 1 : 0;
        if (path > end) {
            break;
        }
        (void)snprintf(module_path, sizeof module_path, "%.*s", (int)(end - path), path);
        symbol found = {.line = 0};
        status = look_up(exec, &found, module_path, offset);
        if (status != LS_OK) {
            break;
        }
        complete(&found, module_path, offset);
        if (frame == 0) {
            out->file = ls_arena_strdup(exec->arena, found.file);
            out->line = found.line;
        }
        if (strncmp(found.function, "__libc_start", 12) == 0 ||
            strcmp(found.function, "_start") == 0) {
            break;
        }
        ls_text_printf(&text, "%s:%d %s\n", found.file, found.line, found.function);
        at = *end == '\n' ? end + 1 : end;
    }
    out->stack = ls_arena_strdup(exec->arena, ls_text_string(&text));
    ls_text_free(&text);
    LS_TRY(status);
    return out->file == NULL || out->stack == NULL ? LS_ERR_MEMORY : LS_OK;
}
