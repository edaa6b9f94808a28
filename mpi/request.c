// Requests: calls in progress, persistent or not; their start and their completion.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

// ---- The text of a call -------------------------------------------------------------------------
enum { WORD_COUNT, WORD_TYPE, WORD_PEER, WORD_TAG, WORD_OP, WORD_FORM };
enum { FORM_DATA = 1, FORM_ROOT = 2, FORM_SEND = 4, FORM_RECV = 8, FORM_OP = 16 };

static const char *comm_words(const ls_comm *comm) {
    if (comm == NULL) {
        return "no communicator";
    }
    return comm == ls_mpi__state.run->world_comm->comm ? "MPI_COMM_WORLD" : comm->name;
}

static void add_peer(ls_text *text, const char *word, int peer) {
    if (peer == MPI_ANY_SOURCE) {
        ls_text_printf(text, ", %s MPI_ANY_SOURCE", word);
    } else if (peer == MPI_ROOT || peer == MPI_PROC_NULL) {
        ls_text_printf(text, ", %s %s", word, peer == MPI_ROOT ? "MPI_ROOT" : "MPI_PROC_NULL");
    } else {
        ls_text_printf(text, ", %s %d", word, peer);
    }
}

void ls_mpi__say(char *out, size_t out_bytes, const ls_call *call) {
    const int *words = call->words;
    int form = words[WORD_FORM];
    ls_text text = {0};
    ls_text_printf(&text, "%s", call->purpose);
    if ((form & FORM_DATA) != 0) {
        int number = words[WORD_TYPE] & 0x7ffff;
        bool constant = number > 0 && number < LS_MPI_FIRST_OWN;
        ls_text_printf(&text, ", count %d, %s", words[WORD_COUNT],
                       constant ? ls_mpi__basic(number)->constant : "a derived datatype");
    }
    if ((form & FORM_OP) != 0) {
        const mpi_op *op = ls_mpi__op_of(&ls_mpi__state.ranks[call->rank], words[WORD_OP]);
        ls_text_printf(&text, ", %s", op != NULL ? ls_mpi__op_name(op) : "an operation");
    }
    if ((form & FORM_ROOT) != 0) {
        add_peer(&text, "root", words[WORD_PEER]);
    } else if ((form & (FORM_SEND | FORM_RECV)) != 0) {
        add_peer(&text, (form & FORM_SEND) != 0 ? "dest" : "source", words[WORD_PEER]);
        if (words[WORD_TAG] == MPI_ANY_TAG) {
            ls_text_printf(&text, ", MPI_ANY_TAG");
        } else {
            ls_text_printf(&text, ", tag %d", words[WORD_TAG]);
        }
    }
    (void)snprintf(out, out_bytes, "%s on %s", ls_text_string(&text), comm_words(call->comm));
    ls_text_free(&text);
}

static void put_words(ls_call *call, const mpi_record *record, bool send, int peer, int tag) {
    const mpi_side *side = send || record->recv.type == NULL ? &record->send : &record->recv;
    int form = side->type != NULL ? FORM_DATA : 0;
    if (record->collective == NULL) {
        form |= send ? FORM_SEND : FORM_RECV;
    } else {
        form |= record->collective->rooted ? FORM_ROOT : 0;
        form |= record->collective->reduces ? FORM_OP : 0;
    }
    call->say = ls_mpi__say;
    call->purpose = record->function;
    call->words[WORD_COUNT] = side->count;
    call->words[WORD_TYPE] = side->type != NULL ? side->type->handle : 0;
    call->words[WORD_PEER] = peer;
    call->words[WORD_TAG] = tag;
    call->words[WORD_OP] = record->op != NULL ? record->op->handle : 0;
    call->words[WORD_FORM] = form;
}

// A send (or receive) to (from) rank `peer` of the communicator.
void ls_mpi__message_proto(ls_request *proto, mpi_record *record, bool send, int peer, int tag) {
    const mpi_comm *comm = record->comm;
    *proto = (ls_request){.call = {.kind = send ? LS_SEND : LS_RECV},
                          .front = &ls_mpi__front,
                          .record = record,
                          .tag = tag == MPI_ANY_TAG ? LS_TAG_ANY : tag,
                          .any_source = peer == MPI_ANY_SOURCE};
    if (peer == MPI_ANY_SOURCE) {
        proto->call.root = -1;
    } else if (peer == MPI_PROC_NULL) {
        proto->call.root = 0;
    } else {
        proto->call.root = (comm->inter ? comm->remote_first : 0) + peer;
    }
    put_words(&proto->call, record, send, peer, tag);
}

void ls_mpi__collective_proto(ls_request *proto, mpi_record *record) {
    *proto = (ls_request){.call = {.kind = LS_BARRIER}, .front = &ls_mpi__front, .record = record};
    put_words(&proto->call, record, record->send.type != NULL && record->send.buf != MPI_IN_PLACE,
              record->root, 0);
}

// ---- Statuses -----------------------------------------------------------------------------------
void ls_mpi__status_empty(MPI_Status *out) {
    if (out != MPI_STATUS_IGNORE) {
        *out = (MPI_Status){
            .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS};
    }
}

void ls_mpi__status(MPI_Status *out, const MPI_Status *from) {
    if (out != MPI_STATUS_IGNORE) {
        int error = out->MPI_ERROR;
        *out = *from;
        out->MPI_ERROR = error;  // only calls for several requests set it
    }
}

// ---- Life ---------------------------------------------------------------------------------------
mpi_request *ls_mpi__request_of(mpi_rank *me, MPI_Request handle, const char **why) {
    return ls_mpi__handle_get(me, MPI_KIND_REQUEST, handle, why);
}

mpi_request *ls_mpi__request_make(mpi_rank *me, mpi_request_kind kind, const char *function) {
    mpi_request *made = ls_mpi__alloc(sizeof *made);
    made->kind = kind;
    made->file = ls_mpi__file;
    made->line = ls_mpi__line;
    made->handle = ls_mpi__handle_add(me, MPI_KIND_REQUEST, made);
    ls_mpi__handle_slot(me, made->handle)->function = function;
    ls_mpi__status_empty(&made->record.status);
    return made;
}

static void let_go(mpi_rank *me, mpi_request *request) {
    for (int i = 0; i < LS_MPI_OWNED; i++) {
        ls_mpi__disown(me, request->owned[i]);
    }
    if (request->access != NULL) {
        request->access->request = NULL;
    }
    ls_mpi__types_drop(&request->record);
    free(request->record.clock);
    free(request->lists);
    free(request);
}

// Removes the handle. While its message is open, the request and its claims on buffers stay.
void ls_mpi__request_close(mpi_rank *me, mpi_request *request) {
    ls_mpi__handle_free(me, request->handle);
    ls_mpi__parts_free(me, request);
    if (request->inner == NULL) {
        let_go(me, request);
        return;
    }
    for (int i = 0; i < LS_MPI_OWNED; i++) {
        if (request->owned[i] != NULL) {
            request->owned[i]->until = request->inner;
            request->owned[i]->holder = &request->owned[i];
        }
    }
    request->next_freed = me->freed;
    me->freed = request;
    me->freed_count += 1;
}

// Checks all of them each time their number has doubled.
void ls_mpi__requests_settle(mpi_rank *me, bool wait) {
    if (!wait && me->freed_count < me->freed_limit) {
        return;
    }
    for (mpi_request **link = &me->freed; *link != NULL;) {
        mpi_request *at = *link;
        if (wait) {
            (void)ls_mpi__await(me, &at->inner, 1, false);
        }
        if (at->inner->state != LS_REQUEST_DONE) {
            link = &at->next_freed;
            continue;
        }
        *link = at->next_freed;
        me->freed_count -= 1;
        ls_schedule__enter(me->rank);
        ls_request__free(me->rank, at->inner);
        ls_schedule__leave(me->rank);
        let_go(me, at);
    }
    me->freed_limit = 2 * me->freed_count;
}

// A send that does not wait for its receive: the library copies its data.
static int post_eager(mpi_rank *me, const ls_request *proto, mpi_record *record) {
    mpi_record *own = ls_mpi__alloc(sizeof *own);
    *own = *record;
    own->packed_bytes = (size_t)record->send.count * record->send.type->size;
    own->packed = ls_mpi__alloc(own->packed_bytes);
    (void)ls_mpi__pack(own->packed, record->send.buf, (size_t)record->send.count,
                       record->send.type);
    ls_mpi__types_use(own);
    record->clock = NULL;
    ls_request eager = *proto, *made = NULL;
    eager.record = own;
    int status = ls_call__post(ls_mpi__file, ls_mpi__line, record->comm->inner, &eager, &made);
    if (status != LS_OK) {
        return ls_mpi__leave(me, status);
    }
    ls_schedule__enter(me->rank);
    if (made->state == LS_REQUEST_DONE) {
        ls_request__free(me->rank, made);
    } else {
        made->detached = true;
    }
    ls_schedule__leave(me->rank);
    return MPI_SUCCESS;
}

static bool is_eager(const mpi_record *record) {
    return record->mode == MPI_MODE_BUFFERED ||
           (record->mode == MPI_MODE_STANDARD &&
            ls_mpi__state.options->buffering == LS_MPI_BUFFERING_ALL);
}

// Whether a receive for a ready send is posted.
static bool receive_is_there(const mpi_record *record, const ls_request *send) {
    const ls_shared_comm *shared = record->comm->inner->shared;
    const ls_request *at = shared->recvs[send->call.root];
    for (; at != NULL; at = at->next_p2p[LS_P2P_ALL]) {
        if (!at->probe && (at->any_source || at->call.root == record->comm->inner->member) &&
            (at->tag == LS_TAG_ANY || at->tag == send->tag)) {
            return true;
        }
    }
    return false;
}

// Posts a message; inner NULL: blocking. *inner stays NULL if it is complete.
int ls_mpi__message_post(mpi_rank *me, const ls_request *proto, mpi_record *record,
                         ls_request **inner) {
    bool send = proto->call.kind == LS_SEND;
    record->number = me->posted++;
    if (send && record->mode == MPI_MODE_READY) {
        ls_mpi__observe();
    }
    if (ls_mpi__state.window_count > 0 && !proto->probe) {
        record->clock = ls_mpi__clock_copy(me);
        ls_mpi__clock_tick(me);
    }
    if (send && record->mode == MPI_MODE_READY && !receive_is_there(record, proto)) {
        return ls_mpi__error(me, record->comm, MPI_ERR_OTHER, record->function,
                             "a ready send to rank %d with tag %d, whose receive is not posted",
                             proto->call.words[WORD_PEER], proto->tag);
    }
    if (send && is_eager(record)) {
        return post_eager(me, proto, record);
    }
    ls_request own = *proto;
    int status = ls_call__post(ls_mpi__file, ls_mpi__line, record->comm->inner, &own, inner);
    return ls_mpi__leave(me, status);
}

bool ls_mpi__request_to_nobody(const mpi_request *request) {
    return request->proto.call.words[WORD_PEER] == MPI_PROC_NULL;
}

int ls_mpi__request_start(mpi_rank *me, mpi_request *request) {
    request->active = true;
    request->cancelled = false;
    ls_mpi__status_empty(&request->record.status);
    request->record.truncated = false;
    if (request->kind == MPI_REQUEST_COLLECTIVE) {
        request->own(me, request);
        request->record.thread = ls_mpi__thread(me);
        ls_request own = request->proto;
        ls_rank_comm *comm = request->channel != NULL ? request->channel : request->comm->inner;
        int status = ls_call__post(ls_mpi__file, ls_mpi__line, comm, &own, &request->inner);
        return ls_mpi__leave(me, status);
    }
    const mpi_record *record = &request->record;
    bool send = request->kind == MPI_REQUEST_SEND;
    const mpi_side *side = send ? &record->send : &record->recv;
    if (ls_mpi__request_to_nobody(request)) {
        request->record.status.MPI_SOURCE = MPI_PROC_NULL;
    }
    if (request->parts != NULL && (send || !ls_mpi__request_to_nobody(request))) {
        return ls_mpi__parts_start(me, request);
    }
    if (ls_mpi__request_to_nobody(request)) {
        return MPI_SUCCESS;
    }
    if (request->owned[0] == NULL) {
        request->owned[0] =
            ls_mpi__own(me, side->buf, (size_t)side->count, side->type, !send, record->function);
    }
    return ls_mpi__message_post(me, &request->proto, &request->record, &request->inner);
}

// The truncated message of a receive, for its communicator's error handler.
int ls_mpi__received(mpi_rank *me, mpi_record *record) {
    if (record->clock != NULL) {
        ls_mpi__clock_message(me, record->clock);
        free(record->clock);
        record->clock = NULL;
    }
    if (record->truncated) {
        return ls_mpi__error(me, record->comm, MPI_ERR_TRUNCATE, record->function,
                             "the message is longer than the receive buffer");
    }
    return MPI_SUCCESS;
}

// ---- Waiting ------------------------------------------------------------------------------------
// Waits until all (any) of the calls are complete.
int ls_mpi__await(mpi_rank *me, ls_request **inner, int count, bool any) {
    ls_rank *rank = me->rank;
    ls_schedule__enter(rank);
    rank->file = ls_mpi__file;
    rank->line = ls_mpi__line;
    ls_thread *self = ls_turns__me(rank);
    self->waiting = 0;
    int done = 0;
    for (int i = 0; i < count; i++) {
        bool open = inner[i]->state != LS_REQUEST_DONE;
        inner[i]->awaited = open ? self : NULL;
        self->waiting += open ? 1 : 0;
        done += open ? 0 : 1;
    }
    int status = LS_OK;
    if (self->waiting > 0 && !(any && done > 0)) {
        self->waits_for_any = any;
        status = ls_request__await(rank);
        self->waits_for_any = false;
    }
    self->waiting = 0;
    for (int i = 0; i < count; i++) {
        inner[i]->awaited = NULL;
    }
    ls_schedule__leave(rank);
    return ls_mpi__leave(me, status);
}

void ls_mpi__poll(mpi_rank *me, const char *function) {
    bool hopeless = false;
    ls_schedule__enter(me->rank);
    me->rank->file = ls_mpi__file;
    me->rank->line = ls_mpi__line;
    int status = ls_request__poll(&hopeless, me->rank);
    ls_schedule__leave(me->rank);
    if (status == LS_OK && hopeless) {
        ls_mpi__finding(
            me, LS_FINDING_DEADLOCK_CYCLE, ls_mpi__file, ls_mpi__line,
            "%s: polls in a loop for an event that can never occur: no rank can continue",
            function);
        ls_schedule__enter(me->rank);
        ls_spmd__fail(ls_mpi__state.run, LS_ERR_DEADLOCK, "deadlock.cycle");
        ls_schedule__leave(me->rank);
    }
    (void)ls_mpi__leave(me, LS_OK);
}
