// Reads captures: their files, and the tensors in them by name.
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

#include "runner/diff/capture_internal.h"

#define FILES_MAX 4096

// ---- Files --------------------------------------------------------------------------------------
static int open_file(const ls_safetensors **out, ls_capture *capture, const char *path) {
    if (capture->file_count == FILES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "'%s' has more than %d files", capture->path, FILES_MAX);
    }
    LS_TRY(ls_safetensors_open(&capture->files[capture->file_count], path));
    *out = capture->files[capture->file_count++];
    return LS_OK;
}

// The offsets of a file's pieces in their wholes, in the form of torch.distributed.checkpoint.
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
        const ls_safetensor *at = ls_safetensors_find(file, name);
        const ls_captured *known = ls_capture_find(capture, name);
        if (at != NULL && at->dtype < 0) {
            continue;
        }
        ls_capture_piece *piece = known != NULL ? &known->pieces[known->piece_count - 1] : NULL;
        int count = 0;
        if (piece == NULL || piece->rank != rank ||
            ls_capture__numbers(piece->offset.dim, &count, LS_DIMS_MAX,
                                json_object_get(about, "saved_offsets"), INT64_MAX) != LS_OK ||
            count != piece->size.ndim) {
            status = ls_capture__malformed(path, name, "saved_offsets");
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
        const ls_safetensor *at = ls_safetensors_at(file, i);
        LS_TRY(ls_capture__add(&tensor, capture, at->name, rank, file, at));
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
        LS_TRY(ls_capture__index(capture, path, rank, file));
    }
    return LS_OK;
}

// The files of a folder without an index: one for each rank.
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
                                   "converts it for lockstep",
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

// The number of ranks in a capture's first index; 0: unknown.
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
        return ls_capture__malformed(path, "the capture", "ranks");
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
    LS_TRY_MEMORY(capture->path != NULL && capture->files != NULL);
    if (!S_ISDIR(about.st_mode)) {
        return read_plain(capture, path, 0);
    }
    if (ls_capture__is_checkpoint(path)) {
        return ls_capture__checkpoint(capture, path);
    }
    LS_TRY(ranks_of(&capture->ranks, path));
    return capture->ranks > 0 ? read_captured(capture, path) : read_folder(capture, path);
}

static bool is_empty(const ls_capture_piece *piece) {
    bool empty = false;
    for (int i = 0; i < piece->size.ndim; i++) {
        empty = empty || piece->size.dim[i] == 0;
    }
    return empty;
}

// Moves pieces without elements behind the others: TorchRec gives every rank a parameter for each
// table. They stay if no piece has elements or if placements exist.
static void set_empty_apart(ls_captured *tensor) {
    int kept = 0;
    tensor->said_count = tensor->piece_count;
    for (int i = 0; i < tensor->piece_count && !tensor->has_placements; i++) {
        ls_capture_piece piece = tensor->pieces[i];
        if (!is_empty(&piece)) {
            memmove(&tensor->pieces[kept + 1], &tensor->pieces[kept],
                    (size_t)(i - kept) * sizeof piece);
            tensor->pieces[kept++] = piece;
        }
    }
    tensor->piece_count = kept > 0 ? kept : tensor->piece_count;
}

int ls_capture_open(ls_capture **out, const char *path) {
    LS_ASSERT(out != NULL && path != NULL);
    ls_arena *arena = NULL;
    *out = NULL;
    ls_capture *capture = ls_arena_create_with(&arena, sizeof *capture);
    LS_TRY_MEMORY(capture != NULL);
    capture->arena = arena;
    int status = read_all(capture, path);
    if (status != LS_OK) {
        ls_capture_free(capture);
        return status;
    }
    for (size_t i = 0; i < capture->count; i++) {
        set_empty_apart(&capture->tensors[i]);
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
    ls_checkpoint_free(capture->checkpoint);
    ls_arena_free(capture->arena);
}
