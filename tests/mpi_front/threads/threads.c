// Hybrid programs: argument 1 selects the action of the threads of each of two ranks.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *way;
static int rank, size;
static volatile int receiver;
static volatile bool received;

static int is(const char *name) {
    return strcmp(way, name) == 0;
}

static void exchange(int tag) {
    int mine = 10 * rank + tag, got = -1, left = (rank + size - 1) % size;
    MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, tag, &got, 1, MPI_INT, left, tag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != 10 * left + tag) {
        exit(9);
    }
}

static void region(void) {
    int data = 0;
#pragma omp parallel num_threads(3)
    {
        if (is("multiple")) {
#pragma omp for ordered
            for (int i = 0; i < 6; i++) {
#pragma omp ordered
                exchange(i);
            }
        } else if (is("serialized")) {
#pragma omp single
            exchange(1);
#pragma omp critical
            {
                int flag;
                MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            }
        } else if (is("funneled")) {
#pragma omp master
            exchange(1);
#pragma omp barrier
        } else if (is("deadlock")) {
#pragma omp single
            {
                MPI_Recv(&data, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD,  // wrong: deadlock
                         MPI_STATUS_IGNORE);
                MPI_Send(&rank, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD);
            }
        } else if (is("fault")) {
#pragma omp single
            *(volatile int *)8 = 1;
        }
    }
}

static void *help(void *arg) {
    int mine = rank, sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // wrong: helper
    return arg;
}

static void *receive(void *arg) {
    int got;
    receiver = gettid();
    MPI_Recv(&got, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // wrong: waits
    received = true;
    return arg;
}

// Waits until the other thread sleeps in its receive, or has its message.
static void wait_for_receiver(void) {
    char path[64], state = 0;
    while (state != 'S' && !received) {
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", receiver);
        FILE *file = receiver != 0 ? fopen(path, "r") : NULL;
        if (file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = 0;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
}

static void two_at_once(void) {
    pthread_t thread;
    int one = 1;
    pthread_create(&thread, NULL, receive, NULL);
    wait_for_receiver();
    MPI_Send(&one, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD);  // wrong: two_at_once
    pthread_join(thread, NULL);
}

// Two threads may find one message, unless the first to find it takes it.
static void *probe(void *arg) {
    int got[2], count;
    MPI_Status status;
    MPI_Message message;
    if (is("matched_probes")) {
        MPI_Mprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Mrecv(got, count, MPI_INT, &message, MPI_STATUS_IGNORE);
    } else {
        MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Recv(got, count, MPI_INT, status.MPI_SOURCE, 1, MPI_COMM_WORLD,  // wrong: probes
                 MPI_STATUS_IGNORE);
    }
    return arg;
}

static void probes(void) {
    pthread_t threads[2];
    const int out[2] = {rank, rank};
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, probe, NULL);
    }
    for (int i = 1; i <= 2; i++) {
        MPI_Send(out, i, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void *all_to_all(void *types) {
    const int counts[] = {1, 1}, displs[] = {0, 2 * sizeof(int)}, out[] = {rank, 0, rank, 1};
    int in[4];
    MPI_Alltoallw(out, counts, displs, types, in, counts, displs, types, MPI_COMM_WORLD);
    if (in[0] != 0 || in[1] != rank || in[2] != 1 || in[3] != rank) {
        exit(9);
    }
    return types;
}

// The types are freed while rank 0's thread is in its call, which uses them until it returns.
static void freed_types(void) {
    pthread_t thread;
    MPI_Datatype types[2], same[2];
    for (int i = 0; i < 2; i++) {
        MPI_Type_contiguous(2, MPI_INT, &types[i]);
        MPI_Type_commit(&types[i]);
        same[i] = types[i];
    }
    if (rank == 0) {
        pthread_create(&thread, NULL, all_to_all, types);
    }
    for (int i = 0; i < 10; i++) {  // while these wait, the thread makes its call
        exchange(i);
    }
    if (rank > 0) {
        exchange(10);
        all_to_all(types);
    }
    MPI_Type_free(&same[0]);
    MPI_Type_free(&same[1]);
    if (rank == 0) {
        exchange(10);
        pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv) {
    int provided, level = MPI_THREAD_MULTIPLE;
    pthread_t thread;
    way = argv[1];
    level = is("serialized") || is("two_at_once") ? MPI_THREAD_SERIALIZED : level;
    level = is("funneled") || is("helper") ? MPI_THREAD_FUNNELED : level;
    MPI_Init_thread(&argc, &argv, level, &provided);  // wrong: init
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    region();
    if (is("helper") || is("helper_multiple")) {
        pthread_create(&thread, NULL, help, NULL);
        pthread_join(thread, NULL);
    } else if (is("two_at_once") || is("both_wait")) {
        two_at_once();
    } else if (is("probes") || is("matched_probes")) {
        probes();
    } else if (is("freed_types")) {
        freed_types();
    }
    MPI_Finalize();
    return 0;
}
