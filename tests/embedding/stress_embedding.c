// Random collections, plans and inputs through all stages, each judged by the oracle; the plain
// program that valgrind and the sanitizers run. Prints the seed of the first failure.
// Usage: stress_embedding [cases [first seed]]
#include <stdio.h>
#include <stdlib.h>

#include "case.h"

#define TABLES_MAX 5

static uint64_t draw(uint64_t seed, uint64_t index, uint64_t bound) {
    return ls_random_below(bound, seed, 77, 0, index);
}

// A random collection on a random world; index runs through the draws.
static int make_case(embedding_case *c, uint64_t seed) {
    static const char *const names[TABLES_MAX] = {"t0", "t1", "t2", "t3", "t4"};
    static const char *const features[] = {"a", "b", "c", "a,b", "c,a"};
    static const int hosts[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 3}, {4, 2}, {5, 5}, {6, 3}, {8, 4}};
    static const ls_dtype dtypes[] = {LS_F32, LS_F32, LS_F16, LS_BF16, LS_F64};
    uint64_t i = 0;
    const int *world = hosts[draw(seed, i++, sizeof(hosts) / sizeof(hosts[0]))];
    case_init(c, world[0], world[1], seed);
    int tables = 1 + (int)draw(seed, i++, TABLES_MAX);
    for (int t = 0; t < tables; t++) {
        ls_pooling pooling = (ls_pooling)draw(seed, i++, 4);
        bool weighted = (pooling == LS_POOL_SUM || pooling == LS_POOL_MEAN) && draw(seed, i++, 2);
        int64_t rows = 1 + (int64_t)draw(seed, i++, 20), dim = 1 + (int64_t)draw(seed, i++, 9);
        case_table(c, names[t], rows, dim, pooling, weighted, features[draw(seed, i++, 5)]);
        c->tables[t].dtype = dtypes[draw(seed, i++, 5)];
        c->tables[t].has_padding_id = draw(seed, i++, 3) == 0;
        c->tables[t].padding_id = (int64_t)draw(seed, i++, (uint64_t)rows);
        if (!case_place(c, t, (ls_sharding)draw(seed, i++, LS_SHARDING_COUNT), 3)) {
            case_place(c, t, LS_ROW_WISE, 0);
        }
    }
    int64_t batches[CASE_RANKS_MAX];
    for (int r = 0; r < c->ranks; r++) {
        batches[r] = (int64_t)draw(seed, i++, 5);
    }
    return case_inputs(c, batches, 4);
}

int main(int argc, char **argv) {
    uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 60;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t elements = 0;
    for (uint64_t seed = first; seed < first + cases; seed++) {
        embedding_case c;
        case_outcome out = {0};
        int status = make_case(&c, seed);
        if (status == LS_OK) {
            status = case_run(&c, &out);
        }
        if (status != LS_OK || out.wrong > 0) {
            fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, out.text);
            return 1;
        }
        elements += out.elements;
        case_outcome_free(&out);
        case_free(&c);
    }
    if (elements == 0) {
        fprintf(stderr, "nothing was judged\n");
        return 1;
    }
    return 0;
}
