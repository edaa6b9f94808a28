// Reading a directory of NCCL results: the manifest, the .bin files, and the inputs, which are not
// stored but a function of the seed. Everything may be hostile.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "runner/replay/replay_internal.h"
#include "runner/replay/replay_nccl_internal.h"

// A result's file, open at its start, and its length.
static int open_in(FILE **out, long *length, const char *dir, const char *file) {
    char path[LS_REPLAY_PATH_MAX];
    LS_TRY(ls_replay__path(path, dir, file));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is not waited for
    *out = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (*out == NULL) {
        int reason = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return LS_FAIL(reason == ENOMEM ? LS_ERR_MEMORY : LS_ERR_IO, "replay: %.500s: %s", path,
                       strerror(reason));
    }
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)fclose(*out);
        return LS_FAIL(LS_ERR_FORMAT, "replay: %.500s is not a regular file", path);
    }
    *length = (long)info.st_size;
    return LS_OK;
}

// Copies a string member; false where it is missing or too long.
static bool string_member(char *out, size_t size, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    if (text == NULL || json_string_length(value) >= size ||
        strlen(text) != json_string_length(value)) {
        return false;
    }
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool int_member(int64_t *out, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value);
}

static void read_numbers(ls_nccl_entry *e, const json_t *object) {
    int64_t world = 0;
    int64_t count = 0;
    int64_t seed = 0;
    int64_t channels = 0;
    if (!int_member(&world, object, "world") || !int_member(&count, object, "count") ||
        !int_member(&seed, object, "seed") || world < 1 || count < 0) {
        e->malformed = "world, count or seed is missing or out of range";
        return;
    }
    if (world > LS_REPLAY_WORLD_MAX) {
        e->unsupported = "more than 64 ranks";
        return;
    }
    e->world = (int)world;
    e->count = (size_t)count;
    e->seed = (uint64_t)seed;
    const json_t *used = json_object_get(object, "channels");
    if (used != NULL && !json_is_null(used) &&
        (!int_member(&channels, object, "channels") || channels < 0 || channels > 64)) {
        e->malformed = "channels is not a number from 0 to 64";
        return;
    }
    e->channels = (int)channels;
    const json_t *pinned = json_object_get(object, "pinned_channels");
    if (pinned != NULL && !json_is_null(pinned)) {
        if (!json_is_integer(pinned) || json_integer_value(pinned) != 1) {
            e->unsupported = "channels pinned to another number than 1";
        }
        e->pinned = true;
    }
}

// The factors of a premul_sum, one per rank.
static bool read_factors(ls_nccl_entry *e, const json_t *object) {
    const json_t *factors = json_object_get(object, "factors");
    if (json_array_size(factors) != (size_t)e->world) {
        return false;
    }
    for (size_t k = 0; k < (size_t)e->world; k++) {
        const json_t *factor = json_array_get(factors, k);
        e->factors[k] = json_number_value(factor);
        if (!json_is_number(factor)) {
            return false;
        }
    }
    return true;
}

// Keys that nothing here reads.
static void note_unknown(ls_nccl_entry *e, const json_t *object) {
    // env is what the run was started with; what came of it stands in the other keys.
    static const char *const known[] = {
        "file", "world", "op",       "dtype", "reduce",  "count",           "seed", "env", "nccl",
        "algo", "proto", "channels", "note",  "factors", "pinned_channels", NULL};
    ls_text unknown = {0};
    ls_replay__unknown_keys(&unknown, object, known);
    (void)snprintf(e->unknown, sizeof e->unknown, "%s", ls_text_string(&unknown));
    ls_text_free(&unknown);
}

static void read_entry(ls_nccl_entry *e, const json_t *object) {
    char dtype[LS_REPLAY_TEXT_MAX];
    char reduce[LS_REPLAY_TEXT_MAX];
    if (!string_member(e->file, sizeof e->file, object, "file") ||
        !ls_replay__is_plain_name(e->file)) {
        (void)snprintf(e->file, sizeof e->file, "?");
        e->malformed = "file is missing or not a plain file name";
        return;
    }
    if (!string_member(e->op_name, sizeof e->op_name, object, "op") ||
        !string_member(dtype, sizeof dtype, object, "dtype") ||
        !string_member(reduce, sizeof reduce, object, "reduce") ||
        !string_member(e->algo, sizeof e->algo, object, "algo") ||
        !string_member(e->proto, sizeof e->proto, object, "proto") ||
        !string_member(e->nccl, sizeof e->nccl, object, "nccl")) {
        e->malformed = "op, dtype, reduce, algo, proto or nccl is missing";
        return;
    }
    read_numbers(e, object);
    note_unknown(e, object);
    if (strcmp(e->op_name, "all_reduce") == 0) {
        e->call = LS_ORDER_ALL_REDUCE;
    } else if (strcmp(e->op_name, "reduce_scatter") == 0) {
        e->call = LS_ORDER_REDUCE_SCATTER;
    } else {
        e->unsupported = "a collective without a known result layout";
    }
    if (ls_dtype_parse(&e->dtype, dtype) != LS_OK || ls_op_parse(&e->op, reduce) != LS_OK) {
        e->unsupported = "an unknown element type or reduce operation";
    } else if (!ls_op_supports(e->op, e->dtype)) {
        e->unsupported = "an operation that the element type does not have";
    } else if (e->op == LS_PREMUL_SUM && !read_factors(e, object)) {
        e->malformed = "premul_sum needs factors, one number per rank";
    }
    ls_error_clear();
}

int ls_nccl_manifest__read(ls_nccl_manifest *out, const char *dir) {
    *out = (ls_nccl_manifest){0};
    char path[LS_REPLAY_PATH_MAX];
    json_t *root = NULL;
    LS_TRY(ls_replay__path(path, dir, "manifest.json"));
    LS_TRY(ls_json_read(&root, path, LS_REPLAY_JSON_BYTES_MAX));
    int status = LS_OK;
    if (!json_is_array(root)) {
        status = LS_FAIL(LS_ERR_FORMAT, "'%s' is not a list", path);
    } else if (json_array_size(root) > 0) {
        void *memory = NULL;
        status = ls_alloc(&memory, NULL, json_array_size(root), sizeof(ls_nccl_entry));
        out->entries = memory;
        out->count = status == LS_OK ? json_array_size(root) : 0;
    }
    for (size_t i = 0; i < out->count; i++) {
        out->entries[i].index = i;
        read_entry(&out->entries[i], json_array_get(root, i));
    }
    json_decref(root);
    return status;
}

void ls_nccl_manifest__free(ls_nccl_manifest *manifest) {
    ls_free(NULL, manifest->entries, manifest->count, sizeof(ls_nccl_entry));
    *manifest = (ls_nccl_manifest){0};
}

int ls_nccl_entry__result(void **out, const ls_nccl_entry *entry, size_t elements,
                          const char *dir) {
    *out = NULL;
    size_t bytes = 0;
    LS_TRY(ls_size_mul(&bytes, elements, ls_dtype_bytes(entry->dtype)));
    FILE *file = NULL;
    long length = 0;
    LS_TRY(open_in(&file, &length, dir, entry->file));
    int status = LS_OK;
    void *memory = NULL;
    if ((size_t)length != bytes) {
        status = LS_FAIL(LS_ERR_FORMAT, "replay: %s holds %ld bytes, its manifest says %zu",
                         entry->file, length, bytes);
    } else {
        status = ls_alloc(&memory, NULL, elements, ls_dtype_bytes(entry->dtype));
    }
    if (status == LS_OK && fread(memory, 1, bytes, file) != bytes) {
        ls_free(NULL, memory, elements, ls_dtype_bytes(entry->dtype));
        status = LS_FAIL(LS_ERR_IO, "replay: %s cannot be read", entry->file);
    }
    (void)fclose(file);
    if (status == LS_OK) {
        *out = memory;
    }
    return status;
}

static uint64_t splitmix64(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// ((h >> 40) - 2^23) 2^-23 2^((h & 7) - 4)
static double float_input(uint64_t h) {
    double whole = (double)((int64_t)(h >> 40) - ((int64_t)1 << 23));
    return whole * (double)(1u << (h & 7)) * 0x1p-27;
}

// Any finite f8 but large ones of e4m3, so that sums rarely saturate.
static uint8_t f8_input(ls_dtype dtype, uint64_t h) {
    uint8_t bits = (uint8_t)(h >> 32);
    if (dtype == LS_F8E4M3) {
        bits = (bits & 0x7f) == 0x7f ? bits ^ 1 : bits;
        return (uint8_t)((bits & 0x80) | (bits & 0x7f) % 0x60);
    }
    return (bits & 0x7f) >= 0x7c ? bits & 0x8f : bits;
}

void ls_nccl_entry__input(void *out, const ls_nccl_entry *entry, int rank, size_t elements) {
    uint64_t base = entry->seed * 0x9E3779B97F4A7C15u + ((uint64_t)rank << 40);
    size_t bytes = ls_dtype_bytes(entry->dtype);
    bool is_float = ls_dtype_is_float(entry->dtype);
    unsigned char *to = out;
    for (size_t i = 0; i < elements; i++) {
        uint64_t h = splitmix64(base + i);
        double value = 0.0;
        if (bytes == 1 && is_float) {
            to[i] = f8_input(entry->dtype, h);
            continue;
        }
        if (is_float) {
            value = float_input(h);
            value = entry->dtype == LS_F64 ? value : (double)(float)value;
        } else {
            int32_t whole = (int32_t)(uint32_t)(h >> 32) % 1000;
            value = (double)(whole < 0 ? whole + 1000 : whole);
        }
        if (entry->dtype == LS_F32) {
            float narrow = (float)value;
            memcpy(to + i * bytes, &narrow, sizeof narrow);
        } else if (entry->dtype == LS_F64) {
            memcpy(to + i * bytes, &value, sizeof value);
        } else {
            ls_element_from_f64(to + i * bytes, entry->dtype, value);
        }
    }
}
