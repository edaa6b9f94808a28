// The effects of training faults in a module: nothing that a run without them comes through.
#include "embedding/internal.h"

void ls_embedding_inject(ls_embedding *module,
                         bool (*injected)(void *arg, ls_fault_type fault, int rank), void *arg) {
    LS_ASSERT(module != NULL && injected != NULL);
    module->injected = injected;
    module->injected_arg = arg;
}

bool ls_embedding__injected(const ls_embedding *module, ls_fault_type fault, int rank) {
    return module->injected && module->injected(module->injected_arg, fault, rank);
}

int ls_embedding__count_once(embedding_occurrences *of, embedding_pool *pool) {
    const int64_t *starts, *order;
    int64_t *firsts, *numbers;
    size_t rows = of->row_count;
    const embedding_array array = {of->rank, pool->module->tables[of->table].first_pair,
                                   "ids counted once", rows + 1, sizeof(int64_t)};
    ARENA_NEW(firsts, pool->arena, rows + 1);
    ARENA_NEW(numbers, pool->arena, rows + 1);
    LS_TRY(
        ls_embedding__fetch(pool, (const void **)&starts, of->starts, rows + 1, sizeof(int64_t)));
    LS_TRY(ls_embedding__fetch(pool, (const void **)&order, of->order, of->count, sizeof(int64_t)));
    for (size_t u = 0; u < rows; u++) {
        firsts[u] = order[starts[u]];
        numbers[u] = (int64_t)u;
    }
    numbers[rows] = (int64_t)rows;
    LS_TRY(ls_embedding__upload(pool, (const void **)&of->order, &array, firsts));
    return ls_embedding__upload(pool, (const void **)&of->starts, &array, numbers);
}
