// Values of a YAML file without a schema. See yaml_read.h.
#include "formats/yaml_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ls_yaml_node *ls_yaml_open(ls_yaml_reader *reader) {
    const ls_yaml_limits limits = {.bytes = (size_t)256 << 20, .depth = 16, .nodes = 1 << 26};
    reader->status = ls_diagnostics_create(&reader->diagnostics, reader->file);
    if (reader->status == LS_OK) {
        int status =
            ls_yaml_parse(&reader->tree, reader->diagnostics, reader->text, reader->bytes, &limits);
        reader->status = ls_yaml_errors(reader) > 0 ? LS_OK : status;
    }
    return reader->tree != NULL ? ls_yaml_root(reader->tree) : NULL;
}

int ls_yaml_close(ls_yaml_reader *reader, int status) {
    status = reader->status != LS_OK ? reader->status : status;
    int errors = reader->diagnostics != NULL ? ls_yaml_errors(reader) : 0;
    if (status == LS_OK && errors > 0) {
        status = ls_diagnostics_set_source(reader->diagnostics, reader->text, reader->bytes);
    }
    if (status == LS_OK && errors > 0) {
        size_t before = reader->errors->length;
        ls_diagnostics_format(reader->errors, reader->diagnostics);
        const char *text = ls_text_string(reader->errors) + before;
        size_t length = strcspn(text, "\n");
        if (reader->errors->failed) {
            status = LS_FAIL(LS_ERR_MEMORY, "%s: no memory to report it", reader->file);
        } else {
            status = LS_FAIL(LS_ERR_FORMAT, "%.*s%s", length > 800 ? 800 : (int)length, text,
                             errors > 1 ? " (and more)" : "");
        }
    }
    ls_diagnostics_free(reader->diagnostics);
    ls_yaml_free(reader->tree);
    reader->diagnostics = NULL;
    reader->tree = NULL;
    return status;
}

void ls_yaml_error(ls_yaml_reader *reader, const ls_yaml_node *at, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_diagnostics_error(reader->diagnostics, at->mark, "%s", text);
}

int ls_yaml_errors(const ls_yaml_reader *reader) {
    return ls_diagnostics_count(reader->diagnostics);
}

const ls_yaml_node *ls_yaml_member(ls_yaml_reader *reader, const ls_yaml_node *mapping,
                                   const char *key, bool required) {
    if (mapping == NULL) {
        return NULL;
    }
    if (mapping->kind != LS_YAML_MAPPING) {
        if (reader->told != mapping) {
            ls_yaml_error(reader, mapping, "expected keys and values");
            reader->told = mapping;
        }
        return NULL;
    }
    const ls_yaml_node *value = ls_yaml_get(reader->tree, mapping, key);
    if (value == NULL && required) {
        ls_yaml_error(reader, mapping, "`%s` is missing", key);
    }
    return value;
}

void ls_yaml_only(ls_yaml_reader *reader, const ls_yaml_node *mapping, const char *const *names,
                  int count) {
    const ls_yaml_node *key = mapping != NULL && mapping->kind == LS_YAML_MAPPING
                                  ? ls_yaml_first(reader->tree, mapping)
                                  : NULL;
    for (; key != NULL; key = ls_yaml_next(reader->tree, ls_yaml_next(reader->tree, key))) {
        const char *text = ls_yaml_text(reader->tree, key);
        bool known = false;
        for (int i = 0; i < count && !known; i++) {
            known = strcmp(text, names[i]) == 0;
        }
        if (!known) {
            char message[96];
            (void)snprintf(message, sizeof message, "unknown key `%.60s`", text);
            const ls_diagnostic unknown = {.mark = key->mark,
                                           .text = message,
                                           .nearest = ls_nearest(text, names, (size_t)count)};
            ls_diagnostics_add(reader->diagnostics, &unknown);
        }
    }
}

// A scalar's text; "" for what is none.
static const char *text_of(const ls_yaml_reader *reader, const ls_yaml_node *node) {
    return node->kind == LS_YAML_SCALAR ? ls_yaml_text(reader->tree, node) : "";
}

const char *ls_yaml_word(ls_yaml_reader *reader, const ls_yaml_node *node) {
    if (node == NULL) {
        return NULL;
    }
    if (text_of(reader, node)[0] == 0) {
        ls_yaml_error(reader, node, "expected a word");
        return NULL;
    }
    const char *copy = ls_arena_strdup(reader->arena, text_of(reader, node));
    reader->status = copy == NULL ? LS_ERR_MEMORY : reader->status;
    return copy;
}

bool ls_yaml_int(ls_yaml_reader *reader, const ls_yaml_node *node, int64_t least, int64_t most,
                 int64_t *out) {
    if (node == NULL) {
        return false;
    }
    const char *text = text_of(reader, node);
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != 0 || errno != 0 || value < least || value > most) {
        if (least == most) {
            ls_yaml_error(reader, node, "expected %lld", (long long)least);
        } else {
            ls_yaml_error(reader, node, "expected a whole number from %lld to %lld",
                          (long long)least, (long long)most);
        }
        return false;
    }
    *out = value;
    return true;
}

bool ls_yaml_real(ls_yaml_reader *reader, const ls_yaml_node *node, double least, double most,
                  double *out) {
    if (node == NULL) {
        return false;
    }
    const char *text = text_of(reader, node);
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value >= least && value <= most)) {
        ls_yaml_error(reader, node, "expected a number from %g to %g", least, most);
        return false;
    }
    *out = value;
    return true;
}

bool ls_yaml_bool(ls_yaml_reader *reader, const ls_yaml_node *node, bool *out) {
    if (node == NULL) {
        return false;
    }
    bool yes = strcmp(text_of(reader, node), "true") == 0;
    if (!yes && strcmp(text_of(reader, node), "false") != 0) {
        ls_yaml_error(reader, node, "expected true or false");
        return false;
    }
    *out = yes;
    return true;
}
