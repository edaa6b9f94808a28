// Scenarios written as people write them, and read into the tree that is changed.
#include "fuzz/scenario_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "formats/yaml_read.h"
#include "runner/scenario/scenario.h"

// ---- Writing ------------------------------------------------------------------------------------
// Whether YAML reads the word as itself, wherever it stands.
static bool is_plain(const char *word) {
    static const char *const taken[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n",   "NULL"};
    size_t length = strlen(word);
    if (!isalpha((unsigned char)word[0]) || word[length - 1] == ' ') {
        return false;
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (strcmp(word, taken[i]) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)word[i]) && strchr("_-./() ", word[i]) == NULL) {
            return false;
        }
    }
    return true;
}

// The shortest figures that read back as the same number.
static void write_real(ls_text *out, double value) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    ls_text_puts(out, text);
}

static void write_flow(ls_text *out, const json_t *value);

static void write_word(ls_text *out, const char *word) {
    if (is_plain(word)) {
        ls_text_puts(out, word);
        return;
    }
    json_t *string = json_string(word);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    out->failed |= quoted == NULL;
    ls_text_puts(out, quoted != NULL ? quoted : "");
    free(quoted);
    json_decref(string);
}

static void write_mapping(ls_text *out, const json_t *value) {
    const char *key, *between = "";
    json_t *member;
    ls_text_puts(out, "{");
    json_object_foreach((json_t *)value, key, member) {
        ls_text_puts(out, between);
        write_word(out, key);
        ls_text_puts(out, ": ");
        write_flow(out, member);
        between = ", ";
    }
    ls_text_puts(out, "}");
}

static void write_flow(ls_text *out, const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_mapping(out, value);
        break;
    case JSON_ARRAY:
        ls_text_puts(out, "[");
        for (size_t i = 0; i < json_array_size(value); i++) {
            ls_text_puts(out, i > 0 ? ", " : "");
            write_flow(out, json_array_get(value, i));
        }
        ls_text_puts(out, "]");
        break;
    case JSON_STRING:
        write_word(out, json_string_value(value));
        break;
    case JSON_INTEGER:
        ls_text_printf(out, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        write_real(out, json_real_value(value));
        break;
    default:
        if (json_is_null(value)) {
            ls_text_puts(out, "null");
        } else {
            ls_text_puts(out, json_is_true(value) ? "true" : "false");
        }
    }
}

static bool holds_mappings(const json_t *value) {
    return json_is_object(json_array_get(value, 0));
}

// The members of a mapping, one a line; lists of mappings have one line for each of their members.
static void write_block(ls_text *out, const json_t *mapping, const char *indent) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)mapping, key, value) {
        ls_text_printf(out, "%s%s:", indent, key);
        if (strcmp(key, "program") == 0 && json_is_object(value)) {
            ls_text_puts(out, "\n");
            write_block(out, value, "  ");
        } else if (holds_mappings(value)) {
            ls_text_puts(out, "\n");
            for (size_t i = 0; i < json_array_size(value); i++) {
                ls_text_printf(out, "%s  - ", indent);
                write_flow(out, json_array_get(value, i));
                ls_text_puts(out, "\n");
            }
        } else {
            ls_text_puts(out, " ");
            write_flow(out, value);
            ls_text_puts(out, "\n");
        }
    }
}

void ls_fuzz_write(ls_text *out, const json_t *scenario) {
    write_block(out, scenario, "");
}

// ---- Reading ------------------------------------------------------------------------------------
static json_t *scalar_of(const ls_yaml_tree *tree, const ls_yaml_node *node) {
    const char *text = ls_yaml_text(tree, node);
    char *end = NULL;
    if (!node->plain) {
        return json_string(text);
    }
    if (ls_yaml_is_null(tree, node)) {
        return json_null();
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return json_boolean(text[0] == 't');
    }
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (*end == 0 && end != text && errno == 0 && (whole != 0 || text[0] != '-')) {
        return json_integer(whole);
    }
    double real = strtod(text, &end);
    bool number = *end == 0 && end != text && strchr("+-.0123456789", text[0]) != NULL;
    return number ? json_real(real) : json_string(text);
}

static json_t *value_of(const ls_yaml_tree *tree, const ls_yaml_node *node) {
    if (node->kind == LS_YAML_SCALAR) {
        return scalar_of(tree, node);
    }
    bool mapping = node->kind == LS_YAML_MAPPING, failed = false;
    json_t *out = mapping ? json_object() : json_array();
    const ls_yaml_node *child = ls_yaml_first(tree, node);
    while (child != NULL && !failed) {
        const ls_yaml_node *value = mapping ? ls_yaml_next(tree, child) : child;
        json_t *made = value_of(tree, value);
        failed = mapping ? json_object_set_new(out, ls_yaml_text(tree, child), made) != 0
                         : json_array_append_new(out, made) != 0;
        child = ls_yaml_next(tree, value);
    }
    if (failed) {
        json_decref(out);
        return NULL;
    }
    return out;
}

int ls_fuzz_read(json_t **out, const char *path) {
    ls_arena *arena = NULL;
    ls_text errors = {0};
    char *text;
    size_t bytes;
    *out = NULL;
    LS_TRY(ls_arena_create(&arena));
    int status = ls_file_read(&text, &bytes, arena, path, LS_SCENARIO_BYTES_MAX);
    if (status == LS_OK) {
        ls_yaml_reader reader = {
            .file = path, .text = text, .bytes = bytes, .errors = &errors, .arena = arena};
        const ls_yaml_node *root = ls_yaml_open(&reader);
        *out = root != NULL ? value_of(reader.tree, root) : NULL;
        status = root != NULL && *out == NULL
                     ? LS_FAIL(LS_ERR_MEMORY, "cannot hold the scenario '%s'", path)
                     : LS_OK;
        status = ls_yaml_close(&reader, status);
    }
    if (status != LS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    ls_text_free(&errors);
    ls_arena_free(arena);
    return status;
}
