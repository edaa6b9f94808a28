// MPI_Init and MPI_Finalize of a rank, and the leaks that are found at its end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "mpi/internal.h"

static int start(const char *function, int level, int *provided) {
    mpi_rank *me = ls_mpi__enter_any(function);
    if (me->initialised) {
        return ls_mpi__error(me, NULL, MPI_ERR_OTHER, function, "MPI is initialised already");
    }
    if (level < MPI_THREAD_SINGLE || level > MPI_THREAD_MULTIPLE) {
        return ls_mpi__error(me, NULL, MPI_ERR_ARG, function, "thread level %d", level);
    }
    me->initialised = true;
    ls_mpi__state.run->started = true;
    // Under a parallel schedule nothing detects that all threads wait.
    bool parallel = ls_mpi__state.run->parallel;
    level = parallel && level > MPI_THREAD_SERIALIZED ? MPI_THREAD_SERIALIZED : level;
    me->thread_level = level;
    me->rank->calls_at_once = level == MPI_THREAD_MULTIPLE;
    me->main_thread = pthread_self();
    me->thread_at.line = ls_mpi__line;
    (void)snprintf(me->thread_at.file, sizeof me->thread_at.file, "%s", ls_mpi__file);
    if (provided != NULL) {
        *provided = level;
    }
    return MPI_SUCCESS;
}

int MPI_Init(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    return start(__func__, MPI_THREAD_SINGLE, NULL);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    (void)argc;
    (void)argv;
    return start(__func__, required, provided);
}

int MPI_Initialized(int *flag) {
    *flag = ls_mpi__enter_any(__func__)->initialised ? 1 : 0;
    return MPI_SUCCESS;
}

int MPI_Finalized(int *flag) {
    *flag = ls_mpi__enter_any(__func__)->finalised ? 1 : 0;
    return MPI_SUCCESS;
}

int MPI_Query_thread(int *provided) {
    MPI_ENTER(me);
    *provided = me->thread_level;
    return MPI_SUCCESS;
}

int MPI_Is_thread_main(int *flag) {
    MPI_ENTER(me);
    *flag = pthread_equal(me->main_thread, pthread_self()) != 0 ? 1 : 0;
    return MPI_SUCCESS;
}

// ---- The end ------------------------------------------------------------------------------------
static void leak(mpi_rank *me, const mpi_slot *slot, const char *what, const char *never) {
    ls_mpi__finding(me, LS_FINDING_HANDLE_LEAK, slot->file, slot->line,
                    "%s: %s, made by %s at %s:%d, is never %s", "MPI_Finalize", what,
                    slot->function != NULL ? slot->function : "a call", slot->file, slot->line,
                    never);
}

static void leaked_requests(mpi_rank *me) {
    const mpi_table *table = &me->tables[MPI_KIND_REQUEST];
    for (int n = LS_MPI_FIRST_OWN; n < table->count; n++) {
        const mpi_slot *slot = &table->slots[n];
        const mpi_request *request = slot->object;
        if (request != NULL) {
            leak(me, slot,
                 request->persistent && !request->active ? "a persistent request" : "a request",
                 request->persistent && !request->active
                     ? "freed (MPI_Request_free)"
                     : "completed (MPI_Wait, MPI_Test and their kind)");
        }
    }
}

static void leaks(mpi_rank *me) {
    static const struct {
        mpi_kind kind;
        const char *what, *never;
    } kinds[] = {{MPI_KIND_COMM, "a communicator", "freed (MPI_Comm_free)"},
                 {MPI_KIND_GROUP, "a group", "freed (MPI_Group_free)"},
                 {MPI_KIND_TYPE, "a datatype", "freed (MPI_Type_free)"},
                 {MPI_KIND_OP, "an operation", "freed (MPI_Op_free)"},
                 {MPI_KIND_WIN, "a window", "freed (MPI_Win_free)"},
                 {MPI_KIND_MESSAGE, "a message", "received (MPI_Mrecv)"}};
    leaked_requests(me);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const mpi_table *table = &me->tables[kinds[k].kind];
        for (int n = LS_MPI_FIRST_OWN; n < table->count; n++) {
            if (table->slots[n].object != NULL && !table->slots[n].internal) {
                leak(me, &table->slots[n], kinds[k].what, kinds[k].never);
            }
        }
    }
    if (me->bsend_buffer != NULL && me->bsend_used == 0) {
        ls_mpi__disown(me, me->bsend_owned);
        me->bsend_buffer = NULL;  // MPI_Finalize detaches it
    }
}

int MPI_Finalize(void) {
    MPI_ENTER(me);
    const mpi_where at = {me, __func__};
    MPI_TRY(ls_mpi__attributes_free(at, MPI_COMM_SELF, &me->self->attributes));
    ls_mpi__requests_settle(me, true);
    leaks(me);
    me->finalised = true;
    return MPI_SUCCESS;
}

int MPI_Abort(MPI_Comm comm, int code) {
    mpi_rank *me = ls_mpi__enter_any(__func__);
    (void)comm;
    ls_mpi__finding(me, LS_FINDING_RANK_DIED, ls_mpi__file, ls_mpi__line,
                    "MPI_Abort with code %d ends the program", code);
    ls_schedule__enter(me->rank);
    ls_spmd__fail(ls_mpi__state.run, LS_ERR_FINDING, "rank.died");
    ls_schedule__leave(me->rank);
    ls_mpi__end(me, code);
}

// ---- Time, names --------------------------------------------------------------------------------
double MPI_Wtime(void) {
    return ls_time_now();
}

double MPI_Wtick(void) {
    return 1e-9;
}

int MPI_Get_processor_name(char *name, int *length) {
    *length = snprintf(name, MPI_MAX_PROCESSOR_NAME, "lockstep");
    return MPI_SUCCESS;
}

int MPI_Get_version(int *version, int *subversion) {
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}

int MPI_Get_library_version(char *version, int *length) {
    *length = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "lockstep, MPI 3.1");
    return MPI_SUCCESS;
}

int MPI_Pcontrol(const int level, ...) {
    (void)level;
    return MPI_SUCCESS;
}
