// Reads a scenario file: converts YAML nodes to structs by the schema table. See scenario.h.
#define _XOPEN_SOURCE 700  // realpath
#include "runner/scenario/input_file.h"
#include "runner/scenario/read.h"
#include "runner/steps/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(type, base, place) ((type *)(void *)((char *)(base) + (place)))

static void add_keys(ls_text *out, const ls_schema_record *record) {
    ls_text_puts(out, record->one_of ? "one of " : "a key of ");
    if (!record->one_of) {
        ls_text_printf(out, "%s: ", record->name);
    }
    const char *separator = "";
    for (int i = 0; i < record->field_count; i++) {
        if (!record->one_of || (record->fields[i].flags & LS_FIELD_COMPANION) == 0) {
            ls_text_printf(out, "%s%s", separator, record->fields[i].key);
            separator = ", ";
        }
    }
}

#define KEYS_MAX 64

// The key that was probably intended; -1: unknown.
static int unknown_key(ls_reader *reader, const ls_schema_record *record, const ls_yaml_node *key) {
    const char *word = ls_yaml_text(reader->tree, key);
    const char *keys[KEYS_MAX];
    LS_ASSERT(record->field_count <= KEYS_MAX);
    for (int i = 0; i < record->field_count; i++) {
        keys[i] = record->fields[i].key;
    }
    char text[128];
    ls_text expected = {0};
    add_keys(&expected, record);
    (void)snprintf(text, sizeof text, "unknown key: %.60s", word);
    const char *nearest = ls_nearest(word, keys, (size_t)record->field_count);
    ls_diagnostic diagnostic = {
        .mark = key->mark, .text = text, .expected = ls_text_string(&expected), .nearest = nearest};
    ls_diagnostics_add(reader->diagnostics, &diagnostic);
    ls_text_free(&expected);
    return nearest == NULL ? -1 : ls_schema_find(record, nearest);
}

static void missing_key(ls_reader *reader, const ls_schema_field *field, ls_mark mark) {
    char text[128];
    ls_text expected = {0};
    (void)snprintf(text, sizeof text, "the key %s is missing", field->key);
    ls_text_printf(&expected, "%s: ", field->key);
    ls_schema_describe(&expected, field);
    ls_diagnostic diagnostic = {.mark = mark, .text = text, .expected = ls_text_string(&expected)};
    ls_diagnostics_add(reader->diagnostics, &diagnostic);
    ls_text_free(&expected);
}

static void not_one(ls_reader *reader, const ls_schema_record *record, const ls_yaml_node *node,
                    const char *what) {
    char found[64];
    char text[192];
    ls_text expected = {0};
    ls_yaml_describe(found, sizeof found, reader->tree, node);
    (void)snprintf(text, sizeof text, "%s: %s: %s", record->name, what, found);
    ls_text_puts(&expected, "exactly ");
    add_keys(&expected, record);
    const char *nearest = NULL;
    if (node->kind == LS_YAML_SCALAR) {
        const char *keys[KEYS_MAX];
        for (int i = 0; i < record->field_count; i++) {
            keys[i] = record->fields[i].key;
        }
        nearest = ls_nearest(ls_yaml_text(reader->tree, node), keys, (size_t)record->field_count);
    }
    ls_diagnostic diagnostic = {.mark = node->mark,
                                .text = text,
                                .expected = ls_text_string(&expected),
                                .nearest = nearest};
    ls_diagnostics_add(reader->diagnostics, &diagnostic);
    ls_text_free(&expected);
}

// ---- Records ------------------------------------------------------------------------------------
static void set_tag(void *base, const ls_schema_record *record, int tag) {
    memcpy((char *)base + record->tag_offset, &tag, sizeof tag);
}

// Alternatives with separate nodes may share memory. If two are given, which is an error, the
// second must not find the first one's values.
static void begin_alternative(void *base, const ls_schema_record *record,
                              const ls_schema_field *field) {
    if (field->type == LS_FIELD_INLINE && field->record->has_node) {
        memset(base, 0, record->size);
    }
    set_tag(base, record, field->tag);
}

static void defaults(ls_reader *reader, void *base, const ls_schema_record *record) {
    for (int i = 0; i < record->field_count; i++) {
        const ls_schema_field *field = &record->fields[i];
        if (field->type == LS_FIELD_RECORD) {
            ls_read__record(reader, (char *)base + field->offset, field->record, NULL);
        } else if (!record->one_of) {
            ls_read__fallback(base, field);
        }
    }
}

// The array of structs for a list or a map of records.
static void *open_list(ls_reader *reader, void *base, const ls_schema_field *field,
                       const ls_yaml_node *node, uint32_t count) {
    if (count > LS_SCENARIO_LIST_MAX) {
        ls_read__complain(reader, node, field, "more than 65536 entries", NULL);
        return NULL;
    }
    void *list = ls_read__alloc(reader, count, field->record->size);
    if (list != NULL) {
        *AT(void *, base, field->offset) = list;
        *AT(int, base, field->aux) = (int)count;
    }
    return list;
}

static void read_records(ls_reader *reader, void *base, const ls_schema_field *field,
                         const ls_yaml_node *node) {
    bool single = node->kind == LS_YAML_MAPPING && (field->flags & LS_FIELD_SINGLE) != 0;
    if (node->kind != LS_YAML_SEQUENCE && !single) {
        ls_read__complain(reader, node, field, "not a list", NULL);
        return;
    }
    uint32_t count = single ? 1 : node->count;
    char *list = open_list(reader, base, field, node, count);
    const ls_yaml_node *at = single ? node : ls_yaml_first(reader->tree, node);
    for (uint32_t i = 0; i < count && list != NULL && ls_read__going(reader); i++) {
        ls_read__record(reader, list + i * field->record->size, field->record, at);
        at = single ? NULL : ls_yaml_next(reader->tree, at);
    }
}

static void read_record_map(ls_reader *reader, void *base, const ls_schema_field *field,
                            const ls_yaml_node *node) {
    if (node->kind != LS_YAML_MAPPING) {
        ls_read__complain(reader, node, field, "not a mapping", NULL);
        return;
    }
    char *list = open_list(reader, base, field, node, node->count);
    const ls_yaml_node *key = ls_yaml_first(reader->tree, node);
    for (uint32_t i = 0; i < node->count && list != NULL && ls_read__going(reader); i++) {
        const ls_yaml_node *value = ls_yaml_next(reader->tree, key);
        char *entry = list + i * field->record->size;
        bool empty = ls_yaml_is_null(reader->tree, value);
        ls_read__record(reader, entry, field->record, empty ? NULL : value);
        ls_node *place = (ls_node *)(void *)entry;
        place->mark = key->mark;
        const char *name = ls_arena_strdup(reader->arena, ls_yaml_text(reader->tree, key));
        reader->no_memory = reader->no_memory || name == NULL;
        *AT(const char *, entry, field->record->name_offset) = name;
        key = ls_yaml_next(reader->tree, value);
    }
}

void ls_read__value(ls_reader *reader, void *base, const ls_schema_field *field,
                    const ls_yaml_node *node) {
    bool hidden = (field->flags & LS_FIELD_HIDDEN_BOOL) != 0;
    if (hidden && field->type != LS_FIELD_ENUM) {
        *AT(bool, base, field->aux) = true;
    }
    int errors = ls_diagnostics_count(reader->diagnostics);
    switch (field->type) {
    case LS_FIELD_RECORD:
        ls_read__record(reader, (char *)base + field->offset, field->record, node);
        return;
    case LS_FIELD_INLINE:
        ls_read__record(reader, base, field->record, node);
        return;
    case LS_FIELD_RECORDS:
        read_records(reader, base, field, node);
        return;
    case LS_FIELD_RECORD_MAP:
        read_record_map(reader, base, field, node);
        return;
    case LS_FIELD_INTS:
    case LS_FIELD_INT_ROWS:
    case LS_FIELD_REALS:
    case LS_FIELD_STRINGS:
    case LS_FIELD_RANGE:
        if (field->type == LS_FIELD_RANGE && (field->flags & LS_FIELD_BARE) != 0 &&
            node->kind == LS_YAML_SCALAR && strcmp(ls_yaml_text(reader->tree, node), "true") == 0) {
            return;  // `uniform: true` is equivalent to the word
        }
        ls_read__list(reader, base, field, node);
        return;
    case LS_FIELD_VALUES:
    case LS_FIELD_SHAPE:
    case LS_FIELD_MESH_SHAPE:
    case LS_FIELD_MESH_NAMES:
    case LS_FIELD_TABLES_STEPS:
        ls_read__list(reader, base, field, node);
        return;
    default:
        ls_read__scalar(reader, base, field, node);
        if (hidden && errors == ls_diagnostics_count(reader->diagnostics)) {
            *AT(bool, base, field->aux) = true;  // an unknown word counts as not given
        }
        return;
    }
}

// A one-of record written as its word alone: `exact`.
static void read_bare(ls_reader *reader, void *base, const ls_schema_record *record,
                      const ls_yaml_node *node) {
    int index = ls_schema_find(record, ls_yaml_text(reader->tree, node));
    if (index < 0 || (record->fields[index].flags & LS_FIELD_BARE) == 0) {
        not_one(reader, record, node, "not a mapping");
        return;
    }
    const ls_schema_field *field = &record->fields[index];
    set_tag(base, record, field->tag);
    if (field->type == LS_FIELD_INLINE) {
        ls_read__record(reader, base, field->record, NULL);
        if (field->record->has_node) {
            ((ls_node *)base)->mark = node->mark;
        }
    }
}

static void check_keys(ls_reader *reader, const ls_schema_record *record, const bool *given,
                       const ls_yaml_node *node) {
    int chosen = 0;
    for (int i = 0; i < record->field_count; i++) {
        const ls_schema_field *field = &record->fields[i];
        if ((field->flags & LS_FIELD_REQUIRED) != 0 && !given[i]) {
            missing_key(reader, field, node->mark);
        }
        chosen += given[i] && (field->flags & LS_FIELD_COMPANION) == 0 ? 1 : 0;
    }
    if (record->one_of && chosen != 1) {
        not_one(reader, record, node, chosen == 0 ? "no kind given" : "more than one kind given");
    }
}

static void read_mapping(ls_reader *reader, void *base, const ls_schema_record *record,
                         const ls_yaml_node *node, ls_mark *marks) {
    bool given[KEYS_MAX] = {false};
    LS_ASSERT(record->field_count <= KEYS_MAX);
    bool unknown = false;
    const ls_yaml_node *key = ls_yaml_first(reader->tree, node);
    while (key != NULL && ls_read__going(reader)) {
        const ls_yaml_node *value = ls_yaml_next(reader->tree, key);
        int index = ls_schema_find(record, ls_yaml_text(reader->tree, key));
        if (index < 0) {
            int meant = unknown_key(reader, record, key);
            unknown = true;
            if (meant >= 0) {
                given[meant] = true;  // avoids a second error: it is not missing
            }
        } else {
            const ls_schema_field *field = &record->fields[index];
            given[index] = true;
            if (marks != NULL) {
                marks[index] = value->mark;
            }
            if (record->one_of && (field->flags & LS_FIELD_COMPANION) == 0) {
                begin_alternative(base, record, field);
            }
            ls_read__value(reader, base, field, value);
        }
        key = ls_yaml_next(reader->tree, value);
    }
    reader->root_is_odd = reader->root_is_odd || (unknown && record == ls_schema_root());
    if (!(unknown && record->one_of) && ls_read__going(reader)) {
        check_keys(reader, record, given, node);
    }
}

void ls_read__record(ls_reader *reader, void *base, const ls_schema_record *record,
                     const ls_yaml_node *node) {
    ls_mark *marks = NULL;
    if (record->has_node) {
        marks = ls_read__alloc(reader, (size_t)record->field_count, sizeof *marks);
        *(ls_node *)base = (ls_node){
            .record = record, .mark = node == NULL ? (ls_mark){0} : node->mark, .values = marks};
    }
    defaults(reader, base, record);
    if (node == NULL || !ls_read__going(reader)) {
        return;
    }
    if (record->one_of && node->kind == LS_YAML_SCALAR) {
        read_bare(reader, base, record, node);
    } else if (node->kind != LS_YAML_MAPPING) {
        not_one(reader, record, node, "not a mapping");
    } else {
        read_mapping(reader, base, record, node, marks);
    }
}

// ---- Loading ------------------------------------------------------------------------------------
static const char *real_folder(ls_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *folder = ".";
    if (slash != NULL) {
        folder = slash == path ? "/" : ls_arena_strndup(arena, path, (size_t)(slash - path));
    }
    char *real = folder == NULL ? NULL : realpath(folder, NULL);
    const char *copy = real == NULL ? NULL : ls_arena_strdup(arena, real);
    free(real);
    return copy;
}

static int read_tree(ls_scenario *scenario, ls_reader *reader, const ls_scenario_options *options) {
    const ls_yaml_node *root = ls_yaml_root(reader->tree);
    reader->root_is_odd = root->kind != LS_YAML_MAPPING;
    ls_read__record(reader, scenario, ls_schema_root(), root);
    ls_step_settle_types(scenario->steps, scenario->step_count);
    if (options != NULL && options->has_seed) {
        scenario->seed = options->seed;
    }
    if (ls_read__going(reader)) {
        ls_scenario__check(reader, scenario);
    }
    if (ls_read__going(reader)) {
        ls_scenario__check_files(reader, scenario);
    }
    if (reader->no_memory) {
        return LS_FAIL(LS_ERR_MEMORY, "%s: out of memory", scenario->file);
    }
    int errors = ls_diagnostics_count(reader->diagnostics);
    return errors == 0 ? LS_OK : LS_FAIL(LS_ERR_FORMAT, "%s: %d errors", scenario->file, errors);
}

int ls_scenario_parse(ls_scenario **out, ls_diagnostics *diagnostics, const char *path,
                      const char *text, size_t bytes, const ls_scenario_options *given) {
    LS_ASSERT(out != NULL && diagnostics != NULL && path != NULL);
    *out = NULL;
    ls_scenario_options own;
    const ls_scenario_options *options = given != NULL ? &own : NULL;
    LS_TRY(given != NULL ? ls_options_take(&own, sizeof own, given) : LS_OK);
    LS_TRY(ls_diagnostics_set_source(diagnostics, text, bytes > LS_SCENARIO_BYTES_MAX ? 0 : bytes));
    ls_yaml_tree *tree = NULL;
    const ls_yaml_limits limits = {.bytes = LS_SCENARIO_BYTES_MAX,
                                   .depth = LS_SCENARIO_DEPTH_MAX,
                                   .nodes = 1 << 20,
                                   .whole = "a scenario, beginning with the line: lockstep: 1"};
    LS_TRY(ls_yaml_parse(&tree, diagnostics, text, bytes, &limits));
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    ls_scenario *scenario = status == LS_OK ? ls_arena_alloc(arena, 1, sizeof *scenario) : NULL;
    if (scenario != NULL) {
        ls_reader reader = {.tree = tree,
                            .diagnostics = diagnostics,
                            .arena = arena,
                            .folder = real_folder(arena, path),
                            .allow_outside = options != NULL && options->allow_outside};
        scenario->arena = arena;
        scenario->file = ls_arena_strdup(arena, path);
        status = scenario->file == NULL ? LS_ERR_MEMORY : ls_input_files_create(&scenario->files);
        status = status == LS_OK ? read_tree(scenario, &reader, options) : status;
    } else {
        status = LS_ERR_MEMORY;
    }
    ls_yaml_free(tree);
    if (status != LS_OK) {
        if (scenario != NULL) {
            ls_input_files_free(scenario->files);
        }
        ls_arena_free(arena);
        return status;
    }
    *out = scenario;
    return LS_OK;
}

int ls_scenario_load(ls_scenario **out, ls_diagnostics *diagnostics, const char *path,
                     const ls_scenario_options *options) {
    LS_ASSERT(out != NULL && diagnostics != NULL && path != NULL);
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    char *text = NULL;
    size_t bytes = 0;
    int status = ls_file_read(&text, &bytes, arena, path, LS_SCENARIO_BYTES_MAX);
    if (status == LS_OK) {
        status = ls_scenario_parse(out, diagnostics, path, text, bytes, options);
    } else {
        ls_diagnostics_error(diagnostics, (ls_mark){0}, "%s", ls_error_last()->text);
    }
    ls_arena_free(arena);
    return status;
}

void ls_scenario_free(ls_scenario *scenario) {
    if (scenario != NULL) {
        ls_input_files_free(scenario->files);
        ls_arena_free(scenario->arena);
    }
}
