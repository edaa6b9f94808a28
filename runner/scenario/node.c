// The place of a mapping in the file, and the keys that it gave; the elements of a list.
#define _XOPEN_SOURCE 700  // realpath

#include "runner/scenario/read.h"

#include <stdio.h>

// ---- Nodes --------------------------------------------------------------------------------------
static int node_field(const ls_node *node, const char *key) {
    LS_ASSERT(node->record != NULL);
    int index = ls_schema_find(node->record, key);
    LS_ASSERT(index >= 0);
    return index;
}

ls_mark ls_node_mark(const ls_node *node, const char *key) {
    ls_mark mark = node->values[node_field(node, key)];
    return mark.line > 0 ? mark : node->mark;
}

bool ls_node_has(const ls_node *node, const char *key) {
    return node->values[node_field(node, key)].line > 0;
}

const char *ls_scenario_where(const ls_scenario *scenario, const ls_node *node) {
    const char *where = ls_arena_printf(scenario->arena, "%s:%d", scenario->file, node->mark.line);
    return where == NULL ? "" : where;
}

int ls_int_list_find(const ls_int_list *list, int64_t value) {
    for (int i = 0; i < list->count; i++) {
        if (list->at[i] == value) {
            return i;
        }
    }
    return -1;
}
