// Entry and exit of MPI functions: the calling rank and the place of the call.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mpi/rma.h"
#include "ranks/seen.h"

void ls_mpi_at(const char *file, int line) {
    ls_mpi__file = file;
    ls_mpi__line = line;
    if (ls_mpi__watched != NULL) {
        ls_mpi__left_behind(__builtin_frame_address(0));
    }
}

static mpi_rank *find_rank(const char *function, const void *caller) {
    ls_rank *rank = ls_schedule__current();
    if (rank == NULL) {
        mpi_rank *owner = ls_mpi__rank_of_code(caller);
        if (owner == NULL && ls_seen__here != NULL && ls_seen__here->told) {
            _exit(0);  // a handler of the end of a program that did not come there
        }
        if (owner == NULL) {
            (void)fprintf(stderr, "lockstep: %s is called outside of `lockstep mpi`\n", function);
            _exit(2);
        }
        (void)ls_rank_attach(owner->rank);
        return owner;
    }
    return &ls_mpi__state.ranks[rank->id];
}

// A process that a rank has forked belongs to no rank.
_Noreturn static void refuse_forked(const mpi_rank *me, const char *function) {
    ls_seen *seen = ls_seen__here;
    if (seen != NULL && seen->forked[0] == 0) {
        seen->forked_rank = me->id;
        seen->forked_at.line = ls_mpi__line;
        (void)snprintf(seen->forked_at.file, sizeof seen->forked_at.file, "%s", ls_mpi__file);
        (void)snprintf(seen->forked, sizeof seen->forked,
                       "rank %d: %s is called by a process that the rank has forked\n", me->id,
                       function);
    }
    _exit(1);
}

__attribute__((noinline)) mpi_rank *ls_mpi__enter_any(const char *function) {
    mpi_rank *me = find_rank(function, __builtin_return_address(0));
    if (ls_seen__forked) {
        refuse_forked(me, function);
    }
    ls_seen__at(me->id, ls_mpi__file, ls_mpi__line);
    if (ls_mpi__state.run->status != LS_OK) {
        (void)ls_mpi__leave(me, LS_OK);
    }
    return me;
}

// The calls that the level granted by MPI_Init_thread forbids.
static void check_level(mpi_rank *me, const char *function) {
    static const char *const levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                         "MPI_THREAD_SERIALIZED"};
    char message[512] = "";
    const ls_seen_place at = me->thread_at;
    bool other = pthread_equal(me->main_thread, pthread_self()) == 0;
    if (me->thread_level <= MPI_THREAD_FUNNELED && other) {
        (void)snprintf(message, sizeof message,
                       "%s is called by another thread than MPI_Init_thread at %s:%d, which "
                       "granted %s",
                       function, at.file, at.line, levels[me->thread_level]);
    } else if (me->thread_level == MPI_THREAD_SERIALIZED) {
        const char *file = "";
        int line = 0;
        if (ls_turns__other(me->rank, &file, &line)) {
            (void)snprintf(message, sizeof message,
                           "%s is called while another thread of the rank is in its call at %s:%d; "
                           "MPI_Init_thread at %s:%d granted MPI_THREAD_SERIALIZED",
                           function, file, line, at.file, at.line);
        }
    }
    if (message[0] != 0) {
        (void)ls_mpi__error(me, NULL, MPI_ERR_OTHER, function, "%s", message);
    }
}

static void arrive(mpi_rank *me) {
    ls_thread *self = ls_turns__me(me->rank);
    self->file = ls_mpi__file;
    self->line = ls_mpi__line;
    ls_turns__arrive(me->rank);
    while (me->looks) {
        (void)sched_yield();
    }
    if (ls_mpi__state.run->status != LS_OK) {  // meanwhile
        (void)ls_mpi__leave(me, LS_OK);
    }
}

mpi_rank *ls_mpi__enter(const char *function) {
    mpi_rank *me = ls_mpi__enter_any(function);
    if (!me->initialised || me->finalised) {
        ls_mpi__finding(me, LS_FINDING_CALL_INVALID, ls_mpi__file, ls_mpi__line, "%s is called %s",
                        function, me->finalised ? "after MPI_Finalize" : "before MPI_Init");
        ls_spmd__fail(ls_mpi__state.run, LS_ERR_FINDING, "call.invalid");
        (void)ls_mpi__leave(me, LS_OK);
    }
    check_level(me, function);
    (void)ls_mpi__clock(me);  // as it comes: others go on while it waits for its turn
    arrive(me);
    me->entered += 1;
    ls_mpi__blocks_look(me, false);
    return me;
}

mpi_rank *ls_mpi__enter_waiting(const char *function) {
    mpi_rank *me = ls_mpi__enter_any(function);
    arrive(me);
    return me;
}

void ls_mpi__return(mpi_rank *const *me) {
    ls_turns__depart((*me)->rank);
}

void ls_mpi__return_at(const mpi_where *at) {
    ls_turns__depart(at->me->rank);
}
