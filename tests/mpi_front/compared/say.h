// Shared by the programs of this folder: the rank's identity, and lines of numbers, with names for
// MPI's constants.
#pragma once

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, all;

static inline void start(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
}

static inline void say(const char *what, int count, const int *values) {
    printf("%s:", what);
    for (int i = 0; i < count; i++) {
        if (values[i] == MPI_UNDEFINED || values[i] == MPI_PROC_NULL) {
            printf(" %s", values[i] == MPI_UNDEFINED ? "undefined" : "nobody");
        } else {
            printf(" %d", values[i]);
        }
    }
    printf("\n");
}

#define SAY(what, ...)                                                                             \
    say(what, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__})

// The name of a comparison result: the numbers differ between libraries.
static inline const char *likeness(int result) {
    return result == MPI_IDENT       ? "ident"
           : result == MPI_CONGRUENT ? "congruent"
           : result == MPI_SIMILAR   ? "similar"
           : result == MPI_UNEQUAL   ? "unequal"
                                     : "?";
}

// Its size, this rank in it, and its members as ranks of MPI_COMM_WORLD.
static inline void say_group(const char *what, MPI_Group group) {
    MPI_Group world;
    int line[2 + 64], own[64];
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, &line[0]);
    MPI_Group_rank(group, &line[1]);
    for (int i = 0; i < line[0]; i++) {
        own[i] = i;
    }
    MPI_Group_translate_ranks(group, line[0], own, world, line + 2);
    say(what, 2 + line[0], line);
    MPI_Group_free(&world);
}

static inline void say_comm(const char *what, MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) {
        printf("%s: no communicator\n", what);
        return;
    }
    MPI_Group group;
    int inter, size, rank, likes;
    MPI_Comm_test_inter(comm, &inter);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &likes);
    printf("%s: %d of %d, %s to the world\n", what, rank, size, likeness(likes));
    MPI_Comm_group(comm, &group);
    say_group(what, group);
    MPI_Group_free(&group);
    if (inter) {
        MPI_Comm_remote_size(comm, &size);
        SAY("its others", size);
        MPI_Comm_remote_group(comm, &group);
        say_group("its others", group);
        MPI_Group_free(&group);
    }
}

// A communicator's members exchange messages in it: one from each to each.
static inline void meet(const char *what, MPI_Comm comm) {
    say_comm(what, comm);
    if (comm != MPI_COMM_NULL) {
        int size, inter, from[64];
        MPI_Comm_test_inter(comm, &inter);
        (inter ? MPI_Comm_remote_size : MPI_Comm_size)(comm, &size);
        MPI_Allgather(&me, 1, MPI_INT, from, 1, MPI_INT, comm);
        say("they say", size, from);
    }
}

static inline void say_status(const char *what, const MPI_Status *status, MPI_Datatype type) {
    int count, cancelled;
    MPI_Get_count(status, type, &count);
    MPI_Test_cancelled(status, &cancelled);
    printf("%s: source %d tag %d count %d cancelled %d\n", what,
           status->MPI_SOURCE == MPI_ANY_SOURCE  ? -100
           : status->MPI_SOURCE == MPI_PROC_NULL ? -200
                                                 : status->MPI_SOURCE,
           status->MPI_TAG == MPI_ANY_TAG ? -100 : status->MPI_TAG, count, cancelled);
}
