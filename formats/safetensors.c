// Reading and writing .safetensors: 8 bytes of header length, a JSON header, the data.
#include "formats/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/json.h"
#include "formats/json_read.h"
#include "base/memory.h"

struct ls_safetensors {
    int fd;
    ls_arena *arena;
    const char *path;
    ls_safetensor *tensors;        // [count] by offset
    const ls_safetensor **sorted;  // [count] by name
    size_t count;
    uint64_t data_start;
    uint64_t data_bytes;
    const char **metadata;  // [2 * metadata_count]
    size_t metadata_count;
};

typedef struct type_name {
    const char *text;
    int dtype;
    size_t bits;
} type_name;

// Beside those that are element types here.
static const type_name types_other[] = {
    {"BOOL", LS_U8, 8}, {"I16", -1, 16}, {"U16", -1, 16},    {"C64", -1, 64},
    {"F8_E8M0", -1, 8}, {"F4", -1, 4},   {"F6_E2M3", -1, 6}, {"F6_E3M2", -1, 6},
};

// False: no such type is known.
static bool type_of_text(type_name *out, const char *text) {
    for (int i = 0; i < (int)LS_DTYPE_COUNT; i++) {
        const char *name = ls_dtype_name_safetensors((ls_dtype)i);
        if (strcmp(name, text) == 0) {
            *out = (type_name){name, i, 8 * ls_dtype_bytes((ls_dtype)i)};
            return true;
        }
    }
    for (size_t i = 0; i < sizeof types_other / sizeof types_other[0]; i++) {
        if (strcmp(types_other[i].text, text) == 0) {
            *out = types_other[i];
            return true;
        }
    }
    return false;
}

// ---- Header -------------------------------------------------------------------------------------
static int fail_tensor(const ls_safetensors *file, const char *name, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "'%s': tensor \"%.100s\": %s", file->path, name, what);
}

static int parse_shape(ls_safetensor *out, const ls_safetensors *file, const json_t *shape) {
    size_t ndim = json_array_size(shape);
    if (!json_is_array(shape)) {
        return fail_tensor(file, out->name, "its shape is not a list");
    }
    if (ndim > LS_SAFETENSORS_DIMS_MAX) {
        return fail_tensor(file, out->name, "it has more than 8 dimensions");
    }
    out->ndim = (int)ndim;
    out->count = 1;
    bool empty = false;
    for (size_t i = 0; i < ndim; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return fail_tensor(file, out->name, "a dimension is not a whole number >= 0");
        }
        out->dim[i] = json_integer_value(dim);
        empty = empty || out->dim[i] == 0;
    }
    for (size_t i = 0; i < ndim && !empty; i++) {
        if (__builtin_mul_overflow(out->count, (size_t)out->dim[i], &out->count)) {
            return fail_tensor(file, out->name, "its shape overflows");
        }
    }
    out->count = empty ? 0 : out->count;
    return LS_OK;
}

static int parse_tensor(ls_safetensor *out, const ls_safetensors *file, const json_t *entry) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (dtype == NULL) {
        return fail_tensor(file, out->name, "it has no dtype");
    }
    type_name type;
    if (!type_of_text(&type, dtype)) {
        return fail_tensor(file, out->name, "its dtype is unknown");
    }
    out->dtype_text = type.text;
    out->dtype = type.dtype;
    LS_TRY(parse_shape(out, file, json_object_get(entry, "shape")));
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
        return fail_tensor(file, out->name, "its data_offsets are not two whole numbers");
    }
    json_int_t first = json_integer_value(begin), last = json_integer_value(end);
    if (first < 0 || last < first || (uint64_t)last > file->data_bytes) {
        return fail_tensor(file, out->name, "its data_offsets are outside the file");
    }
    size_t bits = 0;
    if (__builtin_mul_overflow(out->count, type.bits, &bits) || bits % 8 != 0 ||
        (uint64_t)(last - first) != bits / 8) {
        return fail_tensor(file, out->name, "its data_offsets do not fit its shape and dtype");
    }
    out->bytes = bits / 8;
    out->offset = (uint64_t)first;  // made absolute once the order is checked
    return LS_OK;
}

static int compare_offsets(const void *a, const void *b) {
    const ls_safetensor *x = a, *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    // Empty tensors come before the one whose data starts where they are.
    if ((x->bytes == 0) != (y->bytes == 0)) {
        return x->bytes == 0 ? -1 : 1;
    }
    return (x->position > y->position) - (x->position < y->position);
}

static int compare_names(const void *a, const void *b) {
    const ls_safetensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int parse_metadata(ls_safetensors *file, json_t *metadata) {
    if (!json_is_object(metadata)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': __metadata__ is not an object", file->path);
    }
    size_t room = json_object_size(metadata);
    file->metadata = ls_arena_alloc(file->arena, 2 * room, sizeof *file->metadata);
    LS_TRY_MEMORY(file->metadata != NULL);
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) {
            return LS_FAIL(LS_ERR_FORMAT, "'%s': __metadata__ \"%.100s\" is not a string",
                           file->path, key);
        }
        char *key_copy = ls_arena_strdup(file->arena, key);
        char *value_copy = ls_arena_strdup(file->arena, json_string_value(value));
        LS_TRY_MEMORY(key_copy != NULL && value_copy != NULL);
        file->metadata[2 * file->metadata_count] = key_copy;
        file->metadata[2 * file->metadata_count + 1] = value_copy;
        file->metadata_count += 1;
    }
    return LS_OK;
}

static int check_layout(const ls_safetensors *file) {
    uint64_t next = 0;
    for (size_t i = 0; i < file->count; i++) {
        const ls_safetensor *tensor = &file->tensors[i];
        if (tensor->offset != next) {
            return fail_tensor(file, tensor->name,
                               tensor->offset < next ? "its data overlaps another tensor's"
                                                     : "there is a hole before its data");
        }
        next += tensor->bytes;
    }
    if (next != file->data_bytes) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': %llu bytes after the last tensor belong to none",
                       file->path, (unsigned long long)(file->data_bytes - next));
    }
    return LS_OK;
}

static int parse_header(ls_safetensors *file, json_t *root) {
    if (!json_is_object(root)) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': the header is not an object", file->path);
    }
    size_t room = json_object_size(root);
    file->tensors = ls_arena_alloc(file->arena, room, sizeof *file->tensors);
    file->sorted = ls_arena_alloc(file->arena, room, sizeof *file->sorted);
    LS_TRY_MEMORY(file->tensors != NULL && file->sorted != NULL);
    const char *name = NULL;
    json_t *entry = NULL;
    json_object_foreach(root, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            LS_TRY(parse_metadata(file, entry));
            continue;
        }
        ls_safetensor *tensor = &file->tensors[file->count];
        tensor->name = ls_arena_strdup(file->arena, name);
        LS_TRY_MEMORY(tensor->name != NULL);
        tensor->position = file->count;
        LS_TRY(parse_tensor(tensor, file, entry));
        file->count += 1;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_offsets);
    LS_TRY(check_layout(file));
    for (size_t i = 0; i < file->count; i++) {
        file->tensors[i].offset += file->data_start;
        file->sorted[i] = &file->tensors[i];
    }
    qsort(file->sorted, file->count, sizeof *file->sorted, compare_names);
    return LS_OK;
}

static int read_header(ls_safetensors *file, uint64_t file_bytes) {
    unsigned char length[8];
    if (file_bytes < sizeof length) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is too short for a safetensors file", file->path);
    }
    LS_TRY(ls_file_read_at(length, sizeof length, file->fd, 0, file->path));
    uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; i--) {
        header_bytes = header_bytes << 8 | length[i];
    }
    if (header_bytes > file_bytes - sizeof length) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': a header of %llu bytes does not fit the file",
                       file->path, (unsigned long long)header_bytes);
    }
    if (header_bytes > LS_SAFETENSORS_HEADER_BYTES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "'%s': a header of %llu bytes is over the limit of %zu",
                       file->path, (unsigned long long)header_bytes,
                       LS_SAFETENSORS_HEADER_BYTES_MAX);
    }
    file->data_start = sizeof length + header_bytes;
    file->data_bytes = file_bytes - file->data_start;
    void *text = NULL;
    LS_TRY(ls_alloc(&text, (size_t)header_bytes, 1));
    int status = ls_file_read_at(text, (size_t)header_bytes, file->fd, sizeof length, file->path);
    if (status == LS_OK) {
        json_t *root = NULL;
        status = ls_json_parse(&root, file->path, text, (size_t)header_bytes);
        status = status == LS_OK ? parse_header(file, root) : ls_error_wrap("its header");
        json_decref(root);
    }
    ls_free(text, (size_t)header_bytes, 1);
    return status;
}

int ls_safetensors_open(ls_safetensors **out, const char *path) {
    LS_ASSERT(out != NULL && path != NULL);
    *out = NULL;
    ls_arena *arena = NULL;
    ls_safetensors *file = ls_arena_create_with(&arena, sizeof *file);
    LS_TRY_MEMORY(file != NULL);
    *file = (ls_safetensors){.arena = arena, .fd = -1, .path = ls_arena_strdup(arena, path)};
    struct stat info;
    int status = file->path == NULL ? LS_ERR_MEMORY : LS_OK;
    if (status == LS_OK) {
        // A pipe in the file's place must not make us wait for a writer.
        file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file->fd < 0 || fstat(file->fd, &info) != 0) {
            status =
                LS_FAIL(ls_status_of_errno(errno), "cannot open '%s': %s", path, strerror(errno));
        } else if (!S_ISREG(info.st_mode)) {
            status = LS_FAIL(LS_ERR_FORMAT, "'%s' is not a regular file", path);
        } else {
            status = read_header(file, (uint64_t)info.st_size);
        }
    }
    if (status != LS_OK) {
        ls_safetensors_free(file);
        return status;
    }
    *out = file;
    return LS_OK;
}

void ls_safetensors_free(ls_safetensors *file) {
    if (file == NULL) {
        return;
    }
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    ls_arena_free(file->arena);
}

size_t ls_safetensors_count(const ls_safetensors *file) {
    return file->count;
}

const ls_safetensor *ls_safetensors_at(const ls_safetensors *file, size_t index) {
    LS_ASSERT(index < file->count);
    return &file->tensors[index];
}

const ls_safetensor *ls_safetensors_find(const ls_safetensors *file, const char *name) {
    size_t low = 0, high = file->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->sorted[middle]->name, name);
        if (order == 0) {
            return file->sorted[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key) {
    for (size_t i = 0; i < file->metadata_count; i++) {
        if (strcmp(file->metadata[2 * i], key) == 0) {
            return file->metadata[2 * i + 1];
        }
    }
    return NULL;
}

int ls_safetensors_read(void *out, size_t out_bytes, const ls_safetensors *file,
                        const ls_safetensor *tensor) {
    if (out_bytes != tensor->bytes) {
        return LS_FAIL(LS_ERR_INVALID, "'%s': tensor \"%.100s\" has %zu bytes, not %zu", file->path,
                       tensor->name, tensor->bytes, out_bytes);
    }
    return ls_safetensors_read_part(out, out_bytes, file, tensor, 0);
}

int ls_safetensors_read_part(void *out, size_t bytes, const ls_safetensors *file,
                             const ls_safetensor *tensor, size_t first) {
    if (tensor->dtype < 0) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "'%s': tensor \"%.100s\" has dtype %s, which lockstep "
                       "does not support",
                       file->path, tensor->name, tensor->dtype_text);
    }
    if (first > tensor->bytes || bytes > tensor->bytes - first) {
        return LS_FAIL(LS_ERR_INVALID,
                       "'%s': tensor \"%.100s\" has %zu bytes, not %zu from byte %zu on",
                       file->path, tensor->name, tensor->bytes, bytes, first);
    }
    return ls_file_read_at(out, bytes, file->fd, tensor->offset + first, file->path);
}

// ---- Writing ------------------------------------------------------------------------------------
static int source_bytes(size_t *out, const ls_safetensor_source *tensor) {
    LS_ASSERT(tensor->ndim >= 0 && tensor->ndim <= LS_SAFETENSORS_DIMS_MAX);
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    for (int i = 0; i < tensor->ndim; i++) {
        LS_ASSERT(tensor->dim[i] >= 0);
        LS_TRY(ls_size_mul(&bytes, bytes, (size_t)tensor->dim[i]));
    }
    *out = bytes;
    return LS_OK;
}

static int compare_strings(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static int check_names(const char *path, const ls_safetensor_source *tensors, size_t count,
                       ls_arena *arena) {
    const char **names = ls_arena_alloc(arena, count, sizeof *names);
    LS_TRY_MEMORY(names != NULL);
    for (size_t i = 0; i < count; i++) {
        names[i] = tensors[i].name;
        if (strcmp(names[i], "__metadata__") == 0) {
            return LS_FAIL(LS_ERR_INVALID, "'%s': no tensor can be named __metadata__", path);
        }
    }
    qsort(names, count, sizeof *names, compare_strings);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            return LS_FAIL(LS_ERR_INVALID, "'%s': two tensors are named \"%.100s\"", path,
                           names[i]);
        }
    }
    return LS_OK;
}

static int write_header(ls_text *header, ls_file_part *parts, const ls_safetensor_source *tensors,
                        size_t tensor_count, const char *const *metadata, size_t metadata_count) {
    ls_json json;
    ls_json_begin(&json, header, 0);
    ls_json_object_open(&json);
    if (metadata_count != 0) {
        ls_json_member_object(&json, "__metadata__");
        for (size_t i = 0; i < metadata_count; i++) {
            ls_json_member_string(&json, metadata[2 * i], metadata[2 * i + 1]);
        }
        ls_json_object_close(&json);
    }
    size_t offset = 0;
    for (size_t i = 0; i < tensor_count; i++) {
        size_t bytes = 0, end = 0;
        LS_TRY(source_bytes(&bytes, &tensors[i]));
        LS_TRY(ls_size_add(&end, offset, bytes));
        ls_json_member_object(&json, tensors[i].name);
        ls_json_member_string(&json, "dtype", ls_dtype_name_safetensors(tensors[i].dtype));
        ls_json_member_array(&json, "shape");
        for (int d = 0; d < tensors[i].ndim; d++) {
            ls_json_int(&json, tensors[i].dim[d]);
        }
        ls_json_array_close(&json);
        ls_json_member_array(&json, "data_offsets");
        ls_json_uint(&json, offset);
        ls_json_uint(&json, end);
        ls_json_array_close(&json);
        ls_json_object_close(&json);
        parts[2 + i] = (ls_file_part){tensors[i].data, bytes};
        offset = end;
    }
    ls_json_object_close(&json);
    ls_text_repeat(header, ' ', (8 - header->length % 8) % 8);  // data starts aligned
    return header->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for a safetensors header") : LS_OK;
}

int ls_safetensors_write(const char *path, const ls_safetensor_source *tensors, size_t tensor_count,
                         const char *const *metadata, size_t metadata_count) {
    LS_ASSERT(path != NULL && (tensors != NULL || tensor_count == 0));
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_text header = {0};
    ls_file_part *parts = ls_arena_alloc(arena, tensor_count + 2, sizeof *parts);
    int status = parts != NULL ? LS_OK : LS_ERR_MEMORY;
    status = status == LS_OK ? check_names(path, tensors, tensor_count, arena) : status;
    if (status == LS_OK) {
        status = write_header(&header, parts, tensors, tensor_count, metadata, metadata_count);
    }
    if (status == LS_OK) {
        unsigned char length[8];
        for (int i = 0; i < 8; i++) {
            length[i] = (unsigned char)((uint64_t)header.length >> (8 * i) & 0xFF);
        }
        parts[0] = (ls_file_part){length, sizeof length};
        parts[1] = (ls_file_part){header.data, header.length};
        status = ls_file_write_parts(path, parts, tensor_count + 2);
    }
    ls_text_free(&header);
    ls_arena_free(arena);
    return status;
}
