// What the files of the client share.
#ifndef LS_EXEC_CLIENT_INTERNAL_H
#define LS_EXEC_CLIENT_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "exec/client.h"

#define LS_CLIENT_MEMORIES_MAX 1024
#define LS_CLIENT_SITES        4096  // of a table by hash, a power of two

// A stretch of a piece of memory that nobody has.
typedef struct ls_client_gap {
    uint64_t offset, bytes;
    struct ls_client_gap *next;  // ascending
} ls_client_gap;

typedef struct ls_client_memory {
    char *at;
    size_t bytes;
    ls_client_gap *gaps;
} ls_client_memory;

struct ls_client {
    pid_t pid;
    int socket;
    ls_wire_control *control;
    pthread_mutex_t sending;       // messages; recursive
    pthread_mutex_t taking;        // all below
    uint32_t free[LS_WIRE_SLOTS];  // [free_count] slots
    uint32_t free_count;
    ls_client_memory memories[LS_CLIENT_MEMORIES_MAX];
    uint32_t memory_count;
    int (*made)(void *arg, void *at, size_t bytes);
    void *made_arg;
    void (*ended)(void *arg);
    void *ended_arg;
    uint32_t comms;
    uint64_t site_hash[LS_CLIENT_SITES];    // 0: free
    uint32_t site_number[LS_CLIENT_SITES];  //
    uint32_t sites;
};

// Shared memory that another process can map by its descriptor; the caller closes that.
int ls_client__shared(void **out, int *descriptor, size_t bytes);

#endif
