// Values that no two ranks may share: batches, for example. Two ranks that have the same value once
// prove nothing; two that have the same value in each step, while it changes, do.
#include <stdlib.h>

#include "exec/notes.h"

#define NOTES_LEAST 3  // steps that say something

// The values of a key so far.
typedef struct ls_exec_apart {
    struct ls_exec_apart *next;
    ls_exec_noted *of;  // a copy of the lowest rank's first note: finding, key, members
    int notes, changes;
    uint64_t *last;  // [members] each one's last value
    int *same;       // [members] the first member that has always had the same value
} ls_exec_apart;

static void forget(ls_exec_apart *gone) {
    ls_noted__free(gone->of);
    free(gone->last);
    free(gone->same);
    free(gone);
}

static int begin(ls_exec_apart **out, ls_exec *exec, const ls_exec_noted *of) {
    const size_t members = of->note.members;
    ls_exec_apart *made = calloc(1, sizeof *made);
    LS_TRY(made != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory for a note"));
    made->last = calloc(members, sizeof *made->last);
    made->same = calloc(members, sizeof *made->same);
    int status =
        made->last != NULL && made->same != NULL ? ls_noted__copy(&made->of, of) : LS_ERR_MEMORY;
    if (status != LS_OK) {
        forget(made);
        return LS_FAIL(LS_ERR_MEMORY, "no memory for a note");
    }
    made->next = exec->apart;
    exec->apart = made;
    *out = made;
    return LS_OK;
}

int ls_notes__apart(ls_exec *exec, ls_exec_noted *const *notes) {
    ls_exec_apart *at = exec->apart;
    while (at != NULL && !ls_noted__alike(at->of, notes[0])) {
        at = at->next;
    }
    if (at == NULL) {
        LS_TRY(begin(&at, exec, notes[0]));
    }
    const int members = (int)notes[0]->note.members;
    bool changed = false;
    for (int i = 0; i < members; i++) {
        const uint64_t value = notes[i]->note.items > 0 ? ls_noted__item(notes[i]->items).hash : 0;
        changed = changed || value != at->last[i];
        at->last[i] = value;
        int same = at->notes == 0 ? 0 : at->same[i];
        while (at->notes == 0 && at->last[same] != value) {
            same += 1;
        }
        at->same[i] = at->last[same] == value ? same : i;
    }
    at->notes += 1;
    at->changes += changed ? 1 : 0;
    return LS_OK;
}

static void report_apart(ls_exec *exec, const ls_exec_apart *at) {
    const ls_exec_noted *of = at->of;
    const int members = (int)of->note.members;
    int *ranks = calloc((size_t)members, sizeof *ranks), count = 0;
    if (ranks == NULL) {
        return;
    }
    for (int i = 0; i < members; i++) {
        bool shared = at->same[i] != i;
        for (int k = i + 1; k < members; k++) {
            shared = shared || at->same[k] == i;
        }
        if (shared) {
            ranks[count++] = of->members[i];
        }
    }
    if (count > 0) {
        char list[128];
        ls_text text = {0};
        ls_ranks_format(list, sizeof list, ranks, count);
        ls_text_printf(&text, "%.*s: %s: ranks %s have the same in each of %d steps\n  %s\n",
                       (int)strcspn(of->key, "#"), of->key, of->items[0].name, list, at->notes,
                       of->about);
        (void)ls_notes__report(exec, of, ranks, count, ls_text_string(&text));
        ls_text_free(&text);
    }
    free(ranks);
}

void ls_notes__end_apart(ls_exec *exec, bool report) {
    while (exec->apart != NULL) {
        ls_exec_apart *at = exec->apart;
        exec->apart = at->next;
        if (report && at->notes >= NOTES_LEAST && at->changes == at->notes) {
            report_apart(exec, at);
        }
        forget(at);
    }
}
