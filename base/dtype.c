// Tables of element types and reduce operations.
#include "base/dtype.h"

#include <string.h>

// The debugger's Python reads it by these names.
typedef struct dtype_row {
    const char *name;
    size_t bytes;
    char class_;
    ls_float_format format;
    const char *npy, *safetensors, *torch;
} dtype_row;

#define FRACTION(precision) ((UINT64_C(1) << ((precision) > 0 ? (precision)-1 : 0)) - 1)
static const dtype_row dtype_rows[LS_DTYPE_COUNT + 1] = {
#define LS_DTYPE_ROW(name, value, text, bytes, class_, precision, subnormal, max, top, npy,        \
                     safetensors, torch, mpi)                                                      \
    [LS_##name] = {#text,                                                                          \
                   bytes,                                                                          \
                   class_,                                                                         \
                   {precision, subnormal, max, top,                                                \
                    (precision) > 0 && ((top)&FRACTION(precision)) == 0, (class_) == 'q'},         \
                   npy,                                                                            \
                   safetensors,                                                                    \
                   torch},
    LS_DTYPE_MAP(LS_DTYPE_ROW)
#undef LS_DTYPE_ROW
        // Its format is f32's without special values; bounds do not apply to it.
        [LS_FIELD] = {"field",
                      4,
                      'f',
                      {24, -149, 0x1.fffffep127, 0x7FFFFFFF, false, false},
                      "u4",
                      "U32",
                      "UInt32"},
};

static const char *const op_names[LS_OP_COUNT] = {
#define LS_OP_ROW(name, value, text) [name] = text,
    LS_OP_MAP(LS_OP_ROW)
#undef LS_OP_ROW
};

bool ls_dtype_valid(int dtype) {
    return dtype >= 0 && dtype <= (int)LS_FIELD;
}

const char *ls_dtype_name(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].name;
}

size_t ls_dtype_bytes(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].bytes;
}

bool ls_dtype_is_float(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].class_ == 'f' || dtype_rows[dtype].class_ == 'q';
}

bool ls_dtype_is_signed(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].class_ != 'u';
}

ls_float_format ls_dtype_format(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].format;
}

uint64_t ls_dtype_special_bits(ls_dtype dtype) {
    ls_float_format format = ls_dtype_format(dtype);
    uint64_t fraction = (UINT64_C(1) << (format.precision - 1)) - 1;
    // Without an infinity the top is a number.
    return format.top_bits + ((format.top_bits & fraction) != 0 ? 1 : 0);
}

const char *ls_dtype_name_npy(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].npy;
}

const char *ls_dtype_name_safetensors(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].safetensors;
}

const char *ls_dtype_name_torch(ls_dtype dtype) {
    LS_ASSERT(ls_dtype_valid((int)dtype));
    return dtype_rows[dtype].torch;
}

int ls_dtype_parse(ls_dtype *out, const char *text) {
    for (int i = 0; i < (int)LS_DTYPE_COUNT; i++) {
        if (strcmp(text, dtype_rows[i].name) == 0) {
            *out = (ls_dtype)i;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_NOT_FOUND, "no element type is called \"%s\"", text);
}

bool ls_op_valid(int op) {
    return op >= 0 && op < (int)LS_OP_COUNT;
}

const char *ls_op_name(ls_op op) {
    LS_ASSERT(ls_op_valid((int)op));
    return op_names[op];
}

int ls_op_parse(ls_op *out, const char *text) {
    for (int i = 0; i < (int)LS_OP_COUNT; i++) {
        if (strcmp(text, op_names[i]) == 0) {
            *out = (ls_op)i;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_NOT_FOUND, "no reduce operation is called \"%s\"", text);
}

bool ls_op_supports(ls_op op, ls_dtype dtype) {
    LS_ASSERT(ls_op_valid((int)op));
    bool bitwise = op == LS_BAND || op == LS_BOR || op == LS_BXOR;
    if (dtype == LS_FIELD && (op == LS_MAX || op == LS_MIN)) {
        return false;  // a field has no order
    }
    return !(bitwise && ls_dtype_is_float(dtype));
}

// Bits of 1, the least and the greatest value of a type, infinities where there are any.
typedef struct extremes {
    uint64_t one, least, greatest;
} extremes;

static extremes extremes_of(ls_dtype dtype) {
    if (dtype == LS_FIELD) {
        return (extremes){.one = 1};
    }
    size_t bits = 8 * ls_dtype_bytes(dtype);
    uint64_t sign = UINT64_C(1) << (bits - 1);
    if (!ls_dtype_is_float(dtype)) {
        bool is_signed = ls_dtype_is_signed(dtype);
        return (extremes){1, is_signed ? sign : 0, is_signed ? sign - 1 : sign | (sign - 1)};
    }
    ls_float_format format = ls_dtype_format(dtype);
    size_t fraction = (size_t)format.precision - 1;
    uint64_t bias = (UINT64_C(1) << (bits - fraction - 2)) - 1;
    return (extremes){bias << fraction, sign | format.top_bits, format.top_bits};
}

void ls_op_neutral(void *element, ls_op op, ls_dtype dtype) {
    LS_ASSERT(ls_op_supports(op, dtype));
    uint64_t bits = 0;  // of all others
    switch (op) {
    case LS_PROD:
        bits = extremes_of(dtype).one;
        break;
    case LS_MAX:
        bits = extremes_of(dtype).least;
        break;
    case LS_MIN:
        bits = extremes_of(dtype).greatest;
        break;
    case LS_BAND:
        bits = UINT64_MAX;
        break;
    default:
        break;
    }
    memcpy(element, &bits, ls_dtype_bytes(dtype));  // the low bytes come first
}
