// Small programs, selected by name: correct by default, and with `wrong` as argument 2 with a
// mistake. A comment "wrong: FINDING" is on or above the line that the finding must name. Three
// ranks.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WORLD  MPI_COMM_WORLD
#define STATUS MPI_STATUS_IGNORE

static int rank, size;
static bool wrong;

typedef struct named_case {
    const char *name;
    void (*run)(void);
} named_case;

static int run_case(int argc, char **argv, const named_case *cases, int count) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    wrong = argc > 2 && strcmp(argv[2], "wrong") == 0;
    for (int i = 0; i < count; i++) {
        if (argc > 1 && strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            MPI_Finalize();
            return 0;
        }
    }
    return 99;
}

#define CASES(...)                                                                                 \
    int main(int argc, char **argv) {                                                              \
        static const named_case cases[] = {__VA_ARGS__};                                           \
        return run_case(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));                 \
    }
