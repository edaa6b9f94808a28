// Shared by the programs of this folder: printing, and the communicators and forms of call for
// collectives.
#pragma once

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM    96
#define WORLD   MPI_COMM_WORLD
#define LAST(a) ((int)(sizeof(a) / sizeof(a)[0]))

// The contents of a buffer from its first element on; runs of unwritten -1 as "*".
static inline void show(const char *what, const int *buf, int count) {
    printf("%s:", what);
    for (int i = 0; i < count; i++) {
        if (buf[i] != -1) {
            printf(" %d", buf[i]);
        } else if (i == 0 || buf[i - 1] != -1) {
            printf(" *");
        }
    }
    printf("\n");
}

static inline void fill(int *buf, int first) {
    for (int i = 0; i < ROOM; i++) {
        buf[i] = first < 0 ? -1 : first + i;
    }
}

typedef enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORM_COUNT } form;

// MPI_##name in one of its forms.
#define CALL(form, name, iname, ...)                                                               \
    do {                                                                                           \
        MPI_Request request_;                                                                      \
        if ((form) == BLOCKING) {                                                                  \
            MPI_##name(__VA_ARGS__);                                                               \
        } else if ((form) == NONBLOCKING) {                                                        \
            MPI_I##iname(__VA_ARGS__, &request_);                                                  \
            MPI_Wait(&request_, MPI_STATUS_IGNORE);                                                \
        } else {                                                                                   \
            MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_);                              \
            MPI_Start(&request_);                                                                  \
            MPI_Wait(&request_, MPI_STATUS_IGNORE);                                                \
            MPI_Request_free(&request_);                                                           \
        }                                                                                          \
    } while (0)

// A communicator; `peers` are those that this rank exchanges blocks with.
typedef struct place {
    const char *name;
    MPI_Comm comm;
    int inter, group, rank, size, peers;
} place;

static inline place place_of(const char *name, MPI_Comm comm, int group) {
    place made = {.name = name, .comm = comm, .group = group};
    MPI_Comm_test_inter(comm, &made.inter);
    MPI_Comm_rank(comm, &made.rank);
    MPI_Comm_size(comm, &made.size);
    made.peers = made.size;
    if (made.inter) {
        MPI_Comm_remote_size(comm, &made.peers);
    }
    return made;
}

#define PLACE_COUNT 5

// The world, its two groups with their ranks reversed, one rank, and intercommunicators: 2 and 3
// ranks; the last rank and all others.
static inline void make_places(place out[PLACE_COUNT]) {
    int rank, size;
    MPI_Comm half, part, inter;
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    out[0] = place_of("world", WORLD, 0);
    MPI_Comm_split(WORLD, rank < 2, -rank, &half);
    out[1] = place_of("half", half, 0);
    out[2] = place_of("self", MPI_COMM_SELF, 0);
    const int begins[2] = {2, size - 1};  // of the second group
    for (int i = 0; i < 2; i++) {
        int group = rank < begins[i] ? 0 : 1;
        MPI_Comm_split(WORLD, group, rank, &part);
        MPI_Intercomm_create(part, 0, WORLD, group == 0 ? begins[i] : 0, 7, &inter);
        MPI_Comm_free(&part);
        out[3 + i] = place_of(i == 0 ? "2 to 3" : "many to 1", inter, group);
    }
}

static inline void free_places(place places[PLACE_COUNT]) {
    MPI_Comm_free(&places[1].comm);
    MPI_Comm_free(&places[3].comm);
    MPI_Comm_free(&places[4].comm);
}

// This rank's root argument: member `root` of group `group`, modulo its size.
static inline int root_of(const place *p, int group, int root) {
    int size = p->group == group || !p->inter ? p->size : p->peers;
    root %= size;
    return !p->inter || p->group != group ? root : p->rank == root ? MPI_ROOT : MPI_PROC_NULL;
}

static inline int is_root(const place *p, int root) {
    return p->inter ? root == MPI_ROOT : root == p->rank;
}
