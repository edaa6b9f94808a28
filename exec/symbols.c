// Addresses of code as functions, files and lines, by elfutils' libdw where the build has it; else
// the module and the offset in it, which addr2line reads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"

#ifdef LOCKSTEP_HAVE_DW
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <unistd.h>
#endif

#define FRAMES_SHOWN 8

// What is known of one address.
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

// libdw ends the program where it gets no memory, if nobody says what to do instead.
static _Thread_local sigjmp_buf without_memory;

_Noreturn static void no_memory(void) {
    siglongjmp(without_memory, 1);
}

typedef struct module {
    struct module *next;
    Dwfl *dwfl;
    Dwfl_Module *dwarf;
    Dwarf_Addr low;
    char path[];
} module;

static module *module_of(ls_exec *exec, const char *path) {
    for (module *at = exec->symbols; at != NULL; at = at->next) {
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
    made->next = exec->symbols;
    exec->symbols = made;
    made->dwfl = dwfl_begin(&callbacks);
    if (made->dwfl != NULL) {
        dwfl_report_begin(made->dwfl);
        made->dwarf = dwfl_report_offline(made->dwfl, path, path, -1);
        (void)dwfl_report_end(made->dwfl, NULL, NULL);
        if (made->dwarf != NULL) {
            (void)dwfl_module_info(made->dwarf, NULL, &made->low, NULL, NULL, NULL, NULL, NULL);
            Dwarf_Addr bias = 0;
            Dwarf *lines = dwfl_module_getdwarf(made->dwarf, &bias);
            if (lines != NULL) {
                (void)dwarf_new_oom_handler(lines, no_memory);
            }
        }
    }
    return made;
}

static void ask(ls_exec *exec, symbol *out, const char *path, size_t offset) {
    const module *in = module_of(exec, path);
    if (in == NULL || in->dwarf == NULL) {
        return;
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
}

static int look_up(ls_exec *exec, symbol *out, const char *path, size_t offset) {
    bool whole = sigsetjmp(without_memory, 0) == 0;
    if (whole) {
        errno = 0;
        ask(exec, out, path, offset);
    }
    return whole && errno != ENOMEM ? LS_OK
                                    : LS_FAIL(LS_ERR_MEMORY, "no memory for the lines of %s", path);
}

void ls_exec__symbols_close(ls_exec *exec) {
    for (module *at = exec->symbols, *next; at != NULL; at = next) {
        next = at->next;
        if (at->dwfl != NULL) {
            dwfl_end(at->dwfl);
        }
        free(at);
    }
    exec->symbols = NULL;
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
