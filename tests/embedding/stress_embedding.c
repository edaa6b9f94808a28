// Random collections, plans and inputs through all stages, and through three steps of training,
// each judged by the oracle; the plain program that valgrind and the sanitizers run. Prints the
// seed of the first failure. Usage: stress_embedding [cases [first seed]]
#include <stdio.h>
#include <stdlib.h>

#include "case.h"
#include "train.h"

static int train(uint64_t seed, uint64_t *elements) {
    embedding_case c;
    train_case t;
    train_outcome out = {0};
    int status = train_random(&t, &c, seed, 0);
    if (status == LS_OK) {
        status = train_run(&t, &out);
    }
    if (status != LS_OK || out.wrong > 0) {
        fprintf(stderr, "training, seed %llu: %s\n", (unsigned long long)seed, out.text);
        status = status ? status : LS_ERR_MISMATCH;
    }
    *elements += out.elements;
    train_outcome_free(&out);
    case_free(&c);
    return status;
}

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
        if (train(seed, &elements)) {
            return 1;
        }
    }
    if (elements == 0) {
        fprintf(stderr, "nothing was judged\n");
        return 1;
    }
    return 0;
}
