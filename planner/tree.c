// Reads YAML through libyaml's events into a tree, with limits, and reports errors with positions.
#include "planner/tree.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define ERRORS_MAX 50

void ls_tree__error(ls_tree_source *source, int line, int column, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (source->error_count > 0 && line == source->last_line && column == source->last_column &&
        strncmp(message, source->last_text, sizeof(source->last_text) - 1) == 0) {
        return;
    }
    source->last_line = line;
    source->last_column = column;
    (void)snprintf(source->last_text, sizeof(source->last_text), "%.127s", message);
    if (source->error_count++ >= ERRORS_MAX) {
        return;
    }
    ls_text_printf(source->errors, "%s:%d:%d: error: %s\n", source->file, line, column, message);
    const char *at = source->text;
    const char *end = source->text + source->bytes;
    for (int l = 1; l < line && at; l++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    if (!at || at >= end) {
        return;
    }
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((stop ? stop : end) - at);
    length = length > 200 ? 200 : length;
    ls_text_puts(source->errors, "    ");
    for (size_t i = 0; i < length; i++) {
        char c = (unsigned char)at[i] < 0x20 ? ' ' : at[i];
        ls_text_append(source->errors, &c, 1);
    }
    if (column >= 1 && (size_t)column <= length + 1) {
        ls_text_puts(source->errors, "\n    ");
        ls_text_repeat(source->errors, ' ', (size_t)column - 1);
        ls_text_puts(source->errors, "^");
    }
    ls_text_puts(source->errors, "\n");
}

int ls_tree__status(const ls_tree_source *source) {
    if (source->no_memory || source->errors->failed) {
        return LS_FAIL(LS_ERR_MEMORY, "%s: no memory to read it", source->file);
    }
    if (source->error_count == 0) {
        return LS_OK;
    }
    const char *text = ls_text_string(source->errors);
    const char *end = strchr(text, '\n');
    int length = end ? (int)(end - text) : (int)strlen(text);
    return LS_FAIL(LS_ERR_FORMAT, "%.*s%s", length > 800 ? 800 : length, text,
                   source->error_count > 1 ? " (and more)" : "");
}

// ---- Reading ------------------------------------------------------------------------------------

static bool parse(ls_tree_source *source, yaml_parser_t *parser, yaml_event_t *event) {
    if (yaml_parser_parse(parser, event)) {
        return true;
    }
    if (parser->error == YAML_MEMORY_ERROR) {
        source->no_memory = true;
        return false;
    }
    ls_tree__error(source, (int)parser->problem_mark.line + 1, (int)parser->problem_mark.column + 1,
                   "%s", parser->problem ? parser->problem : "not YAML");
    return false;
}

static ls_tree *new_node(ls_tree_source *source, const yaml_event_t *event, ls_tree_kind kind) {
    ls_tree *node = ls_arena_alloc(source->arena, 1, sizeof(*node));
    if (!node) {
        source->no_memory = true;
        return NULL;
    }
    node->kind = kind;
    node->line = (int)event->start_mark.line + 1;
    node->column = (int)event->start_mark.column + 1;
    return node;
}

static ls_tree *scalar(ls_tree_source *source, const yaml_event_t *event) {
    ls_tree *node = new_node(source, event, LS_TREE_SCALAR);
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (!node) {
        return NULL;
    }
    if (event->data.scalar.anchor || event->data.scalar.tag || strlen(value) != length) {
        ls_tree__error(source, node->line, node->column,
                       "anchors, tags and zero bytes have no place here");
        return NULL;
    }
    node->text = ls_arena_strndup(source->arena, value, length);
    source->no_memory = source->no_memory || !node->text;
    return node->text ? node : NULL;
}

static ls_tree *read_node(ls_tree_source *source, yaml_parser_t *parser, const yaml_event_t *event,
                          int depth);

static bool same_key(const ls_tree *map, const char *key) {
    for (const ls_tree *child = map->first; child; child = child->next) {
        if (strcmp(child->key, key) == 0) {
            return true;
        }
    }
    return false;
}

// A key's event, then its value's: returns the value's node with the key in it.
static ls_tree *read_member(ls_tree_source *source, yaml_parser_t *parser, yaml_event_t *event,
                            const ls_tree *map, int depth) {
    ls_tree *key = event->type == YAML_SCALAR_EVENT ? scalar(source, event) : NULL;
    if (!key) {
        if (event->type != YAML_SCALAR_EVENT) {
            ls_tree__error(source, (int)event->start_mark.line + 1,
                           (int)event->start_mark.column + 1, "a key must be plain text");
        }
        return NULL;
    }
    // Maps here are small; a large one is a mistake, and would make this loop slow.
    if (map->count > 64 || same_key(map, key->text)) {
        ls_tree__error(source, key->line, key->column, "%s",
                       map->count > 64 ? "too many keys" : "this key was given already");
        return NULL;
    }
    yaml_event_t value;
    if (!parse(source, parser, &value)) {
        return NULL;
    }
    ls_tree *node = read_node(source, parser, &value, depth + 1);
    yaml_event_delete(&value);
    if (node) {
        node->key = key->text;
        node->key_line = key->line;
        node->key_column = key->column;
    }
    return node;
}

static ls_tree *read_children(ls_tree_source *source, yaml_parser_t *parser, ls_tree *node,
                              int depth) {
    ls_tree **tail = &node->first;
    yaml_event_type_t stop =
        node->kind == LS_TREE_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    for (;;) {
        yaml_event_t event;
        if (!parse(source, parser, &event)) {
            return NULL;
        }
        if (event.type == stop) {
            yaml_event_delete(&event);
            return node;
        }
        ls_tree *child = node->kind == LS_TREE_MAP
                             ? read_member(source, parser, &event, node, depth)
                             : read_node(source, parser, &event, depth + 1);
        yaml_event_delete(&event);
        if (!child) {
            return NULL;
        }
        *tail = child;
        tail = &child->next;
        node->count++;
    }
}

static ls_tree *read_node(ls_tree_source *source, yaml_parser_t *parser, const yaml_event_t *event,
                          int depth) {
    int line = (int)event->start_mark.line + 1;
    int column = (int)event->start_mark.column + 1;
    if (depth > LS_TREE_DEPTH_MAX) {
        ls_tree__error(source, line, column, "nested more than %d deep", LS_TREE_DEPTH_MAX);
        return NULL;
    }
    if (event->type == YAML_SCALAR_EVENT) {
        return scalar(source, event);
    }
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    bool marked = list ? event->data.sequence_start.anchor || event->data.sequence_start.tag
                       : event->type != YAML_MAPPING_START_EVENT ||
                             event->data.mapping_start.anchor || event->data.mapping_start.tag;
    if (marked) {
        ls_tree__error(source, line, column, "anchors, aliases and tags have no place here");
        return NULL;
    }
    ls_tree *node = new_node(source, event, list ? LS_TREE_LIST : LS_TREE_MAP);
    return node ? read_children(source, parser, node, depth) : NULL;
}

ls_tree *ls_tree__read(ls_tree_source *source) {
    if (source->bytes > (size_t)LS_TREE_BYTES_MAX || source->bytes > INT_MAX) {
        ls_tree__error(source, 1, 1, "the file is larger than %lld bytes",
                       (long long)LS_TREE_BYTES_MAX);
        return NULL;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        source->no_memory = true;
        return NULL;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)source->text, source->bytes);
    ls_tree *root = NULL;
    for (bool on = true; on;) {
        yaml_event_t event;
        if (!parse(source, &parser, &event)) {
            root = NULL;
            break;
        }
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_STREAM_END_EVENT:
            on = false;
            break;
        case YAML_DOCUMENT_START_EVENT:
            if (root) {
                ls_tree__error(source, (int)event.start_mark.line + 1, 1,
                               "a second document in the same file");
                on = false;
            }
            break;
        default:
            root = read_node(source, &parser, &event, 0);
            on = root != NULL;
            break;
        }
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (!root && source->error_count == 0 && !source->no_memory) {
        ls_tree__error(source, 1, 1, "the file is empty");
    }
    return source->error_count || source->no_memory ? NULL : root;
}

// ---- Values -------------------------------------------------------------------------------------

const ls_tree *ls_tree__member(ls_tree_source *source, const ls_tree *map, const char *key,
                               bool required) {
    if (!map) {
        return NULL;
    }
    if (map->kind != LS_TREE_MAP) {
        ls_tree__error(source, map->line, map->column, "expected keys and values");
        return NULL;
    }
    for (const ls_tree *child = map->first; child; child = child->next) {
        if (strcmp(child->key, key) == 0) {
            return child;
        }
    }
    if (required) {
        ls_tree__error(source, map->line, map->column, "`%s` is missing", key);
    }
    return NULL;
}

void ls_tree__only(ls_tree_source *source, const ls_tree *map, const char *const *names,
                   int count) {
    for (const ls_tree *child = map && map->kind == LS_TREE_MAP ? map->first : NULL; child;
         child = child->next) {
        bool known = false;
        for (int i = 0; i < count && !known; i++) {
            known = strcmp(child->key, names[i]) == 0;
        }
        if (!known) {
            const char *near = ls_nearest(child->key, names, (size_t)count);
            ls_tree__error(source, child->key_line, child->key_column, "unknown key `%.60s`%s%s%s",
                           child->key, near ? "; did you mean `" : "", near ? near : "",
                           near ? "`?" : "");
        }
    }
}

const char *ls_tree__text(ls_tree_source *source, const ls_tree *node) {
    if (!node) {
        return NULL;
    }
    if (node->kind != LS_TREE_SCALAR || !node->text[0]) {
        ls_tree__error(source, node->line, node->column, "expected a word");
        return NULL;
    }
    return node->text;
}

bool ls_tree__int(ls_tree_source *source, const ls_tree *node, int64_t least, int64_t most,
                  int64_t *out) {
    if (!node) {
        return false;
    }
    char *end = NULL;
    errno = 0;
    long long value = node->kind == LS_TREE_SCALAR ? strtoll(node->text, &end, 10) : 0;
    if (!end || end == node->text || *end || errno || value < least || value > most) {
        if (least == most) {
            ls_tree__error(source, node->line, node->column, "expected %lld", (long long)least);
        } else {
            ls_tree__error(source, node->line, node->column,
                           "expected a whole number from %lld to %lld", (long long)least,
                           (long long)most);
        }
        return false;
    }
    *out = value;
    return true;
}

bool ls_tree__real(ls_tree_source *source, const ls_tree *node, double least, double most,
                   double *out) {
    if (!node) {
        return false;
    }
    char *end = NULL;
    double value = node->kind == LS_TREE_SCALAR ? strtod(node->text, &end) : 0.0;
    if (!end || end == node->text || *end || !(value >= least && value <= most)) {
        ls_tree__error(source, node->line, node->column, "expected a number from %g to %g", least,
                       most);
        return false;
    }
    *out = value;
    return true;
}

bool ls_tree__bool(ls_tree_source *source, const ls_tree *node, bool *out) {
    if (!node) {
        return false;
    }
    bool yes = node->kind == LS_TREE_SCALAR && strcmp(node->text, "true") == 0;
    bool no = node->kind == LS_TREE_SCALAR && strcmp(node->text, "false") == 0;
    if (!yes && !no) {
        ls_tree__error(source, node->line, node->column, "expected true or false");
        return false;
    }
    *out = yes;
    return true;
}
