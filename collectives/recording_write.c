// Writing recordings: outputs and calls are kept per rank and written at the end, file by file.
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "collectives/recording_calls.h"
#include "formats/json.h"

typedef struct rank_part {
    int rank;
    ls_safetensor_source *tensors;  // [tensor_room], names and data in the arena
    size_t tensor_count, tensor_room;
    ls_text reduces;  // names, one per line
    ls_text calls;    // a JSON array being written
    ls_json json;
} rank_part;

struct ls_recording_writer {
    ls_arena *arena;
    const char *dir;
    const ls_world *world;
    ls_recording_info info;
    rank_part *parts;  // [part_count] held ranks, ascending
    int part_count;
    bool finished;
};

int ls_recording__path(char out[LS_RECORDING_PATH_MAX], const char *dir, int rank,
                       const char *suffix) {
    int length = rank >= 0
                     ? snprintf(out, LS_RECORDING_PATH_MAX, "%s/rank_%05d%s", dir, rank, suffix)
                     : snprintf(out, LS_RECORDING_PATH_MAX, "%s/%s", dir, suffix);
    if (length < 0 || length >= LS_RECORDING_PATH_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "the path of recording '%.100s...' is too long", dir);
    }
    return LS_OK;
}

int ls_stage_key(char *out, size_t out_bytes, const ls_stage_output *output) {
    const char *parts[4] = {output->stage, output->table, output->feature, output->field};
    size_t length = 0;
    for (int i = 0; i < 4; i++) {
        const char *part = parts[i] != NULL ? parts[i] : "-";
        if (strpbrk(part, "/\n") != NULL || part[0] == '\0') {
            return LS_FAIL(LS_ERR_INVALID, "\"%.64s\" cannot be part of a stage output's name",
                           part);
        }
        int added = snprintf(out + length, out_bytes - length, "%s%s", i != 0 ? "/" : "", part);
        if (added < 0 || (size_t)added >= out_bytes - length) {
            return LS_FAIL(LS_ERR_LIMIT, "the name of a stage output is longer than %zu bytes",
                           out_bytes);
        }
        length += (size_t)added;
    }
    return LS_OK;
}

// ---- Collecting ---------------------------------------------------------------------------------
int ls_recording_writer_create(ls_recording_writer **out, const char *dir, const ls_world *world,
                               const ls_recording_info *info) {
    LS_ASSERT(out != NULL && dir != NULL && world != NULL && info != NULL);
    *out = NULL;
    ls_arena *arena = NULL;
    ls_recording_writer *writer = ls_arena_create_with(&arena, sizeof *writer);
    LS_TRY_MEMORY(writer != NULL);
    writer->arena = arena;
    writer->world = world;
    writer->info = *info;
    writer->dir = ls_arena_strdup(arena, dir);
    writer->info.name = ls_arena_strdup(arena, info->name != NULL ? info->name : "");
    writer->info.backend = ls_arena_strdup(arena, info->backend != NULL ? info->backend : "");
    writer->info.versions = ls_arena_strdup(arena, info->versions != NULL ? info->versions : "");
    bool copied = writer->dir != NULL && writer->info.name != NULL &&
                  writer->info.backend != NULL && writer->info.versions != NULL;
    if (info->scenario != NULL) {
        writer->info.scenario = ls_arena_strdup(arena, info->scenario);
        copied = copied && writer->info.scenario != NULL;
    }
    int held = ls_world_held_count(world);
    writer->parts = ls_arena_alloc(arena, (size_t)held, sizeof *writer->parts);
    if (!copied || writer->parts == NULL) {
        ls_arena_free(arena);
        return LS_ERR_MEMORY;
    }
    writer->part_count = held;
    for (int i = 0; i < held; i++) {
        rank_part *part = &writer->parts[i];
        part->rank = ls_world_held(world)[i];
        ls_json_begin(&part->json, &part->calls, 1);
        ls_json_array_open(&part->json);
    }
    *out = writer;
    return LS_OK;
}

static int add_output(ls_recording_writer *writer, rank_part *part, const ls_stage_output *output) {
    char key[LS_STAGE_KEY_MAX];
    LS_TRY(ls_stage_key(key, sizeof key, output));
    if (part->tensor_count == part->tensor_room) {
        size_t room = part->tensor_room != 0 ? 2 * part->tensor_room : 16;
        void *memory = NULL;
        LS_TRY(ls_alloc(&memory, room, sizeof *part->tensors));
        if (part->tensor_count != 0) {
            memcpy(memory, part->tensors, part->tensor_count * sizeof *part->tensors);
        }
        ls_free(part->tensors, part->tensor_room, sizeof *part->tensors);
        part->tensors = memory;
        part->tensor_room = room;
    }
    size_t count = 0, bytes = 0;
    LS_TRY(ls_shape_count(&count, &output->shape));
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(output->dtype)));
    ls_safetensor_source *tensor = &part->tensors[part->tensor_count];
    *tensor = (ls_safetensor_source){
        .name = ls_arena_strdup(writer->arena, key),
        .dtype = output->dtype,
        .ndim = output->shape.ndim,
        .data = ls_arena_copy(writer->arena, output->data, bytes),
    };
    LS_TRY_MEMORY(tensor->name != NULL && tensor->data != NULL);
    memcpy(tensor->dim, output->shape.dim, sizeof output->shape.dim);
    part->tensor_count += 1;
    if (output->reduces) {
        ls_text_printf(&part->reduces, "%s\n", key);
    }
    return LS_OK;
}

static int emit(void *arg, const ls_stage_output *output) {
    ls_recording_writer *writer = arg;
    int index = ls_world_held_index(writer->world, output->rank);
    if (index < 0 || writer->finished) {
        return LS_FAIL_RANK(LS_ERR_INVALID, output->rank,
                            "recording: an output of rank %d, which is not held here",
                            output->rank);
    }
    int status = add_output(writer, &writer->parts[index], output);
    if (status != LS_OK) {
        return ls_error_wrap("recording: rank %d: stage %s", output->rank,
                             output->stage != NULL ? output->stage : "-");
    }
    return LS_OK;
}

ls_stage_sink ls_recording_writer_sink(ls_recording_writer *writer) {
    return (ls_stage_sink){.arg = writer, .emit = emit};
}

static void write_counts(ls_json *json, const char *key, const size_t *counts, int size) {
    if (counts == NULL) {
        return;
    }
    ls_json_member_array(json, key);
    for (int i = 0; i < size; i++) {
        ls_json_uint(json, counts[i]);
    }
    ls_json_array_close(json);
}

void ls_recording_writer_observe(void *arg, const ls_call *call) {
    ls_recording_writer *writer = arg;
    int index = ls_world_held_index(writer->world, call->rank);
    if (index < 0 || writer->finished) {
        return;
    }
    const ls_collective *collective = ls_collective_of(call->kind);
    ls_json *json = &writer->parts[index].json;
    ls_json_object_open(json);
    ls_json_member_string(json, "kind", ls_kind_name(call->kind));
    ls_json_member_string(json, "comm", call->comm->name);
    ls_json_member_int(json, "comm_id", call->comm->id);
    ls_json_member_int(json, "comm_size", call->comm->size);
    ls_json_member_int(json, "member", ls_comm_member(call->comm, call->rank));
    ls_json_member_uint(json, "seq", call->seq);
    if (ls_collective_has_data(collective)) {
        ls_json_member_string(json, "dtype", ls_dtype_name(call->dtype));
        ls_json_member_uint(json, "count", call->count);
    }
    if (collective->reduces) {
        ls_json_member_string(json, "op", ls_op_name(call->op));
    }
    if (collective->reduces && call->op == LS_PREMUL_SUM) {
        ls_json_member_double(json, "premul", call->premul);
    }
    if (collective->root_word != NULL) {
        ls_json_member_int(json, "root", call->root);
    }
    write_counts(json, "send_counts", call->send_counts, call->comm->size);
    write_counts(json, "recv_counts", call->recv_counts, call->comm->size);
    if (call->file != NULL) {
        ls_json_member_string(json, "file", call->file);
        ls_json_member_int(json, "line", call->line);
    }
    ls_call_used used;
    ls_backend *backend = call->comm->backend;
    if (backend->ops->used != NULL && backend->ops->used(backend, call, &used)) {
        ls_json_member_string(json, "algorithm", used.algorithm);
        ls_json_member_string(json, "protocol", used.protocol);
        ls_json_member_int(json, "channels", used.channels);
        ls_json_member_string(json, "order", used.order);
    }
    ls_json_object_close(json);
}

// ---- Writing ------------------------------------------------------------------------------------
static int write_text(const char *path, const ls_text *text) {
    if (text->failed) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for the text of '%s'", path);
    }
    return ls_file_write(path, ls_text_string(text), text->length);
}

static int write_part(ls_recording_writer *writer, rank_part *part) {
    char path[LS_RECORDING_PATH_MAX];
    ls_json_array_close(&part->json);
    ls_text_puts(&part->calls, "\n");
    LS_TRY(ls_recording__path(path, writer->dir, part->rank, ".calls.json"));
    LS_TRY(write_text(path, &part->calls));
    LS_TRY(ls_recording__path(path, writer->dir, part->rank, ".safetensors"));
    const char *metadata[] = {LS_RECORDING_REDUCES, ls_text_string(&part->reduces)};
    return ls_safetensors_write(path, part->tensors, part->tensor_count, metadata, 1);
}

static void write_machine(ls_json *json) {
    struct utsname machine;
    if (uname(&machine) != 0) {
        return;
    }
    ls_json_member_object(json, "machine");
    ls_json_member_string(json, "system", machine.sysname);
    ls_json_member_string(json, "release", machine.release);
    ls_json_member_string(json, "architecture", machine.machine);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    ls_json_member_int(json, "cores", cores > 0 ? cores : 0);
    ls_json_object_close(json);
}

static int write_manifest(ls_recording_writer *writer) {
    char path[LS_RECORDING_PATH_MAX];
    if (writer->info.scenario != NULL) {
        LS_TRY(ls_recording__path(path, writer->dir, -1, "scenario.yaml"));
        LS_TRY(ls_file_write(path, writer->info.scenario, strlen(writer->info.scenario)));
    }
    ls_text text = {0};
    ls_json json;
    ls_json_begin(&json, &text, 2);
    ls_json_object_open(&json);
    ls_json_member_int(&json, "lockstep_recording", LS_RECORDING_FORMAT);
    ls_json_member_string(&json, "name", writer->info.name);
    ls_json_member_string(&json, "scenario",
                          writer->info.scenario != NULL ? "scenario.yaml" : NULL);
    ls_json_member_string(&json, "backend", writer->info.backend);
    ls_json_member_int(&json, "ranks", writer->info.ranks);
    // Readers of JSON hold integers as signed; a larger seed is kept as text.
    char seed[24];
    (void)snprintf(seed, sizeof seed, "%" PRIu64, writer->info.seed);
    if (writer->info.seed <= INT64_MAX) {
        ls_json_member_uint(&json, "seed", writer->info.seed);
    } else {
        ls_json_member_string(&json, "seed", seed);
    }
    write_machine(&json);
    ls_json_member_string(&json, "versions", writer->info.versions);
    ls_json_member_string(&json, "commit", LOCKSTEP_COMMIT);
    ls_json_member_array(&json, "files");
    for (int rank = 0; rank < writer->info.ranks; rank++) {
        char name[64];
        (void)snprintf(name, sizeof name, "rank_%05d.safetensors", rank);
        ls_json_string(&json, name);
        (void)snprintf(name, sizeof name, "rank_%05d.calls.json", rank);
        ls_json_string(&json, name);
    }
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    ls_text_puts(&text, "\n");
    int status = ls_recording__path(path, writer->dir, -1, "manifest.json");
    status = status == LS_OK ? write_text(path, &text) : status;
    ls_text_free(&text);
    return status;
}

int ls_recording_writer_finish(ls_recording_writer *writer) {
    LS_ASSERT(writer != NULL && !writer->finished);
    writer->finished = true;
    for (int i = 0; i < writer->part_count; i++) {
        LS_TRY(write_part(writer, &writer->parts[i]));
    }
    return writer->part_count != 0 && writer->parts[0].rank == 0 ? write_manifest(writer) : LS_OK;
}

static int take_calls(ls_recording *out, rank_part *part) {
    ls_json_array_close(&part->json);
    if (part->calls.failed) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for the calls of rank %d", part->rank);
    }
    json_t *list = NULL;
    LS_TRY(ls_json_parse(&list, "calls", ls_text_string(&part->calls), part->calls.length));
    int status = ls_recording__calls_parse(out, part->rank, list, "calls");
    json_decref(list);
    return status;
}

int ls_recording_writer_calls(ls_recording **out, ls_recording_writer *writer) {
    LS_ASSERT(writer != NULL && !writer->finished);
    *out = NULL;
    writer->finished = true;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_recording *made = ls_arena_alloc(arena, 1, sizeof *made);
    int status = made != NULL ? LS_OK : LS_ERR_MEMORY;
    if (status == LS_OK) {
        *made = (ls_recording){.arena = arena, .dir = "", .info.ranks = writer->info.ranks};
        made->ranks = ls_arena_alloc(arena, (size_t)made->info.ranks, sizeof *made->ranks);
        status = made->ranks != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    for (int i = 0; i < writer->part_count && status == LS_OK; i++) {
        status = take_calls(made, &writer->parts[i]);
    }
    if (status != LS_OK) {
        ls_arena_free(arena);
        return status;
    }
    *out = made;
    return LS_OK;
}

void ls_recording_writer_free(ls_recording_writer *writer) {
    if (writer == NULL) {
        return;
    }
    for (int i = 0; i < writer->part_count; i++) {
        rank_part *part = &writer->parts[i];
        ls_free(part->tensors, part->tensor_room, sizeof *part->tensors);
        ls_text_free(&part->reduces);
        ls_text_free(&part->calls);
    }
    ls_arena_free(writer->arena);
}
