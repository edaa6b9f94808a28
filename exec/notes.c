// Values that ranks must share (replicas of parameters, settings of optimizers): each rank sends
// notes of them, which are compared when those of all members have arrived. No rank waits, and the
// order of arrival does not matter.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/notes.h"
#include "local_tensor/local_tensor.h"

#define ITEMS_LISTED 4

// The difference of a key, until its values are equal again: reported at once, or kept to the end
// because it may be meant.
typedef struct ls_exec_difference {
    struct ls_exec_difference *next;
    ls_exec_noted *of;  // a note with its finding, key and members
    char *text;
    bool reported;
    int rank_count;
    int ranks[];
} ls_exec_difference;

// ---- Comparing ----------------------------------------------------------------------------------
static bool is_beside(const ls_exec_noted *a, const ls_exec_noted *b) {
    return ls_noted__alike(a, b) && a->note.step == b->note.step && a->note.part == b->note.part;
}

// The item of that name, which is at the same place unless ranks note other items.
static const noted *find(const ls_exec_noted *in, const char *name, uint32_t place) {
    if (place < in->note.items && strcmp(in->items[place].name, name) == 0) {
        return &in->items[place];
    }
    for (uint32_t i = 0; i < in->note.items; i++) {
        if (strcmp(in->items[i].name, name) == 0) {
            return &in->items[i];
        }
    }
    return NULL;
}

typedef struct comparison {
    ls_exec_noted **notes;  // [count], by rank
    int count;
    const noted **of;     // [count]: each rank's item of a name
    int *odd, odd_count;  // ranks whose value most do not have
    int usual;            // a rank that has the usual value: its place
} comparison;

static bool is_same(const comparison *c, int a, int b) {
    const ls_wire_item one = ls_noted__item(c->of[a]), other = ls_noted__item(c->of[b]);
    float x[2], y[2];
    if (one.hash == other.hash || (c->notes[0]->note.flags & LS_WIRE_NOTE_NEAR) == 0 ||
        one.dtype != LS_F32 || other.dtype != LS_F32) {
        return one.hash == other.hash;
    }
    for (int i = 0; i < 2; i++) {
        memcpy(&x[i], one.samples[i], sizeof x[i]);
        memcpy(&y[i], other.samples[i], sizeof y[i]);
    }
    return fabsf(x[0] - y[0]) <= fmaxf(x[1], y[1]) * fmaxf(fabsf(x[0]), fabsf(y[0]));
}

// Whether the item differs; then which ranks are odd: those whose value is not the most frequent
// one, the lowest rank's where two are equally frequent.
static bool differs(comparison *c, uint32_t place) {
    const char *name = c->notes[0]->items[place].name;
    bool any = false;
    for (int i = 0; i < c->count; i++) {
        c->of[i] = find(c->notes[i], name, place);
        if (c->of[i] == NULL) {
            return false;
        }
        any = any || !is_same(c, i, 0);
    }
    if (!any) {
        return false;
    }
    int best = 0;
    c->usual = 0;
    for (int i = 0; i < c->count; i++) {
        int votes = 0;
        for (int k = 0; k < c->count; k++) {
            votes += is_same(c, k, i) ? 1 : 0;
        }
        c->usual = votes > best ? i : c->usual;
        best = votes > best ? votes : best;
    }
    c->odd_count = 0;
    for (int i = 0; i < c->count; i++) {
        if (!is_same(c, i, c->usual)) {
            c->odd[c->odd_count++] = c->notes[i]->rank;
        }
    }
    return true;
}

// The position of a sample: "[3, 17]" of a shape "[8, 32]".
static void add_position(ls_text *text, const char *shape, uint64_t flat) {
    uint64_t sizes[16];
    int rank = 0;
    for (const char *at = shape + (*shape == '[' ? 1 : 0); rank < 16 && *at >= '0' && *at <= '9';) {
        char *end = NULL;
        sizes[rank++] = strtoull(at, &end, 10);
        at = strncmp(end, ", ", 2) == 0 ? end + 2 : end;
    }
    uint64_t stride[16], all = 1;
    for (int d = rank - 1; d >= 0; d--) {
        stride[d] = all;
        all *= sizes[d] > 0 ? sizes[d] : 1;
    }
    ls_text_puts(text, "[");
    for (int d = 0; d < rank; d++) {
        ls_text_printf(text, "%s%llu", d > 0 ? ", " : "",
                       (unsigned long long)(flat / stride[d] % (sizes[d] > 0 ? sizes[d] : 1)));
    }
    ls_text_puts(text, "]");
}

// A sample in which the rank at `place` differs from the usual value; -1: none of them does.
static int differing_sample(const comparison *c, int place) {
    const ls_wire_item one = ls_noted__item(c->of[place]), usual = ls_noted__item(c->of[c->usual]);
    for (int s = 0; s < LS_WIRE_SAMPLES && one.count == usual.count; s++) {
        if (memcmp(one.samples[s], usual.samples[s], sizeof one.samples[s]) != 0) {
            return s;
        }
    }
    return -1;
}

static int first_odd(const comparison *c) {
    int place = 0;
    while (c->notes[place]->rank != c->odd[0]) {
        place += 1;
    }
    return place;
}

static void add_values(ls_text *text, const comparison *c) {
    const int odd = first_odd(c);
    const int sides[2] = {odd, c->usual};
    const ls_wire_item item = ls_noted__item(c->of[odd]);
    if (item.dtype == LS_WIRE_NONE) {
        for (int i = 0; i < 2; i++) {
            ls_text_printf(text, "  rank %d: %s\n", c->notes[sides[i]]->rank,
                           c->of[sides[i]]->shown);
        }
        return;
    }
    int sample = differing_sample(c, odd);
    if (sample < 0) {
        ls_text_printf(text, "  the %d elements that were looked at are equal\n", LS_WIRE_SAMPLES);
        return;
    }
    uint64_t at = item.count > LS_WIRE_SAMPLES
                      ? (uint64_t)sample * (item.count - 1) / (LS_WIRE_SAMPLES - 1)
                      : (uint64_t)sample % item.count;
    ls_text_puts(text, "  ");
    if (strcmp(c->of[odd]->shown, "[]") != 0) {
        ls_text_puts(text, "element ");
        add_position(text, c->of[odd]->shown, at);
        ls_text_puts(text, ": ");
    }
    for (int i = 0; i < 2; i++) {
        char value[64];
        const ls_wire_item side = ls_noted__item(c->of[sides[i]]);
        ls_element_format(value, sizeof value, side.samples[sample], (ls_dtype)side.dtype);
        ls_text_printf(text, "%s%s on rank %d", i > 0 ? ", " : "", value, c->notes[sides[i]]->rank);
    }
    ls_text_puts(text, "\n");
}

// Which ranks did what before.
static void add_abouts(ls_text *text, const comparison *c) {
    for (int i = 0; i < c->count; i++) {
        const char *about = c->notes[i]->about;
        bool reported = about[0] == 0;
        for (int k = 0; k < i; k++) {
            reported = reported || strcmp(c->notes[k]->about, about) == 0;
        }
        int *same = reported ? NULL : calloc((size_t)c->count, sizeof *same);
        int count = 0;
        for (int k = i; k < c->count && same != NULL; k++) {
            if (strcmp(c->notes[k]->about, about) == 0) {
                same[count++] = c->notes[k]->rank;
            }
        }
        if (same != NULL) {
            char list[128];
            ls_ranks_format(list, sizeof list, same, count);
            ls_text_printf(text, "  rank%s %s: %s\n", count > 1 ? "s" : "", list, about);
        }
        free(same);
    }
}

// The text of what differs, first of all the item at `first`; c->odd is its then.
static void describe(ls_text *text, comparison *c, uint32_t first) {
    const ls_exec_noted *note = c->notes[0];
    int count = 0;
    uint32_t more[ITEMS_LISTED] = {0};
    for (uint32_t i = first; i < note->note.items; i++) {
        if (differs(c, i)) {
            more[count < ITEMS_LISTED ? count : ITEMS_LISTED - 1] = i;
            count += 1;
        }
    }
    (void)differs(c, first);
    char list[128];
    ls_ranks_format(list, sizeof list, c->odd, c->odd_count);
    // The part of a key or name after '#' distinguishes them; the reader does not need it.
    const char *name = note->items[first].name;
    ls_text_printf(text, "%.*s: %.*s differs on rank%s %s", (int)strcspn(note->key, "#"), note->key,
                   (int)strcspn(name, "#"), name, c->odd_count > 1 ? "s" : "", list);
    if (note->note.step == UINT64_MAX) {
        ls_text_puts(text, " at the end");
    } else if (note->note.step > 0) {
        ls_text_printf(text, " after step %llu", (unsigned long long)note->note.step);
    } else {
        ls_text_puts(text, " before the first step");
    }
    ls_text_puts(text, "\n");
    add_values(text, c);
    if (count > 1) {
        ls_text_printf(text, "  %d of %u values differ", count, note->note.items);
        for (int i = 1; i < count && i < ITEMS_LISTED; i++) {
            name = note->items[more[i]].name;
            ls_text_printf(text, "%s %.*s", i > 1 ? "," : ":", (int)strcspn(name, "#"), name);
        }
        ls_text_printf(text, "%s\n", count > ITEMS_LISTED ? ", ..." : "");
    }
    add_abouts(text, c);
}

// ---- Differences that last ----------------------------------------------------------------------
static ls_exec_difference **difference_of(ls_exec *exec, const ls_exec_noted *note) {
    ls_exec_difference **at = &exec->differences;
    while (*at != NULL && !ls_noted__alike((*at)->of, note)) {
        at = &(*at)->next;
    }
    return at;
}

static void forget(ls_exec_difference **at) {
    ls_exec_difference *gone = *at;
    if (gone != NULL) {
        *at = gone->next;
        ls_noted__free(gone->of);
        free(gone->text);
        free(gone);
    }
}

// Takes the first odd rank's note.
static int keep(ls_exec *exec, comparison *c, const char *text, bool reported) {
    const int place = first_odd(c);
    ls_exec_difference *made = malloc(sizeof *made + (size_t)c->odd_count * sizeof(int));
    char *copy = strdup(text);
    if (made == NULL || copy == NULL) {
        free(made);
        free(copy);
        return LS_FAIL(LS_ERR_MEMORY, "no memory for a difference");
    }
    *made = (ls_exec_difference){.next = exec->differences,
                                 .of = c->notes[place],
                                 .text = copy,
                                 .reported = reported,
                                 .rank_count = c->odd_count};
    memcpy(made->ranks, c->odd, (size_t)c->odd_count * sizeof(int));
    c->notes[place] = NULL;
    exec->differences = made;
    return LS_OK;
}

// ---- All members --------------------------------------------------------------------------------
static bool is_on(const ls_exec *exec, uint32_t finding) {
    bool on = false;
    return ls_spmd_check_on(&on, exec->options->spmd.checks, (ls_finding_id)finding) == LS_OK && on;
}

static int judge(ls_exec *exec, comparison *c) {
    uint32_t first = 0, all = LS_WIRE_NOTE_EXCUSED, any = 0;
    const ls_exec_noted *lowest = c->notes[0];
    for (int i = 0; i < c->count; i++) {
        all &= c->notes[i]->note.flags;
        any |= c->notes[i]->note.flags;
    }
    while (first < lowest->note.items && !differs(c, first)) {
        first += 1;
    }
    ls_exec_difference **known = difference_of(exec, lowest);
    if (first == lowest->note.items) {
        if (lowest->note.items > 0) {
            forget(known);
        }
        return LS_OK;
    }
    if ((any & LS_WIRE_NOTE_STALE) != 0 || exec->over || exec->run == NULL ||
        ls_remote_status(exec->run, NULL) != LS_OK) {  // the first difference counts
        return LS_OK;
    }
    const bool excused = (all & LS_WIRE_NOTE_EXCUSED) != 0;
    if (*known != NULL && (excused || (*known)->reported)) {
        return LS_OK;  // the first step counts
    }
    forget(known);
    ls_text text = {0};
    describe(&text, c, first);
    int status = excused ? LS_OK
                         : ls_notes__report(exec, c->notes[first_odd(c)], c->odd, c->odd_count,
                                            ls_text_string(&text));
    status = status == LS_OK ? keep(exec, c, ls_text_string(&text), !excused) : status;
    ls_text_free(&text);
    return status;
}

// Takes the notes of all members out of those that wait, if they are complete: out [size], by rank.
static bool take_complete(ls_exec *exec, ls_exec_noted **out, const ls_exec_noted *of) {
    int size = (int)of->note.members;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < size; i++) {
            ls_exec_noted **at = &exec->noted;
            while (*at != NULL && ((*at)->rank != of->members[i] || !is_beside(*at, of))) {
                at = &(*at)->next;
            }
            if (*at == NULL) {
                return false;
            }
            if (pass == 1) {
                out[i] = *at;
                *at = out[i]->next;
            }
        }
    }
    return true;
}

static int compare(ls_exec *exec, const ls_exec_noted *of) {
    size_t size = of->note.members;
    comparison c = {.count = (int)size};
    c.notes = calloc(size, sizeof *c.notes);
    c.of = calloc(size, sizeof *c.of);
    c.odd = calloc(size, sizeof *c.odd);
    int status = LS_OK;
    if (c.notes == NULL || c.of == NULL || c.odd == NULL) {
        status = LS_FAIL(LS_ERR_MEMORY, "no memory for a note");
    } else if (take_complete(exec, c.notes, of)) {
        status = (c.notes[0]->note.flags & LS_WIRE_NOTE_APART) != 0 && c.notes[0]->note.items > 0
                     ? ls_notes__apart(exec, c.notes)
                     : judge(exec, &c);
        for (int i = 0; i < c.count; i++) {
            ls_noted__free(c.notes[i]);
        }
    }
    free((void *)c.notes);
    free((void *)c.of);
    free(c.odd);
    return status;
}

int ls_exec__note(ls_exec *exec, const ls_exec_process *process, const ls_wire_note *message) {
    ls_exec_noted *made = NULL;
    LS_TRY(ls_noted__read(&made, message));
    const ls_exec_site *site = ls_exec__site(process, message->site);
    made->file = site->file;
    made->line = site->line;
    made->rank = process->rank;
    for (int r = 0; r < exec->rank_count; r++) {
        made->rank = exec->ranks[r].process == process ? exec->ranks[r].id : made->rank;
    }
    if (exec->over || exec->run == NULL || made->rank < 0 || !is_on(exec, message->finding)) {
        ls_noted__free(made);
        return LS_OK;
    }
    if (message->members == 0) {
        // Names no rank: which of several is first depends on the clock.
        int status = ls_notes__report(exec, made, NULL, 0, made->key);
        ls_noted__free(made);
        return status;
    }
    made->next = exec->noted;
    exec->noted = made;
    return compare(exec, made);
}

void ls_exec__end_notes(ls_exec *exec, bool report) {
    ls_notes__end_apart(exec, report);
    const ls_exec_difference *first = NULL;
    for (const ls_exec_difference *at = exec->differences; at != NULL; at = at->next) {
        first = at->reported ? first : at;
    }
    if (report && first != NULL) {
        (void)ls_notes__report(exec, first->of, first->ranks, first->rank_count, first->text);
    }
    while (exec->differences != NULL) {
        forget(&exec->differences);
    }
    while (exec->noted != NULL) {
        ls_exec_noted *next = exec->noted->next;
        ls_noted__free(exec->noted);
        exec->noted = next;
    }
}
