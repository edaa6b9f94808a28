// Calls on their way: in the order in which a rank made them they go to the matcher, a call of a
// stream when the one before it has met, as on a GPU; when all members' data has come it is moved.
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"

static ls_exec_stream *stream_of(ls_exec_rank *rank, uint64_t stream) {
    for (ls_exec_stream *at = rank->streams; at != NULL; at = at->next) {
        if (at->stream == stream) {
            return at;
        }
    }
    ls_exec_stream *made = calloc(1, sizeof *made);
    if (made != NULL) {
        *made = (ls_exec_stream){.stream = stream, .next = rank->streams};
        rank->streams = made;
    }
    return made;
}

static void enqueue(ls_exec_op *op) {
    ls_exec_rank *rank = op->rank;
    if (rank->last != NULL) {
        rank->last->next = op;
    } else {
        rank->first = op;
    }
    rank->last = op;
    op->number = rank->made++;
}

static ls_exec_op *make_op(ls_exec_process *process, const ls_exec_comm *comm, uint32_t slot,
                           uint32_t site) {
    ls_exec_op *op = calloc(1, sizeof *op);
    if (op == NULL) {
        (void)LS_FAIL(LS_ERR_MEMORY, "no memory");
        return NULL;
    }
    const ls_exec_site *at = ls_exec__site(process, site);
    op->rank = comm->rank;
    op->process = process;
    op->handle = comm->handle;
    op->slot = slot;
    op->call.owner = op;
    op->call.call.file = at->file;
    op->call.call.line = at->line;
    op->call.call.purpose = at->purpose;
    return op;
}

// ---- Messages -----------------------------------------------------------------------------------
static int find_counts(ls_exec_op *op, const ls_wire_call *message) {
    size_t size = (size_t)ls_comm_size(op->handle), sides = 0;
    sides += (message->flags & LS_WIRE_SEND_COUNTS) != 0 ? 1 : 0;
    sides += (message->flags & LS_WIRE_RECV_COUNTS) != 0 ? 1 : 0;
    if (message->head.bytes != sizeof *message + sides * size * sizeof(uint64_t)) {
        return LS_FAIL(LS_ERR_FORMAT, "a call with more or fewer counts than members");
    }
    if (sides == 0) {
        return LS_OK;
    }
    op->counts = calloc(sides * size, sizeof *op->counts);
    LS_TRY(op->counts != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    memcpy(op->counts, message + 1, sides * size * sizeof(uint64_t));
    size_t *next = op->counts;
    if ((message->flags & LS_WIRE_SEND_COUNTS) != 0) {
        op->call.call.send_counts = next;
        next += size;
    }
    if ((message->flags & LS_WIRE_RECV_COUNTS) != 0) {
        op->call.call.recv_counts = next;
    }
    return LS_OK;
}

// Where a side of the call is in the job's memory.
typedef struct side {
    const void *address;  // the program's own
    uint32_t memory;
    uint64_t offset;
    size_t elements, element_bytes;
} side;

static int not_there(void) {
    return LS_FAIL(LS_ERR_FORMAT, "a call's data is not in its memory");
}

static const ls_exec_staging *staging_of(const ls_exec_process *process, uint32_t memory) {
    bool any = memory != LS_WIRE_SHARED && memory <= process->staging_count;
    return any && process->stagings[memory - 1].at != NULL ? &process->stagings[memory - 1] : NULL;
}

// NULL where it is nowhere: it has no elements or no address, which the checks name, or its data
// moves elsewhere.
static int find_data(void **out, const ls_exec *exec, const ls_exec_process *process,
                     const side *of) {
    size_t bytes = 0;
    *out = NULL;
    LS_TRY(ls_size_mul(&bytes, of->elements, of->element_bytes));
    bool elsewhere = exec->options->observe || of->address == NULL;
    if (bytes == 0 || (of->memory == LS_WIRE_NONE && elsewhere)) {
        return LS_OK;
    }
    if (of->memory == LS_WIRE_SHARED) {
        LS_TRY(ls_exec_memory__holds(&exec->memory, of->offset, bytes) ? LS_OK : not_there());
        *out = exec->memory.base + of->offset;
        return LS_OK;
    }
    const ls_exec_staging *in = staging_of(process, of->memory);
    LS_TRY(in != NULL && of->offset <= in->bytes && bytes <= in->bytes - of->offset ? LS_OK
                                                                                    : not_there());
    *out = in->at + of->offset;
    return LS_OK;
}

// A call's two sides are in one kind of memory, and no process copies data out of a GPU itself.
static int find_device(ls_exec_op *op, const ls_wire_call *message) {
    bool sends = staging_of(op->process, message->send_memory) != NULL;
    bool receives = staging_of(op->process, message->recv_memory) != NULL;
    bool shared = message->send_memory == LS_WIRE_SHARED || message->recv_memory == LS_WIRE_SHARED;
    op->on_device = sends || receives;
    return op->on_device && (shared || (message->flags & LS_WIRE_COLLECTS) != 0)
               ? LS_FAIL(LS_ERR_FORMAT, "a call's data is in two kinds of memory")
               : LS_OK;
}

static int fill(ls_exec_op *op, const ls_exec *exec, const ls_wire_call *message) {
    const ls_exec_options *options = exec->options;
    ls_call *call = &op->call.call;
    bool observe = options->observe;
    bool unanswered = observe && options->kept == LS_EXEC_KEPT_NOTHING;
    if (message->kind >= LS_KIND_COUNT || !ls_dtype_valid((int)message->dtype) ||
        message->op >= LS_OP_COUNT ||
        (message->slot >= LS_WIRE_SLOTS && !(unanswered && message->slot == LS_WIRE_NONE))) {
        return LS_FAIL(LS_ERR_FORMAT, "a call of an unknown kind");
    }
    call->kind = (ls_kind)message->kind;
    call->dtype = (ls_dtype)message->dtype;
    call->op = (ls_op)message->op;
    call->premul = message->premul;
    call->root = message->root;
    call->count = message->count;
    call->send = (const void *)(uintptr_t)message->send_address;
    call->recv = (void *)(uintptr_t)message->recv_address;
    op->call.tag = message->tag;
    // Of no stream: 0.
    op->call.issuer = (ls_issuer){.thread = message->thread, .stream = message->stream + 1};
    op->call.any_source = call->kind == LS_RECV && call->root == -1;
    if ((message->flags & LS_WIRE_OVERLAPS) != 0) {
        bool sent = (message->flags & LS_WIRE_OVERLAPS_IN) != 0;
        (void)snprintf(op->overlap, sizeof op->overlap,
                       "block %u of what it %s shares memory with block %u of what it receives",
                       message->shared[0], sent ? "sends" : "receives", message->shared[1]);
        op->call.overlap = op->overlap;
    }
    op->grouped = (message->flags & LS_WIRE_GROUPED) != 0;
    op->group_ends = (message->flags & LS_WIRE_GROUP_ENDS) != 0;
    LS_TRY(find_device(op, message));
    LS_TRY(find_counts(op, message));
    ls_call whole = *call;
    whole.comm = ls_comm_of(op->handle);
    whole.rank = op->rank->id;
    whole.root = op->call.any_source ? 0 : whole.root;  // any: the sizes are the same
    size_t send = 0, recv = 0;
    // The checks report invalid calls.
    if (ls_call_send_elements(&send, &whole) != LS_OK ||
        ls_call_recv_elements(&recv, &whole) != LS_OK) {
        return LS_OK;
    }
    bool collects = (message->flags & LS_WIRE_COLLECTS) != 0;
    const size_t element = ls_dtype_bytes(call->dtype), members = (size_t)ls_comm_size(op->handle);
    if (collects && recv > 0) {
        recv = members;
    }
    const side sent = {call->send, message->send_memory, message->send_offset, send, element};
    const side received = {call->recv, message->recv_memory, message->recv_offset, recv,
                           collects ? sizeof(ls_wire_piece) : element};
    void *from = NULL, *to = NULL;
    LS_TRY(find_data(&from, exec, op->process, &sent));
    LS_TRY(find_data(&to, exec, op->process, &received));
    op->call.send = from;
    op->call.recv = collects ? NULL : to;
    op->pieces = collects ? to : NULL;
    return LS_OK;
}

int ls_exec__call(ls_exec *exec, ls_exec_process *process, const ls_wire_call *message) {
    if (exec->over || ls_exec__is_past(exec, process, message->comm)) {
        ls_exec__answer_over(process, message->slot);
        return LS_OK;
    }
    ls_exec_comm *comm = ls_exec__comm(process, message->comm);
    LS_TRY(comm != NULL ? LS_OK : LS_ERR_INVALID);
    ls_exec_op *op = make_op(process, comm, message->slot, message->site);
    LS_TRY(op != NULL ? LS_OK : LS_ERR_MEMORY);
    int status = fill(op, exec, message);
    bool alone = message->stream == LS_WIRE_NO_STREAM;
    op->stream = status == LS_OK && !alone ? stream_of(op->rank, message->stream) : NULL;
    if (op->stream == NULL && !(alone && status == LS_OK)) {
        ls_exec__free_op(op);
        return status != LS_OK ? status : LS_FAIL(LS_ERR_MEMORY, "no memory");
    }
    LS_TRY(ls_exec__caller(process, message->thread) != NULL ? LS_OK : LS_ERR_MEMORY);
    ls_exec__note_site(process, message->site);
    enqueue(op);
    return ls_exec__flight_call(exec, op, ls_exec__site(process, message->site));
}

int ls_exec__split(ls_exec *exec, ls_exec_process *process, const ls_wire_comm_split *message) {
    if (exec->over || ls_exec__is_past(exec, process, message->parent)) {
        ls_exec__answer_over(process, message->slot);
        return LS_OK;
    }
    ls_exec_comm *parent = ls_exec__comm(process, message->parent);
    LS_TRY(parent != NULL ? LS_OK : LS_ERR_INVALID);
    ls_exec_op *op = make_op(process, parent, message->slot, message->site);
    LS_TRY(op != NULL ? LS_OK : LS_ERR_MEMORY);
    op->call.call.kind = LS_COMM_SPLIT;
    op->call.color = message->color;
    op->call.key = message->key;
    op->call.made = &op->made;
    op->comm = message->comm;
    memcpy(op->name, message->name, sizeof op->name);
    op->name[sizeof op->name - 1] = 0;
    ls_exec__note_site(process, message->site);
    enqueue(op);
    return LS_OK;
}

bool ls_exec__in_flight(const ls_exec_rank *rank, const ls_rank_comm *comm) {
    const ls_exec_op *lists[] = {rank->first, rank->open};
    for (int i = 0; i < 2; i++) {
        for (const ls_exec_op *at = lists[i]; at != NULL; at = at->next) {
            if (at->handle == comm) {
                return true;
            }
        }
    }
    return false;
}

// ---- To the matcher -----------------------------------------------------------------------------
// The last of the unit that begins with `first`: a call by itself, or a group; NULL: it is not all
// there, or a call of it must wait for one before it on its stream. Of a rank that has ended, what
// it made was made: nothing waits any more.
static ls_exec_op *unit_of(ls_exec_op *first, bool ended) {
    for (ls_exec_op *at = first; at != NULL; at = at->next) {
        if (at->stream != NULL && at->stream->unmet > 0 && !ended) {
            return NULL;
        }
        if (!at->grouped || at->group_ends) {
            return at;
        }
    }
    return NULL;
}

static void link_open(ls_exec_op *op) {
    ls_exec_rank *rank = op->rank;
    op->next = NULL;
    op->before = rank->open_last;
    *(op->before != NULL ? &op->before->next : &rank->open) = op;
    rank->open_last = op;
    rank->splits += op->call.call.kind == LS_COMM_SPLIT ? 1 : 0;
}

static void unlink_open(ls_exec_op *op) {
    ls_exec_rank *rank = op->rank;
    *(op->before != NULL ? &op->before->next : &rank->open) = op->next;
    *(op->next != NULL ? &op->next->before : &rank->open_last) = op->before;
    rank->splits -= op->call.call.kind == LS_COMM_SPLIT ? 1 : 0;
}

// The call is over; its process hears of it.
static void finish(ls_exec_op *op, int status) {
    if (op->stream != NULL && !op->met) {
        op->stream->unmet -= 1;
    }
    unlink_open(op);
    if (op->call.call.kind == LS_RECV && op->slot != LS_WIRE_NONE) {
        op->process->control->slots[op->slot].value[0] = op->call.call.root;
    }
    if (op->pieces != NULL) {
        op->process->control->slots[op->slot].value[1] = op->piece_count;
    }
    ls_exec__answer(op->process, op->slot, status == LS_OK ? 1 : 2, status);
    ls_exec__free_op(op);
}

static void finish_split(ls_exec *exec, ls_exec_op *op) {
    int status = LS_OK;
    if (op->made != NULL) {
        if (op->name[0] != 0) {
            ls_remote_name(op->made, op->name);
        }
        status = ls_exec__keep_comm(op->process, op->comm, op->made, op->rank);
    }
    ls_remote_release(op->request);
    if (status == LS_OK) {
        ls_exec__answer_comm(exec, op->process, op->slot, op->made);
        op->slot = LS_WIRE_NONE;
    }
    finish(op, status);
}

static void post_one(ls_exec *exec, ls_exec_op *op) {
    int status = ls_remote_post(&op->request, op->handle, &op->call);
    if (op->request != NULL || ls_remote_stalled(op->rank->rank)) {
        return;  // a fault keeps it without end
    }
    if (ls_remote_dead(op->rank->rank)) {
        op->process->killed = true;
        exec->injected = true;
        (void)kill(op->process->pid, SIGKILL);
        return;
    }
    finish(op, status);
}

// Takes the unit up to `last` from what waits, and posts it.
static void post_unit(ls_exec *exec, ls_exec_rank *rank, ls_exec_op *last) {
    ls_exec_op *first = rank->first;
    rank->first = last->next;
    rank->last = rank->first == NULL ? NULL : rank->last;
    last->next = NULL;
    bool grouped = first->grouped;
    const char *file = first->call.call.file;
    int line = first->call.call.line;
    if (grouped) {
        (void)ls_remote_group(rank->rank, true, file, line);
    }
    for (ls_exec_op *op = first, *next; op != NULL; op = next) {
        next = op->next;
        link_open(op);
        if (op->stream != NULL) {
            op->stream->unmet += 1;
        }
        post_one(exec, op);
    }
    if (grouped) {
        (void)ls_remote_group(rank->rank, false, file, line);
    }
}

static bool post_rank(ls_exec *exec, ls_exec_rank *rank) {
    bool any = false;
    for (ls_exec_op *last;
         rank->first != NULL && (last = unit_of(rank->first, rank->ended)) != NULL;) {
        if (ls_remote_status(exec->run, NULL) != LS_OK || ls_remote_stalled(rank->rank) ||
            ls_remote_gone(rank->rank)) {
            break;
        }
        post_unit(exec, rank, last);
        any = true;
    }
    for (ls_exec_op *op = rank->splits > 0 ? rank->open : NULL, *next; op != NULL; op = next) {
        next = op->next;
        if (op->call.call.kind == LS_COMM_SPLIT && op->request != NULL &&
            ls_remote_done(op->request)) {
            finish_split(exec, op);
            any = true;
        }
    }
    return any;
}

static void do_job(ls_exec *exec, const ls_exec_job *job) {
    int status = LS_OK;
    size_t each = 0;
    char *sent = ls_exec__record_before(exec, job, &each);
    if (exec->options->observe) {
        ls_remote_skip(job->requests, job->size);
    } else {
        bool collected = false;
        if (ls_exec__place_results(exec, job, &collected) != LS_OK) {
            exec->no_memory = true;
            free(sent);
            return;
        }
        status = ls_exec__move(exec, job, collected);
    }
    if (ls_exec__record_after(exec, job, sent, each) != LS_OK) {
        exec->unrecorded = true;
    }
    ls_exec__lend_results(exec, job);
    ls_exec__count(exec, job);
    ls_exec__note_met(exec, job);
    for (int m = 0; m < job->size; m++) {
        ls_exec_op *op = ls_remote_owner(job->requests[m]);
        op->call.call.root = ls_remote_call_of(job->requests[m])->root;
        if (ls_remote_done(job->requests[m])) {
            ls_remote_release(job->requests[m]);
        }
        ls_exec__flight_state(exec, op,
                              status == LS_OK ? LS_EXEC_FLIGHT_COMPLETED : LS_EXEC_FLIGHT_STARTED);
        finish(op, status);
    }
}

// Whether a call of the same communicator was made before it and is not over. Observed data is kept
// in the order of the calls, whenever it is seen that their data has come.
static bool overtakes(const ls_exec *exec, const ls_exec_job *job) {
    const ls_comm *own = ls_remote_call_of(job->requests[0])->comm;
    for (const ls_exec_job *at = exec->jobs; at != job && exec->options->observe; at = at->next) {
        if (ls_remote_call_of(at->requests[0])->comm == own) {
            return true;
        }
    }
    return false;
}

static bool move_jobs(ls_exec *exec) {
    const ls_exec_options *options = exec->options;
    bool needs_data = !options->observe || options->kept != LS_EXEC_KEPT_NOTHING;
    bool any = false;
    ls_exec_job **at = &exec->jobs, *before = NULL;
    while (*at != NULL && ls_remote_status(exec->run, NULL) == LS_OK) {
        ls_exec_job *job = *at;
        if (needs_data && (ls_exec__first_missing(job) != NULL || overtakes(exec, job))) {
            before = job;
            at = &job->next;
            continue;
        }
        *at = job->next;
        exec->jobs_last = exec->jobs_last == job ? before : exec->jobs_last;
        do_job(exec, job);
        free(job);
        any = true;
    }
    return any;
}

bool ls_exec__advance(ls_exec *exec) {
    bool any = false, moved = exec->run != NULL && !exec->over;
    while (moved) {
        moved = false;
        for (int r = 0; r < exec->rank_count; r++) {
            moved = post_rank(exec, &exec->ranks[r]) || moved;
        }
        moved = move_jobs(exec) || moved;
        any = any || moved;
        moved = moved && ls_remote_status(exec->run, NULL) == LS_OK;
    }
    return any;
}
