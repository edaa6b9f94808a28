// The recording of a run for a replay: DIR/exec.json lists its collectives, in the order in which
// their data had come, and DIR/call_000000.safetensors holds what each sent ("send" [members,
// elements]) and received ("recv/MEMBER"). Where hashes are kept, each block of a member's is the
// u64 of its bytes, and "agreed" repeats the first member's result. runner/replay/import_exec.c
// reads it.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "exec/internal.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "process/reaper.h"

// It is made beside its place, and moves there when it is whole.
struct ls_exec_record {
    const char *place;
    ls_reaper reaper;
    char dir[PATH_MAX + 16];  // in the reaper's folder, which only this user can access
    ls_exec_kept kept;
    ls_text list;
    ls_json json;
    uint32_t count;
    uint64_t *sent;  // [sent_room], of the call whose data is moved: a hash for each member
    int sent_room;
};

int ls_exec__record_open(ls_exec *exec) {
    const ls_exec_options *options = exec->options;
    if (options->record == NULL) {
        return LS_OK;
    }
    // Whether its place can be had is seen by having it.
    if (mkdir(options->record, 0777) != 0 || rmdir(options->record) != 0) {
        return LS_FAIL(LS_ERR_IO, "cannot create the recording \"%s\": %s", options->record,
                       strerror(errno));
    }
    ls_exec_record *record = calloc(1, sizeof *record);
    if (record == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory");
    }
    int status = ls_reaper_make(&record->reaper, options->record);
    if (status == LS_OK) {
        (void)snprintf(record->dir, sizeof record->dir, "%s/recording", record->reaper.dir);
        if (mkdir(record->dir, 0777) != 0) {
            status = LS_FAIL(ls_status_of_errno(errno), "%s", strerror(errno));
            ls_reaper_remove(&record->reaper);
        }
    }
    if (status != LS_OK) {
        free(record);
        return status == LS_ERR_MEMORY ? status : ls_error_wrap("cannot create the recording");
    }
    record->place = options->record;
    record->kept = options->kept;
    ls_json_begin(&record->json, &record->list, 1);
    ls_json_object_open(&record->json);
    ls_json_member_string(&record->json, "made_by", "lockstep exec");
    ls_json_member_int(&record->json, "format", 1);
    const char *real = options->real != NULL ? options->real : "nccl";
    ls_json_member_string(&record->json, "backend", options->observe ? real : "sim");
    ls_json_member_array(&record->json, "calls");
    exec->record = record;
    return LS_OK;
}

static const ls_exec_op *op_of(const ls_exec_job *job, int member) {
    return ls_remote_owner(job->requests[member]);
}

// Elements of each member's side, if the call has some: as many on all members, or only on one.
static size_t elements_of(const ls_exec_job *job, int member, bool send) {
    const ls_call *call = ls_remote_call_of(job->requests[member]);
    size_t count = 0;
    int status = send ? ls_call_send_elements(&count, call) : ls_call_recv_elements(&count, call);
    return status == LS_OK ? count : 0;
}

// The data of all senders, one after another; other members have zeros. *each: elements of one.
static char *gather_sent(size_t *each, const ls_exec_job *job) {
    size_t width = ls_dtype_bytes(ls_remote_call_of(job->requests[0])->dtype);
    *each = 0;
    for (int m = 0; m < job->size; m++) {
        size_t count = elements_of(job, m, true);
        *each = count > *each ? count : *each;
    }
    char *sent = calloc((size_t)job->size * *each + 1, width);
    for (int m = 0; m < job->size && sent != NULL; m++) {
        const void *data = op_of(job, m)->call.send;
        if (data != NULL) {
            memcpy(sent + (size_t)m * *each * width, data, elements_of(job, m, true) * width);
        }
    }
    return sent;
}

// Blocks of a member's side: each corresponds to another member's bytes.
static size_t blocks_of(const ls_exec_job *job, bool send) {
    switch (ls_remote_call_of(job->requests[0])->kind) {
    case LS_ALL_TO_ALL:
        return (size_t)job->size;
    case LS_ALL_GATHER:
    case LS_GATHER:
        return send ? 1 : (size_t)job->size;
    case LS_SCATTER:
        return send ? (size_t)job->size : 1;
    default:
        return 1;
    }
}

// Hashes [blocks] of a member's side; zeros where it has no data.
static void hash_side(uint64_t *out, const ls_exec_job *job, int member, bool send) {
    const ls_remote_call *call = &op_of(job, member)->call;
    size_t blocks = blocks_of(job, send);
    size_t each = elements_of(job, member, send) / blocks * ls_dtype_bytes(call->call.dtype);
    const char *data = send ? call->send : call->recv;
    for (size_t b = 0; b < blocks && data != NULL; b++) {
        out[b] = ls_hash(LS_HASH_START, data + b * each, each);
    }
}

static char *hash_sent(size_t *each, const ls_exec_job *job) {
    *each = blocks_of(job, true);
    uint64_t *hashes = calloc((size_t)job->size * *each, sizeof *hashes);
    for (int m = 0; m < job->size && hashes != NULL; m++) {
        hash_side(hashes + (size_t)m * *each, job, m, true);
    }
    return (char *)hashes;
}

static bool is_recorded(const ls_call *call) {
    return !ls_kind_is_message(call->kind) &&
           ls_collective_has_data(ls_collective_of(call->kind)) && call->send_counts == NULL &&
           call->recv_counts == NULL;
}

static bool has_data(const ls_call *call) {
    return ls_kind_is_message(call->kind) || ls_collective_has_data(ls_collective_of(call->kind));
}

bool ls_exec__records(const ls_exec *exec, const ls_exec_job *job) {
    return exec->record != NULL && exec->record->kept != LS_EXEC_KEPT_NOTHING &&
           has_data(ls_remote_call_of(job->requests[0]));
}

// The hash of a member's whole side; 0 where it has no data.
static uint64_t hash_of(const ls_exec_job *job, int member, bool send) {
    const ls_remote_call *call = &op_of(job, member)->call;
    size_t bytes = elements_of(job, member, send) * ls_dtype_bytes(call->call.dtype);
    const void *data = send ? call->send : call->recv;
    return data != NULL ? ls_hash(LS_HASH_START, data, bytes) : 0;
}

// A result may take the place of what was sent, so that its hash is taken first.
static int hash_all_sent(ls_exec_record *record, const ls_exec_job *job) {
    if (record->sent_room < job->size) {
        uint64_t *more = realloc(record->sent, (size_t)job->size * sizeof *more);
        LS_TRY(more != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
        record->sent = more;
        record->sent_room = job->size;
    }
    for (int m = 0; m < job->size; m++) {
        record->sent[m] = hash_of(job, m, true);
    }
    return LS_OK;
}

char *ls_exec__record_before(ls_exec *exec, const ls_exec_job *job, size_t *each) {
    *each = 0;
    if (!ls_exec__records(exec, job)) {
        return NULL;
    }
    if (hash_all_sent(exec->record, job) != LS_OK) {
        exec->no_memory = true;
        return NULL;
    }
    if (!is_recorded(ls_remote_call_of(job->requests[0]))) {
        return NULL;
    }
    return exec->record->kept == LS_EXEC_KEPT_HASHES ? hash_sent(each, job)
                                                     : gather_sent(each, job);
}

// Adds what each member received; hashes [members][blocks]: those of it instead.
static size_t add_received(ls_safetensor_source *tensors, char (*names)[32], const ls_exec_job *job,
                           uint64_t *hashes) {
    size_t count = 0, blocks = blocks_of(job, false);
    for (int m = 0; m < job->size; m++) {
        const ls_exec_op *op = op_of(job, m);
        size_t received = op->call.recv != NULL ? elements_of(job, m, false) : 0;
        if (received == 0) {
            continue;
        }
        (void)snprintf(names[m], sizeof names[m], "recv/%d", m);
        ls_safetensor_source *made = &tensors[count++];
        *made = (ls_safetensor_source){.name = names[m],
                                       .dtype = op->call.call.dtype,
                                       .ndim = 1,
                                       .dim = {(int64_t)received},
                                       .data = op->call.recv};
        if (hashes != NULL) {
            uint64_t *own = hashes + (size_t)m * blocks;
            hash_side(own, job, m, false);
            made->dtype = LS_U64;
            made->dim[0] = (int64_t)blocks;
            made->data = own;
        }
    }
    return count;
}

static int write_data(const ls_exec_record *record, const ls_exec_job *job, const char *sent,
                      size_t each) {
    size_t size = (size_t)job->size, count = 1;
    bool hashed = record->kept == LS_EXEC_KEPT_HASHES;
    char path[PATH_MAX + 48], (*names)[32] = calloc(size, sizeof *names);
    ls_safetensor_source *tensors = calloc(size + 2, sizeof *tensors);
    uint64_t *hashes = hashed ? calloc(size * blocks_of(job, false), sizeof *hashes) : NULL;
    uint64_t *agreed = hashed ? calloc(size, sizeof *agreed) : NULL;
    int status = LS_ERR_MEMORY;
    if (names != NULL && tensors != NULL && (!hashed || (hashes != NULL && agreed != NULL))) {
        tensors[0] = (ls_safetensor_source){
            .name = "send",
            .dtype = hashed ? LS_U64 : ls_remote_call_of(job->requests[0])->dtype,
            .ndim = 2,
            .dim = {job->size, (int64_t)each},
            .data = sent};
        if (hashed) {
            tensors[count++] = (ls_safetensor_source){.name = "agreed",
                                                      .dtype = LS_U64,
                                                      .ndim = 2,
                                                      .dim = {job->size, 1},
                                                      .data = agreed};
        }
        count += add_received(tensors + count, names, job, hashes);
        for (size_t m = 0; m < size && hashed; m++) {
            agreed[m] = hashes[0];
        }
        (void)snprintf(path, sizeof path, "%s/call_%06u.safetensors", record->dir, record->count);
        status = ls_safetensors_write(path, tensors, count, NULL, 0);
    } else {
        (void)LS_FAIL(LS_ERR_MEMORY, "no memory for a call's recording");
    }
    free(agreed);
    free(hashes);
    free(tensors);
    free(names);
    return status;
}

// The data by which replay compares two runs: of each member, which of its rank's calls this is,
// where it was made, and what it sent and received.
static void write_members(const ls_exec *exec, const ls_exec_job *job) {
    ls_exec_record *record = exec->record;
    ls_json *json = &record->json;
    bool hashed = ls_exec__records(exec, job);
    ls_json_member_array(json, "members");
    for (int m = 0; m < job->size; m++) {
        const ls_exec_op *op = op_of(job, m);
        const ls_call *call = &op->call.call;
        char text[512];
        ls_json_object_open(json);
        ls_json_member_uint(json, "number", op->number);
        (void)snprintf(text, sizeof text, "%.400s:%d", call->file, call->line);
        ls_json_member_string(json, "where", text);
        if (op->call.issuer.thread == (uint32_t)op->process->pid) {
            ls_json_member_bool(json, "main", true);
        }
        if (op->call.any_source) {
            ls_json_member_bool(json, "any", true);
        }
        const uint64_t hashes[] = {hashed ? record->sent[m] : 0,
                                   hashed ? hash_of(job, m, false) : 0};
        for (int side = 0; side < 2; side++) {
            if (hashes[side] != 0) {
                (void)snprintf(text, sizeof text, "%016" PRIx64, hashes[side]);
                ls_json_member_string(json, side == 0 ? "sent" : "received", text);
            }
        }
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

static void write_entry(const ls_exec *exec, const ls_exec_job *job, bool has_file) {
    ls_exec_record *record = exec->record;
    ls_json *json = &record->json;
    const ls_call *call = ls_remote_call_of(job->requests[0]);
    char text[512];
    ls_json_object_open(json);
    if (has_file) {
        (void)snprintf(text, sizeof text, "call_%06u.safetensors", record->count);
        ls_json_member_string(json, "file", text);
        ls_json_member_bool(json, "hashed", record->kept == LS_EXEC_KEPT_HASHES);
    }
    ls_json_member_string(json, "call", ls_kind_name(call->kind));
    ls_json_member_string(json, "dtype", ls_dtype_name(call->dtype));
    ls_json_member_uint(json, "count", call->count);
    if (ls_collective_of(call->kind)->reduces) {
        ls_json_member_string(json, "op", ls_op_name(call->op));
    }
    ls_json_member_int(json, "root", call->root);
    ls_json_member_string(json, "communicator", call->comm->name);
    ls_json_member_array(json, "ranks");
    for (int m = 0; m < job->size; m++) {
        ls_json_int(json, ls_remote_call_of(job->requests[m])->rank);
    }
    ls_json_array_close(json);
    ls_json_member_int(json, "world", exec->rank_count);
    if (call->op == LS_PREMUL_SUM) {
        ls_json_member_array(json, "factors");
        for (int m = 0; m < job->size; m++) {
            ls_json_double(json, ls_remote_call_of(job->requests[m])->premul);
        }
        ls_json_array_close(json);
    }
    (void)snprintf(text, sizeof text, "%.400s:%d", call->file, call->line);
    ls_json_member_string(json, "where", text);
    ls_json_member_given(json, "purpose", call->purpose);
    if (record->kept != LS_EXEC_KEPT_NOTHING) {
        write_members(exec, job);
    }
    ls_json_object_close(json);
}

int ls_exec__record_after(ls_exec *exec, const ls_exec_job *job, char *sent, size_t each) {
    ls_exec_record *record = exec->record;
    int status = LS_OK;
    if (record != NULL) {
        bool has_file = sent != NULL && each > 0;
        status = has_file ? write_data(record, job, sent, each) : LS_OK;
        write_entry(exec, job, has_file);
        record->count += 1;
    }
    free(sent);
    return status;
}

// ---- Records for the report ---------------------------------------------------------------------
#define ROWS_MAX 512

static bool is_like(const ls_exec_calls *row, const ls_call *call) {
    if (row->kind != call->kind || strcmp(row->communicator, call->comm->name) != 0 ||
        (row->purpose == NULL) != (call->purpose == NULL)) {
        return false;
    }
    return row->purpose != NULL ? strcmp(row->purpose, call->purpose) == 0
                                : row->line == call->line && strcmp(row->file, call->file) == 0;
}

static ls_exec_calls *row_of(ls_exec *exec, const ls_call *call) {
    for (int i = 0; i < exec->made_count; i++) {
        if (is_like(&exec->made[i], call)) {
            return &exec->made[i];
        }
    }
    if (exec->made == NULL) {
        exec->made = ls_arena_alloc(exec->arena, ROWS_MAX, sizeof *exec->made);
    }
    const char *name = ls_arena_strdup(exec->arena, call->comm->name);
    if (exec->made == NULL || name == NULL || exec->made_count == ROWS_MAX) {
        return NULL;
    }
    ls_exec_calls *row = &exec->made[exec->made_count++];
    *row = (ls_exec_calls){.kind = call->kind,
                           .communicator = name,
                           .purpose = call->purpose,
                           .file = call->file,
                           .line = call->line};
    return row;
}

void ls_exec__count(ls_exec *exec, const ls_exec_job *job) {
    ls_exec_calls *row = row_of(exec, ls_remote_call_of(job->requests[0]));
    if (row == NULL) {
        return;  // those that came first are reported
    }
    row->calls += 1;
    for (int m = 0; m < job->size; m++) {
        row->bytes +=
            elements_of(job, m, true) * ls_dtype_bytes(ls_remote_call_of(job->requests[m])->dtype);
    }
}

// A new set without calls; NULL: there are enough.
static ls_call_set *new_set(ls_exec *exec, const ls_call *call, const char *communicator) {
    if (exec->rank_count > LS_EXEC_RANKS_MAX || exec->set_count == LS_EXEC_SETS_MAX) {
        return NULL;
    }
    if (exec->sets == NULL) {
        exec->sets = ls_arena_alloc(exec->arena, LS_EXEC_SETS_MAX, sizeof *exec->sets);
    }
    const char **where = ls_arena_alloc(exec->arena, LS_EXEC_RANKS_MAX, sizeof *where);
    const char *name = ls_arena_strdup(exec->arena, communicator);
    if (exec->sets == NULL || where == NULL || name == NULL) {
        return NULL;
    }
    ls_call_set *made = &exec->sets[exec->set_count++];
    *made = (ls_call_set){.call = ls_kind_name(call->kind),
                          .communicator = name,
                          .purpose = call->purpose,
                          .where = where};
    return made;
}

static const char *place_of(ls_exec *exec, const ls_call *call) {
    return ls_arena_printf(exec->arena, "%s:%d", call->file, call->line);
}

void ls_exec__note_met(ls_exec *exec, const ls_exec_job *job) {
    const ls_call *first = ls_remote_call_of(job->requests[0]);
    ls_call_set *set = new_set(exec, first, first->comm->name);
    for (int m = 0; m < job->size && set != NULL; m++) {
        const ls_exec_op *op = op_of(job, m);
        set->met = true;
        set->where[op->rank->id] = place_of(exec, &op->call.call);
    }
}

void ls_exec__note_open(ls_exec *exec) {
    for (int r = 0; r < exec->rank_count; r++) {
        const ls_exec_op *lists[] = {exec->ranks[r].open, exec->ranks[r].first};
        for (int i = 0; i < 2; i++) {
            for (const ls_exec_op *op = lists[i]; op != NULL; op = op->next) {
                if (op->met) {
                    continue;
                }
                const ls_comm *comm = ls_comm_of(op->handle);
                ls_call_set *set = new_set(exec, &op->call.call, comm != NULL ? comm->name : "");
                if (set != NULL) {
                    set->where[r] = place_of(exec, &op->call.call);
                }
            }
        }
    }
}

int ls_exec__record_close(ls_exec *exec) {
    ls_exec_record *record = exec->record;
    if (record == NULL) {
        return LS_OK;
    }
    char path[PATH_MAX + 48];
    ls_json_array_close(&record->json);
    ls_json_object_close(&record->json);
    (void)snprintf(path, sizeof path, "%s/exec.json", record->dir);
    int status = record->list.failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the list of calls")
                                     : ls_file_write(path, record->list.data, record->list.length);
    if (status == LS_OK && rename(record->dir, record->place) != 0) {
        status = LS_FAIL(ls_status_of_errno(errno), "cannot rename \"%s\" to \"%s\": %s",
                         record->dir, record->place, strerror(errno));
    }
    ls_reaper_remove(&record->reaper);
    ls_text_free(&record->list);
    free(record->sent);
    free(record);
    exec->record = NULL;
    return status;
}
