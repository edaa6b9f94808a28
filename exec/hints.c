// Reports differences of notes: as findings, or as hints where a program may mean them.
#include "exec/notes.h"

#define HINTS_MAX 16

// One line of a text of several.
static char *in_a_line(ls_arena *arena, const ls_exec_noted *of, const char *text) {
    ls_text line = {0};
    ls_text_printf(&line, "%s: ", ls_finding_name((ls_finding_id)of->note.finding));
    for (const char *at = text; *at != 0; at += strspn(at, "\n ")) {
        const size_t length = strcspn(at, "\n");
        ls_text_printf(&line, "%s%.*s", at > text ? "; " : "", (int)length, at);
        at += length;
    }
    if (of->file != NULL && of->file[0] != 0) {
        ls_text_printf(&line, " (%s:%d)", of->file, of->line);
    }
    char *kept = ls_arena_strdup(arena, ls_text_string(&line));
    ls_text_free(&line);
    return kept;
}

// Keeps hints in the order of their texts: ranks send them in any order.
static int add_hint(ls_exec *exec, const ls_exec_noted *of, const char *text) {
    char *line = in_a_line(exec->arena, of, text);
    int at = 0;
    LS_TRY(line != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory for a note"));
    if (exec->hints == NULL) {
        exec->hints = ls_arena_alloc(exec->arena, HINTS_MAX, sizeof *exec->hints);
        LS_TRY(exec->hints != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory for a note"));
    }
    while (at < exec->hint_count && strcmp(exec->hints[at], line) < 0) {
        at += 1;
    }
    bool known = at < exec->hint_count && strcmp(exec->hints[at], line) == 0;
    if (known || exec->hint_count == HINTS_MAX) {
        return LS_OK;
    }
    memmove((void *)&exec->hints[at + 1], (void *)&exec->hints[at],
            (size_t)(exec->hint_count - at) * sizeof *exec->hints);
    exec->hints[at] = line;
    exec->hint_count += 1;
    return LS_OK;
}

int ls_notes__report(ls_exec *exec, const ls_exec_noted *of, const int *ranks, int count,
                     const char *text) {
    if ((of->note.flags & LS_WIRE_NOTE_HINT) != 0 && !exec->options->strict) {
        return add_hint(exec, of, text);
    }
    ls_remote_finding(exec->run, (ls_finding_id)of->note.finding, ranks, count, of->file, of->line,
                      text);
    return LS_OK;
}
