// Folds: rank trees as text and as code for a small stack machine.
#include <stdio.h>
#include <string.h>

#include "orders/internal.h"

typedef struct node {
    int rank;
    int first_child;
    int last_child;
    int next;  // sibling
    int parent;
    int stage;  // children already emitted
    int cursor;
} node;

void ls_fold__free(ls_fold *fold) {
    if (fold != NULL) {
        ls_free(fold->steps, (size_t)fold->ranks * 2, sizeof(ls_fold_step));
        ls_free(fold, 1, sizeof *fold);
    }
}

static int fold_create(ls_fold **out, int ranks) {
    LS_ASSERT(ranks >= 1);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_fold)));
    ls_fold *fold = memory;
    fold->ranks = ranks;
    int status = ls_alloc(&memory, (size_t)ranks * 2, sizeof(ls_fold_step));
    if (status != LS_OK) {
        ls_free(fold, 1, sizeof *fold);
        return status;
    }
    fold->steps = memory;
    *out = fold;
    return LS_OK;
}

int ls_fold__linear(ls_fold **out, const int *ranks_in_order, int ranks) {
    LS_TRY(fold_create(out, ranks));
    ls_fold *fold = *out;
    for (int i = 0; i < ranks; i++) {
        fold->steps[i] = (ls_fold_step){i == 0 ? LS_FOLD_LOAD : LS_FOLD_OWN, ranks_in_order[i]};
    }
    fold->step_count = ranks;
    fold->depth = 1;
    fold->linear = true;
    return LS_OK;
}

// Children before parents: the code of a tree of `count` nodes under `root`.
static void emit(ls_fold *fold, node *nodes, int root) {
    int at = root;
    int depth = 0;
    fold->linear = true;
    while (at >= 0) {
        node *n = &nodes[at];
        if (n->stage == 0 && n->first_child < 0) {
            fold->steps[fold->step_count++] = (ls_fold_step){LS_FOLD_LOAD, n->rank};
            depth++;
            fold->depth = depth > fold->depth ? depth : fold->depth;
            at = n->parent;
            continue;
        }
        if (n->stage == 1) {
            fold->steps[fold->step_count++] = (ls_fold_step){LS_FOLD_OWN, n->rank};
        } else if (n->stage > 1) {
            fold->steps[fold->step_count++] = (ls_fold_step){LS_FOLD_JOIN, -1};
            fold->linear = false;
            depth--;
        }
        int child = n->stage == 0 ? n->first_child : nodes[n->cursor].next;
        if (child < 0) {
            at = n->parent;
            continue;
        }
        n->cursor = child;
        n->stage++;
        at = child;
    }
    LS_ASSERT(depth == 1 && fold->step_count <= 2 * fold->ranks);
}

static void adopt(node *nodes, int parent, int child) {
    nodes[child].parent = parent;
    if (nodes[parent].first_child < 0) {
        nodes[parent].first_child = child;
    } else {
        nodes[nodes[parent].last_child].next = child;
    }
    nodes[parent].last_child = child;
}

static void clear(node *n, int rank) {
    *n = (node){rank, -1, -1, -1, -1, 0, -1};
}

int ls_fold__from_parents(ls_fold **out, const int *parents, const int *sequence, int ranks) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)ranks, sizeof(node)));
    node *nodes = memory;
    int root = -1;
    for (int r = 0; r < ranks; r++) {
        clear(&nodes[r], r);
    }
    for (int i = 0; i < ranks; i++) {
        int r = sequence[i];
        if (parents[r] < 0) {
            LS_ASSERT(root < 0);
            root = r;
        } else {
            adopt(nodes, parents[r], r);
        }
    }
    LS_ASSERT(root >= 0);
    int status = fold_create(out, ranks);
    if (status == LS_OK) {
        emit(*out, nodes, root);
    }
    ls_free(nodes, (size_t)ranks, sizeof(node));
    return status;
}

// ---- Text ---------------------------------------------------------------------------------------
static int bad_tree(const char *text, size_t length, const char *what) {
    int shown = length < 60 ? (int)length : 60;
    return LS_FAIL(LS_ERR_INVALID, "order: tree \"%.*s\": %s", shown, text, what);
}

static bool read_rank(int *out, const char *text, size_t length, size_t *at) {
    size_t start = *at;
    int value = 0;
    while (*at < length && text[*at] >= '0' && text[*at] <= '9') {
        value = value * 10 + (text[*at] - '0');
        if (value >= LS_ORDER_RANKS_MAX) {
            return false;
        }
        (*at)++;
    }
    *out = value;
    return *at > start && (*at == start + 1 || text[start] != '0');
}

// nodes [ranks], the root first. LS_ERR_INVALID unless each of 0 .. ranks-1 appears exactly once.
static int parse_nodes(node *nodes, unsigned char *seen, const char *text, size_t length,
                       int ranks) {
    int count = 0;
    int parent = -1;
    size_t at = 0;
    while (at < length) {
        int rank = 0;
        if (!read_rank(&rank, text, length, &at)) {
            return bad_tree(text, length, "a rank was expected, as in 0(1(2+3))");
        }
        if (rank >= ranks || seen[rank] != 0) {
            return bad_tree(text, length, "each of the ranks 0, 1, ... must appear exactly once");
        }
        seen[rank] = 1;
        clear(&nodes[count], rank);
        if (parent >= 0) {
            adopt(nodes, parent, count);
        }
        int last = count++;
        if (at < length && text[at] == '(') {
            parent = last;
            at++;
            continue;
        }
        while (at < length && text[at] == ')' && parent >= 0) {
            parent = nodes[parent].parent;
            at++;
        }
        if (at < length && (text[at] != '+' || parent < 0)) {
            return bad_tree(text, length, "unexpected character");
        }
        if (at < length && ++at == length) {
            return bad_tree(text, length, "it ends after a +");
        }
    }
    if (parent >= 0 || count != ranks) {
        return bad_tree(text, length, parent >= 0 ? "a ) is missing" : "a rank is missing");
    }
    return LS_OK;
}

static int count_ranks(const char *text, size_t length) {
    int count = 0;
    for (size_t i = 0; i < length && count < LS_ORDER_RANKS_MAX; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        bool before = i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9';
        count += digit && !before ? 1 : 0;
    }
    return count;
}

int ls_fold__parse(ls_fold **out, const char *text, size_t length, int ranks) {
    *out = NULL;
    int named = count_ranks(text, length);
    if (named == 0 || (ranks >= 0 && named != ranks)) {
        return bad_tree(text, length, "it does not name every rank once");
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)named, sizeof(node) + 1));
    node *nodes = memory;
    unsigned char *seen = (unsigned char *)(nodes + named);
    int status = parse_nodes(nodes, seen, text, length, named);
    status = status == LS_OK ? fold_create(out, named) : status;
    if (status == LS_OK) {
        emit(*out, nodes, 0);
    }
    ls_free(memory, (size_t)named, sizeof(node) + 1);
    return status;
}

// The tree that a fold's code builds; nodes [ranks] are indexed by rank. Returns the root.
static int rebuild(node *nodes, int *stack, const ls_fold *fold) {
    int top = -1;
    for (int i = 0; i < fold->step_count; i++) {
        int rank = fold->steps[i].rank;
        if (fold->steps[i].op == LS_FOLD_JOIN) {
            adopt(nodes, stack[top - 1], stack[top]);
            top--;
            continue;
        }
        clear(&nodes[rank], rank);
        if (fold->steps[i].op == LS_FOLD_OWN) {
            adopt(nodes, rank, stack[top--]);
        }
        stack[++top] = rank;
    }
    LS_ASSERT(top == 0);
    return stack[0];
}

void ls_fold__write(ls_text *out, const ls_fold *fold) {
    void *memory = NULL;
    size_t ranks = (size_t)fold->ranks;
    if (ls_alloc(&memory, ranks, sizeof(node) + sizeof(int)) != LS_OK) {
        out->failed = true;
        return;
    }
    node *nodes = memory;
    int at = rebuild(nodes, (int *)(nodes + ranks), fold);
    while (at >= 0) {
        ls_text_printf(out, "%d", nodes[at].rank);
        if (nodes[at].first_child >= 0) {
            ls_text_puts(out, "(");
            at = nodes[at].first_child;
            continue;
        }
        while (at >= 0 && nodes[at].next < 0) {
            at = nodes[at].parent;
            ls_text_puts(out, at >= 0 ? ")" : "");
        }
        if (at >= 0) {
            ls_text_puts(out, "+");
            at = nodes[at].next;
        }
    }
    ls_free(memory, ranks, sizeof(node) + sizeof(int));
}

void ls_fold_text(char *out, size_t out_bytes, const ls_fold *fold) {
    LS_ASSERT(out != NULL && out_bytes > 0 && fold != NULL);
    ls_text text = {0};
    ls_fold__write(&text, fold);
    (void)snprintf(out, out_bytes, "%s", ls_text_string(&text));
    ls_text_free(&text);
}
