// Reading recordings. Files may be hostile: sizes are checked before anything is allocated, names
// are made here and never taken from a file, and links are not followed.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/safetensors.h"
#include "collectives/recording_calls.h"

// ---- Files --------------------------------------------------------------------------------------
// No link is followed: a recording's files are its own.
static int check_no_link(const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is a link", path);
    }
    return LS_OK;
}

static int read_json(json_t **out, const char *path) {
    *out = NULL;
    LS_TRY(check_no_link(path));
    return ls_json_read(out, path, LS_RECORDING_JSON_BYTES_MAX);
}

// ---- Manifest -----------------------------------------------------------------------------------
static int parse_seed(uint64_t *out, const json_t *seed) {
    if (json_is_integer(seed) && json_integer_value(seed) >= 0) {
        *out = (uint64_t)json_integer_value(seed);
        return LS_OK;
    }
    const char *text = json_string_value(seed);
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return LS_ERR_FORMAT;
    }
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? LS_OK : LS_ERR_FORMAT;
}

static int parse_manifest(ls_recording *recording, const json_t *root, const char *path) {
    int64_t number = 0;
    ls_recording_info *info = &recording->info;
    if (!ls_recording__integer(&number, root, "lockstep_recording", 0, INT64_MAX)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is not the manifest of a recording", path);
    }
    if (number != LS_RECORDING_FORMAT) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "'%s': format %" PRId64 " is not supported, only %d",
                       path, number, LS_RECORDING_FORMAT);
    }
    if (!ls_recording__integer(&number, root, "ranks", 1, LS_RANKS_MAX)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': ranks is not a number from 1 to %d", path,
                       LS_RANKS_MAX);
    }
    info->ranks = (int)number;
    if (parse_seed(&info->seed, json_object_get(root, "seed")) != LS_OK) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': seed is not a whole number >= 0", path);
    }
    LS_TRY(ls_recording__string(&info->name, recording->arena, json_object_get(root, "name")));
    LS_TRY(
        ls_recording__string(&info->backend, recording->arena, json_object_get(root, "backend")));
    LS_TRY(
        ls_recording__string(&info->versions, recording->arena, json_object_get(root, "versions")));
    if (info->name == NULL || info->backend == NULL) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': name or backend is missing", path);
    }
    if (json_is_string(json_object_get(root, "scenario"))) {
        char file[LS_RECORDING_PATH_MAX], *text = NULL;
        size_t bytes = 0;
        LS_TRY(ls_recording__path(file, recording->dir, -1, "scenario.yaml"));
        LS_TRY(check_no_link(file));
        LS_TRY(ls_file_read(&text, &bytes, recording->arena, file, LS_RECORDING_JSON_BYTES_MAX));
        if (memchr(text, '\0', bytes) != NULL) {
            return LS_FAIL(LS_ERR_FORMAT, "'%s' has a zero byte", file);
        }
        info->scenario = text;
    }
    return LS_OK;
}

// The manifest's list of files must be what its ranks have, and the folder no rank's file beyond
// them: ranks are not left out silently.
static int check_files(const ls_recording *recording, const json_t *files, const char *path) {
    size_t ranks = (size_t)recording->info.ranks;
    static const char *const suffixes[2] = {"safetensors", "calls.json"};
    for (size_t i = 0; json_is_array(files) && i < 2 * ranks; i++) {
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "rank_%05zu.%s", i / 2, suffixes[i % 2]);
        const char *name = json_string_value(json_array_get(files, i));
        if (name == NULL || strcmp(name, wanted) != 0) {
            return LS_FAIL(LS_ERR_FORMAT, "'%s': files [%zu] is not \"%s\"", path, i, wanted);
        }
    }
    if (json_array_size(files) != 2 * ranks) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "'%s': files does not list two files for each of its %zu ranks", path,
                       ranks);
    }
    DIR *folder = opendir(recording->dir);
    if (folder == NULL) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot read the folder '%s': %s", recording->dir,
                       strerror(errno));
    }
    int status = LS_OK;
    for (struct dirent *entry; status == LS_OK && (entry = readdir(folder)) != NULL;) {
        int rank = ls_recording_file_rank(entry->d_name);
        if (rank >= recording->info.ranks) {
            status = LS_FAIL(LS_ERR_FORMAT,
                             "'%s/%.100s' belongs to no rank: the manifest lists %zu ranks",
                             recording->dir, entry->d_name, ranks);
        }
    }
    (void)closedir(folder);
    return status;
}

static int read_calls(ls_recording *recording, int rank) {
    char path[LS_RECORDING_PATH_MAX];
    LS_TRY(ls_recording__path(path, recording->dir, rank, ".calls.json"));
    json_t *list = NULL;
    LS_TRY(read_json(&list, path));
    int status = ls_recording__calls_parse(recording, rank, list, path);
    json_decref(list);
    return status;
}

static int open_all(ls_recording *recording) {
    char path[LS_RECORDING_PATH_MAX];
    LS_TRY(ls_recording__path(path, recording->dir, -1, "manifest.json"));
    json_t *root = NULL;
    LS_TRY(read_json(&root, path));
    int status = parse_manifest(recording, root, path);
    if (status == LS_OK) {
        status = check_files(recording, json_object_get(root, "files"), path);
    }
    json_decref(root);
    LS_TRY(status);
    size_t ranks = (size_t)recording->info.ranks;
    recording->ranks = ls_arena_alloc(recording->arena, ranks, sizeof *recording->ranks);
    LS_TRY_MEMORY(recording->ranks != NULL);
    for (int rank = 0; rank < recording->info.ranks; rank++) {
        LS_TRY(read_calls(recording, rank));
    }
    return LS_OK;
}

int ls_recording_open(ls_recording **out, const char *dir) {
    LS_ASSERT(out != NULL && dir != NULL);
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_recording *recording = ls_arena_alloc(arena, 1, sizeof *recording);
    int status = LS_ERR_MEMORY;
    if (recording != NULL) {
        recording->arena = arena;
        recording->dir = ls_arena_strdup(arena, dir);
        status = recording->dir != NULL ? open_all(recording) : LS_ERR_MEMORY;
    }
    if (status != LS_OK) {
        ls_arena_free(arena);
        return ls_error_wrap("recording");
    }
    *out = recording;
    return LS_OK;
}

void ls_recording_free(ls_recording *recording) {
    if (recording != NULL) {
        ls_arena_free(recording->arena);
    }
}

const ls_recording_info *ls_recording_about(const ls_recording *recording) {
    return &recording->info;
}

int ls_recording_call_count(const ls_recording *recording, int rank) {
    LS_ASSERT(rank >= 0 && rank < recording->info.ranks);
    return recording->ranks[rank].count;
}

const ls_recorded_call *ls_recording_call(const ls_recording *recording, int rank, int index) {
    LS_ASSERT(index >= 0 && index < ls_recording_call_count(recording, rank));
    return &recording->ranks[rank].calls[index];
}

// ---- Stage outputs ------------------------------------------------------------------------------
// Cuts "stage/table/feature/field" in place; a table and a feature may be "-", absent. False where
// it is not what ls_stage_key writes.
static bool cut_key(ls_stage_output *output, char *key) {
    const char *parts[4] = {key, NULL, NULL, NULL};
    int count = 1;
    for (char *at = key; *at != '\0'; at++) {
        if (*at == '/') {
            if (count == 4) {
                return false;
            }
            *at = '\0';
            parts[count++] = at + 1;
        }
    }
    for (int i = 0; i < count; i++) {
        if (parts[i][0] == '\0' || strchr(parts[i], '\n') != NULL) {
            return false;
        }
        parts[i] = strcmp(parts[i], "-") == 0 ? NULL : parts[i];
    }
    output->stage = parts[0];
    output->table = parts[1];
    output->feature = parts[2];
    output->field = parts[3];
    return count == 4 && output->stage != NULL && output->field != NULL;
}

// The names of a list with one per line, sorted.
typedef struct name_set {
    char **names;
    size_t count;
} name_set;

static int compare_names(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static int make_set(name_set *out, ls_arena *arena, const char *lines) {
    *out = (name_set){0};
    char *text = ls_arena_strdup(arena, lines != NULL ? lines : "");
    size_t room = 0;
    for (const char *at = text; at != NULL && *at != '\0'; at++) {
        room += *at == '\n' ? 1 : 0;
    }
    out->names = ls_arena_alloc(arena, room + 1, sizeof *out->names);
    LS_TRY_MEMORY(text != NULL && out->names != NULL);
    for (char *at = text; *at != '\0';) {
        out->names[out->count++] = at;
        char *end = strchr(at, '\n');
        if (end == NULL) {
            break;
        }
        *end = '\0';
        at = end + 1;
    }
    qsort(out->names, out->count, sizeof *out->names, compare_names);
    return LS_OK;
}

static bool in_set(const name_set *set, const char *name) {
    return bsearch(&name, set->names, set->count, sizeof *set->names, compare_names) != NULL;
}

static int give_tensor(const ls_safetensors *file, const ls_safetensor *tensor,
                       const name_set *reduces, int rank, const char *path,
                       const ls_stage_sink *sink) {
    char key[LS_STAGE_KEY_MAX];
    size_t length = strlen(tensor->name);
    ls_stage_output output = {.rank = rank, .shape = {.ndim = tensor->ndim}};
    if (length >= sizeof key) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': a stage output's name is too long", path);
    }
    memcpy(key, tensor->name, length + 1);
    if (!cut_key(&output, key)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': \"%.100s\" is not stage/table/feature/field", path,
                       tensor->name);
    }
    memcpy(output.shape.dim, tensor->dim, sizeof output.shape.dim);
    output.reduces = in_set(reduces, tensor->name);
    void *data = NULL;
    LS_TRY(ls_alloc(&data, tensor->bytes, 1));
    int status = ls_safetensors_read(data, tensor->bytes, file, tensor);
    if (status == LS_OK) {
        output.dtype = (ls_dtype)tensor->dtype;
        output.data = data;
        status = sink->emit(sink->arg, &output);
    }
    ls_free(data, tensor->bytes, 1);
    if (status == LS_ERR_INVALID) {  // an error of the sink is the file's fault
        ls_error last = *ls_error_last();
        return LS_FAIL_RANK(LS_ERR_FORMAT, rank, "'%s': %s", path, last.text);
    }
    return status;
}

static int read_rank(const ls_recording *recording, int rank, const ls_stage_sink *sink) {
    char path[LS_RECORDING_PATH_MAX];
    struct stat info;
    LS_TRY(ls_recording__path(path, recording->dir, rank, ".safetensors"));
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is not a regular file", path);
    }
    ls_safetensors *file = NULL;
    ls_arena *arena = NULL;
    name_set reduces;
    LS_TRY(ls_safetensors_open(&file, path));
    int status = ls_arena_create(&arena);
    if (status == LS_OK) {
        status = make_set(&reduces, arena, ls_safetensors_metadata(file, LS_RECORDING_REDUCES));
    }
    for (size_t i = 0; i < ls_safetensors_count(file) && status == LS_OK; i++) {
        status = give_tensor(file, ls_safetensors_at(file, i), &reduces, rank, path, sink);
    }
    ls_arena_free(arena);
    ls_safetensors_free(file);
    return status;
}

int ls_recording_read(const ls_recording *recording, const ls_stage_sink *sink) {
    for (int rank = 0; rank < recording->info.ranks; rank++) {
        LS_TRY(read_rank(recording, rank, sink));
    }
    return LS_OK;
}
