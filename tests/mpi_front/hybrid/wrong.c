// Programs with wrong threads; argument 1 selects one. Findings are at the lines that end with
// "wrong:" and a name.
#include "hybrid.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm comms[2];
static MPI_Request shared;

// Every thread waits for the thread of its number, which also waits.
static void *circle(void *arg) {
    int t = (int)(intptr_t)arg, got, peer = (rank + 1) % size;
    if (t == 0) {
        MPI_Recv(&got, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // wrong: circle 0
        MPI_Send(&t, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&got, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // wrong: circle 1
        MPI_Send(&t, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
    }
    return NULL;
}

// The sending thread waits for a lock that the receiving thread holds.
static void *locked(void *arg) {
    int t = (int)(intptr_t)arg, got;
    if (t == 1) {  // it has the lock, see main
        MPI_Recv(&got, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD,  // wrong: locked
                 MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&mutex);
    } else {
        pthread_mutex_lock(&mutex);
        MPI_Send(&t, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

// Two communicators, and a member that calls on them in the other order, on one thread.
static void *crossed(void *arg) {
    int t = (int)(intptr_t)arg;
    if (t == 0) {
        MPI_Barrier(comms[rank == 0 ? 0 : 1]);  // wrong: crossed
        MPI_Barrier(comms[rank == 0 ? 1 : 0]);
    }
    return NULL;
}

// Collectives of one communicator, on two threads at once.
static void *at_once(void *arg) {
    int t = (int)(intptr_t)arg, sum, value = 0;
    if (t == 0) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // wrong: at once
    } else {
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);  // wrong: at once too
    }
    return NULL;
}

// Two threads complete one request.
static void *both_complete(void *arg) {
    MPI_Wait(&shared, MPI_STATUS_IGNORE);  // wrong: both complete
    return arg;
}

// More receives than messages.
static void *too_many(void *arg) {
    int t = (int)(intptr_t)arg, got;
    if (rank > 0) {
        MPI_Send(&t, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    } else {
        for (int i = 0; i < size; i++) {
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD,  // wrong: too many
                     MPI_STATUS_IGNORE);
        }
    }
    return NULL;
}

// A helper waits without end, and the others with it.
static void *endless(void *arg) {
    int got;
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD,  // wrong: endless
             MPI_STATUS_IGNORE);
    return arg;
}

// The completing thread waits for a lock that the waiting one holds.
static void *completes(void *arg) {
    pthread_mutex_lock(&mutex);
    MPI_Grequest_complete(*(MPI_Request *)arg);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *never_complete(void *arg) {
    static MPI_Request request, handle;
    pthread_t thread;
    int t = (int)(intptr_t)arg;
    if (t == 0) {
        MPI_Grequest_start(query, release, cancel, NULL, &request);
        handle = request;
        pthread_mutex_lock(&mutex);
        pthread_create(&thread, NULL, completes, &handle);
        MPI_Wait(&request, MPI_STATUS_IGNORE);  // wrong: never complete
        pthread_mutex_unlock(&mutex);
        pthread_join(thread, NULL);
    }
    return NULL;
}

// The rank's thread meets its peer, so that its other thread waits in its call by then.
static void meet(void) {
    int peer = (rank + 1) % size, got;
    MPI_Sendrecv(&rank, 1, MPI_INT, peer, 8, &got, 1, MPI_INT, (rank + size - 1) % size, 8,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int buffers[2];

// A thread writes the receive buffer of another thread.
static void *beside_receive(void *arg) {
    if ((intptr_t)arg == 0) {
        MPI_Recv(buffers, 1, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    } else {
        meet();
        buffers[0] = 5;  // wrong: beside a receive
        MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    }
    return NULL;
}

static void *beside_sendrecv(void *arg) {
    int peer = (rank + 1) % size, from = (rank + size - 1) % size, got;
    if ((intptr_t)arg == 0) {
        MPI_Sendrecv(&buffers[1], 1, MPI_INT, peer, 7, buffers, 1, MPI_INT, from, 9, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    } else {
        meet();
        buffers[1] = 5;  // wrong: beside a sendrecv
        MPI_Send(&rank, 1, MPI_INT, peer, 9, MPI_COMM_WORLD);
        MPI_Recv(&got, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    static const struct {
        const char *name;
        void *(*on_each)(void *);
    } ways[] = {{"circle", circle},
                {"locked", locked},
                {"crossed", crossed},
                {"at_once", at_once},
                {"both_complete", both_complete},
                {"too_many", too_many},
                {"endless", endless},
                {"never_complete", never_complete},
                {"beside_receive", beside_receive},
                {"beside_sendrecv", beside_sendrecv}};
    begin(&argc, &argv, MPI_THREAD_MULTIPLE);
    int got = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    if (strcmp(way, "locked") == 0) {
        pthread_mutex_lock(&mutex);
    }
    if (strcmp(way, "both_complete") == 0) {
        MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, &shared);
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(way, ways[i].name) == 0) {
            on_threads(ways[i].on_each, 2);
        }
    }
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
    MPI_Finalize();
    return 0;
}
