// Messages: sends in their four modes, receives, and send-receive.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

#define TAG_MAX 0x3fffffff

// Checks the arguments and fills in the record.
int ls_mpi__message_read(mpi_record *out, mpi_where at, const mpi_message *m) {
    mpi_comm *comm;
    mpi_type *type;
    MPI_TRY(ls_mpi__comm_arg(&comm, at, m->comm));
    MPI_TRY(ls_mpi__count_arg(at, comm, "the count", m->count));
    MPI_TRY(ls_mpi__type_arg(&type, at, comm, m->type, true));
    int size = comm->inter ? comm->remote_size : comm->size;
    bool any = !m->send && m->peer == MPI_ANY_SOURCE;
    if ((m->peer < 0 || m->peer >= size) && m->peer != MPI_PROC_NULL && !any) {
        return ls_mpi__error(at.me, comm, MPI_ERR_RANK, at.function, "%s %d is not in [0, %d)",
                             m->send ? "dest" : "source", m->peer, size);
    }
    bool any_tag = !m->send && m->tag == MPI_ANY_TAG;
    if ((m->tag < 0 || m->tag > TAG_MAX) && !any_tag) {
        return ls_mpi__error(
            at.me, comm, MPI_ERR_TAG, at.function, "tag %d is not in [0, %d]%s", m->tag, TAG_MAX,
            m->send && m->tag == MPI_ANY_TAG ? ": MPI_ANY_TAG cannot be sent" : "");
    }
    const mpi_side side = {.buf = m->buf, .count = m->count, .type = m->as != NULL ? m->as : type};
    MPI_TRY(m->peer != MPI_PROC_NULL ? ls_mpi__buffer_arg(at, comm, m->buf, m->count, side.type)
                                     : MPI_SUCCESS);
    MPI_TRY(m->send ? MPI_SUCCESS : ls_mpi__receive_arg(at, comm, m->count, type));
    *out = (mpi_record){.comm = comm, .function = at.function, .mode = m->mode};
    *(m->send ? &out->send : &out->recv) = side;
    return MPI_SUCCESS;
}

// Free room in the buffer of MPI_Buffer_attach.
static int take_buffer(mpi_where at, const mpi_record *record) {
    size_t bytes = (size_t)record->send.count * record->send.type->size + MPI_BSEND_OVERHEAD;
    if (at.me->bsend_used + bytes > at.me->bsend_size) {
        return ls_mpi__error(at.me, record->comm, MPI_ERR_BUFFER, at.function,
                             "%zu bytes (MPI_BSEND_OVERHEAD included) do not fit into the buffer "
                             "of MPI_Buffer_attach: %zu of %zu are in use",
                             bytes, at.me->bsend_used, at.me->bsend_size);
    }
    at.me->bsend_used += bytes;
    at.me->bsend_all += bytes;
    if (at.me->bsend_all > at.me->bsend_size) {
        ls_mpi__observe();  // received messages have freed room
    }
    return MPI_SUCCESS;
}

// While the call waits, other threads of the rank may access its buffer.
static mpi_owned *hold(mpi_where at, const mpi_side *side, bool writes) {
    size_t count = (size_t)side->count;
    if (at.me->rank->thread_count > 1) {
        return ls_mpi__own(at.me, side->buf, count, side->type, writes, at.function);
    }
    ls_mpi__touch_typed(at.me, side->buf, count, side->type, writes, at.function);
    return NULL;
}

static int blocking(mpi_where at, const mpi_message *m, MPI_Status *status) {
    mpi_record record;
    ls_request proto;
    MPI_TRY(ls_mpi__message_read(&record, at, m));
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    ls_mpi__status_empty(&record.status);
    if (m->peer == MPI_PROC_NULL) {
        record.status.MPI_SOURCE = MPI_PROC_NULL;
        ls_mpi__status(status, &record.status);
        return MPI_SUCCESS;
    }
    if (m->mode == MPI_MODE_BUFFERED) {
        MPI_TRY(take_buffer(at, &record));
    }
    mpi_owned *held = hold(at, m->send ? &record.send : &record.recv, !m->send);
    ls_mpi__message_proto(&proto, &record, m->send, m->peer, m->tag);
    ls_mpi__types_use(&record);
    int result = ls_mpi__message_post(at.me, &proto, &record, NULL);
    ls_mpi__types_drop(&record);
    ls_mpi__disown(at.me, held);
    MPI_TRY(result);
    result = ls_mpi__received(at.me, &record);
    ls_mpi__status(status, &record.status);
    return result;
}

mpi_request *ls_mpi__message_request(mpi_where at, const mpi_message *m, const mpi_record *record,
                                     bool persistent) {
    mpi_request *made =
        ls_mpi__request_make(at.me, m->send ? MPI_REQUEST_SEND : MPI_REQUEST_RECV, at.function);
    made->record = *record;
    ls_mpi__types_use(record);
    made->comm = record->comm;
    made->persistent = persistent;
    ls_mpi__message_proto(&made->proto, &made->record, m->send, m->peer, m->tag);
    return made;
}

// A request for the message, started or (persistent) inactive.
static int nonblocking(mpi_where at, const mpi_message *m, bool persistent, MPI_Request *handle) {
    mpi_record record;
    if (handle == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function, "the request argument is NULL");
    }
    MPI_TRY(ls_mpi__message_read(&record, at, m));
    if (m->mode == MPI_MODE_BUFFERED && !persistent && m->peer != MPI_PROC_NULL) {
        MPI_TRY(take_buffer(at, &record));
    }
    mpi_request *request = ls_mpi__message_request(at, m, &record, persistent);
    *handle = request->handle;
    return persistent ? MPI_SUCCESS : ls_mpi__request_start(at.me, request);
}

#define SENDS(name, how)                                                                           \
    int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,               \
                   MPI_Comm comm) {                                                                \
        MPI_ENTER_AT(at);                                                                          \
        return blocking(at, &(mpi_message){true, how, buf, count, type, dest, tag, comm, NULL},    \
                        MPI_STATUS_IGNORE);                                                        \
    }
#define ISENDS(name, how, persistent)                                                              \
    int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,               \
                   MPI_Comm comm, MPI_Request *request) {                                          \
        MPI_ENTER_AT(at);                                                                          \
        return nonblocking(at, &(mpi_message){true, how, buf, count, type, dest, tag, comm, NULL}, \
                           persistent, request);                                                   \
    }
SENDS(Send, MPI_MODE_STANDARD)
SENDS(Ssend, MPI_MODE_SYNC)
SENDS(Bsend, MPI_MODE_BUFFERED)
SENDS(Rsend, MPI_MODE_READY)
ISENDS(Isend, MPI_MODE_STANDARD, false)
ISENDS(Issend, MPI_MODE_SYNC, false)
ISENDS(Ibsend, MPI_MODE_BUFFERED, false)
ISENDS(Irsend, MPI_MODE_READY, false)
ISENDS(Send_init, MPI_MODE_STANDARD, true)
ISENDS(Ssend_init, MPI_MODE_SYNC, true)
ISENDS(Bsend_init, MPI_MODE_BUFFERED, true)
ISENDS(Rsend_init, MPI_MODE_READY, true)

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status) {
    MPI_ENTER_AT(at);
    return blocking(at, &(mpi_message){false, 0, buf, count, type, source, tag, comm, NULL},
                    status);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request) {
    MPI_ENTER_AT(at);
    return nonblocking(at, &(mpi_message){false, 0, buf, count, type, source, tag, comm, NULL},
                       false, request);
}

int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request) {
    MPI_ENTER_AT(at);
    return nonblocking(at, &(mpi_message){false, 0, buf, count, type, source, tag, comm, NULL},
                       true, request);
}

// ---- Persistent requests ------------------------------------------------------------------------
static int start(mpi_where at, MPI_Request *handle) {
    const char *why;
    mpi_request *request =
        ls_mpi__request_of(at.me, handle != NULL ? *handle : MPI_REQUEST_NULL, &why);
    if (request == NULL || !request->persistent) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, at.function, "the request is %s",
                             request == NULL ? why : "not persistent");
    }
    if (request->active) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, at.function,
                             "the request of %s, made at %s:%d, is started and not yet complete",
                             request->record.function, request->file, request->line);
    }
    if (request->kind == MPI_REQUEST_SEND && request->record.mode == MPI_MODE_BUFFERED &&
        !ls_mpi__request_to_nobody(request)) {
        MPI_TRY(take_buffer(at, &request->record));
    }
    return ls_mpi__request_start(at.me, request);
}

int MPI_Start(MPI_Request *request) {
    MPI_ENTER_AT(at);
    return start(at, request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
    MPI_ENTER_AT(at);
    for (int i = 0; i < count; i++) {
        MPI_TRY(start(at, &requests[i]));
    }
    return MPI_SUCCESS;
}

// ---- Send-receive -------------------------------------------------------------------------------
static int send_and_receive(mpi_where at, const mpi_message *send, const mpi_message *recv,
                            MPI_Status *status) {
    mpi_record records[2];
    ls_request protos[2], *inner[2] = {NULL, NULL};
    const mpi_message *both[2] = {recv, send};
    MPI_TRY(ls_mpi__status_arg(at, status, 1));
    for (int i = 0; i < 2; i++) {
        MPI_TRY(ls_mpi__message_read(&records[i], at, both[i]));
        ls_mpi__status_empty(&records[i].status);
        records[i].status.MPI_SOURCE = MPI_PROC_NULL;
    }
    mpi_owned *held[2] = {NULL, NULL};
    if (send->peer != MPI_PROC_NULL) {
        held[0] = hold(at, &records[1].send, false);
    }
    if (recv->peer != MPI_PROC_NULL) {
        held[1] = hold(at, &records[0].recv, true);
    }
    int open = 0;
    for (int i = 0; i < 2; i++) {
        ls_mpi__types_use(&records[i]);
        if (both[i]->peer != MPI_PROC_NULL) {
            ls_mpi__message_proto(&protos[i], &records[i], both[i]->send, both[i]->peer,
                                  both[i]->tag);
            MPI_TRY(ls_mpi__message_post(at.me, &protos[i], &records[i], &inner[open]));
            open += inner[open] != NULL ? 1 : 0;
        }
    }
    (void)ls_mpi__await(at.me, inner, open, false);
    for (int i = 0; i < 2; i++) {
        ls_mpi__types_drop(&records[i]);
        ls_mpi__disown(at.me, held[i]);
    }
    ls_schedule__enter(at.me->rank);
    for (int i = 0; i < open; i++) {
        ls_request__free(at.me->rank, inner[i]);
    }
    ls_schedule__leave(at.me->rank);
    (void)ls_mpi__received(at.me, &records[1]);
    int result = ls_mpi__received(at.me, &records[0]);
    ls_mpi__status(status, &records[0].status);
    return result;
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status *status) {
    MPI_ENTER_AT(at);
    const mpi_message send = {true, MPI_MODE_STANDARD, sendbuf, sendcount, sendtype,
                              dest, sendtag,           comm,    NULL};
    const mpi_message recv = {false, 0, recvbuf, recvcount, recvtype, source, recvtag, comm, NULL};
    mpi_type *out = ls_mpi__type_of(at.me, sendtype), *in = ls_mpi__type_of(at.me, recvtype);
    if (out != NULL && in != NULL && sendcount > 0 && recvcount > 0 && dest != MPI_PROC_NULL &&
        source != MPI_PROC_NULL) {
        ls_mpi__buffer_check(at.me, &(mpi_place){sendbuf, (size_t)sendcount, out}, __func__);
        ls_mpi__buffer_check(at.me, &(mpi_place){recvbuf, (size_t)recvcount, in}, __func__);
        if (ls_mpi__types_meet(sendbuf, (size_t)sendcount, out, recvbuf, (size_t)recvcount, in)) {
            ls_mpi__finding(at.me, LS_FINDING_BUFFER_OVERLAP, ls_mpi__file, ls_mpi__line,
                            "MPI_Sendrecv: the send and the receive buffer overlap");
        }
    }
    return send_and_receive(at, &send, &recv, status);
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                         int recvtag, MPI_Comm comm, MPI_Status *status) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__count_arg(at, NULL, "the count", count));
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, true));
    MPI_TRY(dest == MPI_PROC_NULL ? MPI_SUCCESS : ls_mpi__buffer_arg(at, NULL, buf, count, of));
    // Sends a packed copy without gaps: the gaps of absolute addresses may have any size.
    mpi_type *packed = ls_mpi__type_like(of);
    packed->lb = packed->true_lb = 0;
    packed->extent = packed->true_extent = (ptrdiff_t)of->size;
    packed->contiguous = of->segment_count == 1;
    ptrdiff_t end = 0;
    for (size_t i = 0; i < of->segment_count; i++) {
        packed->segments[i].offset = end;
        end += (ptrdiff_t)(of->segments[i].count * ls_mpi__basic(of->segments[i].basic)->size);
    }
    char *copy = ls_mpi__alloc((size_t)count * of->size);
    if (dest != MPI_PROC_NULL) {
        (void)ls_mpi__pack(copy, buf, (size_t)count, of);
    }
    const mpi_message send = {true, MPI_MODE_STANDARD, copy, count, type,
                              dest, sendtag,           comm, packed};
    const mpi_message recv = {false, 0, buf, count, type, source, recvtag, comm, NULL};
    int result = send_and_receive(at, &send, &recv, status);
    ls_mpi__type_drop(packed);
    free(copy);
    return result;
}

// ---- The buffer of buffered sends ---------------------------------------------------------------
int MPI_Buffer_attach(void *buffer, int size) {
    MPI_ENTER_AT(at);
    if (at.me->bsend_buffer != NULL || size < 0) {
        return ls_mpi__error(at.me, NULL, size < 0 ? MPI_ERR_ARG : MPI_ERR_BUFFER, __func__,
                             size < 0 ? "the size is %d"
                                      : "a buffer of %d bytes is attached "
                                        "already",
                             size < 0 ? size : (int)at.me->bsend_size);
    }
    ls_mpi__bytes_check(at.me, buffer, (size_t)size, __func__);
    at.me->bsend_buffer = buffer;
    at.me->bsend_owned =
        ls_mpi__own(at.me, buffer, (size_t)size, ls_mpi__type_of(at.me, MPI_BYTE), true, __func__);
    at.me->bsend_size = (size_t)size;
    at.me->bsend_all = 0;
    return MPI_SUCCESS;
}

int MPI_Buffer_detach(void *buffer_out, int *size) {
    MPI_ENTER_AT(at);
    if (at.me->bsend_buffer == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_BUFFER, __func__, "no buffer is attached");
    }
    // It waits until the buffered messages have been received.
    while (at.me->bsend_used > 0) {
        ls_mpi__poll(at.me, __func__);
    }
    memcpy(buffer_out, &at.me->bsend_buffer, sizeof(void *));
    *size = (int)at.me->bsend_size;
    ls_mpi__disown(at.me, at.me->bsend_owned);
    at.me->bsend_buffer = NULL;
    at.me->bsend_size = 0;
    return MPI_SUCCESS;
}
