// Errors that MPI functions return, and the check of their arguments.
#include <stdio.h>

#include "mpi/rma.h"

static const char *const class_names[] = {"MPI_SUCCESS",
                                          "MPI_ERR_BUFFER",
                                          "MPI_ERR_COUNT",
                                          "MPI_ERR_TYPE",
                                          "MPI_ERR_TAG",
                                          "MPI_ERR_COMM",
                                          "MPI_ERR_RANK",
                                          "MPI_ERR_REQUEST",
                                          "MPI_ERR_ROOT",
                                          "MPI_ERR_GROUP",
                                          "MPI_ERR_OP",
                                          "MPI_ERR_TOPOLOGY",
                                          "MPI_ERR_DIMS",
                                          "MPI_ERR_ARG",
                                          "MPI_ERR_UNKNOWN",
                                          "MPI_ERR_TRUNCATE",
                                          "MPI_ERR_OTHER",
                                          "MPI_ERR_INTERN",
                                          "MPI_ERR_IN_STATUS",
                                          "MPI_ERR_PENDING",
                                          "MPI_ERR_KEYVAL",
                                          "MPI_ERR_NO_MEM",
                                          "MPI_ERR_BASE",
                                          "MPI_ERR_INFO_KEY",
                                          "MPI_ERR_INFO_VALUE",
                                          "MPI_ERR_INFO_NOKEY",
                                          "MPI_ERR_SPAWN",
                                          "MPI_ERR_PORT",
                                          "MPI_ERR_SERVICE",
                                          "MPI_ERR_NAME",
                                          "MPI_ERR_WIN",
                                          "MPI_ERR_SIZE",
                                          "MPI_ERR_DISP",
                                          "MPI_ERR_INFO",
                                          "MPI_ERR_LOCKTYPE",
                                          "MPI_ERR_ASSERT",
                                          "MPI_ERR_RMA_CONFLICT",
                                          "MPI_ERR_RMA_SYNC",
                                          "MPI_ERR_RMA_RANGE",
                                          "MPI_ERR_RMA_ATTACH",
                                          "MPI_ERR_RMA_SHARED",
                                          "MPI_ERR_RMA_FLAVOR",
                                          "MPI_ERR_FILE",
                                          "MPI_ERR_NOT_SAME",
                                          "MPI_ERR_AMODE",
                                          "MPI_ERR_UNSUPPORTED_DATAREP",
                                          "MPI_ERR_UNSUPPORTED_OPERATION",
                                          "MPI_ERR_NO_SUCH_FILE",
                                          "MPI_ERR_FILE_EXISTS",
                                          "MPI_ERR_BAD_FILE",
                                          "MPI_ERR_ACCESS",
                                          "MPI_ERR_NO_SPACE",
                                          "MPI_ERR_QUOTA",
                                          "MPI_ERR_READ_ONLY",
                                          "MPI_ERR_FILE_IN_USE",
                                          "MPI_ERR_DUP_DATAREP",
                                          "MPI_ERR_CONVERSION",
                                          "MPI_ERR_IO"};

const char *ls_mpi__class_name(int error_class) {
    bool known =
        error_class >= 0 && error_class < (int)(sizeof class_names / sizeof class_names[0]);
    return known ? class_names[error_class] : "an error class that the program added";
}

static int fatal(mpi_rank *me, int error_class, const char *function, const char *message) {
    ls_mpi__finding(me, LS_FINDING_CALL_INVALID, ls_mpi__file, ls_mpi__line, "%s: %s: %s", function,
                    ls_mpi__class_name(error_class), message);
    ls_schedule__enter(me->rank);
    ls_spmd__fail(ls_mpi__state.run, LS_ERR_FINDING, "call.invalid");
    ls_schedule__leave(me->rank);
    return ls_mpi__leave(me, LS_OK);
}

int ls_mpi__error(mpi_rank *me, const mpi_comm *comm, int error_class, const char *function,
                  const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    comm = comm != NULL ? comm : me->world;
    if (comm == NULL || comm->errhandler == MPI_ERRORS_ARE_FATAL) {
        return fatal(me, error_class, function, message);
    }
    if (comm->errhandler != MPI_ERRORS_RETURN) {
        const mpi_errhandler *handler =
            ls_mpi__handle_get(me, MPI_KIND_ERRHANDLER, comm->errhandler, NULL);
        MPI_Comm handle = comm->handle;
        int code = error_class;
        if (handler != NULL && handler->comm != NULL) {
            handler->comm(&handle, &code);
        }
    }
    return error_class;
}

int ls_mpi__win_error(mpi_rank *me, const mpi_win *win, int error_class, const char *function,
                      const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (win == NULL || win->errhandler == MPI_ERRORS_ARE_FATAL) {
        mpi_comm fatal = {.errhandler = MPI_ERRORS_ARE_FATAL};
        return ls_mpi__error(me, win != NULL ? &fatal : NULL, error_class, function, "%s", message);
    }
    const mpi_errhandler *handler =
        ls_mpi__handle_get(me, MPI_KIND_ERRHANDLER, win->errhandler, NULL);
    MPI_Win handle = win->handle;
    if (handler != NULL && handler->win != NULL) {
        handler->win(&handle, &error_class);
    }
    return error_class;
}

// ---- Arguments ----------------------------------------------------------------------------------
int ls_mpi__comm_arg(mpi_comm **out, mpi_where at, MPI_Comm handle) {
    const char *why;
    *out = ls_mpi__handle_get(at.me, MPI_KIND_COMM, handle, &why);
    return *out != NULL ? MPI_SUCCESS
                        : ls_mpi__error(at.me, NULL, MPI_ERR_COMM, at.function,
                                        "the communicator is %s", why);
}

int ls_mpi__group_arg(mpi_group **out, mpi_where at, MPI_Group handle) {
    const char *why;
    *out = ls_mpi__handle_get(at.me, MPI_KIND_GROUP, handle, &why);
    return *out != NULL
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, NULL, MPI_ERR_GROUP, at.function, "the group is %s", why);
}

int ls_mpi__type_arg(mpi_type **out, mpi_where at, mpi_comm *comm, MPI_Datatype handle,
                     bool committed) {
    const char *why;
    *out = ls_mpi__handle_get(at.me, MPI_KIND_TYPE, handle, &why);
    if (*out == NULL) {
        return ls_mpi__error(at.me, comm, MPI_ERR_TYPE, at.function, "the datatype is %s", why);
    }
    if (committed && !(*out)->committed) {
        const mpi_slot *slot = ls_mpi__handle_slot(at.me, handle);
        return ls_mpi__error(at.me, comm, MPI_ERR_TYPE, at.function,
                             "the datatype, made by %s at %s:%d, was not committed "
                             "(MPI_Type_commit)",
                             slot->function != NULL ? slot->function : "a constructor", slot->file,
                             slot->line);
    }
    return MPI_SUCCESS;
}

int ls_mpi__count_arg(mpi_where at, mpi_comm *comm, const char *what, long count) {
    return count >= 0
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, comm, MPI_ERR_COUNT, at.function, "%s is %ld", what, count);
}

int ls_mpi__reach_arg(mpi_where at, mpi_comm *comm, const void *buf, size_t elements,
                      const mpi_type *type) {
    ptrdiff_t end, size, n = (ptrdiff_t)elements;
    // The last element begins at n - 1 extents.
    bool fits = ls_mpi__fits(&size, 0, n, (ptrdiff_t)type->size) &&
                ls_mpi__fits(&end, type->true_lb, n, type->extent) &&
                ls_mpi__fits(&end, end, 1, type->true_extent);
    ptrdiff_t low = 0, high = 0;
    if (fits && elements > 0 && type->size > 0 && buf != NULL) {
        ptrdiff_t last = (n - 1) * type->extent;
        low = (ptrdiff_t)(intptr_t)buf + type->true_lb + (last < 0 ? last : 0);
        high = low + type->true_extent + (last < 0 ? -last : last);
    }
    if (fits && low >= 0 && high <= LS_MPI_MEMORY) {
        return MPI_SUCCESS;
    }
    return ls_mpi__error(at.me, comm, MPI_ERR_COUNT, at.function,
                         "%zu elements of %s do not fit into the address space", elements,
                         ls_mpi__type_name(type));
}

int ls_mpi__buffer_arg(mpi_where at, mpi_comm *comm, const void *buf, long count,
                       const mpi_type *type) {
    if (buf == MPI_IN_PLACE) {
        return ls_mpi__error(at.me, comm, MPI_ERR_BUFFER, at.function,
                             "MPI_IN_PLACE is not allowed here");
    }
    if (count == 0 || type->size == 0) {
        return MPI_SUCCESS;
    }
    // Addresses of MPI_Get_address count from MPI_BOTTOM.
    bool absolute = buf == MPI_BOTTOM && type->constant == NULL && type->true_lb != 0;
    if (buf == NULL && !absolute) {
        return ls_mpi__error(at.me, comm, MPI_ERR_BUFFER, at.function,
                             "the buffer is NULL, and the count is %ld", count);
    }
    return ls_mpi__reach_arg(at, comm, buf, (size_t)count, type);
}

int ls_mpi__receive_arg(mpi_where at, mpi_comm *comm, long count, const mpi_type *type) {
    MPI_TRY(ls_mpi__reach_arg(at, comm, NULL, (size_t)count, type));
    return !ls_mpi__places_overlap(&(mpi_place){NULL, (size_t)count, type}, 1)
               ? MPI_SUCCESS
               : ls_mpi__error(
                     at.me, comm, MPI_ERR_TYPE, at.function,
                     "entries of the datatype overlap: nothing can be received into them");
}

// A handle error has no communicator; the world's error handler applies.
int ls_mpi__out_arg(mpi_where at, const char *what, const void *out) {
    return out != NULL ? MPI_SUCCESS
                       : ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function,
                                       "the %s argument is NULL", what);
}

int ls_mpi__status_arg(mpi_where at, const MPI_Status *status, int count) {
    return status != NULL || count == 0
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function,
                               "the status argument is NULL; pass MPI_STATUS_IGNORE to ignore it");
}

int ls_mpi__read_status_arg(mpi_where at, const MPI_Status *status) {
    MPI_TRY(ls_mpi__out_arg(at, "status", status));
    return status != MPI_STATUS_IGNORE ? MPI_SUCCESS
                                       : ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function,
                                                       "the status is MPI_STATUS_IGNORE");
}

int ls_mpi__root_arg(mpi_where at, mpi_comm *comm, int root) {
    if (comm->inter && (root == MPI_ROOT || root == MPI_PROC_NULL)) {
        return MPI_SUCCESS;
    }
    int size = comm->inter ? comm->remote_size : comm->size;
    return root >= 0 && root < size ? MPI_SUCCESS
                                    : ls_mpi__error(at.me, comm, MPI_ERR_ROOT, at.function,
                                                    "root %d is not in [0, %d)", root, size);
}
