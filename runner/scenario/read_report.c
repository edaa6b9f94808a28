// Errors of the reader and the checks of a scenario, and their memory.
#define _XOPEN_SOURCE 700  // realpath

#include <inttypes.h>
#include "collectives/recording.h"
#include "runner/scenario/read.h"

#include <stdio.h>

// ---- Complaints ---------------------------------------------------------------------------------
bool ls_read__going(const ls_reader *reader) {
    return !reader->no_memory && ls_diagnostics_count(reader->diagnostics) < LS_DIAGNOSTICS_MAX;
}

void *ls_read__alloc(ls_reader *reader, size_t count, size_t size) {
    void *memory = ls_arena_alloc(reader->arena, count == 0 ? 1 : count, size);
    reader->no_memory = reader->no_memory || memory == NULL;
    return memory;
}

void ls_read__complain(ls_reader *reader, const ls_yaml_node *node, const ls_schema_field *field,
                       const char *what, const char *nearest) {
    char found[64];
    char text[256];
    ls_text expected = {0};
    ls_yaml_describe(found, sizeof found, reader->tree, node);
    (void)snprintf(text, sizeof text, "%s: %s: %s", field->key, what, found);
    ls_schema_describe(&expected, field);
    ls_diagnostic diagnostic = {.mark = node->mark,
                                .text = text,
                                .expected = ls_text_string(&expected),
                                .nearest = nearest};
    ls_diagnostics_add(reader->diagnostics, &diagnostic);
    ls_text_free(&expected);
}

void ls_check__error(ls_reader *reader, ls_mark mark, const char *expected, const char *nearest,
                     const char *format, ...) {
    char text[384];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ls_diagnostic diagnostic = {
        .mark = mark, .text = text, .expected = expected, .nearest = nearest};
    ls_diagnostics_add(reader->diagnostics, &diagnostic);
}

void ls_check__stage_name(ls_reader *reader, ls_mark mark, const char *stage, const char *table,
                          const char *feature) {
    char key[LS_STAGE_KEY_MAX];
    const ls_stage_output output = {
        .stage = stage, .table = table, .feature = feature, .field = "lengths"};
    if (ls_stage_key(key, sizeof key, &output) != LS_OK) {
        ls_check__error(reader, mark, "a name without slashes and line breaks, not too long", NULL,
                        "%s", ls_error_last()->text);
    }
}

ls_mark ls_check__element(const ls_int_list *list, int index) {
    return list->marks[index];
}

void ls_check__ranks(ls_reader *reader, const ls_scenario *scenario, const ls_int_list *ranks,
                     const char *whose) {
    for (int i = 0; i < ranks->count && scenario->ranks > 0 && ls_read__going(reader); i++) {
        if (ranks->at[i] >= scenario->ranks) {
            ls_check__error(reader, ls_check__element(ranks, i), NULL, NULL,
                            "%s: rank %" PRId64 " is not in the world of %d ranks", whose,
                            ranks->at[i], scenario->ranks);
        }
    }
}
