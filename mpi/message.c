// A message that has arrived: its status, and the check of its type.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

// ---- A matched send and receive -----------------------------------------------------------------
static void tell_mismatch(ls_spmd *run, ls_finding_id id, const ls_request *send,
                          const ls_request *recv, const char *what) {
    char a[256], b[256], at_a[LS_CALL_WHERE_MAX], at_b[LS_CALL_WHERE_MAX];
    ls_call_describe(a, sizeof a, &send->call);
    ls_call_describe(b, sizeof b, &recv->call);
    ls_text text = {0};
    ls_text_printf(&text, "%s\n  rank %d: %s at %s\n  rank %d: %s at %s\n", what, send->call.rank,
                   a, ls_call__where(at_a, &send->call), recv->call.rank, b,
                   ls_call__where(at_b, &recv->call));
    const int ranks[2] = {send->call.rank, recv->call.rank};
    (void)ls_findings__add(run, id, ranks, send->call.rank == recv->call.rank ? 1 : 2,
                           recv->call.file, recv->call.line, ls_findings__string(run, &text));
    ls_text_free(&text);
}

static void swap_clocks(mpi_record *from, mpi_record *to) {
    uint64_t *kept = to->clock;
    to->clock = from->clock;
    from->clock = NULL;
    if (from->mode == MPI_MODE_SYNC) {
        from->clock = kept;
    } else {
        free(kept);
    }
}

int ls_mpi__message(ls_spmd *run, ls_request *send, ls_request *recv) {
    mpi_record *from = send->record, *to = recv->record;
    size_t bytes = (size_t)from->send.count * from->send.type->size;
    const mpi_comm *comm = to->comm;
    to->status =
        (MPI_Status){.MPI_SOURCE = send->comm->member - (comm->inter ? comm->remote_first : 0),
                     .MPI_TAG = send->tag,
                     .ls_bytes = (long long)bytes};
    swap_clocks(from, to);
    const void *data = from->packed;
    if (to->whole) {  // a matched probe: it owns the message from here on
        to->send = from->send;
        ls_mpi__type_use(to->send.type);
        to->packed = ls_mpi__alloc(bytes);
        to->packed_bytes = bytes;
        if (data != NULL) {
            memcpy(to->packed, data, bytes);
        } else {
            (void)ls_mpi__pack(to->packed, from->send.buf, (size_t)from->send.count,
                               from->send.type);
        }
    } else {
        size_t room = (size_t)to->recv.count * to->recv.type->size;
        const char *a, *b;
        char what[256];
        if (!ls_mpi__signature_fits((size_t)from->send.count, from->send.type,
                                    (size_t)to->recv.count, to->recv.type, &a, &b)) {
            (void)snprintf(what, sizeof what, "the message has type %s, but is received as %s", a,
                           b);
            tell_mismatch(run, LS_FINDING_P2P_DTYPE_MISMATCH, send, recv, what);
        }
        if (bytes > room) {
            to->truncated = true;
            (void)snprintf(what, sizeof what,
                           "MPI_ERR_TRUNCATE: a message of %zu bytes matches a receive of %zu",
                           bytes, room);
            tell_mismatch(run, LS_FINDING_P2P_COUNT_MISMATCH, send, recv, what);
            if (comm->errhandler == MPI_ERRORS_ARE_FATAL) {
                return LS_FAIL(LS_ERR_FINDING, "p2p.count_mismatch");
            }
        }
        if (data != NULL) {
            (void)ls_mpi__unpack((void *)(uintptr_t)to->recv.buf, (size_t)to->recv.count,
                                 to->recv.type, data, bytes);
        } else {
            ls_mpi__copy((void *)(uintptr_t)to->recv.buf, (size_t)to->recv.count, to->recv.type,
                         from->send.buf, (size_t)from->send.count, from->send.type);
        }
    }
    if (data != NULL) {  // packed by an eager send
        if (from->mode == MPI_MODE_BUFFERED) {
            ls_mpi__state.ranks[send->call.rank].bsend_used -= bytes + MPI_BSEND_OVERHEAD;
        }
        ls_mpi__types_drop(from);
        free(from->packed);
        free(from->clock);
        free(from);
        send->record = NULL;
    }
    return LS_OK;
}

void ls_mpi__found(const ls_request *probe, const ls_request *send) {
    mpi_record *record = probe->record;
    const mpi_record *from = send->record;
    const mpi_comm *comm = record->comm;
    record->status =
        (MPI_Status){.MPI_SOURCE = send->comm->member - (comm->inter ? comm->remote_first : 0),
                     .MPI_TAG = send->tag,
                     .ls_bytes = (long long)((size_t)from->send.count * from->send.type->size)};
}
