// Notes of values, as ranks send them: what notes_read.c gives to notes.c and notes_apart.c.
#pragma once

#include <string.h>

#include "exec/internal.h"

typedef struct noted {
    const ls_wire_item *item;  // not aligned: read by ls_noted__item()
    const char *name, *shown;
} noted;

// One rank's note.
typedef struct ls_exec_noted {
    struct ls_exec_noted *next;
    int rank;
    const char *file;
    int line;
    const int32_t *members;
    const char *key, *about;
    noted *items;
    ls_wire_note note;
    char bytes[];
} ls_exec_noted;

static inline ls_wire_item ls_noted__item(const noted *of) {
    ls_wire_item item;
    memcpy(&item, of->item, sizeof item);
    return item;
}
// Whether both are of the same values, at whatever step.
static inline bool ls_noted__alike(const ls_exec_noted *a, const ls_exec_noted *b) {
    return a->note.finding == b->note.finding && a->note.members == b->note.members &&
           strcmp(a->key, b->key) == 0 &&
           memcmp(a->members, b->members, a->note.members * sizeof(int32_t)) == 0;
}

// ---- notes_read.c
int ls_noted__read(ls_exec_noted **out, const ls_wire_note *message);
int ls_noted__copy(ls_exec_noted **out, const ls_exec_noted *of);
void ls_noted__free(ls_exec_noted *of);

// ---- notes_apart.c: values that no two ranks may share.
// Takes the notes of all members, [members], by rank.
int ls_notes__apart(ls_exec *exec, ls_exec_noted *const *notes);
void ls_notes__end_apart(ls_exec *exec, bool report);

// ---- hints.c
// A finding of these ranks; a hint unless the run is strict, if the note says so.
int ls_notes__report(ls_exec *exec, const ls_exec_noted *of, const int *ranks, int count,
                     const char *text);
