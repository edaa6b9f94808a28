// Array files: .npy and .safetensors, read back, against NumPy, and broken in every way.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "tests/npy_writer.h"

static char folder[64];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/ls_arrays_XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)!system(command);
}

static const char *in_folder(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_raw(const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(in_folder(name), "wb");
    cr_assert(file != NULL && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

static bool python(const char *script) {
    if (access("/usr/bin/python3", X_OK) != 0) {
        return false;
    }
    char command[4096];
    snprintf(command, sizeof command, "cd '%s' && /usr/bin/python3 -c '%s'", folder, script);
    return system(command) == 0;
}

TestSuite(arrays, .init = make_folder, .fini = remove_folder);

// Every type that NumPy has, of 0 to 3 dimensions, is read back as written.
Test(arrays, npy_round_trip) {
    static const ls_dtype dtypes[] = {LS_I8,  LS_U8,  LS_I32, LS_U32, LS_I64,
                                      LS_U64, LS_F16, LS_F32, LS_F64};
    static const int64_t dims[][3] = {{0, 0, 0}, {5, 0, 0}, {3, 4, 0}, {2, 3, 2}, {4, 0, 2}};
    static const int ndims[] = {0, 1, 2, 3, 3};
    unsigned char data[128];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 37 + 11);
    }
    for (size_t t = 0; t < 9; t++) {
        for (size_t s = 0; s < 5; s++) {
            cr_assert(write_npy(in_folder("a.npy"), dtypes[t], ndims[s], dims[s], data));
            ls_npy got;
            cr_assert(ls_npy_read(&got, in_folder("a.npy")) == LS_OK, "%s", ls_error_last()->text);
            size_t count = 1;
            for (int d = 0; d < ndims[s]; d++) {
                count *= (size_t)dims[s][d];
                cr_expect(got.dim[d] == dims[s][d]);
            }
            cr_expect(got.count == count && got.ndim == ndims[s] && got.dtype == dtypes[t]);
            cr_expect(memcmp(got.data, data, count * ls_dtype_bytes(got.dtype)) == 0);
            ls_npy_free(&got);
        }
    }
}

// NumPy reads lockstep's files, and lockstep reads NumPy's, in both byte orders.
Test(arrays, npy_against_numpy) {
    float values[6] = {1.5f, -2, 3, 4, 5, 6.25f};
    cr_assert(write_npy(in_folder("ours.npy"), LS_F32, 2, (int64_t[]){2, 3}, values));
    if (!python("import numpy")) {
        cr_skip_test("no python3-numpy");
    }
    cr_expect(python("import numpy as n; a = n.load(\"ours.npy\"); "
                     "assert a.dtype == n.float32 and a.shape == (2, 3) and a[1, 2] == 6.25 and "
                     "a[0, 1] == -2"));
    cr_assert(
        python("import numpy as n; a = n.arange(6).reshape(2, 3); "
               "n.save(\"i8.npy\", a); n.save(\"big.npy\", a.astype(\">i4\")); "
               "n.save(\"fortran.npy\", n.asfortranarray(a)); n.save(\"bool.npy\", a > 2); "
               "n.save(\"object.npy\", n.array([None, 1], dtype=object)); "
               "n.save(\"i2.npy\", a.astype(n.int16)); n.save(\"scalar.npy\", n.float64(2.5)); "
               "f = open(\"v2.npy\", \"wb\"); n.lib.format.write_array(f, a, version=(2, 0))"));
    ls_npy got;
    cr_assert(ls_npy_read(&got, in_folder("i8.npy")) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(got.dtype == LS_I64 && got.count == 6 && ((int64_t *)got.data)[5] == 5);
    ls_npy_free(&got);
    cr_assert(ls_npy_read(&got, in_folder("v2.npy")) == LS_OK);
    cr_expect(got.dtype == LS_I64 && ((int64_t *)got.data)[4] == 4);
    ls_npy_free(&got);
    cr_assert(ls_npy_read(&got, in_folder("big.npy")) == LS_OK);
    cr_expect(got.dtype == LS_I32 && ((int32_t *)got.data)[3] == 3);
    ls_npy_free(&got);
    cr_assert(ls_npy_read(&got, in_folder("bool.npy")) == LS_OK);
    cr_expect(got.dtype == LS_U8 && ((uint8_t *)got.data)[3] == 1 && ((uint8_t *)got.data)[2] == 0);
    ls_npy_free(&got);
    cr_assert(ls_npy_read(&got, in_folder("scalar.npy")) == LS_OK);
    cr_expect(got.ndim == 0 && got.count == 1 && ((double *)got.data)[0] == 2.5);
    ls_npy_free(&got);
    cr_expect(ls_npy_read(&got, in_folder("fortran.npy")) == LS_ERR_UNSUPPORTED);
    cr_expect(strstr(ls_error_last()->text, "Fortran order") != NULL);
    cr_expect(ls_npy_read(&got, in_folder("object.npy")) == LS_ERR_UNSUPPORTED);
    cr_expect(strstr(ls_error_last()->text, "Python objects") != NULL);
    cr_expect(ls_npy_read(&got, in_folder("i2.npy")) == LS_ERR_UNSUPPORTED);
}

// A .npy that is truncated anywhere or has any byte changed is refused or read, and never crashes.
Test(arrays, npy_broken) {
    float values[4] = {1, 2, 3, 4};
    cr_assert(write_npy(in_folder("a.npy"), LS_F32, 1, (int64_t[]){4}, values));
    unsigned char bytes[256];
    FILE *file = fopen(in_folder("a.npy"), "rb");
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cr_assert(length == 128 + 16 || length == 64 + 16, "%zu", length);
    ls_npy got;
    for (size_t cut = 0; cut < length; cut++) {
        write_raw("cut.npy", bytes, cut);
        cr_expect(ls_npy_read(&got, in_folder("cut.npy")) != LS_OK, "cut at %zu", cut);
    }
    for (size_t at = 0; at < length; at++) {
        for (int flip = 1; flip < 256; flip *= 3) {
            unsigned char held = bytes[at];
            bytes[at] = (unsigned char)(held ^ flip);
            write_raw("flip.npy", bytes, length);
            bytes[at] = held;
            if (ls_npy_read(&got, in_folder("flip.npy")) == LS_OK) {
                cr_expect(got.count * ls_dtype_bytes(got.dtype) == 16);
                ls_npy_free(&got);
            }
        }
    }
    static const char huge[] = "{'descr': '<f4', 'fortran_order': False, 'shape': "
                               "(4611686018427387904, 4), }";
    unsigned char head[10 + sizeof huge] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, sizeof huge - 1,
                                            0};
    memcpy(head + 10, huge, sizeof huge - 1);
    write_raw("huge.npy", head, 10 + sizeof huge - 1);
    cr_expect(ls_npy_read(&got, in_folder("huge.npy")) == LS_ERR_OVERFLOW);
    cr_expect(ls_npy_read(&got, folder) == LS_ERR_FORMAT, "a folder is no array");
}

// Tensors of several types come back by name with their metadata; an empty one too.
Test(arrays, safetensors_round_trip) {
    float a[6] = {1, 2, 3, 4, 5, 6};
    uint8_t b[3] = {7, 8, 9};
    uint16_t c = 0x3F80;
    const ls_safetensor_source sources[] = {
        {"u8 first", LS_U8, 1, {3}, b},
        {"a", LS_F32, 2, {2, 3}, a},
        {"empty", LS_I64, 2, {4, 0}, NULL},
        {"bf16 scalar", LS_BF16, 0, {0}, &c},
    };
    const char *metadata[] = {"seed", "7", "who", "a \"quoted\" name"};
    cr_assert(ls_safetensors_write(in_folder("a.st"), sources, 4, metadata, 2) == LS_OK);
    ls_safetensors *file = NULL;
    cr_assert(ls_safetensors_open(&file, in_folder("a.st")) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(ls_safetensors_count(file) == 4);
    const ls_safetensor *tensor = ls_safetensors_find(file, "a");
    cr_assert(tensor != NULL && tensor->ndim == 2 && tensor->dim[1] == 3);
    float got[6];
    cr_assert(ls_safetensors_read(got, sizeof got, file, tensor) == LS_OK);
    cr_expect(memcmp(got, a, sizeof a) == 0);
    cr_expect(ls_safetensors_read(got, 4, file, tensor) == LS_ERR_INVALID);
    cr_expect(ls_safetensors_find(file, "empty")->count == 0);
    cr_expect(ls_safetensors_find(file, "bf16 scalar")->count == 1);
    cr_expect(ls_safetensors_find(file, "none") == NULL);
    cr_expect(strcmp(ls_safetensors_metadata(file, "who"), metadata[3]) == 0);
    cr_expect(ls_safetensors_metadata(file, "nobody") == NULL);
    ls_safetensors_free(file);
    const ls_safetensor_source twice[] = {{"a", LS_U8, 1, {3}, b}, {"a", LS_U8, 1, {3}, b}};
    cr_expect(ls_safetensors_write(in_folder("b.st"), twice, 2, NULL, 0) == LS_ERR_INVALID);
    cr_expect(access(in_folder("b.st"), F_OK) != 0, "a refused file leaves nothing");
}

static int open_header(const char *json, size_t data_bytes) {
    static char bytes[1024];
    size_t length = strlen(json);
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (char)(length & 0xFF);
    bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, json, length);
    write_raw("h.st", bytes, 8 + length + data_bytes);
    ls_safetensors *file = NULL;
    int status = ls_safetensors_open(&file, in_folder("h.st"));
    ls_safetensors_free(file);
    return status;
}

// Headers with wrong offsets, shapes or types are refused.
Test(arrays, safetensors_hostile) {
#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end \
    "]}"
    cr_expect(open_header("{" TENSOR("a", "F32", "2", "0", "8") "}", 8) == LS_OK);
    cr_expect(open_header("{" TENSOR("a", "I16", "2", "0", "4") "}", 4) == LS_OK,
              "listed at least");
    static const char *const bad[] = {
        "{" TENSOR("a", "F32", "2", "0", "4") "}",   // too few bytes for the shape
        "{" TENSOR("a", "F32", "3", "0", "12") "}",  // past the end
        "{" TENSOR("a", "F32", "1", "4", "8") "}",   // a hole
        "{" TENSOR("a", "F32", "1", "0", "4") "}",   // bytes of no tensor
        "{" TENSOR("a", "F32", "2", "8", "0") "}",   // backwards
        "{" TENSOR("a", "F32", "2", "0", "8") "," TENSOR("b", "F32", "1", "4", "8") "}",  // overlap
        "{" TENSOR("a", "F32", "2", "0", "8") "," TENSOR("a", "F32", "2", "0", "8") "}",  // twice
        "{" TENSOR("a", "F99", "2", "0", "8") "}",
        "{" TENSOR("a", "F32", "-2", "0", "8") "}",
        "{" TENSOR("a", "F32", "4294967296,4294967296,2", "0", "8") "}",
        "{" TENSOR("a", "F32", "1,1,1,1,1,1,1,1,2", "0", "8") "}",
        "{" TENSOR("a", "F32", "2.0", "0", "8") "}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}",
        "{\"a\":7}",
        "[]",
        "{\"__metadata__\":{\"a\":1}," TENSOR("a", "F32", "2", "0", "8") "}",
        "not json",
    };
#undef TENSOR
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect(open_header(bad[i], 8) == LS_ERR_FORMAT, "%zu: %s", i, ls_error_last()->text);
    }
    write_raw("x.st", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    ls_safetensors *file = NULL;
    cr_expect(ls_safetensors_open(&file, in_folder("x.st")) == LS_ERR_FORMAT && file == NULL);
    write_raw("x.st", "abc", 3);
    cr_expect(ls_safetensors_open(&file, in_folder("x.st")) == LS_ERR_FORMAT);
    cr_expect(ls_safetensors_open(&file, in_folder("none.st")) == LS_ERR_IO);
}

// A file that torch wrote: all its tensors read.
Test(arrays, safetensors_of_others) {
    const char *source = getenv("LOCKSTEP_SOURCE");
    char path[512];
    snprintf(path, sizeof path, "%s/tests/data/torch_truth/embedding_000.safetensors",
             source != NULL ? source : ".");
    ls_safetensors *file = NULL;
    cr_assert(ls_safetensors_open(&file, path) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(ls_safetensors_count(file) > 0);
    for (size_t i = 0; i < ls_safetensors_count(file); i++) {
        const ls_safetensor *tensor = ls_safetensors_at(file, i);
        void *data = malloc(tensor->bytes + 1);
        cr_expect(ls_safetensors_read(data, tensor->bytes, file, tensor) == LS_OK, "%s",
                  ls_error_last()->text);
        free(data);
    }
    ls_safetensors_free(file);
}
