// Intervals of memory in a treap (Seidel and Aragon, Algorithmica 16, 1996).
#include "mpi/intervals.h"

#include "base/base.h"

static bool before(const mpi_interval *a, const mpi_interval *b) {
    if (a->low != b->low) {
        return (uintptr_t)a->low < (uintptr_t)b->low;
    }
    return (uintptr_t)a < (uintptr_t)b;
}

static void update(mpi_interval *node) {
    node->reach = node->high;
    if (node->left != NULL && node->left->reach > node->reach) {
        node->reach = node->left->reach;
    }
    if (node->right != NULL && node->right->reach > node->reach) {
        node->reach = node->right->reach;
    }
}

// Splits into the intervals before `at` and the others.
static void split(mpi_interval *tree, const mpi_interval *at, mpi_interval **left,
                  mpi_interval **right) {
    if (tree == NULL) {
        *left = *right = NULL;
        return;
    }
    if (before(tree, at)) {
        split(tree->right, at, &tree->right, right);
        *left = tree;
    } else {
        split(tree->left, at, left, &tree->left);
        *right = tree;
    }
    update(tree);
}

static mpi_interval *join(mpi_interval *left, mpi_interval *right) {
    if (left == NULL || right == NULL) {
        return left != NULL ? left : right;
    }
    if (left->priority > right->priority) {
        left->right = join(left->right, right);
        update(left);
        return left;
    }
    right->left = join(left, right->left);
    update(right);
    return right;
}

static mpi_interval *add(mpi_interval *tree, mpi_interval *node) {
    if (tree == NULL || node->priority > tree->priority) {
        split(tree, node, &node->left, &node->right);
        update(node);
        return node;
    }
    if (before(node, tree)) {
        tree->left = add(tree->left, node);
    } else {
        tree->right = add(tree->right, node);
    }
    update(tree);
    return tree;
}

static mpi_interval *take(mpi_interval *tree, const mpi_interval *node) {
    LS_ASSERT(tree != NULL);
    if (tree == node) {
        return join(tree->left, tree->right);
    }
    if (before(node, tree)) {
        tree->left = take(tree->left, node);
    } else {
        tree->right = take(tree->right, node);
    }
    update(tree);
    return tree;
}

void ls_mpi__interval_add(mpi_intervals *set, mpi_interval *node) {
    static uint32_t drawn = 1;
    LS_ASSERT(node->low < node->high);
    drawn = drawn * 1664525 + 1013904223;
    node->priority = drawn;
    set->low = set->root == NULL || node->low < set->low ? node->low : set->low;
    set->high = set->root == NULL || node->high > set->high ? node->high : set->high;
    set->root = add(set->root, node);
}

void ls_mpi__interval_remove(mpi_intervals *set, mpi_interval *node) {
    set->root = take(set->root, node);
}

static mpi_interval *search(mpi_interval *tree, const char *low, const char *high,
                            const mpi_interval *after) {
    while (tree != NULL && tree->reach > low) {
        if (after == NULL || before(after, tree)) {
            mpi_interval *found = search(tree->left, low, high, after);
            if (found != NULL) {
                return found;
            }
            if (tree->low < high && tree->high > low) {
                return tree;
            }
        }
        if (tree->low >= high) {
            return NULL;
        }
        tree = tree->right;
    }
    return NULL;
}

mpi_interval *ls_mpi__interval_search(const mpi_intervals *set, const char *low, const char *high,
                                      const mpi_interval *after) {
    return low < high && ls_mpi__interval_near(set, low, high) ? search(set->root, low, high, after)
                                                               : NULL;
}

mpi_interval *ls_mpi__interval_first(const mpi_intervals *set) {
    mpi_interval *at = set->root;
    while (at != NULL && at->left != NULL) {
        at = at->left;
    }
    return at;
}

mpi_interval *ls_mpi__interval_after(const mpi_intervals *set, const mpi_interval *node) {
    mpi_interval *at = set->root, *found = NULL;
    while (at != NULL) {
        if (before(node, at)) {
            found = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return found;
}
