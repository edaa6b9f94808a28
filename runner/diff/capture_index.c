// Reads the index of a rank's file: what each tensor is, and its placement.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/diff/capture_internal.h"

int ls_capture__malformed(const char *path, const char *name, const char *key) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s': %.200s: '%s' is not valid", path, name, key);
}

int ls_capture__numbers(int64_t *out, int *count, int room, const json_t *array, int64_t at_most) {
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
    static const char *const ways[LS_MADE_COUNT] = {"",
                                                    "linear",
                                                    "embedding",
                                                    "linear weight",
                                                    "linear bias",
                                                    "channel bias",
                                                    "embedding weight",
                                                    "update",
                                                    "rounded",
                                                    "rows"};
    const json_t *made = json_object_get(entry, "made"), *parts = json_object_get(entry, "parts");
    const char *by = json_string_value(json_object_get(made, "by"));
    for (int way = 1; by != NULL && way < LS_MADE_COUNT; way++) {
        tensor->made = strcmp(by, ways[way]) == 0 ? (ls_made_by)way : tensor->made;
    }
    const char *in = json_string_value(json_object_get(made, "in"));
    tensor->wide = in != NULL && strcmp(in, "f32") == 0;
    tensor->rows = json_number_value(json_object_get(made, "rows"));
    if ((tensor->made == LS_MADE_ROUNDED || tensor->made == LS_MADE_ROWS) &&
        (in == NULL || ls_dtype_parse(&tensor->rounded, in) != LS_OK ||
         !ls_dtype_is_float(tensor->rounded))) {
        ls_error_clear();
        tensor->made = LS_MADE_UNKNOWN;
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
    if (ls_capture__numbers(sizes, &count, LS_MESH_DIMS_MAX, json_object_get(entry, "mesh"),
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
    LS_TRY_MEMORY(ranks != NULL && kept != NULL);
    LS_TRY(ls_capture__numbers(ranks, &listed, size, json_object_get(entry, "mesh_ranks"),
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

// The tensor's placement in one rank's index.
static int read_placement(ls_captured *tensor, const ls_capture *capture, ls_arena *arena,
                          const json_t *entry) {
    const char *placements = json_string_value(json_object_get(entry, "placements"));
    int count = 0;
    LS_TRY(ls_capture__numbers(tensor->shape.dim, &count, LS_DIMS_MAX,
                               json_object_get(entry, "shape"), INT64_MAX));
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

// Whether another rank's sizes of the whole, placements and mesh sizes are equal.
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

// The ranks of a mesh in another rank's index: a known mesh, or one of disjoint ranks.
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
    for (int k = 0; k < size; k++) {
        tensor->mesh_ranks[count + k] = said->mesh_ranks[k];
    }
    tensor->mesh_count += 1;
    return true;
}

// Adds the placement in the index of a rank after the first.
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
            capture->arena, "ranks %d and %d give it different layouts (placements, mesh, shape)",
            rank, tensor->pieces[0].rank);
        status = tensor->otherwise != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    ls_arena_free(arena);
    return status;
}

// Whether a tensor's values are in a prime field. One rank may have floats where another has
// integers.
static int read_field(ls_captured *tensor, ls_capture *capture, const char *path,
                      const json_t *entry, ls_dtype dtype) {
    json_int_t modulus = json_integer_value(json_object_get(entry, "modulus"));
    const ls_capture_piece *first = &tensor->pieces[0], *last = first + tensor->piece_count - 1;
    if (modulus < 0 || modulus > UINT32_MAX || (modulus > 0 && dtype != LS_I64)) {
        return ls_capture__malformed(path, tensor->name, "modulus");
    }
    if (last != first && tensor->modulus != (uint64_t)modulus && tensor->otherwise == NULL) {
        tensor->otherwise = ls_arena_printf(
            capture->arena, "it has other numbers on rank %d than on rank %d (modulus)", last->rank,
            first->rank);
    }
    tensor->modulus = last == first ? (uint64_t)modulus : tensor->modulus;
    tensor->opaque = tensor->opaque != NULL ? tensor->opaque : read_name(capture, entry, "opaque");
    return ls_arena_failed(capture->arena) ? LS_ERR_MEMORY : LS_OK;
}

// The factor of a rank's values, which all ranks must have.
static int read_scale(ls_captured *tensor, ls_capture *capture, const char *path,
                      const json_t *entry) {
    const json_t *given = json_object_get(entry, "scale");
    double scale = given == NULL ? 1 : json_number_value(given);
    const ls_capture_piece *first = &tensor->pieces[0], *last = first + tensor->piece_count - 1;
    if (!isfinite(scale) || scale == 0 ||
        (given != NULL && !ls_dtype_is_float((ls_dtype)last->at->dtype))) {
        return ls_capture__malformed(path, tensor->name, "scale");
    }
    if (last != first && tensor->scale != scale && tensor->otherwise == NULL) {
        tensor->otherwise =
            ls_arena_printf(capture->arena, "ranks %d and %d give it different factors (scale)",
                            first->rank, last->rank);
    }
    tensor->scale = last == first ? scale : tensor->scale;
    return ls_arena_failed(capture->arena) ? LS_ERR_MEMORY : LS_OK;
}

// listed [tensors of the file]: the tensors that the index names.
static int read_entry(ls_capture *capture, const char *path, const json_t *entry, int rank,
                      const ls_safetensors *file, bool *listed) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *as = json_string_value(json_object_get(entry, "as"));
    const char *entry_name = as != NULL ? as : name;
    const ls_safetensor *at = name != NULL ? ls_safetensors_find(file, entry_name) : NULL;
    if (at == NULL) {
        return ls_capture__malformed(path, name != NULL ? name : "a tensor",
                                     as != NULL ? "as" : "name");
    }
    listed[at->position] = true;
    ls_captured *tensor = NULL;
    LS_TRY(ls_capture__add(&tensor, capture, name, rank, file, at));
    if (tensor == NULL) {
        return LS_OK;
    }
    int offsets = 0;
    ls_capture_piece *piece = &tensor->pieces[tensor->piece_count - 1];
    if (ls_capture__numbers(piece->offset.dim, &offsets, LS_DIMS_MAX,
                            json_object_get(entry, "offset"), INT64_MAX) != LS_OK ||
        (offsets >= 0 && offsets != at->ndim)) {
        return ls_capture__malformed(path, name, "offset");
    }
    piece->placed = offsets >= 0;
    piece->offset.ndim = at->ndim;
    bool first = tensor->piece_count == 1;
    int status = first ? read_placement(tensor, capture, capture->arena, entry)
                       : read_other(tensor, capture, entry, rank);
    if (status != LS_OK) {
        return status == LS_ERR_MEMORY ? status : ls_capture__malformed(path, name, "placements");
    }
    LS_TRY(read_field(tensor, capture, path, entry, (ls_dtype)at->dtype));
    LS_TRY(read_scale(tensor, capture, path, entry));
    if (!first) {
        // Values that one rank changed are compared on all ranks.
        bool same = as != NULL && tensor->as != NULL && strcmp(tensor->as, as) == 0;
        tensor->as = same ? tensor->as : NULL;
        return LS_OK;
    }
    tensor->as = as != NULL ? ls_arena_strdup(capture->arena, as) : NULL;
    tensor->fused = json_is_true(json_object_get(entry, "fused"));
    tensor->moves = json_is_true(json_object_get(entry, "moves"));
    tensor->optional = json_is_true(json_object_get(entry, "optional"));
    tensor->part = json_is_true(json_object_get(entry, "part"));
    tensor->own_losses = json_is_true(json_object_get(entry, "own_losses"));
    return read_made(tensor, capture, entry);
}

int ls_capture__index(ls_capture *capture, const char *path, int rank, const ls_safetensors *file) {
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
    size_t count = ls_safetensors_count(file);
    bool *listed = ls_arena_alloc(capture->arena, count + 1, sizeof *listed);
    status = status == LS_OK && listed == NULL ? LS_ERR_MEMORY : status;
    for (size_t i = 0; status == LS_OK && i < json_array_size(list); i++) {
        status = read_entry(capture, path, json_array_get(list, i), rank, file, listed);
    }
    for (size_t i = 0; status == LS_OK && i < count; i++) {
        const ls_safetensor *at = ls_safetensors_at(file, i);
        if (!listed[at->position]) {
            status = LS_FAIL(LS_ERR_FORMAT,
                             "'%s' does not list %.200s, which the rank's .safetensors file has",
                             path, at->name);
        }
    }
    const json_t *omitted = json_object_get(root, "not_kept");
    for (size_t i = 0; status == LS_OK && i < json_array_size(omitted); i++) {
        const json_t *one = json_array_get(omitted, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *why = json_string_value(json_object_get(one, "why"));
        status = name != NULL && why != NULL
                     ? ls_capture__omit(capture, name, why)
                     : ls_capture__malformed(path, "the capture", "not_kept");
    }
    json_decref(root);
    return status;
}
