// Adds a tensor to a capture.
#define _XOPEN_SOURCE 700

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runner/diff/capture.h"

#include <stdio.h>
#include <string.h>

#include "runner/diff/capture_internal.h"

size_t ls_capture__slot(const ls_capture *capture, const char *name) {
    size_t slot = ls_random_stream(name) & (capture->slot_count - 1);
    while (capture->slots[slot] != 0 &&
           strcmp(capture->tensors[capture->slots[slot] - 1].name, name) != 0) {
        slot = (slot + 1) & (capture->slot_count - 1);
    }
    return slot;
}

static int grow(ls_capture *capture) {
    size_t capacity = capture->capacity != 0 ? 2 * capture->capacity : 64;
    ls_captured *tensors = ls_arena_alloc(capture->arena, capacity, sizeof *tensors);
    size_t *slots = ls_arena_alloc(capture->arena, 4 * capacity, sizeof *slots);
    LS_TRY_MEMORY(tensors != NULL && slots != NULL);
    if (capture->count > 0) {
        memcpy(tensors, capture->tensors, capture->count * sizeof *tensors);
    }
    capture->tensors = tensors;
    capture->capacity = capacity;
    capture->slots = slots;
    capture->slot_count = 4 * capacity;
    for (size_t i = 0; i < capture->count; i++) {
        slots[ls_capture__slot(capture, tensors[i].name)] = i + 1;
    }
    return LS_OK;
}

// The tensor of a name; created if it is new.
static int tensor_named(ls_captured **out, ls_capture *capture, const char *name, ls_dtype dtype) {
    const ls_captured *known = ls_capture_find(capture, name);
    if (known != NULL) {
        *out = &capture->tensors[known - capture->tensors];
        return LS_OK;
    }
    if (capture->count == capture->capacity) {
        LS_TRY(grow(capture));
    }
    *out = &capture->tensors[capture->count];
    **out =
        (ls_captured){.name = ls_arena_strdup(capture->arena, name), .dtype = dtype, .scale = 1};
    (*out)->pieces = ls_arena_alloc(capture->arena, (size_t)capture->ranks, sizeof *(*out)->pieces);
    LS_TRY_MEMORY((*out)->name != NULL && (*out)->pieces != NULL);
    size_t slot = ls_capture__slot(capture, name);
    capture->count += 1;
    capture->slots[slot] = capture->count;
    return LS_OK;
}

int ls_capture__omit(ls_capture *capture, const char *name, const char *why) {
    for (int i = 0; i < capture->omitted_count; i++) {
        if (strcmp(capture->omitted[i].name, name) == 0) {
            return LS_OK;
        }
    }
    ls_omitted *more = ls_arena_grow(capture->arena, capture->omitted, capture->omitted_count,
                                     &capture->omitted_room, sizeof *more);
    LS_TRY_MEMORY(more != NULL);
    capture->omitted = more;
    ls_omitted *added = &more[capture->omitted_count++];
    *added =
        (ls_omitted){ls_arena_strdup(capture->arena, name), ls_arena_strdup(capture->arena, why)};
    return added->name != NULL && added->why != NULL ? LS_OK : LS_ERR_MEMORY;
}

int ls_capture__add(ls_captured **out, ls_capture *capture, const char *name, int rank,
                    const ls_safetensors *file, const ls_safetensor *at) {
    *out = NULL;
    if (at->dtype < 0) {
        char why[64];
        (void)snprintf(why, sizeof why, "lockstep has no type %.20s", at->dtype_text);
        return ls_capture__omit(capture, name, why);
    }
    LS_TRY(tensor_named(out, capture, name, (ls_dtype)at->dtype));
    ls_captured *tensor = *out;
    if (tensor->piece_count == capture->ranks ||
        (tensor->piece_count > 0 && tensor->pieces[tensor->piece_count - 1].rank >= rank)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': %.200s occurs twice for rank %d", capture->path, name,
                       rank);
    }
    if ((ls_dtype)at->dtype != tensor->dtype && tensor->otherwise == NULL) {
        tensor->otherwise =
            ls_arena_printf(capture->arena, "it has type %s on rank %d, %s on rank %d",
                            ls_dtype_name(tensor->dtype), tensor->pieces[0].rank,
                            ls_dtype_name((ls_dtype)at->dtype), rank);
        LS_TRY(tensor->otherwise != NULL ? LS_OK : LS_ERR_MEMORY);
    }
    ls_capture_piece *piece = &tensor->pieces[tensor->piece_count++];
    *piece = (ls_capture_piece){.rank = rank, .file = file, .at = at, .size.ndim = at->ndim};
    memcpy(piece->size.dim, at->dim, (size_t)at->ndim * sizeof at->dim[0]);
    return LS_OK;
}

// ---- Tensors by name ----------------------------------------------------------------------------
const ls_captured *ls_capture_find(const ls_capture *capture, const char *name) {
    if (name == NULL || capture->slot_count == 0) {
        return NULL;
    }
    size_t index = capture->slots[ls_capture__slot(capture, name)];
    return index != 0 ? &capture->tensors[index - 1] : NULL;
}
