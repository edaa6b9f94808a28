// Reading and writing .npy. The header is a Python dict; exactly what NumPy writes is understood,
// in any order and spacing.
#include "formats/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define HEADER_BYTES_MAX ((size_t)64 * 1024)

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static bool big_endian_host(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 0;
}

// ---- Header -------------------------------------------------------------------------------------
typedef struct header {
    char descr[32];
    bool has_descr, has_order, has_shape;
    bool fortran;
    int ndim;
    int64_t dim[LS_NPY_DIMS_MAX];
} header;

typedef struct cursor {
    const char *at;
    const char *end;
} cursor;

static void skip_space(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) {
        c->at += 1;
    }
}

static bool take(cursor *c, char wanted) {
    skip_space(c);
    if (c->at < c->end && *c->at == wanted) {
        c->at += 1;
        return true;
    }
    return false;
}

static bool take_word(cursor *c, const char *word) {
    skip_space(c);
    size_t length = strlen(word);
    if ((size_t)(c->end - c->at) >= length && memcmp(c->at, word, length) == 0) {
        c->at += length;
        return true;
    }
    return false;
}

static bool take_string(cursor *c, char *out, size_t out_bytes) {
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) {
        return false;
    }
    char quote = *c->at++;
    size_t length = 0;
    while (c->at < c->end && *c->at != quote) {
        if (length + 1 >= out_bytes || *c->at == '\\') {
            return false;
        }
        out[length++] = *c->at++;
    }
    out[length] = '\0';
    return take(c, quote);
}

static bool take_size(cursor *c, int64_t *out) {
    skip_space(c);
    int64_t value = 0;
    bool any = false;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c->at - '0', &value)) {
            return false;
        }
        c->at += 1;
        any = true;
    }
    (void)take_word(c, "L");  // Python 2 wrote long integers so
    *out = value;
    return any;
}

static bool take_shape(cursor *c, header *out) {
    if (!take(c, '(')) {
        return false;
    }
    out->ndim = 0;
    while (!take(c, ')')) {
        if (out->ndim == LS_NPY_DIMS_MAX || !take_size(c, &out->dim[out->ndim])) {
            return false;
        }
        out->ndim += 1;
        if (!take(c, ',')) {
            return take(c, ')');
        }
    }
    return true;
}

static bool take_member(cursor *c, header *out) {
    char key[32];
    if (!take_string(c, key, sizeof key) || !take(c, ':')) {
        return false;
    }
    if (strcmp(key, "descr") == 0 && !out->has_descr) {
        out->has_descr = true;
        skip_space(c);
        if (c->at < c->end && *c->at == '[') {  // a list of fields; the rest is of no use
            memcpy(out->descr, "a record", sizeof "a record");
            c->at = c->end;
            return true;
        }
        return take_string(c, out->descr, sizeof out->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !out->has_order) {
        out->has_order = true;
        out->fortran = take_word(c, "True");
        return out->fortran || take_word(c, "False");
    }
    if (strcmp(key, "shape") == 0 && !out->has_shape) {
        out->has_shape = true;
        return take_shape(c, out);
    }
    return false;
}

static bool parse_header(header *out, const char *text, size_t bytes) {
    cursor c = {text, text + bytes};
    *out = (header){0};
    if (!take(&c, '{')) {
        return false;
    }
    while (!take(&c, '}')) {
        if (!take_member(&c, out)) {
            return false;
        }
        if (strcmp(out->descr, "a record") == 0) {
            return true;
        }
        if (!take(&c, ',')) {
            if (!take(&c, '}')) {
                return false;
            }
            break;
        }
    }
    skip_space(&c);
    return c.at == c.end && out->has_descr && out->has_order && out->has_shape;
}

// ---- Types --------------------------------------------------------------------------------------
static int find_type(ls_dtype *out, bool *swap, const char *descr, const char *path) {
    char order = descr[0];
    if (order == '<' || order == '>' || order == '|' || order == '=') {
        for (int dtype = 0; dtype < (int)LS_DTYPE_COUNT; dtype++) {
            const char *name = ls_dtype_name_npy((ls_dtype)dtype);
            bool same = name != NULL && strcmp(name, descr + 1) == 0;
            if (same || (dtype == LS_U8 && strcmp("b1", descr + 1) == 0)) {  // bool: a byte
                *out = (ls_dtype)dtype;
                *swap = (order == '<' && big_endian_host()) || (order == '>' && !big_endian_host());
                return LS_OK;
            }
        }
    }
    const char *why = strchr(descr, 'O') != NULL ? " (Python objects)" : "";
    return LS_FAIL(LS_ERR_UNSUPPORTED, "'%s': elements of type %s%s are not supported", path, descr,
                   why);
}

static void swap_bytes(void *data, size_t count, size_t element_bytes) {
    unsigned char *bytes = data;
    for (size_t i = 0; i < count; i++, bytes += element_bytes) {
        for (size_t k = 0; k < element_bytes / 2; k++) {
            unsigned char held = bytes[k];
            bytes[k] = bytes[element_bytes - 1 - k];
            bytes[element_bytes - 1 - k] = held;
        }
    }
}

// ---- Reading ------------------------------------------------------------------------------------
static int read_header(header *out, size_t *start, int fd, const char *path) {
    unsigned char head[12];
    LS_TRY(ls_file_read_at(head, 8, fd, 0, path));
    if (memcmp(head, magic, sizeof magic) != 0) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is not a .npy file", path);
    }
    if (head[6] < 1 || head[6] > 3) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "'%s': .npy version %d is not supported", path, head[6]);
    }
    size_t length_bytes = head[6] == 1 ? 2 : 4, length = 0;
    LS_TRY(ls_file_read_at(head + 8, length_bytes, fd, 8, path));
    for (size_t i = length_bytes; i-- > 0;) {
        length = length << 8 | head[8 + i];
    }
    if (length > HEADER_BYTES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "'%s': a header of %zu bytes is over the limit of %zu", path,
                       length, HEADER_BYTES_MAX);
    }
    void *text = NULL;
    LS_TRY(ls_alloc(&text, length, 1));
    int status = ls_file_read_at(text, length, fd, 8 + length_bytes, path);
    if (status == LS_OK && !parse_header(out, text, length)) {
        status = LS_FAIL(LS_ERR_FORMAT,
                         "'%s': the header is not one that NumPy writes (or has "
                         "more than %d dimensions)",
                         path, LS_NPY_DIMS_MAX);
    }
    ls_free(text, length, 1);
    *start = 8 + length_bytes + length;
    return status;
}

// *start: of the data; *swap: whether its bytes stand the other way round.
static int describe(ls_npy *out, size_t *start, bool *swap, int fd, uint64_t file_bytes,
                    const char *path) {
    header h;
    LS_TRY(read_header(&h, start, fd, path));
    LS_TRY(find_type(&out->dtype, swap, h.descr, path));
    if (h.fortran && h.ndim > 1) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "'%s' is in Fortran order; save it with "
                       "numpy.ascontiguousarray",
                       path);
    }
    size_t count = 1, bytes = 0;
    for (int i = 0; i < h.ndim; i++) {
        if (h.dim[i] == 0) {
            count = 0;
        }
    }
    for (int i = 0; i < h.ndim && count != 0; i++) {
        LS_TRY(ls_size_mul(&count, count, (size_t)h.dim[i]));
    }
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(out->dtype)));
    if (bytes != file_bytes - *start) {
        return LS_FAIL(LS_ERR_FORMAT, "'%s': the shape needs %zu bytes of data, the file has %llu",
                       path, bytes, (unsigned long long)(file_bytes - *start));
    }
    out->count = count;
    out->ndim = h.ndim;
    memcpy(out->dim, h.dim, sizeof out->dim);
    return LS_OK;
}

static int read_array(ls_npy *out, int fd, uint64_t file_bytes, const char *path) {
    bool swap = false;
    size_t start = 0;
    LS_TRY(describe(out, &start, &swap, fd, file_bytes, path));
    size_t element_bytes = ls_dtype_bytes(out->dtype);
    LS_TRY(ls_alloc(&out->data, out->count, element_bytes));
    LS_TRY(ls_file_read_at(out->data, out->count * element_bytes, fd, start, path));
    if (swap) {
        swap_bytes(out->data, out->count, element_bytes);
    }
    return LS_OK;
}

static int open_array(ls_npy *out, const char *path, bool with_data) {
    *out = (ls_npy){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    int status = LS_OK;
    if (fd < 0 || fstat(fd, &info) != 0) {
        status = LS_FAIL(ls_status_of_errno(errno), "cannot open '%s': %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = LS_FAIL(LS_ERR_FORMAT, "'%s' is not a regular file", path);
    } else {
        bool swap = false;
        size_t start = 0;
        status = with_data ? read_array(out, fd, (uint64_t)info.st_size, path)
                           : describe(out, &start, &swap, fd, (uint64_t)info.st_size, path);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (status != LS_OK) {
        ls_npy_free(out);
    }
    return status;
}

int ls_npy_read(ls_npy *out, const char *path) {
    LS_ASSERT(out != NULL && path != NULL);
    return open_array(out, path, true);
}

int ls_npy_describe(ls_npy *out, const char *path) {
    LS_ASSERT(out != NULL && path != NULL);
    return open_array(out, path, false);
}

void ls_npy_free(ls_npy *array) {
    if (array == NULL || array->data == NULL) {
        return;
    }
    ls_free(array->data, array->count, ls_dtype_bytes(array->dtype));
    *array = (ls_npy){0};
}
