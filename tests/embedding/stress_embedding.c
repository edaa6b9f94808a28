// Random collections, plans and inputs through all stages, each judged by the oracle; the plain
// program that valgrind and the sanitizers run. Prints the seed of the first failure.
// Usage: stress_embedding [cases [first seed]]
#include <stdio.h>
#include <stdlib.h>

#include "case.h"

int main(int argc, char **argv) {
    uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 60;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t elements = 0;
    for (uint64_t seed = first; seed < first + cases; seed++) {
        embedding_case c;
        case_outcome out = {0};
        int status = case_random(&c, seed, 0);
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
