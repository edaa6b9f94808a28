// Values that ranks must share (replicas of parameters, settings of optimizers): each rank notes
// them as it goes, and they are compared when the notes of all members are there. No rank waits,
// and nothing depends on who comes first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"
#include "local_tensor/local_tensor.h"

#define ITEMS_LISTED 4

typedef struct noted {
    const ls_wire_item *item;  // not aligned: read by get()
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

static ls_wire_item get(const noted *of) {
    ls_wire_item item;
    memcpy(&item, of->item, sizeof item);
    return item;
}

// ---- Reading ------------------------------------------------------------------------------------
static const char *text_at(const char **at, const char *end, uint32_t bytes) {
    const char *text = *at;
    if (bytes == 0 || bytes > (size_t)(end - text) || text[bytes - 1] != 0) {
        return NULL;
    }
    *at += bytes;
    return text;
}

static int read_items(ls_exec_noted *made, const char *at, const char *end) {
    for (uint32_t i = 0; i < made->note.items; i++) {
        noted *to = &made->items[i];
        if ((size_t)(end - at) < sizeof(ls_wire_item)) {
            return ls_exec__malformed("a note's item is cut short");
        }
        to->item = (const void *)at;
        const ls_wire_item item = get(to);
        at += sizeof item;
        to->name = text_at(&at, end, item.name_bytes);
        to->shown = to->name != NULL ? text_at(&at, end, item.shown_bytes) : NULL;
        if (to->shown == NULL || (item.dtype != LS_WIRE_NONE && item.dtype >= LS_DTYPE_COUNT)) {
            return ls_exec__malformed("a note's item");
        }
    }
    return at == end ? LS_OK : ls_exec__malformed("bytes behind a note");
}

static void free_noted(ls_exec_noted *of) {
    if (of != NULL) {
        free(of->items);
        free(of);
    }
}

static int read_note(ls_exec_noted **out, const ls_wire_note *message) {
    size_t bytes = message->head.bytes - sizeof *message;
    if (message->finding >= LS_FINDING_COUNT || message->members > LS_WIRE_RANKS_MAX ||
        message->members * sizeof(int32_t) > bytes ||
        message->items > bytes / sizeof(ls_wire_item)) {
        return ls_exec__malformed("a note's head");
    }
    ls_exec_noted *made = malloc(sizeof *made + bytes + 1);
    noted *items = calloc((size_t)message->items + 1, sizeof *items);
    if (made == NULL || items == NULL) {
        free(made);
        free(items);
        return LS_FAIL(LS_ERR_MEMORY, "no memory for a note");
    }
    *made = (ls_exec_noted){.items = items, .note = *message};
    memcpy(made->bytes, message + 1, bytes);
    const char *at = made->bytes, *end = at + bytes;
    made->members = (const void *)at;
    at += message->members * sizeof(int32_t);
    bool ordered = true;
    for (uint32_t i = 1; i < message->members; i++) {
        ordered = ordered && made->members[i - 1] < made->members[i];
    }
    made->key = text_at(&at, end, message->key_bytes);
    made->about = made->key != NULL ? text_at(&at, end, message->about_bytes) : NULL;
    int status = made->about != NULL && ordered ? read_items(made, at, end)
                                                : ls_exec__malformed("a note's texts or members");
    if (status != LS_OK) {
        free_noted(made);
        return status;
    }
    *out = made;
    return LS_OK;
}

// ---- Comparing ----------------------------------------------------------------------------------
// Whether both are of the same values, at whatever step.
static bool is_of(const ls_exec_noted *a, const ls_exec_noted *b) {
    return a->note.finding == b->note.finding && a->note.members == b->note.members &&
           strcmp(a->key, b->key) == 0 &&
           memcmp(a->members, b->members, a->note.members * sizeof(int32_t)) == 0;
}

static bool is_beside(const ls_exec_noted *a, const ls_exec_noted *b) {
    return is_of(a, b) && a->note.step == b->note.step && a->note.part == b->note.part;
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
        any = any || get(c->of[i]).hash != get(c->of[0]).hash;
    }
    if (!any) {
        return false;
    }
    int best = 0;
    c->usual = 0;
    for (int i = 0; i < c->count; i++) {
        int votes = 0;
        for (int k = 0; k < c->count; k++) {
            votes += get(c->of[k]).hash == get(c->of[i]).hash ? 1 : 0;
        }
        c->usual = votes > best ? i : c->usual;
        best = votes > best ? votes : best;
    }
    c->odd_count = 0;
    for (int i = 0; i < c->count; i++) {
        if (get(c->of[i]).hash != get(c->of[c->usual]).hash) {
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
    const ls_wire_item one = get(c->of[place]), usual = get(c->of[c->usual]);
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
    const ls_wire_item item = get(c->of[odd]);
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
    ls_text_puts(text, "  element ");
    add_position(text, c->of[odd]->shown, at);
    for (int i = 0; i < 2; i++) {
        char value[64];
        const ls_wire_item side = get(c->of[sides[i]]);
        ls_element_format(value, sizeof value, side.samples[sample], (ls_dtype)side.dtype);
        ls_text_printf(text, "%s %s on rank %d", i > 0 ? "," : ":", value,
                       c->notes[sides[i]]->rank);
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
    // The part of a key behind '#' tells keys apart; the reader does not need it.
    ls_text_printf(text, "%.*s: %s differs on rank%s %s", (int)strcspn(note->key, "#"), note->key,
                   note->items[first].name, c->odd_count > 1 ? "s" : "", list);
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
            ls_text_printf(text, "%s %s", i > 1 ? "," : ":", note->items[more[i]].name);
        }
        ls_text_printf(text, "%s\n", count > ITEMS_LISTED ? ", ..." : "");
    }
    add_abouts(text, c);
}

// ---- Differences that last ----------------------------------------------------------------------
static ls_exec_difference **difference_of(ls_exec *exec, const ls_exec_noted *note) {
    ls_exec_difference **at = &exec->differences;
    while (*at != NULL && !is_of((*at)->of, note)) {
        at = &(*at)->next;
    }
    return at;
}

static void forget(ls_exec_difference **at) {
    ls_exec_difference *gone = *at;
    if (gone != NULL) {
        *at = gone->next;
        free_noted(gone->of);
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

static void add_finding(ls_exec *exec, const ls_exec_noted *of, const int *ranks, int count,
                        const char *text) {
    ls_remote_finding(exec->run, (ls_finding_id)of->note.finding, ranks, count, of->file, of->line,
                      text);
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
    if ((any & LS_WIRE_NOTE_STALE) != 0 || exec->over || exec->run == NULL) {
        return LS_OK;
    }
    const bool excused = (all & LS_WIRE_NOTE_EXCUSED) != 0;
    if (*known != NULL && (excused || (*known)->reported)) {
        return LS_OK;  // the first step counts
    }
    forget(known);
    ls_text text = {0};
    describe(&text, c, first);
    if (!excused) {
        add_finding(exec, c->notes[first_odd(c)], c->odd, c->odd_count, ls_text_string(&text));
    }
    int status = keep(exec, c, ls_text_string(&text), !excused);
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
        status = judge(exec, &c);
        for (int i = 0; i < c.count; i++) {
            free_noted(c.notes[i]);
        }
    }
    free((void *)c.notes);
    free((void *)c.of);
    free(c.odd);
    return status;
}

int ls_exec__note(ls_exec *exec, const ls_exec_process *process, const ls_wire_note *message) {
    ls_exec_noted *made = NULL;
    LS_TRY(read_note(&made, message));
    const ls_exec_site *site = ls_exec__site(process, message->site);
    made->file = site->file;
    made->line = site->line;
    made->rank = process->rank;
    for (int r = 0; r < exec->rank_count; r++) {
        made->rank = exec->ranks[r].process == process ? exec->ranks[r].id : made->rank;
    }
    if (exec->over || exec->run == NULL || made->rank < 0 || !is_on(exec, message->finding)) {
        free_noted(made);
        return LS_OK;
    }
    if (message->members == 0) {
        // Names no rank: which of several is first depends on the clock.
        ls_remote_finding(exec->run, (ls_finding_id)message->finding, NULL, 0, made->file,
                          made->line, made->key);
        free_noted(made);
        return LS_OK;
    }
    made->next = exec->noted;
    exec->noted = made;
    return compare(exec, made);
}

void ls_exec__end_notes(ls_exec *exec, bool report) {
    const ls_exec_difference *first = NULL;
    for (const ls_exec_difference *at = exec->differences; at != NULL; at = at->next) {
        first = at->reported ? first : at;
    }
    if (report && first != NULL) {
        add_finding(exec, first->of, first->ranks, first->rank_count, first->text);
    }
    while (exec->differences != NULL) {
        forget(&exec->differences);
    }
    while (exec->noted != NULL) {
        ls_exec_noted *next = exec->noted->next;
        free_noted(exec->noted);
        exec->noted = next;
    }
}
