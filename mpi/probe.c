// Probes, and queries of statuses.
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

// Makes the request of a probe; status: its source.
static int read_probe(mpi_where at, int source, int tag, MPI_Comm handle, mpi_record *record,
                      ls_request *proto) {
    mpi_comm *comm;
    MPI_TRY(ls_mpi__comm_arg(&comm, at, handle));
    int size = comm->inter ? comm->remote_size : comm->size;
    if ((source < 0 || source >= size) && source != MPI_ANY_SOURCE && source != MPI_PROC_NULL) {
        return ls_mpi__error(at.me, comm, MPI_ERR_RANK, at.function, "source %d is not in [0, %d)",
                             source, size);
    }
    if (tag < 0 && tag != MPI_ANY_TAG) {
        return ls_mpi__error(at.me, comm, MPI_ERR_TAG, at.function, "tag %d", tag);
    }
    *record = (mpi_record){.comm = comm, .function = at.function};
    ls_mpi__status_empty(&record->status);
    record->status.MPI_SOURCE = source == MPI_PROC_NULL ? MPI_PROC_NULL : MPI_ANY_SOURCE;
    ls_mpi__message_proto(proto, record, false, source, tag);
    proto->probe = true;
    return MPI_SUCCESS;
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_ENTER_AT(at);
    mpi_record record;
    ls_request proto, *inner = NULL;
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    MPI_TRY(read_probe(at, source, tag, comm, &record, &proto));
    if (source == MPI_PROC_NULL) {
        ls_mpi__status(status, &record.status);
        return MPI_SUCCESS;
    }
    MPI_TRY(ls_mpi__message_post(at.me, &proto, &record, &inner));
    (void)ls_mpi__await(at.me, &inner, 1, false);
    ls_mpi__status(status, &record.status);
    ls_schedule__enter(at.me->rank);
    ls_request__free(at.me->rank, inner);
    ls_schedule__leave(at.me->rank);
    return MPI_SUCCESS;
}

// The message that such a receive would get now. If there is none, other ranks run first.
static ls_request *look(mpi_where at, mpi_record *record, ls_request *proto) {
    ls_mpi__observe();
    proto->comm = record->comm->inner;
    proto->rank = at.me->rank;
    proto->call.comm = record->comm->inner->shared->comm;
    ls_request *send = ls_p2p__waiting(proto);
    if (send == NULL) {
        ls_mpi__poll(at.me, at.function);
        send = ls_p2p__waiting(proto);
    }
    return send;
}

// The message that a probe finds now; *flag without one: MPI_PROC_NULL.
static int probe_now(ls_request **send, int *flag, mpi_where at, int source, int tag, MPI_Comm comm,
                     mpi_record *record, ls_request *proto) {
    MPI_TRY(read_probe(at, source, tag, comm, record, proto));
    MPI_TRY(ls_mpi__out_arg(at, "flag", flag));
    bool nobody = source == MPI_PROC_NULL;
    *send = nobody ? NULL : look(at, record, proto);
    *flag = nobody || *send != NULL ? 1 : 0;
    return MPI_SUCCESS;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    MPI_ENTER_AT(at);
    mpi_record record;
    ls_request proto, *send;
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    MPI_TRY(probe_now(&send, flag, at, source, tag, comm, &record, &proto));
    if (send != NULL) {
        ls_mpi__found(&proto, send);
    }
    if (*flag != 0) {
        ls_mpi__status(status, &record.status);
    }
    return MPI_SUCCESS;
}

// ---- Matched probes -----------------------------------------------------------------------------
// Takes the message: it is no other receive's from here on.
static int take_message(mpi_where at, mpi_record *record, ls_request *proto, MPI_Message *message,
                        MPI_Status *status) {
    mpi_record *own = ls_mpi__alloc(sizeof *own);
    *own = *record;
    own->whole = true;
    proto->record = own;
    proto->probe = false;
    MPI_TRY(ls_mpi__message_post(at.me, proto, own, NULL));
    ls_mpi__status(status, &own->status);
    *message = ls_mpi__handle_add(at.me, MPI_KIND_MESSAGE, own);
    ls_mpi__handle_slot(at.me, *message)->function = at.function;
    return MPI_SUCCESS;
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    MPI_ENTER_AT(at);
    mpi_record record;
    ls_request proto;
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    MPI_TRY(ls_mpi__out_arg(at, "message", message));
    MPI_TRY(read_probe(at, source, tag, comm, &record, &proto));
    if (source == MPI_PROC_NULL) {
        *message = MPI_MESSAGE_NO_PROC;
        ls_mpi__status(status, &record.status);
        return MPI_SUCCESS;
    }
    return take_message(at, &record, &proto, message, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
    MPI_ENTER_AT(at);
    mpi_record record;
    ls_request proto, *send;
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    MPI_TRY(ls_mpi__out_arg(at, "message", message));
    MPI_TRY(probe_now(&send, flag, at, source, tag, comm, &record, &proto));
    *message = *flag != 0 ? MPI_MESSAGE_NO_PROC : MPI_MESSAGE_NULL;
    if (send == NULL) {
        if (*flag != 0) {
            ls_mpi__status(status, &record.status);
        }
        return MPI_SUCCESS;
    }
    // The same, from whichever rank has sent one.
    proto.any_source = false;
    proto.call.root = send->comm->member;
    proto.tag = send->tag;
    return take_message(at, &record, &proto, message, status);
}

typedef struct matched_receive {
    void *buf;
    int count;
    MPI_Datatype type;
    MPI_Message *message;
} matched_receive;

// The message of a handle of MPI_Mprobe; NULL: MPI_PROC_NULL.
static int message_arg(mpi_record **out, mpi_where at, const MPI_Message *message) {
    const char *why;
    MPI_TRY(ls_mpi__out_arg(at, "message", message));
    *out = NULL;
    if (*message == MPI_MESSAGE_NO_PROC) {
        return MPI_SUCCESS;
    }
    *out = ls_mpi__handle_get(at.me, MPI_KIND_MESSAGE, *message, &why);
    return *out != NULL
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, at.function, "the message is %s", why);
}

static void check_matched(mpi_where at, const mpi_record *record, size_t count,
                          const mpi_type *type) {
    const char *a, *b;
    if (!ls_mpi__signature_fits((size_t)record->send.count, record->send.type, count, type, &a,
                                &b)) {
        ls_mpi__finding(at.me, LS_FINDING_P2P_DTYPE_MISMATCH, ls_mpi__file, ls_mpi__line,
                        "%s: the message has type %s, but is received as %s", at.function, a, b);
    }
    if (!record->truncated) {
        return;
    }
    ls_mpi__finding(at.me, LS_FINDING_P2P_COUNT_MISMATCH, ls_mpi__file, ls_mpi__line,
                    "%s: MPI_ERR_TRUNCATE: a message of %zu bytes matches a receive of %zu",
                    at.function, record->packed_bytes, count * type->size);
    if (record->comm->errhandler == MPI_ERRORS_ARE_FATAL) {
        ls_schedule__enter(at.me->rank);
        ls_spmd__fail(ls_mpi__state.run, LS_ERR_FINDING, "p2p.count_mismatch");
        ls_schedule__leave(at.me->rank);
        (void)ls_mpi__leave(at.me, LS_OK);
    }
}

// Receives the message into *out and fills its status. `owned` (NULL: a blocking call) owns the
// buffer from here on.
static int receive_matched(mpi_record *out, mpi_owned **owned, mpi_where at,
                           const matched_receive *m) {
    mpi_record *record;
    mpi_type *of;
    MPI_TRY(message_arg(&record, at, m->message));
    if (record == NULL) {
        *out = (mpi_record){.function = at.function, .comm = at.me->world};
        ls_mpi__status_empty(&out->status);
        out->status.MPI_SOURCE = MPI_PROC_NULL;
        *m->message = MPI_MESSAGE_NULL;
        return MPI_SUCCESS;
    }
    size_t count = (size_t)m->count;
    MPI_TRY(ls_mpi__count_arg(at, record->comm, "the count", m->count));
    MPI_TRY(ls_mpi__type_arg(&of, at, record->comm, m->type, true));
    MPI_TRY(ls_mpi__buffer_arg(at, record->comm, m->buf, m->count, of));
    MPI_TRY(ls_mpi__receive_arg(at, record->comm, m->count, of));
    record->truncated = count * of->size < record->packed_bytes;
    check_matched(at, record, count, of);
    if (owned != NULL) {
        *owned = ls_mpi__own(at.me, m->buf, count, of, true, at.function);
    } else {
        ls_mpi__touch_typed(at.me, m->buf, count, of, true, at.function);
    }
    (void)ls_mpi__unpack(m->buf, count, of, record->packed, record->packed_bytes);
    ls_mpi__handle_free(at.me, *m->message);
    *m->message = MPI_MESSAGE_NULL;
    free(record->packed);
    *out = *record;
    out->packed = NULL;
    out->function = at.function;
    free(record);
    return MPI_SUCCESS;
}

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    MPI_ENTER_AT(at);
    mpi_record record;
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    MPI_TRY(receive_matched(&record, NULL, at, &(matched_receive){buf, count, type, message}));
    ls_mpi__types_drop(&record);
    int result = ls_mpi__received(at.me, &record);
    ls_mpi__status(status, &record.status);
    return result;
}

int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message,
               MPI_Request *request) {
    MPI_ENTER_AT(at);
    mpi_record record;
    mpi_owned *owned = NULL;
    MPI_TRY(ls_mpi__out_arg(at, "request", request));
    MPI_TRY(receive_matched(&record, &owned, at, &(matched_receive){buf, count, type, message}));
    mpi_request *made = ls_mpi__request_make(at.me, MPI_REQUEST_RECV, __func__);
    made->active = true;
    made->record = record;
    made->comm = record.comm;
    made->owned[0] = owned;
    *request = made->handle;
    return MPI_SUCCESS;
}

// ---- Statuses -----------------------------------------------------------------------------------
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count) {
    MPI_ENTER_AT(at);
    MPI_TRY(ls_mpi__read_status_arg(at, status));
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, true));
    long long bytes = status->ls_bytes, size = (long long)of->size;
    *count = 0;
    if (bytes != 0) {
        *count = size == 0 || bytes % size != 0 || bytes / size > INT32_MAX ? MPI_UNDEFINED
                                                                            : (int)(bytes / size);
    }
    return MPI_SUCCESS;
}

int MPI_Get_elements_x(const MPI_Status *status, MPI_Datatype type, MPI_Count *count) {
    MPI_ENTER_AT(at);
    MPI_TRY(ls_mpi__read_status_arg(at, status));
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, false));
    size_t left = (size_t)status->ls_bytes, whole = of->size > 0 ? left / of->size : 0;
    *count = (MPI_Count)(whole * of->elements);
    left -= whole * of->size;
    for (size_t s = 0; s < of->segment_count && left > 0; s++) {
        size_t each = ls_mpi__basic(of->segments[s].basic)->size;
        size_t n = left / each < of->segments[s].count ? left / each : of->segments[s].count;
        *count += (MPI_Count)n;
        left -= n * each;
        if (n < of->segments[s].count) {
            break;
        }
    }
    *count = left > 0 ? MPI_UNDEFINED : *count;
    return MPI_SUCCESS;
}

int MPI_Get_elements(const MPI_Status *status, MPI_Datatype type, int *count) {
    MPI_Count wide;
    MPI_TRY(MPI_Get_elements_x(status, type, &wide));
    *count = wide > INT32_MAX ? MPI_UNDEFINED : (int)wide;
    return MPI_SUCCESS;
}

int MPI_Test_cancelled(const MPI_Status *status, int *flag) {
    MPI_ENTER_AT(at);
    MPI_TRY(ls_mpi__read_status_arg(at, status));
    *flag = status->ls_cancelled;
    return MPI_SUCCESS;
}

int MPI_Status_set_cancelled(MPI_Status *status, int flag) {
    MPI_ENTER_AT(at);
    MPI_TRY(ls_mpi__read_status_arg(at, status));
    status->ls_cancelled = flag;
    return MPI_SUCCESS;
}

static int set_elements(mpi_where at, MPI_Status *status, MPI_Datatype type, MPI_Count count) {
    MPI_TRY(ls_mpi__read_status_arg(at, status));
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, true));
    // Counts the whole types in these elements, and the elements of a partial one.
    size_t each = of->elements > 0 ? of->elements : 1, left = (size_t)count % each;
    size_t bytes = (size_t)count / each * of->size;
    for (size_t s = 0; s < of->segment_count && left > 0; s++) {
        size_t n = left < of->segments[s].count ? left : of->segments[s].count;
        bytes += n * ls_mpi__basic(of->segments[s].basic)->size;
        left -= n;
    }
    status->ls_bytes = (long long)bytes;
    return MPI_SUCCESS;
}

int MPI_Status_set_elements_x(MPI_Status *status, MPI_Datatype type, MPI_Count count) {
    MPI_ENTER_AT(at);
    return set_elements(at, status, type, count);
}

int MPI_Status_set_elements(MPI_Status *status, MPI_Datatype type, int count) {
    MPI_ENTER_AT(at);
    return set_elements(at, status, type, count);
}
