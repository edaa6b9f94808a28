// Reads the notes of ranks, which may be malformed.
#include <stdlib.h>

#include "exec/notes.h"

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
            return ls_exec__malformed("a note's item is truncated");
        }
        to->item = (const void *)at;
        const ls_wire_item item = ls_noted__item(to);
        at += sizeof item;
        to->name = text_at(&at, end, item.name_bytes);
        to->shown = to->name != NULL ? text_at(&at, end, item.shown_bytes) : NULL;
        if (to->shown == NULL || (item.dtype != LS_WIRE_NONE && item.dtype >= LS_DTYPE_COUNT)) {
            return ls_exec__malformed("a note's item");
        }
    }
    return at == end ? LS_OK : ls_exec__malformed("trailing bytes after a note");
}

void ls_noted__free(ls_exec_noted *of) {
    if (of != NULL) {
        free(of->items);
        free(of);
    }
}

int ls_noted__read(ls_exec_noted **out, const ls_wire_note *message) {
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
        ls_noted__free(made);
        return status;
    }
    *out = made;
    return LS_OK;
}

int ls_noted__copy(ls_exec_noted **out, const ls_exec_noted *of) {
    const size_t bytes = of->note.head.bytes - sizeof of->note;
    ls_wire_note *message = malloc(sizeof *message + bytes);
    LS_TRY(message != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory for a note"));
    *message = of->note;
    memcpy(message + 1, of->bytes, bytes);
    const int status = ls_noted__read(out, message);
    free(message);
    if (status == LS_OK) {
        (*out)->rank = of->rank;
        (*out)->file = of->file;
        (*out)->line = of->line;
    }
    return status;
}
