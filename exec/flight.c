// The calls of each rank, as the analyzer of PyTorch's flight recorder reads it
// (torch.distributed.flight_recorder, version 2.10 of the format): PREFIX0, PREFIX1, ..., a pickle
// for each rank. The analyzer knows kinds, sizes, dtypes and states. Beside those each call has the
// keys comm and comm_ranks (the communicator of a message), op, count, root (or peer), queue,
// batch, thread_id and the counts of members, and a rank that ended before the run did has
// `ended`: python/lockstep/dumps.py reads them.
//
// A message is an entry of a group of its two ranks, which holds the messages of one direction
// alone: there the n-th send meets the n-th receive, as NCCL has it, whatever else the ranks call.
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "exec/internal.h"

#define NOTES_MAX 32768u  // of a rank; the oldest give way

typedef struct note {
    int group;
    uint64_t call;  // of the rank in its group
    uint64_t created_ns;
    ls_kind kind;
    ls_dtype dtype;
    ls_op op;
    int root;
    size_t count;
    uint64_t stream;  // 0: no stream
    uint64_t thread;
    uint64_t batch;  // calls that begin together; 0: only one
    ls_exec_flight_state state;
    uint64_t sent, received;  // elements
    const size_t *counts[2];  // [members] sent and received, in the arena; NULL: even
    int members;
    const char *stack;  // in lines; NULL: unknown
    const char *file;
    int line;
} note;

typedef struct group {
    int run;       // of the job
    int comm;      // its id
    int from, to;  // ranks of the messages; -1: collectives of all members
    const char *name;
    const char *ranks;  // "[0, 1]"
    const char *comm_name, *comm_ranks;
} group;

typedef struct membership {
    int group;
    uint64_t calls;
} membership;

typedef struct rank_log {
    note *notes;  // [room], the newest of made
    uint64_t made;
    size_t room;
    membership *groups;
    int group_count;
    uint64_t batches;  // begun so far
    bool in_batch;
    const char *ended;  // how its process ended; NULL: it did not before the run
} rank_log;

struct ls_exec_flight {
    rank_log *ranks;  // [rank_count], of ranks that have called something
    int rank_count;
    group *groups;
    int group_count;
};

int ls_exec__flight_open(ls_exec *exec) {
    const char *prefix = exec->options->flight;
    if (prefix == NULL) {
        return LS_OK;
    }
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s0", prefix);
    if (strlen(prefix) > PATH_MAX - 16 || access(dirname(path), W_OK | X_OK) != 0) {
        return LS_FAIL(LS_ERR_IO, "cannot create files at '%s': %s", prefix, strerror(errno));
    }
    exec->flight = calloc(1, sizeof *exec->flight);
    return exec->flight != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory");
}

// ---- Groups -------------------------------------------------------------------------------------
static const char *list_ranks(ls_arena *arena, const int *ranks, int count) {
    ls_text text = {0};
    for (int i = 0; i < count; i++) {
        ls_text_printf(&text, "%s%d", i > 0 ? ", " : "[", ranks[i]);
    }
    ls_text_puts(&text, "]");
    const char *kept = ls_arena_strdup(arena, ls_text_string(&text));
    ls_text_free(&text);
    return kept;
}

static int make_group(const ls_exec *exec, const ls_comm *comm, int from, int to) {
    ls_exec_flight *flight = exec->flight;
    for (int i = 0; i < flight->group_count; i++) {
        const group *at = &flight->groups[i];
        if (at->run == exec->number && at->comm == comm->id && at->from == from && at->to == to) {
            return i;
        }
    }
    group *more = realloc(flight->groups, ((size_t)flight->group_count + 1) * sizeof *more);
    if (more == NULL) {
        return -1;
    }
    flight->groups = more;
    const int two[] = {from < to ? from : to, from < to ? to : from};
    group made = {.run = exec->number, .comm = comm->id, .from = from, .to = to};
    made.name = from < 0 ? ls_arena_strdup(exec->arena, comm->name)
                         : ls_arena_printf(exec->arena, "%s %d->%d", comm->name, from, to);
    if (from < 0) {
        made.ranks = list_ranks(exec->arena, comm->ranks, comm->size);
    } else {
        made.ranks = list_ranks(exec->arena, two, from == to ? 1 : 2);
    }
    made.comm_name = ls_arena_strdup(exec->arena, comm->name);
    made.comm_ranks = list_ranks(exec->arena, comm->ranks, comm->size);
    more[flight->group_count] = made;
    return made.name != NULL && made.ranks != NULL && made.comm_name != NULL &&
                   made.comm_ranks != NULL
               ? flight->group_count++
               : -1;
}

// The rank's own count of a group's calls; NULL: no memory.
static membership *member_of(const ls_exec *exec, rank_log *log, const ls_comm *comm, int from,
                             int to) {
    for (int i = 0; i < log->group_count; i++) {
        const group *at = &exec->flight->groups[log->groups[i].group];
        if (at->run == exec->number && at->comm == comm->id && at->from == from && at->to == to) {
            return &log->groups[i];
        }
    }
    int made = make_group(exec, comm, from, to);
    membership *more =
        made >= 0 ? realloc(log->groups, ((size_t)log->group_count + 1) * sizeof *more) : NULL;
    if (more == NULL) {
        return NULL;
    }
    log->groups = more;
    more[log->group_count] = (membership){.group = made};
    return &more[log->group_count++];
}

// ---- Notes --------------------------------------------------------------------------------------
static rank_log *log_of(const ls_exec *exec, int rank) {
    ls_exec_flight *flight = exec->flight;
    if (rank >= flight->rank_count) {
        rank_log *more = realloc(flight->ranks, ((size_t)rank + 1) * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        memset(more + flight->rank_count, 0,
               (size_t)(rank + 1 - flight->rank_count) * sizeof *more);
        flight->ranks = more;
        flight->rank_count = rank + 1;
    }
    rank_log *log = &flight->ranks[rank];
    if (log->made == log->room && log->room < NOTES_MAX) {
        size_t room = log->room > 0 ? 2 * log->room : 64;
        note *more = realloc(log->notes, room * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        log->notes = more;
        log->room = room;
    }
    return log;
}

static const char *name_of(ls_kind kind) {
    switch (kind) {
    case LS_ALL_REDUCE:
        return "all_reduce";
    case LS_REDUCE:
        return "reduce";
    case LS_BROADCAST:
        return "broadcast";
    case LS_ALL_GATHER:
        return "_all_gather_base";
    case LS_REDUCE_SCATTER:
        return "_reduce_scatter_base";
    case LS_ALL_TO_ALL:
        return "all_to_all";
    case LS_GATHER:
        return "gather";
    case LS_SCATTER:
        return "scatter";
    case LS_SEND:
        return "send";
    case LS_RECV:
        return "recv";
    case LS_BARRIER:
        return "all_reduce_barrier";
    default:
        return NULL;  // the analyzer knows no other
    }
}

static void measure(note *out, const ls_exec_op *op, const ls_comm *comm) {
    ls_call call = op->call.call;
    size_t sent = 0, received = 0;
    call.comm = comm;
    call.rank = op->rank->id;
    call.root = call.root < 0 ? 0 : call.root;  // any: the sizes are the same
    if (ls_call_send_elements(&sent, &call) != LS_OK ||
        ls_call_recv_elements(&received, &call) != LS_OK) {
        return;
    }
    // In torch it is one tensor that is sent and received.
    bool whole = call.kind == LS_BROADCAST || call.kind == LS_REDUCE;
    out->sent = whole ? call.count : sent;
    out->received = whole ? call.count : received;
}

static const size_t *keep_counts(const ls_exec *exec, const size_t *counts, int members) {
    return counts != NULL ? ls_arena_copy(exec->arena, counts, (size_t)members * sizeof *counts)
                          : NULL;
}

int ls_exec__flight_call(ls_exec *exec, ls_exec_op *op, const ls_exec_site *site) {
    const ls_call *call = &op->call.call;
    if (exec->flight == NULL || name_of(call->kind) == NULL || op->call.any_source) {
        return LS_OK;
    }
    const ls_comm *comm = ls_comm_of(op->handle);
    int own = op->rank->id, from = -1, to = -1;
    if (ls_kind_is_message(call->kind)) {
        if (call->root < 0 || call->root >= comm->size) {
            return LS_OK;
        }
        int peer = comm->ranks[call->root];
        from = call->kind == LS_SEND ? own : peer;
        to = call->kind == LS_SEND ? peer : own;
    }
    rank_log *log = log_of(exec, own);
    membership *member = log != NULL ? member_of(exec, log, comm, from, to) : NULL;
    if (member == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for the flight recorder");
    }
    note made = {.group = member->group,
                 .call = member->calls++,
                 .created_ns = (uint64_t)ls_time_wall_ns(),
                 .kind = call->kind,
                 .dtype = call->dtype,
                 .op = call->op,
                 .root = call->root,
                 .count = call->count,
                 .stream = op->stream != NULL ? op->stream->stream + 1 : 0,
                 .thread = op->call.issuer.thread,
                 .members = comm->size,
                 .stack = site->stack,
                 .file = call->file,
                 .line = call->line};
    measure(&made, op, comm);
    if (op->grouped) {
        log->batches += log->in_batch ? 0 : 1;
        log->in_batch = !op->group_ends;
        made.batch = log->batches;
    }
    made.counts[0] = keep_counts(exec, call->send_counts, comm->size);
    made.counts[1] = keep_counts(exec, call->recv_counts, comm->size);
    log->notes[log->made % NOTES_MAX] = made;
    op->noted = ++log->made;
    return LS_OK;
}

void ls_exec__flight_state(const ls_exec *exec, const ls_exec_op *op, ls_exec_flight_state state) {
    if (exec->flight == NULL || op->noted == 0) {
        return;
    }
    rank_log *log = &exec->flight->ranks[op->rank->id];
    if (log->made - op->noted < NOTES_MAX) {
        log->notes[(op->noted - 1) % NOTES_MAX].state = state;
    }
}

void ls_exec__flight_ended(ls_exec *exec, int rank, const char *how) {
    rank_log *log = exec->flight != NULL ? log_of(exec, rank) : NULL;
    if (log != NULL) {
        log->ended = ls_arena_strdup(exec->arena, how);
    }
}

// ---- Pickles, protocol 2 ------------------------------------------------------------------------
static void put(ls_text *out, const char *opcodes) {
    ls_text_puts(out, opcodes);
}

static void put_string(ls_text *out, const char *string) {
    ls_text plain = {0};
    ls_text_plain(&plain, string, strlen(string));  // a program's names may be anything
    size_t length = plain.length;
    const unsigned char head[] = {'X', (unsigned char)length, (unsigned char)(length >> 8),
                                  (unsigned char)(length >> 16), (unsigned char)(length >> 24)};
    ls_text_append(out, (const char *)head, sizeof head);
    ls_text_append(out, ls_text_string(&plain), length);
    out->failed = out->failed || plain.failed;
    ls_text_free(&plain);
}

static void put_number(ls_text *out, uint64_t value) {
    ls_text_printf(out, "L%lluL\n", (unsigned long long)value);
}

static void put_member(ls_text *out, const char *key, const char *value) {
    put_string(out, key);
    put_string(out, value);
}

static void put_count(ls_text *out, const char *key, uint64_t value) {
    put_string(out, key);
    put_number(out, value);
}

static void put_list_of(ls_text *out, const char *key, const char *value) {
    put_string(out, key);
    put(out, "](");
    put_string(out, value);
    put(out, "e");
}

static void put_shape(ls_text *out, const char *key, uint64_t elements) {
    put_string(out, key);
    put(out, "](](");
    put_number(out, elements);
    put(out, "ee");
}

static void put_counts(ls_text *out, const char *key, const size_t *counts, int members) {
    if (counts != NULL) {
        put_string(out, key);
        put(out, "](");
        for (int m = 0; m < members; m++) {
            put_number(out, counts[m]);
        }
        put(out, "e");
    }
}

// The keys that the analyzer does not know.
static void put_rest(ls_text *out, const note *at, const group *of) {
    char queue[24] = "", thread[24] = "";
    if (at->stream != 0) {
        (void)snprintf(queue, sizeof queue, "%llu", (unsigned long long)at->stream);
    }
    if (at->thread != 0) {
        (void)snprintf(thread, sizeof thread, "%llu", (unsigned long long)at->thread);
    }
    put_member(out, "comm", of->comm_name);
    put_member(out, "comm_ranks", of->comm_ranks);
    put_member(out, "op", ls_op_name(at->op));
    put_count(out, "count", at->count);
    put_count(out, "root", at->root > 0 ? (uint64_t)at->root : 0);
    put_member(out, "queue", queue);
    put_count(out, "batch", at->batch);
    put_member(out, "thread_id", thread);
    put_counts(out, "send_counts", at->counts[0], at->members);
    put_counts(out, "recv_counts", at->counts[1], at->members);
}

// Lines "FILE:LINE FUNCTION".
static void put_frames(ls_text *out, const note *at) {
    put_string(out, "frames");
    put(out, "](");
    char first[PATH_MAX + 16];
    (void)snprintf(first, sizeof first, "%s:%d ", at->file, at->line);
    const char *lines = at->stack != NULL && at->stack[0] != 0 ? at->stack : first;
    while (*lines != 0) {
        size_t length = strcspn(lines, "\n");
        char text[PATH_MAX + 256];
        (void)snprintf(text, sizeof text, "%.*s", (int)length, lines);
        char *name = strrchr(text, ' '), *colon = NULL;
        if (name != NULL) {
            *name++ = 0;
        }
        colon = strrchr(text, ':');
        put(out, "}(");
        put_member(out, "name", name != NULL ? name : "");
        put_count(out, "line", colon != NULL ? strtoull(colon + 1, NULL, 10) : 0);
        if (colon != NULL) {
            *colon = 0;
        }
        put_member(out, "filename", text);
        put(out, "u");
        lines += lines[length] != 0 ? length + 1 : length;
    }
    put(out, "e");
}

static void put_note(ls_text *out, const ls_exec *exec, const note *at, uint64_t id) {
    static const char *const states[] = {"scheduled", "started", "completed"};
    const group *of = &exec->flight->groups[at->group];
    char name[64], number[16];
    bool message = ls_kind_is_message(at->kind);
    (void)snprintf(number, sizeof number, "%d", at->group);
    (void)snprintf(name, sizeof name, "nccl:%s", name_of(at->kind));
    if (message) {  // by the group's members
        int sender = of->from > of->to ? 1 : 0, receiver = of->to > of->from ? 1 : 0;
        (void)snprintf(
            name, sizeof name, at->kind == LS_SEND ? "nccl:send %d->%d" : "nccl:recv %d<-%d",
            at->kind == LS_SEND ? sender : receiver, at->kind == LS_SEND ? receiver : sender);
    }
    put(out, "}(");
    put_count(out, "record_id", id);
    put_count(out, "pg_id", (uint64_t)at->group);
    put_string(out, "process_group");
    put_string(out, number);
    put_string(out, of->name);
    put(out, "\x86");  // the two before
    put_count(out, "collective_seq_id", at->call);
    put_count(out, "p2p_seq_id", message ? at->call : 0);
    put_count(out, "op_id", at->call);
    put_member(out, "profiling_name", name);
    put_count(out, "time_created_ns", at->created_ns);
    put_shape(out, "input_sizes", at->kind == LS_RECV ? at->received : at->sent);
    put_shape(out, "output_sizes", at->kind == LS_SEND ? at->sent : at->received);
    put_list_of(out, "input_dtypes", ls_dtype_name_torch(at->dtype));
    put_list_of(out, "output_dtypes", ls_dtype_name_torch(at->dtype));
    put_member(out, "state", states[at->state]);
    put_string(out, "time_discovered_started_ns");
    put(out, "N");
    put_string(out, "time_discovered_completed_ns");
    put(out, "N");
    put_string(out, "retired");
    put(out, at->state == LS_EXEC_FLIGHT_COMPLETED ? "\x88" : "\x89");
    put_string(out, "is_p2p");
    put(out, message ? "\x88" : "\x89");
    put_rest(out, at, of);
    put_frames(out, at);
    put(out, "u");
}

static void put_rank(ls_text *out, const ls_exec *exec, const rank_log *log) {
    put(out, "\x80\x02}(");
    put_member(out, "version", "2.10");
    if (log->ended != NULL) {
        put_member(out, "ended", log->ended);
    }
    put_string(out, "pg_config");
    put(out, "}(");
    for (int i = 0; i < log->group_count; i++) {
        const group *at = &exec->flight->groups[log->groups[i].group];
        char number[16];
        (void)snprintf(number, sizeof number, "%d", log->groups[i].group);
        put_string(out, number);
        put(out, "}(");
        put_member(out, "name", number);
        put_member(out, "desc", at->name);
        put_member(out, "ranks", at->ranks);
        put(out, "u");
    }
    put(out, "u");
    put_string(out, "entries");
    put(out, "](");
    uint64_t first = log->made > NOTES_MAX ? log->made - NOTES_MAX : 0;
    for (uint64_t id = first; id < log->made; id++) {
        put_note(out, exec, &log->notes[id % NOTES_MAX], id);
    }
    put(out, "eu.");
}

int ls_exec__flight_close(ls_exec *exec) {
    ls_exec_flight *flight = exec->flight;
    static const rank_log silent = {0};
    int status = LS_OK;
    for (int r = 0; flight != NULL && r < exec->most_ranks && status == LS_OK; r++) {
        char path[PATH_MAX + 16];
        ls_text text = {0};
        put_rank(&text, exec, r < flight->rank_count ? &flight->ranks[r] : &silent);
        (void)snprintf(path, sizeof path, "%s%d", exec->options->flight, r);
        status = text.failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the flight recorder's file")
                             : ls_file_write(path, text.data, text.length);
        ls_text_free(&text);
    }
    for (int r = 0; flight != NULL && r < flight->rank_count; r++) {
        free(flight->ranks[r].notes);
        free(flight->ranks[r].groups);
    }
    if (flight != NULL) {
        free(flight->ranks);
        free(flight->groups);
    }
    free(flight);
    exec->flight = NULL;
    return status;
}
