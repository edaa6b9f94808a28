// Shared by the files of the client.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "exec/client.h"
#include "exec/memory.h"

#define LS_CLIENT_SITES        4096  // of a table by hash, a power of two
#define LS_CLIENT_STAGINGS_MAX 1024

// A piece of a GPU's memory that the coordinator reaches.
typedef struct ls_client_staging {
    char *at;
    int device;
    ls_exec_gap *free;
} ls_client_staging;

struct ls_client {
    pid_t pid;
    int socket;
    ls_wire_control *control;
    pthread_mutex_t sending;       // messages; recursive
    pthread_mutex_t taking;        // all below
    uint32_t free[LS_WIRE_SLOTS];  // [free_count] slots
    uint32_t free_count;
    ls_exec_memory memory;
    ls_client_staging stagings[LS_CLIENT_STAGINGS_MAX];
    uint32_t staging_count;
    bool no_staging;  // the coordinator cannot access GPU memory
    void (*ended)(void *arg);
    void *ended_arg;
    uint32_t comms;
    uint64_t site_hash[LS_CLIENT_SITES];    // 0: free
    uint32_t site_number[LS_CLIENT_SITES];  //
    uint32_t sites;
};
