// Arrays from .npy and .safetensors files, read once per scenario. See input_file.h.
#include "runner/scenario/input_file.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "formats/npy.h"
#include "formats/safetensors.h"

typedef struct ls_input_entry {
    const char *path, *tensor;  // tensor NULL: the only one
    ls_input_array array;
    ls_npy npy;         // a .npy file's memory
    void *data;         // a tensor's memory
    size_t data_bytes;  //
    struct ls_input_entry *next;
} ls_input_entry;

struct ls_input_files {
    pthread_mutex_t mutex;
    ls_input_entry *first;
};

int ls_input_files_create(ls_input_files **out) {
    ls_input_files *files = calloc(1, sizeof *files);
    if (files == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for a scenario's files");
    }
    if (pthread_mutex_init(&files->mutex, NULL) != 0) {
        free(files);
        return LS_FAIL(LS_ERR_MEMORY, "no mutex for a scenario's files");
    }
    *out = files;
    return LS_OK;
}

static void free_entry(ls_input_entry *entry) {
    ls_npy_free(&entry->npy);
    if (entry->data != NULL) {
        ls_free(entry->data, entry->data_bytes == 0 ? 1 : entry->data_bytes, 1);
    }
    free(entry);
}

void ls_input_files_free(ls_input_files *files) {
    if (files == NULL) {
        return;
    }
    while (files->first != NULL) {
        ls_input_entry *next = files->first->next;
        free_entry(files->first);
        files->first = next;
    }
    (void)pthread_mutex_destroy(&files->mutex);
    free(files);
}

static int read_npy(ls_input_entry *entry, bool with_data) {
    LS_TRY(with_data ? ls_npy_read(&entry->npy, entry->path)
                     : ls_npy_describe(&entry->npy, entry->path));
    ls_input_array *array = &entry->array;
    array->dtype = entry->npy.dtype;
    array->ndim = entry->npy.ndim;
    memcpy(array->dim, entry->npy.dim, sizeof array->dim);
    array->count = entry->npy.count;
    array->data = entry->npy.data;
    return LS_OK;
}

static int find_tensor(const ls_safetensor **out, const ls_safetensors *file, const char *name) {
    if (name == NULL) {
        if (ls_safetensors_count(file) != 1) {
            return LS_FAIL(LS_ERR_NOT_FOUND, "it has %zu tensors: select one with tensor:",
                           ls_safetensors_count(file));
        }
        *out = ls_safetensors_at(file, 0);
        return LS_OK;
    }
    *out = ls_safetensors_find(file, name);
    return *out != NULL ? LS_OK : LS_FAIL(LS_ERR_NOT_FOUND, "it has no tensor %s", name);
}

static int read_tensor(ls_input_entry *entry, const ls_safetensors *file, bool with_data) {
    const ls_safetensor *tensor = NULL;
    LS_TRY(find_tensor(&tensor, file, entry->tensor));
    if (tensor->dtype < 0) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "tensor %s is of type %s", tensor->name,
                       tensor->dtype_text);
    }
    if (with_data) {
        entry->data_bytes = tensor->bytes;
        LS_TRY(ls_alloc(&entry->data, tensor->bytes == 0 ? 1 : tensor->bytes, 1));
        LS_TRY(ls_safetensors_read(entry->data, tensor->bytes, file, tensor));
    }
    ls_input_array *array = &entry->array;
    array->dtype = (ls_dtype)tensor->dtype;
    array->ndim = tensor->ndim;
    memcpy(array->dim, tensor->dim, sizeof array->dim);
    array->count = tensor->count;
    array->data = entry->data;
    return LS_OK;
}

static int read_safetensors(ls_input_entry *entry, bool with_data) {
    ls_safetensors *file = NULL;
    LS_TRY(ls_safetensors_open(&file, entry->path));
    int status = read_tensor(entry, file, with_data);
    ls_safetensors_free(file);
    return status;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static int read_entry(ls_input_entry *entry, bool with_data) {
    if (ends_with(entry->path, ".npy")) {
        return read_npy(entry, with_data);
    }
    if (ends_with(entry->path, ".safetensors")) {
        return read_safetensors(entry, with_data);
    }
    return LS_FAIL(LS_ERR_UNSUPPORTED, "neither a .npy nor a .safetensors file");
}

static bool same_name(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static int get(const ls_input_array **out, ls_input_files *files, const char *path,
               const char *tensor) {
    for (ls_input_entry *entry = files->first; entry != NULL; entry = entry->next) {
        if (strcmp(entry->path, path) == 0 && same_name(entry->tensor, tensor)) {
            *out = &entry->array;
            return LS_OK;
        }
    }
    ls_input_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for %s", path);
    }
    entry->path = path;  // in the scenario's arena, like this cache
    entry->tensor = tensor;
    if (read_entry(entry, true) != LS_OK) {
        free_entry(entry);
        return ls_error_wrap("%s", path);
    }
    entry->next = files->first;
    files->first = entry;
    *out = &entry->array;
    return LS_OK;
}

int ls_input_file_get(const ls_input_array **out, const ls_scenario *scenario, const char *path,
                      const char *tensor) {
    LS_ASSERT(out != NULL && scenario->files != NULL && path != NULL);
    (void)pthread_mutex_lock(&scenario->files->mutex);
    int status = get(out, scenario->files, path, tensor);
    (void)pthread_mutex_unlock(&scenario->files->mutex);
    return status;
}

int ls_input_file_describe(ls_input_array *out, const char *path, const char *tensor) {
    LS_ASSERT(out != NULL && path != NULL);
    ls_input_entry entry = {.path = path, .tensor = tensor};
    LS_TRY(read_entry(&entry, false));
    *out = entry.array;
    return LS_OK;
}
