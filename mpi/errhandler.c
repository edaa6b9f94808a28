// Error handlers of communicators and of windows. Objects keep those that the program has freed.
#include "mpi/rma.h"

// Finds an error handler of the program; NULL: a predefined one. *why: NULL, or the error.
static mpi_errhandler *handler_of(mpi_rank *me, MPI_Errhandler handler, const char **why) {
    bool constant = handler == MPI_ERRORS_ARE_FATAL || handler == MPI_ERRORS_RETURN;
    mpi_errhandler *of = ls_mpi__handle_get(me, MPI_KIND_ERRHANDLER, handler, why);
    if (constant || of != NULL) {
        *why = of == NULL || of->references > 0 ? NULL : "freed";
    }
    return of;
}

static int handler_arg(mpi_errhandler **out, mpi_where at, MPI_Errhandler handler) {
    const char *why;
    *out = handler_of(at.me, handler, &why);
    return why == NULL ? MPI_SUCCESS
                       : ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function,
                                       "the error handler is %s", why);
}

static int new_handler(mpi_where at, MPI_Comm_errhandler_function *comm,
                       MPI_Win_errhandler_function *win, MPI_Errhandler *out) {
    mpi_errhandler *made = ls_mpi__alloc(sizeof *made);
    *made = (mpi_errhandler){comm, win, 1};
    *out = ls_mpi__handle_add(at.me, MPI_KIND_ERRHANDLER, made);
    ls_mpi__handle_slot(at.me, *out)->function = at.function;
    return MPI_SUCCESS;
}

int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *out) {
    MPI_ENTER_AT(at);
    return new_handler(at, function, NULL, out);
}

int MPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *out) {
    return MPI_Comm_create_errhandler(function, out);
}

int MPI_Win_create_errhandler(MPI_Win_errhandler_function *function, MPI_Errhandler *out) {
    MPI_ENTER_AT(at);
    return new_handler(at, NULL, function, out);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    mpi_errhandler *made;
    MPI_TRY(handler_arg(&made, at, handler));
    if (made != NULL && made->win != NULL) {
        return ls_mpi__error(at.me, of, MPI_ERR_ARG, __func__, "the error handler is for windows");
    }
    of->errhandler = handler;
    return MPI_SUCCESS;
}

int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler handler) {
    return MPI_Comm_set_errhandler(comm, handler);
}

// The program has to free what it gets.
static MPI_Errhandler refer(mpi_rank *me, MPI_Errhandler handler) {
    mpi_errhandler *of = ls_mpi__handle_get(me, MPI_KIND_ERRHANDLER, handler, NULL);
    if (of != NULL) {
        of->references += 1;
    }
    return handler;
}

int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    *handler = refer(at.me, of->errhandler);
    return MPI_SUCCESS;
}

int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *handler) {
    return MPI_Comm_get_errhandler(comm, handler);
}

int MPI_Errhandler_free(MPI_Errhandler *handler) {
    MPI_ENTER_AT(at);
    mpi_errhandler *of;
    MPI_TRY(handler_arg(&of, at, handler != NULL ? *handler : MPI_ERRHANDLER_NULL));
    if (of != NULL) {
        of->references -= 1;  // communicators that use it keep it
    }
    *handler = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
}

int MPI_Win_get_errhandler(MPI_Win win, MPI_Errhandler *handler) {
    MPI_ENTER_AT(at);
    mpi_win *of;
    MPI_TRY(ls_mpi__win_arg(&of, at, win));
    *handler = refer(at.me, of->errhandler);
    return MPI_SUCCESS;
}

int MPI_Win_set_errhandler(MPI_Win win, MPI_Errhandler handler) {
    MPI_ENTER_AT(at);
    mpi_win *of;
    const char *why;
    MPI_TRY(ls_mpi__win_arg(&of, at, win));
    const mpi_errhandler *made = handler_of(at.me, handler, &why);
    why = why == NULL && made != NULL && made->win == NULL ? "for communicators" : why;
    if (why != NULL) {
        return ls_mpi__win_error(at.me, of, MPI_ERR_ARG, __func__, "the error handler is %s", why);
    }
    of->errhandler = handler;
    return MPI_SUCCESS;
}

int MPI_Comm_call_errhandler(MPI_Comm comm, int code) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    (void)ls_mpi__error(at.me, of, code, __func__, "the program calls it");
    return MPI_SUCCESS;
}
