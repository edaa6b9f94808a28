// The state of the run, and what every file of this folder may do with a rank: tell a finding of it
// and end it.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mpi/internal.h"

mpi_state ls_mpi__state;

// A thread that the program started: its code is in the image of its rank.
mpi_rank *ls_mpi__rank_of_code(const void *address) {
    for (int r = 0; r < ls_mpi__state.rank_count; r++) {
        mpi_rank *rank = &ls_mpi__state.ranks[r];
        if ((const char *)address >= rank->code_low && (const char *)address < rank->code_high) {
            return rank;
        }
    }
    return NULL;
}

int ls_mpi__comm_world_rank(const mpi_comm *comm, int member) {
    return comm->inner->shared->comm->ranks[member];
}

_Noreturn void ls_mpi__end(mpi_rank *me, int exit_status) {
    ls_rank *rank = me->rank;
    bool own = rank->escape != NULL && pthread_equal(rank->thread, pthread_self()) != 0;
    if (own || ls_mpi__state.run->status == LS_OK) {
        rank->exit_status = exit_status;
    }
    if (!own) {
        ls_turns__quit(rank);
    }
    if (!own && rank->escape != NULL) {
        ls_threads__escape(rank, LS_ESCAPE_EXIT);
    }
    while (!own) {  // the program has ended; libraries may wait for this thread
        (void)pause();
    }
    siglongjmp(*rank->escape, LS_ESCAPE_EXIT);
}

int ls_mpi__leave(mpi_rank *me, int status) {
    if (ls_mpi__state.run->status != LS_OK) {
        ls_schedule__enter(me->rank);
        ls_request__drain(me->rank);
        ls_schedule__leave(me->rank);
        ls_mpi__end(me, 0);
    }
    return status == LS_OK ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static void add_finding(mpi_rank *me, ls_finding_id id, const char *file, int line,
                        const char *format, va_list args) {
    ls_spmd *run = ls_mpi__state.run;
    ls_text text = {0};
    char message[1024];
    (void)vsnprintf(message, sizeof message, format, args);
    ls_schedule__enter(me->rank);
    if (run->status == LS_OK) {
        ls_text_printf(&text, "rank %d: %s\n", me->id, message);
        ls_findings__history(&text, me->rank, 4);
        (void)ls_findings__add(run, id, &me->id, 1, file, line, ls_findings__string(run, &text));
        ls_text_free(&text);
    }
    ls_schedule__leave(me->rank);
}

void ls_mpi__finding(mpi_rank *me, ls_finding_id id, const char *file, int line, const char *format,
                     ...) {
    va_list args;
    va_start(args, format);
    add_finding(me, id, file, line, format, args);
    va_end(args);
}

_Noreturn void ls_mpi__exhausted(const char *format, ...) {
    char what[256], message[640];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    ls_rank *rank = ls_schedule__current();
    if (rank != NULL && !ls_schedule__inside()) {
        (void)snprintf(message, sizeof message, "%s:%d: rank %d: %s", ls_mpi__file, ls_mpi__line,
                       rank->id, what);
        ls_schedule__enter(rank);
        ls_spmd__fail(ls_mpi__state.run, LS_ERR_MEMORY, message);
        ls_schedule__leave(rank);
        (void)ls_mpi__leave(&ls_mpi__state.ranks[rank->id], LS_OK);
    }
    (void)fprintf(stderr, "lockstep: %s\n", what);
    abort();
}
