// Diagnostics: collecting, ordering and printing them. See diagnostic.h.
#include "formats/diagnostic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SHOWN_MAX 160  // characters of a source line that are printed
#define SENTENCE_MAX   512

struct ls_diagnostics {
    ls_arena *arena;
    const char *file;
    const char *source;
    size_t source_bytes;
    ls_diagnostic list[LS_DIAGNOSTICS_MAX];
    int kept;
    int count;
    bool sorted;
};

// A copy that can be printed: messages quote the file, which may be hostile.
static const char *printable_copy(ls_arena *arena, const char *text) {
    ls_text plain = {0};
    ls_text_plain(&plain, text, strlen(text));
    const char *copy = plain.failed ? NULL : ls_arena_strdup(arena, ls_text_string(&plain));
    ls_text_free(&plain);
    return copy;
}

int ls_diagnostics_create(ls_diagnostics **out, const char *name) {
    LS_ASSERT(out != NULL && name != NULL);
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_diagnostics *diagnostics = ls_arena_alloc(arena, 1, sizeof *diagnostics);
    const char *file = printable_copy(arena, name);
    if (diagnostics == NULL || file == NULL) {
        ls_arena_free(arena);
        return LS_FAIL(LS_ERR_MEMORY, "no memory for diagnostics");
    }
    diagnostics->arena = arena;
    diagnostics->file = file;
    *out = diagnostics;
    return LS_OK;
}

void ls_diagnostics_free(ls_diagnostics *diagnostics) {
    if (diagnostics != NULL) {
        ls_arena_free(diagnostics->arena);
    }
}

int ls_diagnostics_set_source(ls_diagnostics *diagnostics, const char *text, size_t bytes) {
    char *copy = ls_arena_strndup(diagnostics->arena, text == NULL ? "" : text, bytes);
    if (copy == NULL) {
        return ls_error_wrap("diagnostics");
    }
    diagnostics->source = copy;
    diagnostics->source_bytes = bytes;
    return LS_OK;
}

// Bytes of the character at text, taking stray bytes one by one.
static size_t character_bytes(const char *text, size_t left) {
    size_t length = 1;
    while (length < left && length < 4 && ((unsigned char)text[length] & 0xC0) == 0x80) {
        length++;
    }
    return ((unsigned char)text[0] & 0xC0) == 0xC0 ? length : 1;
}

void ls_diagnostics_add(ls_diagnostics *diagnostics, const ls_diagnostic *diagnostic) {
    LS_ASSERT(diagnostics != NULL && diagnostic->text != NULL);
    diagnostics->count++;
    if (diagnostics->kept == LS_DIAGNOSTICS_MAX) {
        return;
    }
    ls_arena *arena = diagnostics->arena;
    ls_diagnostic kept = *diagnostic;
    const char **strings[] = {&kept.text, &kept.expected, &kept.nearest, &kept.note};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        if (*strings[i] != NULL) {
            *strings[i] = printable_copy(arena, *strings[i]);
        }
    }
    if (kept.text == NULL) {
        return;
    }
    diagnostics->list[diagnostics->kept++] = kept;
    diagnostics->sorted = false;
}

void ls_diagnostics_error(ls_diagnostics *diagnostics, ls_mark mark, const char *format, ...) {
    char text[SENTENCE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ls_diagnostics_add(diagnostics, &(ls_diagnostic){.mark = mark, .text = text});
}

int ls_diagnostics_count(const ls_diagnostics *diagnostics) {
    return diagnostics->count;
}

// By line and column; equal places keep the order in which they were found (insertion sort).
static void sort(ls_diagnostics *diagnostics) {
    if (diagnostics->sorted) {
        return;
    }
    for (int i = 1; i < diagnostics->kept; i++) {
        ls_diagnostic moving = diagnostics->list[i];
        int at = i;
        while (at > 0) {
            const ls_mark *before = &diagnostics->list[at - 1].mark;
            if (before->line < moving.mark.line ||
                (before->line == moving.mark.line && before->column <= moving.mark.column)) {
                break;
            }
            diagnostics->list[at] = diagnostics->list[at - 1];
            at--;
        }
        diagnostics->list[at] = moving;
    }
    diagnostics->sorted = true;
}

const ls_diagnostic *ls_diagnostics_at(ls_diagnostics *diagnostics, int index) {
    LS_ASSERT(index >= 0 && index < diagnostics->kept);
    sort(diagnostics);
    return &diagnostics->list[index];
}

// Bytes of the line break at text (0: none), by YAML's rule: LF, CR, CRLF, NEL, LS, PS.
static size_t line_break(const char *text, size_t left) {
    if (left == 0) {
        return 0;
    }
    if (text[0] == '\r') {
        return left > 1 && text[1] == '\n' ? 2 : 1;
    }
    if (text[0] == '\n') {
        return 1;
    }
    if (left > 1 && memcmp(text, "\xC2\x85", 2) == 0) {
        return 2;
    }
    if (left > 2 &&
        (memcmp(text, "\xE2\x80\xA8", 3) == 0 || memcmp(text, "\xE2\x80\xA9", 3) == 0)) {
        return 3;
    }
    return 0;
}

static bool find_line(const ls_diagnostics *diagnostics, int line, const char **out,
                      size_t *length) {
    if (diagnostics->source == NULL || line < 1) {
        return false;
    }
    const char *source = diagnostics->source;
    size_t bytes = diagnostics->source_bytes;
    size_t at = bytes >= 3 && memcmp(source, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    for (int number = 1;; number++) {
        size_t start = at;
        while (at < bytes && line_break(source + at, bytes - at) == 0) {
            at++;
        }
        if (number == line) {
            *out = source + start;
            *length = at - start;
            return true;
        }
        if (at >= bytes) {
            return false;
        }
        at += line_break(source + at, bytes - at);
    }
}

// Prints characters [first, first + LINE_SHOWN_MAX) of the line; one that would upset the terminal
// or the columns is replaced by one that does not.
static void show_line(ls_text *out, const char *line, size_t length, int first) {
    int character = 1;
    for (size_t at = 0; at < length && character < first + LINE_SHOWN_MAX; character++) {
        size_t bytes = character_bytes(line + at, length - at);
        if (character >= first && ls_text_printable(line + at, bytes) == bytes) {
            ls_text_append(out, line + at, bytes);
        } else if (character >= first) {
            ls_text_puts(out, line[at] == '\t' ? " " : "?");
        }
        at += bytes;
    }
}

static void show_mark(ls_text *out, const ls_diagnostics *diagnostics, ls_mark mark) {
    const char *line = NULL;
    size_t length = 0;
    if (!find_line(diagnostics, mark.line, &line, &length)) {
        return;
    }
    int first = mark.column > LINE_SHOWN_MAX - 40 ? mark.column - 60 : 1;
    ls_text_printf(out, "%5d | ", mark.line);
    show_line(out, line, length, first);
    ls_text_puts(out, "\n      | ");
    ls_text_repeat(out, ' ', (size_t)(mark.column - first));
    ls_text_puts(out, "^");
    int width = mark.width < 1 ? 1 : mark.width;
    int room = first + LINE_SHOWN_MAX - mark.column;
    ls_text_repeat(out, '~', (size_t)((width < room ? width : room) - 1));
    ls_text_puts(out, "\n");
}

static void show_place(ls_text *out, const ls_diagnostics *diagnostics, ls_mark mark) {
    if (mark.line > 0) {
        ls_text_printf(out, "%s:%d:%d: ", diagnostics->file, mark.line, mark.column);
    } else {
        ls_text_printf(out, "%s: ", diagnostics->file);
    }
}

void ls_diagnostics_format(ls_text *out, ls_diagnostics *diagnostics) {
    sort(diagnostics);
    for (int i = 0; i < diagnostics->kept; i++) {
        const ls_diagnostic *diagnostic = &diagnostics->list[i];
        show_place(out, diagnostics, diagnostic->mark);
        ls_text_printf(out, "error: %s\n", diagnostic->text);
        show_mark(out, diagnostics, diagnostic->mark);
        if (diagnostic->expected != NULL) {
            ls_text_printf(out, "      | expected %s\n", diagnostic->expected);
        }
        if (diagnostic->nearest != NULL) {
            ls_text_printf(out, "      | did you mean \"%s\"?\n", diagnostic->nearest);
        }
        if (diagnostic->note != NULL) {
            show_place(out, diagnostics, diagnostic->note_mark);
            ls_text_printf(out, "note: %s\n", diagnostic->note);
            show_mark(out, diagnostics, diagnostic->note_mark);
        }
    }
    if (diagnostics->count > diagnostics->kept) {
        ls_text_printf(out, "%s: and %d more errors\n", diagnostics->file,
                       diagnostics->count - diagnostics->kept);
    }
}
