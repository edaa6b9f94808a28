// Reads captures: their files, and what stands beside these about how the tensors lie.
#define _XOPEN_SOURCE 700
#include "runner/diff/capture.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/json_read.h"

#define INDEX_BYTES_MAX ((size_t)256 * 1024 * 1024)
#define FILES_MAX       4096

// ---- Tensors by name ----------------------------------------------------------------------------
static size_t slot_of(const ls_capture *capture, const char *name) {
    size_t slot = ls_random_stream(name) & (capture->slot_count - 1);
    while (capture->slots[slot] != 0 &&
           strcmp(capture->tensors[capture->slots[slot] - 1].name, name) != 0) {
        slot = (slot + 1) & (capture->slot_count - 1);
    }
    return slot;
}

const ls_captured *ls_capture_find(const ls_capture *capture, const char *name) {
    if (name == NULL || capture->slot_count == 0) {
        return NULL;
    }
    size_t index = capture->slots[slot_of(capture, name)];
    return index != 0 ? &capture->tensors[index - 1] : NULL;
}

static int grow(ls_capture *capture) {
    size_t capacity = capture->capacity != 0 ? 2 * capture->capacity : 64;
    ls_captured *tensors = ls_arena_alloc(capture->arena, capacity, sizeof *tensors);
    size_t *slots = ls_arena_alloc(capture->arena, 4 * capacity, sizeof *slots);
    if (tensors == NULL || slots == NULL) {
        return LS_ERR_MEMORY;
    }
    if (capture->count > 0) {
        memcpy(tensors, capture->tensors, capture->count * sizeof *tensors);
    }
    capture->tensors = tensors;
    capture->capacity = capacity;
    capture->slots = slots;
    capture->slot_count = 4 * capacity;
    for (size_t i = 0; i < capture->count; i++) {
        slots[slot_of(capture, tensors[i].name)] = i + 1;
    }
    return LS_OK;
}

// The tensor of a name, made where it is new.
static int tensor_named(ls_captured **out, ls_capture *capture, const char *name, ls_dtype dtype) {
    const ls_captured *known = ls_capture_find(capture, name);
    if (known != NULL) {
        *out = &capture->tensors[known - capture->tensors];
        return known->dtype == dtype
                   ? LS_OK
                   : LS_FAIL(LS_ERR_FORMAT, "'%s': %.200s is of %s on one rank, of %s on another",
                             capture->path, name, ls_dtype_name(known->dtype),
                             ls_dtype_name(dtype));
    }
    if (capture->count == capture->capacity) {
        LS_TRY(grow(capture));
    }
    *out = &capture->tensors[capture->count];
    **out = (ls_captured){.name = ls_arena_strdup(capture->arena, name), .dtype = dtype};
    (*out)->pieces = ls_arena_alloc(capture->arena, (size_t)capture->ranks, sizeof *(*out)->pieces);
    if ((*out)->name == NULL || (*out)->pieces == NULL) {
        return LS_ERR_MEMORY;
    }
    size_t slot = slot_of(capture, name);
    capture->count += 1;
    capture->slots[slot] = capture->count;
    return LS_OK;
}

static int add_piece(ls_captured **out, ls_capture *capture, int rank, const ls_safetensors *file,
                     const ls_safetensor *at) {
    if (at->dtype < 0) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "'%s': %.200s is of %s, which lockstep lacks",
                       capture->path, at->name, at->dtype_text);
    }
    LS_TRY(tensor_named(out, capture, at->name, (ls_dtype)at->dtype));
    ls_captured *tensor = *out;
    if (tensor->piece_count == capture->ranks ||
        (tensor->piece_count > 0 && tensor->pieces[tensor->piece_count - 1].rank >= rank)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': %.200s stands twice for rank %d", capture->path,
                       at->name, rank);
    }
    ls_capture_piece *piece = &tensor->pieces[tensor->piece_count++];
    *piece = (ls_capture_piece){.rank = rank, .file = file, .at = at, .size.ndim = at->ndim};
    memcpy(piece->size.dim, at->dim, (size_t)at->ndim * sizeof at->dim[0]);
    return LS_OK;
}

// ---- What stands beside a rank's file -----------------------------------------------------------
static int malformed(const char *path, const char *name, const char *key) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s': %.200s: '%s' is not what it must be", path, name, key);
}

// The numbers of an array, each in [0, at_most]. *count: -1 where there is no such key.
static int read_numbers(int64_t *out, int *count, int room, const json_t *array, int64_t at_most) {
    *count = -1;
    if (array == NULL) {
        return LS_OK;
    }
    if (!json_is_array(array) || json_array_size(array) > (size_t)room) {
        return LS_ERR_FORMAT;
    }
    *count = (int)json_array_size(array);
    for (int i = 0; i < *count; i++) {
        const json_t *value = json_array_get(array, (size_t)i);
        out[i] = json_integer_value(value);
        if (!json_is_integer(value) || out[i] < 0 || out[i] > at_most) {
            return LS_ERR_FORMAT;
        }
    }
    return LS_OK;
}

static const char *read_name(ls_capture *capture, const json_t *object, const char *key) {
    const char *name = json_string_value(json_object_get(object, key));
    return name != NULL ? ls_arena_strdup(capture->arena, name) : NULL;
}

static int read_made(ls_captured *tensor, ls_capture *capture, const json_t *entry) {
    static const char *const ways[LS_MADE_COUNT] = {
        "", "linear", "embedding", "linear weight", "linear bias", "embedding weight"};
    const json_t *made = json_object_get(entry, "made"), *parts = json_object_get(entry, "parts");
    const char *by = json_string_value(json_object_get(made, "by"));
    for (int way = 1; by != NULL && way < LS_MADE_COUNT; way++) {
        tensor->made = strcmp(by, ways[way]) == 0 ? (ls_made_by)way : tensor->made;
    }
    tensor->input = read_name(capture, made, "input");
    tensor->weight = read_name(capture, made, "weight");
    tensor->bias = read_name(capture, made, "bias");
    tensor->gradient = read_name(capture, made, "gradient");
    tensor->parts = read_name(capture, parts, "name");
    const char *op = json_string_value(json_object_get(parts, "op"));
    int parsed = tensor->parts == NULL || op == NULL ? LS_ERR_NOT_FOUND : LS_OK;
    if (parsed == LS_OK) {
        parsed = ls_op_parse(&tensor->parts_op, op);
    }
    tensor->parts = parsed == LS_OK ? tensor->parts : NULL;
    return ls_arena_failed(capture->arena) ? LS_ERR_MEMORY : LS_OK;
}

static int read_mesh(ls_captured *tensor, const ls_capture *capture, ls_arena *arena,
                     const json_t *entry) {
    int64_t sizes[LS_MESH_DIMS_MAX], *ranks = NULL;
    int count = 0, size = 0, listed = 0;
    if (read_numbers(sizes, &count, LS_MESH_DIMS_MAX, json_object_get(entry, "mesh"),
                     capture->ranks) != LS_OK ||
        count < 1) {
        return LS_ERR_FORMAT;
    }
    tensor->mesh.ndim = count;
    for (int d = 0; d < count; d++) {
        tensor->mesh.dim[d] = (int)sizes[d];
    }
    LS_TRY(ls_mesh_size(&size, &tensor->mesh));
    if (size > capture->ranks) {
        return LS_ERR_FORMAT;
    }
    ranks = ls_arena_alloc(arena, (size_t)size, sizeof *ranks);
    int *kept = ls_arena_alloc(arena, (size_t)capture->ranks, sizeof *kept);
    if (ranks == NULL || kept == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(read_numbers(ranks, &listed, size, json_object_get(entry, "mesh_ranks"),
                        capture->ranks - 1));
    if (listed >= 0 && listed != size) {
        return LS_ERR_FORMAT;
    }
    for (int i = 0; i < size; i++) {
        kept[i] = listed < 0 ? i : (int)ranks[i];
    }
    tensor->mesh_ranks = kept;
    tensor->mesh_count = 1;
    return LS_OK;
}

// How the tensor lies, as one rank says it.
static int read_placement(ls_captured *tensor, const ls_capture *capture, ls_arena *arena,
                          const json_t *entry) {
    const char *placements = json_string_value(json_object_get(entry, "placements"));
    int count = 0;
    LS_TRY(read_numbers(tensor->shape.dim, &count, LS_DIMS_MAX, json_object_get(entry, "shape"),
                        INT64_MAX));
    tensor->has_shape = count >= 0;
    tensor->shape.ndim = count > 0 ? count : 0;
    if (placements == NULL) {
        return LS_OK;
    }
    LS_TRY(ls_placements_parse(&tensor->placements, placements));
    LS_TRY(read_mesh(tensor, capture, arena, entry));
    tensor->has_placements = true;
    return tensor->placements.count == tensor->mesh.ndim ? LS_OK : LS_ERR_FORMAT;
}

// Whether what another rank says of the whole's sizes, the placements and the mesh's is the same.
static bool lies_alike(const ls_captured *a, const ls_captured *b) {
    if (a->has_shape != b->has_shape || a->has_placements != b->has_placements ||
        (a->has_shape && !ls_shape_equal(&a->shape, &b->shape))) {
        return false;
    }
    bool same = !a->has_placements || a->mesh.ndim == b->mesh.ndim;
    for (int d = 0; a->has_placements && same && d < a->mesh.ndim; d++) {
        same = a->mesh.dim[d] == b->mesh.dim[d];
    }
    return same && (!a->has_placements ||
                    ls_placements_equal(&a->placements, &b->placements, a->mesh.ndim, a->mesh.dim));
}

// The ranks of a mesh that another rank names: one that is known, or one of other ranks alone.
static bool add_mesh(ls_captured *tensor, const ls_captured *said, int size, int room) {
    for (int m = 0; m < tensor->mesh_count; m++) {
        if (memcmp(tensor->mesh_ranks + m * size, said->mesh_ranks,
                   (size_t)size * sizeof *said->mesh_ranks) == 0) {
            return true;
        }
    }
    int count = tensor->mesh_count * size;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < size; k++) {
            if (tensor->mesh_ranks[i] == said->mesh_ranks[k]) {
                return false;
            }
        }
    }
    if (count + size > room) {
        return false;
    }
    memcpy(tensor->mesh_ranks + count, said->mesh_ranks, (size_t)size * sizeof *said->mesh_ranks);
    tensor->mesh_count += 1;
    return true;
}

// What a rank after the first says of how the tensor lies, if anything.
static int read_other(ls_captured *tensor, ls_capture *capture, const json_t *entry, int rank) {
    if (json_object_get(entry, "placements") == NULL && json_object_get(entry, "shape") == NULL) {
        return LS_OK;
    }
    ls_arena *arena = NULL;
    ls_captured said = {0};
    int size = 0;
    LS_TRY(ls_arena_create(&arena));
    int status = read_placement(&said, capture, arena, entry);
    if (status == LS_OK && said.has_placements) {
        status = ls_mesh_size(&size, &said.mesh);
    }
    if (status == LS_OK && tensor->otherwise == NULL &&
        !(lies_alike(tensor, &said) && add_mesh(tensor, &said, size, capture->ranks))) {
        tensor->otherwise = ls_arena_printf(
            capture->arena,
            "rank %d says otherwise how it lies (placements, mesh, shape) than rank %d", rank,
            tensor->pieces[0].rank);
        status = tensor->otherwise != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    ls_arena_free(arena);
    return status;
}

static int read_entry(ls_capture *capture, const char *path, const json_t *entry, int rank,
                      const ls_safetensors *file) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    const ls_safetensor *at = name != NULL ? ls_safetensors_find(file, name) : NULL;
    if (at == NULL) {
        return malformed(path, name != NULL ? name : "a tensor", "name");
    }
    ls_captured *tensor = NULL;
    LS_TRY(add_piece(&tensor, capture, rank, file, at));
    int offsets = 0;
    ls_capture_piece *piece = &tensor->pieces[tensor->piece_count - 1];
    if (read_numbers(piece->offset.dim, &offsets, LS_DIMS_MAX, json_object_get(entry, "offset"),
                     INT64_MAX) != LS_OK ||
        (offsets >= 0 && offsets != at->ndim)) {
        return malformed(path, name, "offset");
    }
    piece->placed = offsets >= 0;
    piece->offset.ndim = at->ndim;
    bool first = tensor->piece_count == 1;
    int status = first ? read_placement(tensor, capture, capture->arena, entry)
                       : read_other(tensor, capture, entry, rank);
    if (status != LS_OK) {
        return status == LS_ERR_MEMORY ? status : malformed(path, name, "placements");
    }
    if (!first) {
        return LS_OK;
    }
    tensor->optional = json_is_true(json_object_get(entry, "optional"));
    tensor->part = json_is_true(json_object_get(entry, "part"));
    return read_made(tensor, capture, entry);
}

static int read_index(ls_capture *capture, const char *path, int rank, const ls_safetensors *file) {
    json_t *root = NULL;
    LS_TRY(ls_json_read(&root, path, INDEX_BYTES_MAX));
    const json_t *list = json_object_get(root, "tensors");
    int status = LS_OK;
    if (json_integer_value(json_object_get(root, "format")) != 1 || !json_is_array(list) ||
        json_integer_value(json_object_get(root, "rank")) != rank ||
        json_integer_value(json_object_get(root, "ranks")) != capture->ranks) {
        status = LS_FAIL(LS_ERR_FORMAT,
                         "'%s' is not the index of rank %d of %d of a capture of format 1", path,
                         rank, capture->ranks);
    }
    for (size_t i = 0; status == LS_OK && i < json_array_size(list); i++) {
        status = read_entry(capture, path, json_array_get(list, i), rank, file);
    }
    json_decref(root);
    return status;
}

// ---- Files --------------------------------------------------------------------------------------
static int open_file(const ls_safetensors **out, ls_capture *capture, const char *path) {
    if (capture->file_count == FILES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "'%s' has more than %d files", capture->path, FILES_MAX);
    }
    LS_TRY(ls_safetensors_open(&capture->files[capture->file_count], path));
    *out = capture->files[capture->file_count++];
    return LS_OK;
}

// Where in the whole tensors a file's parts begin, as torch.distributed.checkpoint says it.
static int read_sharding(ls_capture *capture, const char *path, const ls_safetensors *file,
                         int rank) {
    const char *text = ls_safetensors_metadata(file, "DCP_SHARDING_INFO");
    if (text == NULL) {
        return LS_OK;
    }
    json_t *root = NULL;
    LS_TRY(ls_json_parse(&root, path, text, strlen(text)));
    const char *name;
    json_t *about;
    int status = LS_OK;
    json_object_foreach(root, name, about) {
        const ls_captured *known = ls_capture_find(capture, name);
        ls_capture_piece *piece = known != NULL ? &known->pieces[known->piece_count - 1] : NULL;
        int count = 0;
        if (piece == NULL || piece->rank != rank ||
            read_numbers(piece->offset.dim, &count, LS_DIMS_MAX,
                         json_object_get(about, "saved_offsets"), INT64_MAX) != LS_OK ||
            count != piece->size.ndim) {
            status = malformed(path, name, "saved_offsets");
            break;
        }
        piece->placed = true;
        piece->offset.ndim = count;
    }
    json_decref(root);
    return status;
}

static int read_plain(ls_capture *capture, const char *path, int rank) {
    const ls_safetensors *file = NULL;
    LS_TRY(open_file(&file, capture, path));
    for (size_t i = 0; i < ls_safetensors_count(file); i++) {
        ls_captured *tensor = NULL;
        LS_TRY(add_piece(&tensor, capture, rank, file, ls_safetensors_at(file, i)));
    }
    return read_sharding(capture, path, file, rank);
}

static int is_tensors(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".safetensors") == 0;
}

static int join(char out[PATH_MAX], const char *dir, const char *name) {
    int length = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return length > 0 && length < PATH_MAX
               ? LS_OK
               : LS_FAIL(LS_ERR_LIMIT, "a path in '%.200s...' is too long", dir);
}

// The ranks' files, each with its index.
static int read_captured(ls_capture *capture, const char *dir) {
    for (int rank = 0; rank < capture->ranks; rank++) {
        char path[PATH_MAX], name[32];
        const ls_safetensors *file = NULL;
        (void)snprintf(name, sizeof name, "rank_%05d.safetensors", rank);
        LS_TRY(join(path, dir, name));
        LS_TRY(open_file(&file, capture, path));
        (void)snprintf(name, sizeof name, "rank_%05d.json", rank);
        LS_TRY(join(path, dir, name));
        LS_TRY(read_index(capture, path, rank, file));
    }
    return LS_OK;
}

// The files of a folder without an index, each as what one rank has.
static int read_folder(ls_capture *capture, const char *dir) {
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, is_tensors, alphasort);
    if (count < 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot read the folder '%s': %s", dir,
                       strerror(errno));
    }
    int status = LS_OK;
    capture->ranks = count;
    if (count == 0) {
        char path[PATH_MAX];
        bool pickled = join(path, dir, ".metadata") == LS_OK && access(path, F_OK) == 0;
        status = pickled ? LS_FAIL(LS_ERR_UNSUPPORTED,
                                   "'%s' is a checkpoint of torch.distributed.checkpoint, whose "
                                   "files are pickled: python3 -m lockstep.checkpoint %s OUT "
                                   "writes it as lockstep reads it",
                                   dir, dir)
                         : LS_FAIL(LS_ERR_FORMAT, "'%s' holds no .safetensors file", dir);
    }
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        status = status == LS_OK ? join(path, dir, entries[i]->d_name) : status;
        status = status == LS_OK ? read_plain(capture, path, i) : status;
        free(entries[i]);
    }
    free(entries);
    return status;
}

// The number of ranks that a capture's first index names; 0: there is none.
static int ranks_of(int *out, const char *dir) {
    char path[PATH_MAX];
    json_t *root = NULL;
    *out = 0;
    LS_TRY(join(path, dir, "rank_00000.json"));
    if (access(path, F_OK) != 0) {
        return LS_OK;
    }
    LS_TRY(ls_json_read(&root, path, INDEX_BYTES_MAX));
    json_int_t ranks = json_integer_value(json_object_get(root, "ranks"));
    json_decref(root);
    if (ranks < 1 || ranks > FILES_MAX) {
        return malformed(path, "the capture", "ranks");
    }
    *out = (int)ranks;
    return LS_OK;
}

static int read_all(ls_capture *capture, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot read '%s': %s", path, strerror(errno));
    }
    capture->ranks = 1;
    capture->path = ls_arena_strdup(capture->arena, path);
    capture->files = ls_arena_alloc(capture->arena, FILES_MAX, sizeof(ls_safetensors *));
    if (capture->path == NULL || capture->files == NULL) {
        return LS_ERR_MEMORY;
    }
    if (!S_ISDIR(about.st_mode)) {
        return read_plain(capture, path, 0);
    }
    LS_TRY(ranks_of(&capture->ranks, path));
    return capture->ranks > 0 ? read_captured(capture, path) : read_folder(capture, path);
}

int ls_capture_open(ls_capture **out, const char *path) {
    LS_ASSERT(out != NULL && path != NULL);
    ls_arena *arena = NULL;
    *out = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_capture *capture = ls_arena_alloc(arena, 1, sizeof *capture);
    if (capture == NULL) {
        ls_arena_free(arena);
        return LS_ERR_MEMORY;
    }
    capture->arena = arena;
    int status = read_all(capture, path);
    if (status != LS_OK) {
        ls_capture_free(capture);
        return status;
    }
    *out = capture;
    return LS_OK;
}

void ls_capture_free(ls_capture *capture) {
    if (capture == NULL) {
        return;
    }
    for (size_t i = 0; i < capture->file_count; i++) {
        ls_safetensors_free(capture->files[i]);
    }
    ls_arena_free(capture->arena);
}
