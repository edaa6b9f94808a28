// Diagnostics: what is wrong with a file and where. Collected while a file is read and checked, so
// that one pass reports every error, then printed as
//     FILE:LINE:COL: error: what is wrong
//       12 |     rows: many
//          |           ^~~~
//          | expected an integer from 1 to 1099511627776
// Not for errors of a run: those are ls_error (base/status.h) and findings.
#ifndef LS_FORMATS_DIAGNOSTIC_H
#define LS_FORMATS_DIAGNOSTIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_DIAGNOSTICS_MAX 100  // further errors are counted, not kept

// A stretch of one line of a file. Lines and columns count from 1, columns in characters;
// line 0: nowhere in particular (the file as a whole).
typedef struct ls_mark {
    int line;
    int column;
    int width;  // characters to underline, at least 1 where line > 0
} ls_mark;

typedef struct ls_diagnostic {
    ls_mark mark;
    const char *text;      // what is wrong
    const char *expected;  // the correct form, or NULL
    const char *nearest;   // "did you mean", or NULL
    const char *note;      // a second place that matters ("first given here"), or NULL
    ls_mark note_mark;     //
} ls_diagnostic;

typedef struct ls_diagnostics ls_diagnostics;

// An empty list about the file `name` (as the user wrote it).
LS_API int ls_diagnostics_create(ls_diagnostics **out, const char *name);
LS_API void ls_diagnostics_free(ls_diagnostics *diagnostics);  // NULL is allowed

// The text of the file, for the source lines; copied.
int ls_diagnostics_set_source(ls_diagnostics *diagnostics, const char *text, size_t bytes);

// Adds one; strings are copied. Lost (but counted) past LS_DIAGNOSTICS_MAX or without memory.
void ls_diagnostics_add(ls_diagnostics *diagnostics, const ls_diagnostic *diagnostic);
// The short form: a sentence at a mark.
void ls_diagnostics_error(ls_diagnostics *diagnostics, ls_mark mark, const char *format, ...)
    LS_PRINTF(3, 4);

int ls_diagnostics_count(const ls_diagnostics *diagnostics);  // errors, lost ones too
// Error `index` (below min(count, LS_DIAGNOSTICS_MAX)), in order of line and column. Borrowed.
const ls_diagnostic *ls_diagnostics_at(ls_diagnostics *diagnostics, int index);

// Appends all of them, in order of line and column, each with its source line and caret.
LS_API void ls_diagnostics_format(ls_text *out, ls_diagnostics *diagnostics);

#ifdef __cplusplus
}
#endif
#endif
