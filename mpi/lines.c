// Finds the source line of an instruction: the user's line if the instruction is inlined from a
// library header (std::copy, std::vector).
#include <string.h>

#include "mpi/internal.h"

#ifdef LOCKSTEP_HAVE_DW
#include <dwarf.h>
#include <stdlib.h>
#include <unwind.h>

#include "mpi/debug_info.h"

typedef struct place {
    const char *file;  // NULL: unknown
    int line;
} place;

static bool is_library(const place *at) {
    return strncmp(at->file, "/usr/include/", 13) == 0 || strncmp(at->file, "/usr/lib/", 9) == 0;
}

// The place where an inlined function is called.
static place call_of(Dwarf_Die *unit, Dwarf_Die *inlined) {
    place found = {0};
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word file = 0, line = 0;
    size_t count;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) == 0 &&
        dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) == 0 &&
        dwarf_getsrcfiles(unit, &files, &count) == 0 && file < count) {
        found = (place){dwarf_filesrc(files, file, NULL, NULL), (int)line};
    }
    return found;
}

static place line_at(const mpi_rank *me, uintptr_t code) {
    place found = {0};
    Dwarf_Die unit, *scopes = NULL;
    Dwarf_Addr at = code - (uintptr_t)me->code_low - 1;
    if (!ls_mpi__unit_hold(&unit, at)) {
        return found;
    }
    Dwarf_Line *line = dwarf_getsrc_die(&unit, at);
    found.file = line != NULL ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (found.file != NULL && (dwarf_lineno(line, &found.line) != 0 || found.line <= 0)) {
        found.file = NULL;
    }
    int count = 0;
    if (found.file != NULL && is_library(&found)) {
        count = ls_mpi__scopes_at(&scopes, &unit, at);
    }
    for (int i = 0; i < count && is_library(&found); i++) {
        place call = {0};
        if (dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine) {
            call = call_of(&unit, &scopes[i]);
        }
        found = call.file != NULL && call.line > 0 ? call : found;
    }
    free(scopes);
    ls_mpi__unit_release();
    return found;
}

typedef struct walk {
    const mpi_rank *me;
    uintptr_t code;
    bool inside;  // lines of the enclosing functions
    place found;
} walk;

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg) {
    walk *w = arg;
    uintptr_t code = _Unwind_GetIP(context);
    if (w->inside && code >= (uintptr_t)w->me->code_low && code < (uintptr_t)w->me->code_high) {
        w->found = line_at(w->me, code);
        if (w->found.file != NULL && !is_library(&w->found)) {
            return _URC_END_OF_STACK;
        }
    }
    w->inside = w->inside || code == w->code;
    return _URC_NO_REASON;
}

bool ls_mpi__code_line(const char **file, int *line, const mpi_rank *me, const char *code) {
    place found = line_at(me, (uintptr_t)code);
    if (found.file != NULL && is_library(&found)) {
        walk w = {.me = me, .code = (uintptr_t)code};
        (void)_Unwind_Backtrace(step, &w);
        found = w.found.file != NULL && !is_library(&w.found) ? w.found : found;
    }
    *file = found.file;
    *line = found.line;
    return found.file != NULL;
}
#else
bool ls_mpi__code_line(const char **file, int *line, const mpi_rank *me, const char *code) {
    (void)file;
    (void)line;
    (void)me;
    (void)code;
    return false;
}
#endif

// The line of an address in the program: asked for only where it is reported.
void ls_mpi__line_of(mpi_rank *me, const void *code, const char **file, int *line) {
    const char *found;
    int number;
    *file = ls_mpi__file;
    *line = ls_mpi__line;
    if ((const char *)code >= me->code_low && (const char *)code < me->code_high &&
        ls_mpi__code_line(&found, &number, me, code)) {
        const char *kept = ls_arena_strdup(ls_mpi__state.run->arena, found);
        *file = kept != NULL ? kept : *file;
        *line = kept != NULL ? number : *line;
    }
}
