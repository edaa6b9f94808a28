// Shared by hybrid programs: threads of a rank, and values that identify their sender.
#pragma once

#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3

static int rank, size;

static void check(int condition, int line) {
    if (!condition) {
        fprintf(stderr, "rank %d: line %d is not as it should be\n", rank, line);
        exit(9);
    }
}
#define CHECK(condition) check((condition) != 0, __LINE__)

// Runs `function` on `count` threads with their numbers, the calling thread's last.
static void on_threads(void *(*function)(void *), int count) {
    pthread_t threads[16];
    for (int t = 0; t + 1 < count; t++) {
        pthread_create(&threads[t], NULL, function, (void *)(intptr_t)t);
    }
    function((void *)(intptr_t)(count - 1));
    for (int t = 0; t + 1 < count; t++) {
        pthread_join(threads[t], NULL);
    }
}

static void begin(int *argc, char ***argv, int level) {
    int provided;
    MPI_Init_thread(argc, argv, level, &provided);
    CHECK(provided >= level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

// Functions of generalized requests without a state.
static inline int query(void *state, MPI_Status *status) {
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return state == NULL ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static inline int release(void *state) {
    return state == NULL ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static inline int cancel(void *state, int complete) {
    return state == NULL && complete ? MPI_SUCCESS : MPI_ERR_OTHER;
}
