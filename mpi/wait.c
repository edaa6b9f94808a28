// Waiting for requests and testing them.
#include <stdlib.h>

#include "mpi/internal.h"

static int callback_failed(mpi_rank *me, int code, const char *which) {
    return code == MPI_SUCCESS
               ? MPI_SUCCESS
               : ls_mpi__error(me, NULL, code, "MPI_Grequest_start",
                               "the %s function of the request returned error code %d", which,
                               code);
}

// The status of a complete request; for a generalized one the error of its query function.
static int complete_status(mpi_rank *me, mpi_request *request) {
    MPI_Status *status = &request->record.status;
    int result = MPI_SUCCESS;
    if (request->kind == MPI_REQUEST_GENERAL && request->query != NULL) {
        result = callback_failed(me, request->query(request->state, status), "query");
    }
    status->ls_cancelled = request->cancelled ? 1 : status->ls_cancelled;
    status->MPI_TAG = request->parts != NULL ? ls_mpi__parts_tag(request) : status->MPI_TAG;
    return result;
}

static int release_general(mpi_rank *me, const mpi_request *request) {
    return request->release != NULL ? callback_failed(me, request->release(request->state), "free")
                                    : MPI_SUCCESS;
}

// The buffers are the program's again.
static void give_back(mpi_rank *me, mpi_request *request) {
    for (int i = 0; i < LS_MPI_OWNED; i++) {
        ls_mpi__disown(me, request->owned[i]);
        request->owned[i] = NULL;
    }
}

int ls_mpi__request_finish(mpi_rank *me, MPI_Request *handle, MPI_Status *status) {
    mpi_request *request = ls_mpi__request_of(me, *handle, NULL);
    if (request->inner != NULL) {
        ls_schedule__enter(me->rank);
        ls_request__free(me->rank, request->inner);
        ls_schedule__leave(me->rank);
        request->inner = NULL;
    }
    int result = complete_status(me, request);
    int last = request->kind == MPI_REQUEST_GENERAL ? release_general(me, request)
                                                    : ls_mpi__received(me, &request->record);
    result = last != MPI_SUCCESS ? last : result;
    if (request->kind == MPI_REQUEST_COLLECTIVE && request->record.thread != NULL) {
        ls_mpi__clock_message(me, request->record.thread->clock);
    }
    if (request->kind == MPI_REQUEST_RMA) {
        ls_mpi__race_request_done(me, request);
        ls_mpi__let_others(me, request->record.function);
    }
    ls_mpi__parts_done(me, request);
    ls_mpi__status(status, &request->record.status);
    request->active = false;
    request->waiter = NULL;
    if (request->persistent) {
        give_back(me, request);
    } else {
        ls_mpi__request_close(me, request);
        *handle = MPI_REQUEST_NULL;
    }
    return result;
}

// The active request of a handle; NULL: null or inactive. *status: MPI_SUCCESS or the error.
static mpi_request *active(mpi_where at, MPI_Request handle, int *status) {
    const char *why;
    *status = MPI_SUCCESS;
    if (handle == MPI_REQUEST_NULL) {
        return NULL;
    }
    mpi_request *request = ls_mpi__request_of(at.me, handle, &why);
    if (request == NULL) {
        *status =
            ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, at.function, "the request is %s", why);
        return NULL;
    }
    const ls_thread *waiter = request->waiter;
    if (waiter != NULL && waiter != ls_turns__me(at.me->rank)) {
        *status = ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, at.function,
                                "the request of %s, made at %s:%d, is waited for by thread %d of "
                                "the rank at %s:%d: only one thread may complete a request",
                                request->record.function, request->file, request->line,
                                waiter->number, waiter->file, waiter->line);
        return NULL;
    }
    return request->active ? request : NULL;
}

// From here on the thread (NULL: none) waits for these.
static void hold(mpi_where at, int count, const MPI_Request *requests, const ls_thread *by) {
    int ignored;
    for (int i = 0; i < count && at.me->rank->threads_made > 0; i++) {
        mpi_request *request = active(at, requests[i], &ignored);
        if (request != NULL) {
            request->waiter = by;
        }
    }
}

static int check_list(mpi_where at, int count, const MPI_Request *requests) {
    MPI_TRY(ls_mpi__count_arg(at, NULL, "the count", count));
    if (count > 0 && requests == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function, "the list of requests is NULL");
    }
    ls_mpi__bytes_check(at.me, requests, (size_t)count * sizeof *requests, at.function);
    for (int i = 0; i < count; i++) {
        int status;
        (void)active(at, requests[i], &status);
        MPI_TRY(status);
    }
    return MPI_SUCCESS;
}

static int check_all(mpi_where at, int count, const MPI_Request *requests,
                     const MPI_Status *statuses) {
    MPI_TRY(check_list(at, count, requests));
    MPI_TRY(ls_mpi__status_arg(at, statuses, count));
    if (statuses != MPI_STATUSES_IGNORE) {
        ls_mpi__bytes_check(at.me, statuses, (size_t)count * sizeof *statuses, at.function);
    }
    return MPI_SUCCESS;
}

// A generalized request has no call, and a partitioned send has none until all parts are ready:
// other ranks run until then.
static void wait_general(mpi_where at, const mpi_request *request) {
    while (request != NULL && request->inner == NULL && !ls_mpi__request_done(request)) {
        ls_mpi__poll(at.me, at.function);
    }
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_ENTER_AT(at);
    if (request == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, __func__, "the request is NULL");
    }
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    int result;
    mpi_request *open = active(at, *request, &result);
    if (open == NULL) {
        ls_mpi__status_empty(status);
        return result;
    }
    hold(at, 1, request, ls_turns__me(at.me->rank));
    wait_general(at, open);
    if (!ls_mpi__request_done(open)) {
        (void)ls_mpi__await(at.me, &open->inner, 1, false);
    }
    return ls_mpi__request_finish(at.me, request, status);
}

// The calls that are not complete: out [count]; returns their number. *open: the number of open
// requests.
static int open_calls(mpi_where at, ls_request **out, int count, const MPI_Request *requests,
                      int *open) {
    int n = 0, ignored;
    *open = 0;
    for (int i = 0; i < count; i++) {
        mpi_request *request = active(at, requests[i], &ignored);
        *open += request != NULL ? 1 : 0;
        if (request != NULL && !ls_mpi__request_done(request) && request->inner != NULL) {
            out[n++] = request->inner;
        }
    }
    return n;
}

static MPI_Status *at_index(MPI_Status *statuses, int i) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

// Finishes the complete ones. set: stores each error in its status.
static int finish_all(mpi_where at, int count, MPI_Request *requests, MPI_Status *statuses) {
    int result = MPI_SUCCESS, ignored;
    for (int i = 0; i < count; i++) {
        MPI_Status *status = at_index(statuses, i);
        if (active(at, requests[i], &ignored) == NULL) {
            ls_mpi__status_empty(status);
            continue;
        }
        int one = ls_mpi__request_finish(at.me, &requests[i], status);
        if (one != MPI_SUCCESS) {
            result = MPI_ERR_IN_STATUS;
        }
        if (status != MPI_STATUS_IGNORE) {
            status->MPI_ERROR = one;
        }
    }
    return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses) {
    MPI_ENTER_AT(at);
    int open, ignored;
    MPI_TRY(check_all(at, count, requests, statuses));
    hold(at, count, requests, ls_turns__me(at.me->rank));
    for (int i = 0; i < count; i++) {
        wait_general(at, active(at, requests[i], &ignored));
    }
    ls_request **inner = ls_mpi__alloc((size_t)count * sizeof *inner);
    int n = open_calls(at, inner, count, requests, &open);
    if (n > 0) {
        (void)ls_mpi__await(at.me, inner, n, false);
    }
    free(inner);
    return finish_all(at, count, requests, statuses);
}

static int first_done(mpi_where at, int count, const MPI_Request *requests) {
    int ignored;
    for (int i = 0; i < count; i++) {
        const mpi_request *request = active(at, requests[i], &ignored);
        if (request != NULL && ls_mpi__request_done(request)) {
            return i;
        }
    }
    return -1;
}

// Waits until one is complete: its index, or -1 if none is open.
static int wait_for_one(mpi_where at, int count, MPI_Request *requests) {
    ls_request **inner = ls_mpi__alloc((size_t)count * sizeof *inner);
    int open, n = open_calls(at, inner, count, requests, &open);
    int index = first_done(at, count, requests);
    if (open > 1) {
        ls_mpi__observe();
    }
    hold(at, count, requests, ls_turns__me(at.me->rank));
    if (index < 0 && open > 0 && n == open) {
        (void)ls_mpi__await(at.me, inner, n, true);
        index = first_done(at, count, requests);
    }
    while (index < 0 && open > 0) {  // one of them is a generalized request
        ls_mpi__poll(at.me, at.function);
        index = first_done(at, count, requests);
    }
    hold(at, count, requests, NULL);
    free(inner);
    return index;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    MPI_ENTER_AT(at);
    MPI_TRY(check_list(at, count, requests));
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    int done = wait_for_one(at, count, requests);
    *index = done < 0 ? MPI_UNDEFINED : done;
    if (done < 0) {
        ls_mpi__status_empty(status);
        return MPI_SUCCESS;
    }
    return ls_mpi__request_finish(at.me, &requests[done], status);
}

static int finish_some(mpi_where at, int count, MPI_Request *requests, int *outcount, int *indices,
                       MPI_Status *statuses) {
    int n = 0, result = MPI_SUCCESS, ignored;
    for (int i = 0; i < count; i++) {
        const mpi_request *request = active(at, requests[i], &ignored);
        if (request == NULL || !ls_mpi__request_done(request)) {
            continue;
        }
        MPI_Status *status = at_index(statuses, n);
        int one = ls_mpi__request_finish(at.me, &requests[i], status);
        result = one != MPI_SUCCESS ? MPI_ERR_IN_STATUS : result;
        if (status != MPI_STATUS_IGNORE) {
            status->MPI_ERROR = one;
        }
        indices[n++] = i;
    }
    *outcount = n;
    return result;
}

int MPI_Waitsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                 MPI_Status *statuses) {
    MPI_ENTER_AT(at);
    MPI_TRY(check_list(at, incount, requests));
    MPI_TRY(ls_mpi__status_arg(at, statuses, incount));
    if (wait_for_one(at, incount, requests) < 0) {
        *outcount = MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    return finish_some(at, incount, requests, outcount, indices, statuses);
}

// ---- Testing ------------------------------------------------------------------------------------
// Others run before a test says no.
static bool give_way(mpi_where at, int count, const MPI_Request *requests, bool all) {
    int ignored;
    for (int turn = 0; turn < 2; turn++) {
        int open = 0, done = 0;
        for (int i = 0; i < count; i++) {
            const mpi_request *request = active(at, requests[i], &ignored);
            open += request != NULL ? 1 : 0;
            done += request != NULL && ls_mpi__request_done(request) ? 1 : 0;
        }
        if (open > 0 && turn == 0) {
            ls_mpi__observe();
        }
        if (all ? open == done : open == 0 || done > 0) {
            return true;
        }
        if (turn == 0) {
            ls_mpi__poll(at.me, at.function);
        }
    }
    return false;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_ENTER_AT(at);
    MPI_TRY(check_list(at, 1, request));
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    *flag = give_way(at, 1, request, true) ? 1 : 0;
    int result;
    if (*flag != 0 && active(at, *request, &result) != NULL) {
        return ls_mpi__request_finish(at.me, request, status);
    }
    if (*flag != 0) {
        ls_mpi__status_empty(status);
    }
    return MPI_SUCCESS;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses) {
    MPI_ENTER_AT(at);
    MPI_TRY(check_all(at, count, requests, statuses));
    *flag = give_way(at, count, requests, true) ? 1 : 0;
    return *flag != 0 ? finish_all(at, count, requests, statuses) : MPI_SUCCESS;
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    MPI_ENTER_AT(at);
    MPI_TRY(check_list(at, count, requests));
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    *flag = give_way(at, count, requests, false) ? 1 : 0;
    int done = first_done(at, count, requests);
    *index = done < 0 ? MPI_UNDEFINED : done;
    if (done >= 0) {
        return ls_mpi__request_finish(at.me, &requests[done], status);
    }
    if (*flag != 0) {
        ls_mpi__status_empty(status);
    }
    return MPI_SUCCESS;
}

int MPI_Testsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                 MPI_Status *statuses) {
    MPI_ENTER_AT(at);
    int open = 0, ignored;
    MPI_TRY(check_list(at, incount, requests));
    MPI_TRY(ls_mpi__status_arg(at, statuses, incount));
    (void)give_way(at, incount, requests, false);
    for (int i = 0; i < incount; i++) {
        open += active(at, requests[i], &ignored) != NULL ? 1 : 0;
    }
    if (open == 0) {
        *outcount = MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    return finish_some(at, incount, requests, outcount, indices, statuses);
}

// ---- Other completions --------------------------------------------------------------------------
int MPI_Request_get_status(MPI_Request handle, int *flag, MPI_Status *status) {
    MPI_ENTER_AT(at);
    int result;
    mpi_request *request = active(at, handle, &result);
    MPI_TRY(result);
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    *flag = request == NULL || give_way(at, 1, &handle, true) ? 1 : 0;
    if (request == NULL) {
        ls_mpi__status_empty(status);
    } else if (*flag != 0) {
        give_back(at.me, request);  // complete, though its handle stays
        result = complete_status(at.me, request);
        ls_mpi__status(status, &request->record.status);
    }
    return result;
}

int MPI_Request_free(MPI_Request *handle) {
    MPI_ENTER_AT(at);
    const char *why;
    mpi_request *request =
        ls_mpi__request_of(at.me, handle != NULL ? *handle : MPI_REQUEST_NULL, &why);
    if (request == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, __func__, "the request is %s", why);
    }
    if (request->active && request->kind == MPI_REQUEST_COLLECTIVE) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, __func__,
                             "the request of %s, made at %s:%d, is not complete: a request of a "
                             "collective cannot be freed before it is complete",
                             request->record.function, request->file, request->line);
    }
    *handle = MPI_REQUEST_NULL;
    if (request->kind == MPI_REQUEST_GENERAL && !request->general_done) {
        request->freed = true;  // MPI_Grequest_complete ends it
        return MPI_SUCCESS;
    }
    int result =
        request->kind == MPI_REQUEST_GENERAL ? release_general(at.me, request) : MPI_SUCCESS;
    ls_mpi__request_close(at.me, request);
    ls_mpi__requests_settle(at.me, false);
    return result;
}

int MPI_Cancel(MPI_Request *handle) {
    MPI_ENTER_AT(at);
    const char *why;
    mpi_request *request =
        ls_mpi__request_of(at.me, handle != NULL ? *handle : MPI_REQUEST_NULL, &why);
    if (request == NULL || !request->active || request->kind == MPI_REQUEST_COLLECTIVE ||
        request->kind == MPI_REQUEST_RMA) {
        if (request != NULL) {
            why = request->active ? "no message's" : "not active";
        }
        return ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, __func__, "the request is %s", why);
    }
    ls_mpi__observe();
    if (request->kind == MPI_REQUEST_GENERAL) {
        if (request->cancel != NULL) {
            return callback_failed(
                at.me, request->cancel(request->state, request->general_done ? 1 : 0), "cancel");
        }
        return MPI_SUCCESS;
    }
    ls_schedule__enter(at.me->rank);
    if (request->inner != NULL && request->inner->state == LS_REQUEST_POSTED) {
        ls_p2p__withdraw(request->inner);
        ls_request__done(request->inner, LS_OK);
        request->cancelled = true;
    }
    ls_schedule__leave(at.me->rank);
    return MPI_SUCCESS;
}

int MPI_Grequest_start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *release,
                       MPI_Grequest_cancel_function *cancel, void *state, MPI_Request *handle) {
    MPI_ENTER(me);
    mpi_request *made = ls_mpi__request_make(me, MPI_REQUEST_GENERAL, __func__);
    made->query = query;
    made->release = release;
    made->cancel = cancel;
    made->state = state;
    made->active = true;
    made->record.function = __func__;
    *handle = made->handle;
    return MPI_SUCCESS;
}

int MPI_Grequest_complete(MPI_Request handle) {
    MPI_ENTER(me);
    const char *why;
    mpi_request *request = ls_mpi__request_of(me, handle, &why);
    if (request == NULL || request->kind != MPI_REQUEST_GENERAL) {
        return ls_mpi__error(me, NULL, MPI_ERR_REQUEST, __func__, "the request is %s",
                             request == NULL ? why : "not from MPI_Grequest_start");
    }
    request->general_done = true;
    ls_mpi__state.run->completed += 1;  // a thread that polls for it may continue
    int result = MPI_SUCCESS;
    if (request->freed) {
        result = release_general(me, request);
        ls_mpi__request_close(me, request);
    }
    return result;
}
