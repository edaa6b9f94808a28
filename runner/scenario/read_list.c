// Reading lists of a scenario file by the schema: numbers, words, ranges, values, shapes.
#include "runner/scenario/read.h"

#include <stdio.h>
#include <string.h>

#define AT(type, base, place) ((type *)(void *)((char *)(base) + (place)))

// Reports an empty list if the field does not allow one.
static bool has_some(ls_reader *reader, const ls_schema_field *field, const ls_yaml_node *node) {
    char text[64];
    ls_text expected = {0};
    if (node->count > 0 || (field->flags & LS_FIELD_SOME) == 0) {
        return true;
    }
    (void)snprintf(text, sizeof text, "%s: an empty list", field->key);
    ls_schema_describe(&expected, field);
    const ls_diagnostic diagnostic = {
        .mark = node->mark, .text = text, .expected = ls_text_string(&expected)};
    ls_diagnostics_add(reader->diagnostics, &diagnostic);
    ls_text_free(&expected);
    return false;
}

// The elements of a list. `one` is set to a copy of the node itself if a single element may replace
// a list. NULL and *count = 0 for an empty list; -1 after an error.
static const ls_yaml_node *elements(ls_reader *reader, const ls_schema_field *field,
                                    const ls_yaml_node *node, ls_yaml_node *one, int *count) {
    if (node->kind == LS_YAML_SEQUENCE) {
        *count = has_some(reader, field, node) ? (int)node->count : -1;
        return ls_yaml_first(reader->tree, node);
    }
    if ((field->flags & LS_FIELD_SINGLE) != 0 && node->kind == LS_YAML_SCALAR &&
        !ls_yaml_is_null(reader->tree, node)) {
        *one = *node;
        one->next = 0;
        *count = 1;
        return one;
    }
    ls_read__complain(reader, node, field, "not a list", NULL);
    *count = -1;
    return NULL;
}

static bool read_ints(ls_reader *reader, ls_int_list *out, const ls_schema_field *field,
                      const ls_yaml_node *node) {
    ls_yaml_node one;
    int count = 0;
    const ls_yaml_node *at = elements(reader, field, node, &one, &count);
    if (count < 0) {
        return false;
    }
    int64_t *values = ls_read__alloc(reader, (size_t)count, sizeof *values);
    ls_mark *marks = ls_read__alloc(reader, (size_t)count, sizeof *marks);
    if (values == NULL || marks == NULL) {
        return false;
    }
    bool good = true;
    for (int i = 0; i < count && ls_read__going(reader); i++, at = ls_yaml_next(reader->tree, at)) {
        good = ls_read__int(reader, &values[i], field, at) && good;
        marks[i] = at->mark;
    }
    *out = (ls_int_list){.at = values, .marks = marks, .count = count};
    return good;
}

static void read_int_rows(ls_reader *reader, ls_int_rows *out, const ls_schema_field *field,
                          const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SEQUENCE) {
        ls_read__complain(reader, node, field, "not a list of lists", NULL);
        return;
    }
    ls_int_list *rows = ls_read__alloc(reader, node->count, sizeof *rows);
    if (rows == NULL) {
        return;
    }
    const ls_yaml_node *at = ls_yaml_first(reader->tree, node);
    for (uint32_t i = 0; i < node->count && ls_read__going(reader); i++) {
        if (at->kind == LS_YAML_SEQUENCE) {
            (void)read_ints(reader, &rows[i], field, at);
        } else {
            ls_read__complain(reader, at, field, "not a list of lists", NULL);
        }
        at = ls_yaml_next(reader->tree, at);
    }
    *out = (ls_int_rows){.at = rows, .count = (int)node->count, .mark = node->mark};
}

static void read_reals(ls_reader *reader, ls_real_list *out, const ls_schema_field *field,
                       const ls_yaml_node *node) {
    ls_yaml_node one;
    int count = 0;
    const ls_yaml_node *at = elements(reader, field, node, &one, &count);
    double *values = count < 0 ? NULL : ls_read__alloc(reader, (size_t)count, sizeof *values);
    if (values == NULL) {
        return;
    }
    for (int i = 0; i < count && ls_read__going(reader); i++, at = ls_yaml_next(reader->tree, at)) {
        (void)ls_read__real(reader, &values[i], field, at);
    }
    *out = (ls_real_list){.at = values, .count = count};
}

static void read_strings(ls_reader *reader, ls_string_list *out, const ls_schema_field *field,
                         const ls_yaml_node *node) {
    ls_yaml_node one;
    int count = 0;
    const ls_yaml_node *at = elements(reader, field, node, &one, &count);
    if (count < 0) {
        return;
    }
    const char **values = ls_read__alloc(reader, (size_t)count, sizeof *values);
    ls_mark *marks = ls_read__alloc(reader, (size_t)count, sizeof *marks);
    if (values == NULL || marks == NULL) {
        return;
    }
    for (int i = 0; i < count && ls_read__going(reader); i++, at = ls_yaml_next(reader->tree, at)) {
        bool text = at->kind == LS_YAML_SCALAR && !ls_yaml_is_null(reader->tree, at) &&
                    ls_yaml_text(reader->tree, at)[0] != 0;
        if (field->names != NULL) {
            text = ls_read__name(reader, field, at) != NULL;
        } else if (!text) {
            ls_read__complain(reader, at, field, "not a text", NULL);
        }
        values[i] = ls_arena_strdup(reader->arena, text ? ls_yaml_text(reader->tree, at) : "?");
        reader->no_memory = reader->no_memory || values[i] == NULL;
        marks[i] = at->mark;
    }
    *out = (ls_string_list){.at = values, .marks = marks, .count = count};
}

static void read_range(ls_reader *reader, ls_generator *out, const ls_schema_field *field,
                       const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SEQUENCE || node->count != 2) {
        ls_read__complain(reader, node, field, "not a list of two numbers", NULL);
        return;
    }
    const ls_yaml_node *first = ls_yaml_first(reader->tree, node);
    bool good = ls_read__real(reader, &out->a, field, first);
    good = ls_read__real(reader, &out->b, field, ls_yaml_next(reader->tree, first)) && good;
    if (good && out->a > out->b) {
        ls_read__complain(reader, node, field, "the first number is the larger one", NULL);
    }
    out->has_range = true;
}

// Appends one number of a generator's values to the array of its class.
static void read_value(ls_reader *reader, ls_generator *out, const ls_schema_field *field,
                       const ls_yaml_node *node, int64_t *ints, double *reals) {
    if (ints != NULL) {
        (void)ls_read__int(reader, &ints[out->value_count], field, node);
    } else {
        (void)ls_read__real(reader, &reals[out->value_count], field, node);
    }
    out->value_count++;
}

// Values: [1, 2, 3], or [[1, 2], [3]] with one list per rank or row.
static void read_values(ls_reader *reader, ls_generator *out, const ls_schema_field *field,
                        const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SEQUENCE) {
        ls_read__complain(reader, node, field, "not a list", NULL);
        return;
    }
    const ls_yaml_node *first = ls_yaml_first(reader->tree, node);
    bool nested = first != NULL && first->kind == LS_YAML_SEQUENCE;
    bool integers = (field->flags & LS_FIELD_INTEGERS) != 0;
    int64_t *ints = integers ? ls_read__alloc(reader, node->weight, sizeof *ints) : NULL;
    double *reals = integers ? NULL : ls_read__alloc(reader, node->weight, sizeof *reals);
    int64_t *lengths = ls_read__alloc(reader, nested ? node->count : 0, sizeof *lengths);
    ls_mark *marks = ls_read__alloc(reader, nested ? node->count : 0, sizeof *marks);
    if ((ints == NULL && reals == NULL) || lengths == NULL || marks == NULL) {
        return;
    }
    int row = 0;
    for (const ls_yaml_node *at = first; at != NULL && ls_read__going(reader);
         at = ls_yaml_next(reader->tree, at), row++) {
        if (!nested) {
            read_value(reader, out, field, at, ints, reals);
            continue;
        }
        if (at->kind != LS_YAML_SEQUENCE) {
            ls_read__complain(reader, at, field, "not a list, as the first entry is", NULL);
            continue;
        }
        marks[row] = at->mark;
        lengths[row] = at->count;
        for (const ls_yaml_node *item = ls_yaml_first(reader->tree, at);
             item != NULL && ls_read__going(reader); item = ls_yaml_next(reader->tree, item)) {
            read_value(reader, out, field, item, ints, reals);
        }
    }
    out->ints = ints;
    out->reals = reals;
    if (nested) {
        out->row_counts = (ls_int_list){.at = lengths, .marks = marks, .count = (int)node->count};
    }
}

static void read_shape(ls_reader *reader, ls_shape *out, const ls_schema_field *field,
                       const ls_yaml_node *node) {
    ls_int_list sizes = {0};
    if (!read_ints(reader, &sizes, field, node)) {
        return;
    }
    if (sizes.count > LS_DIMS_MAX) {
        ls_read__complain(reader, node, field, "more than 8 dimensions", NULL);
        return;
    }
    out->ndim = sizes.count;
    for (int i = 0; i < sizes.count; i++) {
        out->dim[i] = sizes.at[i];
    }
    size_t elements_count = 0;
    if (ls_shape_count(&elements_count, out) != LS_OK ||
        elements_count > (size_t)LS_SCENARIO_COUNT_MAX) {
        ls_read__complain(reader, node, field, "more than 2^40 elements", NULL);
    }
}

static void read_mesh_shape(ls_reader *reader, ls_mesh *out, const ls_schema_field *field,
                            const ls_yaml_node *node) {
    ls_int_list sizes = {0};
    if (!read_ints(reader, &sizes, field, node)) {
        return;
    }
    if (sizes.count < 1 || sizes.count > LS_MESH_DIMS_MAX) {
        ls_read__complain(reader, node, field, "not 1 to 6 dimensions", NULL);
        return;
    }
    int64_t ranks = 1;
    for (int i = 0; i < sizes.count; i++) {
        out->dim[i] = (int)sizes.at[i];
        ranks *= ranks > LS_RANKS_MAX ? 1 : sizes.at[i];
    }
    out->ndim = sizes.count;
    if (ranks > LS_RANKS_MAX) {
        ls_check__error(reader, node->mark, NULL, NULL, "%s: more than %d ranks in all", field->key,
                        LS_RANKS_MAX);
    }
}

static void read_mesh_names(ls_reader *reader, ls_mesh *out, const ls_schema_field *field,
                            const ls_yaml_node *node) {
    ls_string_list names = {0};
    read_strings(reader, &names, field, node);
    if (names.count > LS_MESH_DIMS_MAX) {
        ls_read__complain(reader, node, field, "more than 6 names", NULL);
        return;
    }
    for (int i = 0; i < names.count && !reader->no_memory; i++) {
        if (strlen(names.at[i]) >= LS_MESH_NAME_MAX) {
            ls_diagnostic diagnostic = {.mark = names.marks[i],
                                        .text = "names: longer than 31 bytes"};
            ls_diagnostics_add(reader->diagnostics, &diagnostic);
            continue;
        }
        (void)snprintf(out->name[i], sizeof out->name[i], "%s", names.at[i]);
    }
}

static void read_tables_steps(ls_reader *reader, void *base, const ls_schema_field *field,
                              const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SEQUENCE) {
        ls_read__complain(reader, node, field, "not a list", NULL);
        return;
    }
    if (!has_some(reader, field, node)) {
        return;
    }
    ls_tables_step *steps = ls_read__alloc(reader, node->count, sizeof *steps);
    if (steps == NULL) {
        return;
    }
    ls_schema_field entry = *field;
    entry.type = LS_FIELD_ENUM;
    entry.offset = 0;
    int count = 0;
    for (const ls_yaml_node *at = ls_yaml_first(reader->tree, node);
         at != NULL && ls_read__going(reader); at = ls_yaml_next(reader->tree, at)) {
        ls_read__scalar(reader, &steps[count++], &entry, at);
    }
    *AT(const ls_tables_step *, base, field->offset) = steps;
    *AT(int, base, field->aux) = count;
}

void ls_read__list(ls_reader *reader, void *base, const ls_schema_field *field,
                   const ls_yaml_node *node) {
    switch (field->type) {
    case LS_FIELD_INTS:
        (void)read_ints(reader, AT(ls_int_list, base, field->offset), field, node);
        return;
    case LS_FIELD_INT_ROWS:
        read_int_rows(reader, AT(ls_int_rows, base, field->offset), field, node);
        return;
    case LS_FIELD_REALS:
        read_reals(reader, AT(ls_real_list, base, field->offset), field, node);
        return;
    case LS_FIELD_STRINGS:
        read_strings(reader, AT(ls_string_list, base, field->offset), field, node);
        return;
    case LS_FIELD_RANGE:
        read_range(reader, base, field, node);
        return;
    case LS_FIELD_VALUES:
        read_values(reader, base, field, node);
        return;
    case LS_FIELD_SHAPE:
        read_shape(reader, AT(ls_shape, base, field->offset), field, node);
        return;
    case LS_FIELD_MESH_SHAPE:
        read_mesh_shape(reader, base, field, node);
        return;
    case LS_FIELD_MESH_NAMES:
        read_mesh_names(reader, base, field, node);
        return;
    case LS_FIELD_TABLES_STEPS:
        read_tables_steps(reader, base, field, node);
        return;
    default:
        LS_ASSERT(!"a list type");
    }
}
