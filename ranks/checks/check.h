// A check of SPMD runs: functions that the core of ranks/ calls at fixed moments of a run. The core
// reaches them only through the run's table and includes nothing of a check.
#pragma once

#include "ranks/state.h"

// NaN and infinities seen in a reduction's results and inputs, before the results took the inputs'
// place.
typedef struct ls_value_watch {
    unsigned results;
    unsigned *inputs;   // [size] NULL: not examined
    uint64_t *samples;  // [size] a NaN of each
    size_t element;     // of the first of them
    ls_dtype dtype;
    int size;
    int gone;         // rank with an overwritten input; -1: none
    bool infinities;  // are of interest
} ls_value_watch;

// Requests [size] that agree, while their data is moved: of a collective, or a send and its
// receive.
typedef struct ls_move {
    ls_shared_comm *shared;
    ls_request *const *requests;
    int size;
    ls_device *device;  // NULL: the data is in ordinary memory
    ls_value_watch watch;
} ls_move;

// A function that is NULL is not called. Those that return a status end the run when they fail.
struct ls_rank_check {
    int (*made)(ls_request *request);              // a rank makes the call
    void (*posted)(ls_request *request);           // the call waits for the others
    int (*agreed)(ls_spmd *run, ls_meet *meet);    // the calls of all members have arrived and
                                                   // agree
    void (*matched)(ls_request *request);          // its data moves next
    void (*moving)(ls_spmd *run, ls_move *move);   // before data moves
    void (*moved)(ls_spmd *run, ls_move *move);    // after it has moved
    void (*over)(ls_move *move);                   // in any case, last
    void (*completed)(const ls_request *request);  // its rank continues
    // Computes a matched call of kind LS_CHECK_REPLICA or LS_CHECK_REPLICAS.
    int (*asked)(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests);
    void (*freed)(ls_rank *rank, const ls_allocation *allocation);
    bool (*holds)(const ls_rank *rank, const char *start, size_t bytes);  // freed memory is needed
    int (*ended)(ls_spmd *run);  // all programs have returned and the run has not failed
    void (*closed)(ls_spmd *run);
    void (*closed_comm)(ls_shared_comm *shared);
};

// The checks, in the order in which they are called; NULL is the last.
extern const ls_rank_check *const ls_checks__table[];
