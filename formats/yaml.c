// YAML as a tree of nodes with positions, built from libyaml's events. See yaml.h.
#include "formats/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#define SMALL_MAPPING 8  // keys that are compared pair by pair

typedef struct ls_anchor {
    uint32_t name;  // in the pool
    uint32_t node;
    bool open;  // its node is not complete: an alias would make a cycle
} ls_anchor;

struct ls_yaml_tree {
    ls_yaml_node *nodes;  // nodes[0] is unused, so that 0 means none
    uint32_t node_count, node_capacity;
    char *pool;
    size_t pool_bytes, pool_capacity;
    uint32_t root;
    ls_anchor anchors[LS_YAML_ANCHORS_MAX];
    int anchor_count;
};

typedef struct ls_builder {
    ls_yaml_tree *tree;
    ls_diagnostics *diagnostics;
    yaml_parser_t parser;
    const ls_yaml_limits *limits;
    uint64_t weight;  // nodes so far, aliases written out
    int status;       // the first failure
} ls_builder;

// ---- Reading the tree ---------------------------------------------------------------------------
const ls_yaml_node *ls_yaml_root(const ls_yaml_tree *tree) {
    return &tree->nodes[tree->root];
}

const ls_yaml_node *ls_yaml_first(const ls_yaml_tree *tree, const ls_yaml_node *node) {
    return node->first == 0 ? NULL : &tree->nodes[node->first];
}

const ls_yaml_node *ls_yaml_next(const ls_yaml_tree *tree, const ls_yaml_node *node) {
    return node->next == 0 ? NULL : &tree->nodes[node->next];
}

const char *ls_yaml_text(const ls_yaml_tree *tree, const ls_yaml_node *scalar) {
    LS_ASSERT(scalar->kind == LS_YAML_SCALAR);
    return tree->pool + scalar->text;
}

const ls_yaml_node *ls_yaml_get(const ls_yaml_tree *tree, const ls_yaml_node *mapping,
                                const char *key) {
    LS_ASSERT(mapping->kind == LS_YAML_MAPPING);
    const ls_yaml_node *at = ls_yaml_first(tree, mapping);
    while (at != NULL) {
        const ls_yaml_node *value = ls_yaml_next(tree, at);
        LS_ASSERT(value != NULL);
        if (strcmp(ls_yaml_text(tree, at), key) == 0) {
            return value;
        }
        at = ls_yaml_next(tree, value);
    }
    return NULL;
}

bool ls_yaml_is_null(const ls_yaml_tree *tree, const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SCALAR || !node->plain) {
        return false;
    }
    const char *text = ls_yaml_text(tree, node);
    return text[0] == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

void ls_yaml_describe(char *out, size_t out_bytes, const ls_yaml_tree *tree,
                      const ls_yaml_node *node) {
    if (node->kind == LS_YAML_MAPPING) {
        (void)snprintf(out, out_bytes, "a mapping");
    } else if (node->kind == LS_YAML_SEQUENCE) {
        (void)snprintf(out, out_bytes, "a list");
    } else if (ls_yaml_is_null(tree, node)) {
        (void)snprintf(out, out_bytes, "nothing");
    } else {
        const char *text = ls_yaml_text(tree, node);
        const char *dots = strlen(text) > 40 ? "..." : "";
        const char *quote = node->plain ? "" : "\"";
        (void)snprintf(out, out_bytes, "%s%.40s%s%s", quote, text, dots, quote);
    }
}

void ls_yaml_free(ls_yaml_tree *tree) {
    if (tree != NULL) {
        free(tree->nodes);
        free(tree->pool);
        free(tree);
    }
}

// ---- Building -----------------------------------------------------------------------------------
static ls_mark mark_of(yaml_mark_t start, yaml_mark_t end) {
    size_t width =
        end.line == start.line && end.column > start.column ? end.column - start.column : 1;
    return (ls_mark){
        .line = (int)start.line + 1, .column = (int)start.column + 1, .width = (int)width};
}

static int fail(ls_builder *builder, ls_mark mark, const char *text, const char *expected) {
    ls_diagnostic diagnostic = {.mark = mark, .text = text, .expected = expected};
    ls_diagnostics_add(builder->diagnostics, &diagnostic);
    builder->status = LS_FAIL(LS_ERR_FORMAT, "%s", text);
    return builder->status;
}

static int grow(void **data, size_t element, size_t needed, size_t *capacity) {
    if (needed <= *capacity) {
        return LS_OK;
    }
    size_t larger = *capacity < 64 ? 64 : *capacity * 2;
    while (larger < needed) {
        larger *= 2;
    }
    void *moved = realloc(*data, larger * element);
    if (moved == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "yaml: no memory for %zu bytes", larger * element);
    }
    *data = moved;
    *capacity = larger;
    return LS_OK;
}

static int add_text(ls_yaml_tree *tree, uint32_t *out, const void *text, size_t length) {
    LS_TRY(grow((void **)&tree->pool, 1, tree->pool_bytes + length + 1, &tree->pool_capacity));
    *out = (uint32_t)tree->pool_bytes;
    memcpy(tree->pool + tree->pool_bytes, text, length);
    tree->pool[tree->pool_bytes + length] = 0;
    tree->pool_bytes += length + 1;
    return LS_OK;
}

static int add_node(ls_builder *builder, uint32_t *out, const ls_yaml_node *node) {
    ls_yaml_tree *tree = builder->tree;
    builder->weight += node->weight;
    if (builder->weight > builder->limits->nodes) {
        char expected[80];
        (void)snprintf(expected, sizeof expected, "at most %u nodes, with every alias written out",
                       builder->limits->nodes);
        return fail(builder, node->mark, "too many nodes", expected);
    }
    size_t capacity = tree->node_capacity;
    LS_TRY(grow((void **)&tree->nodes, sizeof *node, (size_t)tree->node_count + 1, &capacity));
    tree->node_capacity = (uint32_t)capacity;
    *out = tree->node_count++;
    tree->nodes[*out] = *node;
    return LS_OK;
}

static int add_anchor(ls_builder *builder, const yaml_char_t *name, uint32_t node, bool open) {
    ls_yaml_tree *tree = builder->tree;
    if (name == NULL) {
        return LS_OK;
    }
    if (tree->anchor_count == LS_YAML_ANCHORS_MAX) {
        return fail(builder, tree->nodes[node].mark, "too many anchors", "at most 256 anchors");
    }
    ls_anchor *anchor = &tree->anchors[tree->anchor_count++];
    *anchor = (ls_anchor){.node = node, .open = open};
    return add_text(tree, &anchor->name, name, strlen((const char *)name));
}

static int add_alias(ls_builder *builder, uint32_t *out, const yaml_event_t *event) {
    ls_yaml_tree *tree = builder->tree;
    ls_mark mark = mark_of(event->start_mark, event->end_mark);
    const char *name = (const char *)event->data.alias.anchor;
    for (int i = tree->anchor_count - 1; i >= 0; i--) {
        const ls_anchor *anchor = &tree->anchors[i];
        if (strcmp(tree->pool + anchor->name, name) != 0) {
            continue;
        }
        if (anchor->open) {
            return fail(builder, mark, "an alias refers to the value that contains it",
                        "an alias of a value that is complete");
        }
        ls_yaml_node copy = tree->nodes[anchor->node];
        copy.mark = mark;
        copy.next = 0;
        return add_node(builder, out, &copy);
    }
    return fail(builder, mark, "an alias without an anchor of that name before it", NULL);
}

// A syntax or encoding error of libyaml's, put where it happened.
static int parser_failed(ls_builder *builder) {
    const yaml_parser_t *parser = &builder->parser;
    if (parser->error == YAML_MEMORY_ERROR) {
        builder->status = LS_FAIL(LS_ERR_MEMORY, "yaml: out of memory");
        return builder->status;
    }
    yaml_mark_t at = parser->problem_mark;
    if (parser->error == YAML_READER_ERROR) {
        at =
            parser->mark;  // libyaml leaves problem_mark at 0; the reader is at most a buffer ahead
    }
    ls_diagnostic diagnostic = {.mark = mark_of(at, at)};
    char text[256];
    (void)snprintf(text, sizeof text, "%s",
                   parser->problem == NULL ? "malformed YAML" : parser->problem);
    diagnostic.text = text;
    diagnostic.expected = "YAML 1.1 block or flow style";
    if (parser->context != NULL) {
        diagnostic.note = parser->context;
        diagnostic.note_mark = mark_of(parser->context_mark, parser->context_mark);
    }
    ls_diagnostics_add(builder->diagnostics, &diagnostic);
    builder->status = LS_FAIL(LS_ERR_FORMAT, "%s", text);
    return builder->status;
}

static int next_event(ls_builder *builder, yaml_event_t *event) {
    if (!yaml_parser_parse(&builder->parser, event)) {
        return parser_failed(builder);
    }
    return LS_OK;
}

static int build_node(ls_builder *builder, uint32_t *out, yaml_event_t *event, int depth);

static int compare_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Whether the keys hold a duplicate at all, in n log n, so that the slow search that names both is
// only made where it finds something.
static int has_duplicate(bool *out, const ls_yaml_tree *tree, const ls_yaml_node *mapping) {
    const char **keys = malloc((mapping->count + 1) * sizeof *keys);
    if (keys == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "yaml: no memory for %u keys", mapping->count);
    }
    size_t count = 0;
    const ls_yaml_node *key = ls_yaml_first(tree, mapping);
    while (key != NULL) {
        keys[count++] = ls_yaml_text(tree, key);
        key = ls_yaml_next(tree, ls_yaml_next(tree, key));
    }
    qsort(keys, count, sizeof *keys, compare_text);
    *out = false;
    for (size_t i = 1; i < count; i++) {
        *out = *out || strcmp(keys[i - 1], keys[i]) == 0;
    }
    free(keys);
    return LS_OK;
}

static int check_duplicates(ls_builder *builder, const ls_yaml_node *mapping) {
    const ls_yaml_tree *tree = builder->tree;
    if (mapping->count > SMALL_MAPPING) {
        bool found = false;
        LS_TRY(has_duplicate(&found, tree, mapping));
        if (!found) {
            return LS_OK;
        }
    }
    const ls_yaml_node *key = ls_yaml_first(tree, mapping);
    for (; key != NULL; key = ls_yaml_next(tree, ls_yaml_next(tree, key))) {
        const char *text = ls_yaml_text(tree, key);
        const ls_yaml_node *before = ls_yaml_first(tree, mapping);
        while (before != key && strcmp(ls_yaml_text(tree, before), text) != 0) {
            before = ls_yaml_next(tree, ls_yaml_next(tree, before));
        }
        if (before == key) {
            continue;
        }
        char message[128];
        (void)snprintf(message, sizeof message, "the key \"%.60s\" is given twice", text);
        ls_diagnostic diagnostic = {.mark = key->mark,
                                    .text = message,
                                    .note = "first given here",
                                    .note_mark = before->mark};
        ls_diagnostics_add(builder->diagnostics, &diagnostic);
        builder->status = LS_FAIL(LS_ERR_FORMAT, "%s", message);
        if (ls_diagnostics_count(builder->diagnostics) >= LS_DIAGNOSTICS_MAX) {
            return builder->status;
        }
    }
    return LS_OK;
}

static int check_key(ls_builder *builder, const ls_yaml_node *key) {
    if (key->kind != LS_YAML_SCALAR) {
        return fail(builder, key->mark, "a key must be a word, not a list or a mapping", NULL);
    }
    if (strcmp(ls_yaml_text(builder->tree, key), "<<") == 0) {
        return fail(builder, key->mark, "merge keys (<<) are not supported",
                    "the keys written out, or an alias as a whole value");
    }
    return LS_OK;
}

static int build_children(ls_builder *builder, uint32_t parent, yaml_event_type_t end, int depth) {
    ls_yaml_tree *tree = builder->tree;
    bool mapping = end == YAML_MAPPING_END_EVENT;
    uint32_t last = 0;
    uint32_t items = 0;
    for (;;) {
        yaml_event_t event;
        LS_TRY(next_event(builder, &event));
        if (event.type == end) {
            yaml_event_delete(&event);
            break;
        }
        uint32_t child = 0;
        int status = build_node(builder, &child, &event, depth + 1);
        yaml_event_delete(&event);
        LS_TRY(status);
        if (mapping && items % 2 == 0) {
            LS_TRY(check_key(builder, &tree->nodes[child]));
        }
        *(last == 0 ? &tree->nodes[parent].first : &tree->nodes[last].next) = child;
        last = child;
        items++;
        tree->nodes[parent].weight += tree->nodes[child].weight;
    }
    tree->nodes[parent].count = mapping ? items / 2 : items;
    if (mapping) {
        ls_yaml_node copy = tree->nodes[parent];
        LS_TRY(check_duplicates(builder, &copy));
    }
    return LS_OK;
}

static int build_collection(ls_builder *builder, uint32_t *out, yaml_event_t *event, int depth) {
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    yaml_char_t *tag = mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    yaml_char_t *anchor =
        mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    ls_mark mark = mark_of(event->start_mark, event->end_mark);
    if (tag != NULL) {
        return fail(builder, mark, "tags (!...) are not supported", NULL);
    }
    if (depth >= builder->limits->depth) {
        char expected[32];
        (void)snprintf(expected, sizeof expected, "at most %d levels", builder->limits->depth);
        return fail(builder, mark, "nested too deeply", expected);
    }
    ls_yaml_node node = {
        .kind = mapping ? LS_YAML_MAPPING : LS_YAML_SEQUENCE, .mark = mark, .weight = 1};
    LS_TRY(add_node(builder, out, &node));
    int anchor_index = builder->tree->anchor_count;
    LS_TRY(add_anchor(builder, anchor, *out, true));
    LS_TRY(build_children(builder, *out, mapping ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT,
                          depth));
    if (anchor != NULL) {
        builder->tree->anchors[anchor_index].open = false;
    }
    return LS_OK;
}

static int build_node(ls_builder *builder, uint32_t *out, yaml_event_t *event, int depth) {
    if (event->type == YAML_ALIAS_EVENT) {
        return add_alias(builder, out, event);
    }
    if (event->type != YAML_SCALAR_EVENT) {
        return build_collection(builder, out, event, depth);
    }
    ls_mark mark = mark_of(event->start_mark, event->end_mark);
    if (event->data.scalar.tag != NULL) {
        return fail(builder, mark, "tags (!...) are not supported", NULL);
    }
    size_t length = event->data.scalar.length;
    if (memchr(event->data.scalar.value, 0, length) != NULL) {
        return fail(builder, mark, "a text may not contain the character NUL", NULL);
    }
    ls_yaml_node node = {.kind = LS_YAML_SCALAR,
                         .plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
                         .mark = mark,
                         .weight = 1};
    LS_TRY(add_text(builder->tree, &node.text, event->data.scalar.value, length));
    LS_TRY(add_node(builder, out, &node));
    return add_anchor(builder, event->data.scalar.anchor, *out, false);
}

// Stream start, one document, stream end.
static int build_stream(ls_builder *builder) {
    bool found = false;
    for (;;) {
        yaml_event_t event;
        LS_TRY(next_event(builder, &event));
        yaml_event_type_t type = event.type;
        ls_mark mark = mark_of(event.start_mark, event.end_mark);
        int status = LS_OK;
        if (type == YAML_DOCUMENT_START_EVENT && found) {
            status = fail(builder, mark, "a second document in the same file", "just one");
        } else if (type == YAML_SCALAR_EVENT || type == YAML_ALIAS_EVENT ||
                   type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT) {
            found = true;
            status = build_node(builder, &builder->tree->root, &event, 0);
        }
        yaml_event_delete(&event);
        LS_TRY(status);
        if (type == YAML_STREAM_END_EVENT) {
            break;
        }
    }
    return found ? LS_OK : fail(builder, (ls_mark){0}, "the file is empty", builder->limits->whole);
}

// libyaml reports encoding errors without a usable position, so they are found before it starts.
static int check_encoding(ls_diagnostics *diagnostics, const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text;
    int line = 1;
    int column = 1;
    for (size_t i = 0; i < bytes;) {
        size_t length = ls_text_utf8_length(at + i, bytes - i);
        bool control =
            length == 1 &&
            (at[i] == 0x7F || (at[i] < 0x20 && at[i] != '\t' && at[i] != '\n' && at[i] != '\r'));
        if (length == 0 || control) {
            ls_mark mark = {.line = line, .column = column, .width = 1};
            ls_diagnostics_error(diagnostics, mark,
                                 control ? "the control character 0x%02x is not allowed"
                                         : "the byte 0x%02x is not UTF-8",
                                 at[i]);
            return LS_FAIL(LS_ERR_FORMAT, "the file is not UTF-8 text");
        }
        bool newline = at[i] == '\n' || (at[i] == '\r' && (i + 1 == bytes || at[i + 1] != '\n'));
        line += newline ? 1 : 0;
        column = newline ? 1 : column + 1;
        i += length;
    }
    return LS_OK;
}

int ls_yaml_parse(ls_yaml_tree **out, ls_diagnostics *diagnostics, const char *text, size_t bytes,
                  const ls_yaml_limits *limits) {
    LS_ASSERT(out != NULL && diagnostics != NULL && (text != NULL || bytes == 0));
    *out = NULL;
    if (bytes > limits->bytes) {
        ls_diagnostics_error(diagnostics, (ls_mark){0}, "the file is larger than %zu bytes",
                             limits->bytes);
        return LS_FAIL(LS_ERR_FORMAT, "the file is larger than %zu bytes", limits->bytes);
    }
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;  // a byte order mark is allowed and counts as no column
        bytes -= 3;
    }
    LS_TRY(check_encoding(diagnostics, text, bytes));
    ls_builder builder = {.diagnostics = diagnostics, .limits = limits};
    builder.tree = calloc(1, sizeof *builder.tree);
    if (builder.tree == NULL || !yaml_parser_initialize(&builder.parser)) {
        free(builder.tree);
        return LS_FAIL(LS_ERR_MEMORY, "yaml: out of memory");
    }
    builder.tree->node_count = 1;
    yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&builder.parser, (const unsigned char *)text, bytes);
    int status = build_stream(&builder);
    if (status == LS_OK) {
        status = builder.status;  // duplicates do not stop the parse
    }
    yaml_parser_delete(&builder.parser);
    if (status != LS_OK) {
        ls_yaml_free(builder.tree);
        return status;
    }
    *out = builder.tree;
    return LS_OK;
}
