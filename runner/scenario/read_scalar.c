// Reading scalars of a scenario file by the schema: numbers, words, paths, placements.
#define _XOPEN_SOURCE 700  // realpath
#include "embedding/checkpoint.h"
#include "orders/order.h"
#include "runner/scenario/read.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef enum ls_number_status {
    LS_NUMBER_OK,
    LS_NUMBER_NOT,     // not a number
    LS_NUMBER_TOO_BIG  // out of range
} ls_number_status;

#define AT(type, base, place) ((type *)(void *)((char *)(base) + (place)))

static void set_bool(void *base, size_t offset, bool value) {
    memcpy((char *)base + offset, &value, sizeof value);
}

static void set_int32(void *base, size_t offset, int value) {
    memcpy((char *)base + offset, &value, sizeof value);
}

// Digits with an optional sign; 0x for hexadecimal. Returns magnitude and sign separately.
static ls_number_status parse_integer(const char *text, bool *negative, uint64_t *magnitude) {
    *negative = text[0] == '-';
    text += text[0] == '-' || text[0] == '+' ? 1 : 0;
    int base = 10;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    if (text[0] == 0 ||
        text[strspn(text, base == 16 ? "0123456789abcdefABCDEF" : "0123456789")] != 0) {
        return LS_NUMBER_NOT;
    }
    errno = 0;
    *magnitude = strtoull(text, NULL, base);
    return errno == ERANGE ? LS_NUMBER_TOO_BIG : LS_NUMBER_OK;
}

static ls_number_status parse_int64(const char *text, int64_t *out) {
    bool negative = false;
    uint64_t magnitude = 0;
    ls_number_status status = parse_integer(text, &negative, &magnitude);
    if (status != LS_NUMBER_OK) {
        return status;
    }
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        return LS_NUMBER_TOO_BIG;
    }
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return LS_NUMBER_OK;
}

// Decimal with optional fraction and exponent; no infinities, no NaN, no hexadecimal.
static ls_number_status parse_real(const char *text, double *out) {
    const char *at = text + (text[0] == '-' || text[0] == '+' ? 1 : 0);
    size_t whole = strspn(at, "0123456789");
    at += whole;
    size_t fraction = 0;
    if (at[0] == '.') {
        fraction = strspn(at + 1, "0123456789");
        at += 1 + fraction;
    }
    if (whole + fraction == 0) {
        return LS_NUMBER_NOT;
    }
    if (at[0] == 'e' || at[0] == 'E') {
        at += at[1] == '-' || at[1] == '+' ? 2 : 1;
        size_t digits = strspn(at, "0123456789");
        if (digits == 0) {
            return LS_NUMBER_NOT;
        }
        at += digits;
    }
    if (at[0] != 0) {
        return LS_NUMBER_NOT;
    }
    *out = strtod(text, NULL);
    return isinf(*out) ? LS_NUMBER_TOO_BIG : LS_NUMBER_OK;
}

static bool plain_scalar(ls_reader *reader, const ls_schema_field *field, const ls_yaml_node *node,
                         const char *what) {
    if (node->kind == LS_YAML_SCALAR && node->plain && !ls_yaml_is_null(reader->tree, node)) {
        return true;
    }
    ls_read__complain(reader, node, field, what, NULL);
    return false;
}

bool ls_read__int(ls_reader *reader, int64_t *out, const ls_schema_field *field,
                  const ls_yaml_node *node) {
    if (!plain_scalar(reader, field, node, "not an integer")) {
        return false;
    }
    ls_number_status status = parse_int64(ls_yaml_text(reader->tree, node), out);
    if (status == LS_NUMBER_NOT) {
        ls_read__complain(reader, node, field, "not an integer", NULL);
        return false;
    }
    if (status == LS_NUMBER_TOO_BIG || *out < field->min || *out > field->max) {
        ls_read__complain(reader, node, field, "out of range", NULL);
        return false;
    }
    return true;
}

bool ls_read__real(ls_reader *reader, double *out, const ls_schema_field *field,
                   const ls_yaml_node *node) {
    if ((field->flags & LS_FIELD_INTEGERS) != 0) {
        int64_t value = 0;
        if (!ls_read__int(reader, &value, field, node)) {
            return false;
        }
        *out = (double)value;
        return true;
    }
    if (!plain_scalar(reader, field, node, "not a number")) {
        return false;
    }
    ls_number_status status = parse_real(ls_yaml_text(reader->tree, node), out);
    if (status == LS_NUMBER_NOT) {
        ls_read__complain(reader, node, field, "not a number", NULL);
        return false;
    }
    bool too_small = (field->flags & LS_FIELD_POSITIVE) != 0 ? *out <= (double)field->min
                                                             : *out < (double)field->min;
    if (status == LS_NUMBER_TOO_BIG || too_small || *out > (double)field->max) {
        ls_read__complain(reader, node, field, "out of range", NULL);
        return false;
    }
    return true;
}

static const ls_schema_name *find_name(const ls_schema_names *names, const char *text) {
    for (int i = 0; i < names->count; i++) {
        if (strcmp(names->at[i].text, text) == 0) {
            return &names->at[i];
        }
    }
    return NULL;
}

static void set_enum(void *base, const ls_schema_field *field, int value) {
    if (field->type == LS_FIELD_CLASS) {
        set_bool(base, field->aux, value < 0);
        set_int32(base, field->offset, value < 0 ? LS_CLASS_BY_DESIGN : value);
        return;
    }
    set_int32(base, field->offset, value);
}

#define NAMES_MAX 64

// Includes the spellings of element types in NumPy, torch and C.
static const char *nearest_name(const char *text, const char *const *words, size_t count) {
    static const char *const others[][2] = {
        {"float16", "f16"},
        {"half", "f16"},
        {"bfloat16", "bf16"},
        {"float32", "f32"},
        {"float", "f32"},
        {"float64", "f64"},
        {"double", "f64"},
        {"int8", "i8"},
        {"uint8", "u8"},
        {"int32", "i32"},
        {"int", "i32"},
        {"uint32", "u32"},
        {"int64", "i64"},
        {"long", "i64"},
        {"uint64", "u64"},
        {"float8_e4m3fn", "f8e4m3"},
        {"float8_e5m2", "f8e5m2"},
    };
    const char *dot = strrchr(text, '.');  // of torch.float32
    const char *last = dot != NULL ? dot + 1 : text;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        for (size_t w = 0; w < count && strcmp(others[i][0], last) == 0; w++) {
            if (strcmp(others[i][1], words[w]) == 0) {
                return words[w];
            }
        }
    }
    return ls_nearest(text, words, count);
}

const ls_schema_name *ls_read__name(ls_reader *reader, const ls_schema_field *field,
                                    const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SCALAR || ls_yaml_is_null(reader->tree, node)) {
        ls_read__complain(reader, node, field, "not a word", NULL);
        return NULL;
    }
    const char *text = ls_yaml_text(reader->tree, node);
    const ls_schema_name *name = find_name(field->names, text);
    if (name == NULL) {
        const char *words[NAMES_MAX];
        LS_ASSERT(field->names->count <= NAMES_MAX);
        for (int i = 0; i < field->names->count; i++) {
            words[i] = field->names->at[i].text;
        }
        ls_read__complain(reader, node, field, "unknown",
                          nearest_name(text, words, (size_t)field->names->count));
    }
    return name;
}

static void read_bool(ls_reader *reader, void *base, const ls_schema_field *field,
                      const ls_yaml_node *node) {
    const char *text =
        node->kind == LS_YAML_SCALAR && node->plain ? ls_yaml_text(reader->tree, node) : "";
    bool value = strcmp(text, "true") == 0;
    if (!value && strcmp(text, "false") != 0) {
        static const char *const yes[] = {"yes", "on", "True", "TRUE", "1"};
        static const char *const no[] = {"no", "off", "False", "FALSE", "0"};
        const char *nearest = NULL;
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
            if (strcmp(text, yes[i]) == 0) {
                nearest = "true";
            } else {
                nearest = strcmp(text, no[i]) == 0 ? "false" : nearest;
            }
        }
        ls_read__complain(reader, node, field, "not a boolean", nearest);
        if (nearest == NULL || field->type == LS_FIELD_FLAG) {
            return;
        }
        value = strcmp(nearest, "true") == 0;  // a consequence of an earlier error
    }
    if (field->type == LS_FIELD_FLAG) {
        if (!value) {
            ls_read__complain(reader, node, field, "cannot be switched off", NULL);
        }
        return;
    }
    set_bool(base, field->offset, value);
}

static void read_text(ls_reader *reader, void *base, const ls_schema_field *field,
                      const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SCALAR || ls_yaml_is_null(reader->tree, node) ||
        ls_yaml_text(reader->tree, node)[0] == 0) {
        ls_read__complain(reader, node, field, "not a text", NULL);
        return;
    }
    if (field->names != NULL && ls_read__name(reader, field, node) == NULL) {
        return;
    }
    const char *copy = ls_arena_strdup(reader->arena, ls_yaml_text(reader->tree, node));
    reader->no_memory = reader->no_memory || copy == NULL;
    *AT(const char *, base, field->offset) = copy;
}

// A link in a checkpoint's folder may lead out of the scenario's folder.
static int refuse_link(void *arg, const char *path) {
    struct stat info;
    (void)arg;
    bool regular = lstat(path, &info) == 0 && S_ISREG(info.st_mode);
    return regular
               ? LS_OK
               : LS_FAIL(LS_ERR_INVALID, "%s is not a regular file, which takes --allow-outside",
                         strrchr(path, '/') + 1);
}

// The reason why a real path is invalid for the field; NULL: valid.
static const char *wrong_kind(const ls_reader *reader, const ls_schema_field *field,
                              const char *real) {
    bool folder = (field->flags & LS_FIELD_CHECKPOINT) != 0;
    struct stat info;
    if (stat(real, &info) != 0 || !(folder ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode))) {
        return folder ? "not a folder" : "not a regular file";
    }
    bool held = !folder || reader->allow_outside ||
                ls_checkpoint_each_file(real, refuse_link, NULL) == LS_OK;
    return held ? NULL : ls_error_last()->text;
}

// The real path of `text` relative to the scenario's folder: a regular file in it, or a checkpoint;
// NULL after an error. All paths of a scenario pass through here. Files are opened by the real
// path, which contains no links: a hostile file cannot lead out of its folder. An attacker who can
// replace folders in between can write the user's files anyway.
static char *resolve(ls_reader *reader, const ls_schema_field *field, const ls_yaml_node *node,
                     const char *text) {
    if (reader->folder == NULL) {
        ls_read__complain(reader, node, field, "the scenario's folder is not known", NULL);
        return NULL;
    }
    const char *joined =
        text[0] == '/' ? text : ls_arena_printf(reader->arena, "%s/%s", reader->folder, text);
    if (joined == NULL) {
        reader->no_memory = true;
        return NULL;
    }
    char *real = realpath(joined, NULL);
    if (real == NULL) {
        ls_read__complain(reader, node, field, strerror(errno), NULL);
        return NULL;
    }
    size_t length = strlen(reader->folder);
    bool inside = strcmp(reader->folder, "/") == 0 ||
                  (strncmp(real, reader->folder, length) == 0 && real[length] == '/');
    if (!inside && !reader->allow_outside) {
        ls_read__complain(reader, node, field,
                          "leaves the scenario's folder, which takes --allow-outside", NULL);
        free(real);
        return NULL;
    }
    const char *wrong = wrong_kind(reader, field, real);
    if (wrong != NULL) {
        ls_read__complain(reader, node, field, wrong, NULL);
        free(real);
        return NULL;
    }
    return real;
}

static void read_path(ls_reader *reader, void *base, const ls_schema_field *field,
                      const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SCALAR || ls_yaml_is_null(reader->tree, node) ||
        ls_yaml_text(reader->tree, node)[0] == 0) {
        ls_read__complain(reader, node, field, "not a path", NULL);
        return;
    }
    const char *text = ls_yaml_text(reader->tree, node);
    if (field->names != NULL && strpbrk(text, "./") == NULL) {  // a name, perhaps misspelt
        const ls_schema_name *name = ls_read__name(reader, field, node);
        *AT(const char *, base, field->offset) = name != NULL ? name->text : NULL;
        return;
    }
    char *real = resolve(reader, field, node, text);
    if (real != NULL) {
        const char *copy = ls_arena_strdup(reader->arena, real);
        reader->no_memory = reader->no_memory || copy == NULL;
        *AT(const char *, base, field->offset) = copy;
    }
    free(real);
}

static void read_order(ls_reader *reader, void *base, const ls_schema_field *field,
                       const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SCALAR || ls_yaml_is_null(reader->tree, node)) {
        ls_read__complain(reader, node, field, "not a reduction order", NULL);
        return;
    }
    const char *text = ls_arena_strdup(reader->arena, ls_yaml_text(reader->tree, node));
    const char *file = text == NULL ? NULL : ls_order_file(text);
    if (file != NULL) {
        char *real = resolve(reader, field, node, file);
        if (real == NULL) {
            return;
        }
        text = ls_arena_printf(reader->arena, "%.*s%s", (int)(file - text), text, real);
        free(real);
    }
    ls_order *order = NULL;
    int status = text == NULL ? LS_ERR_MEMORY : ls_order_parse(&order, text);
    if (status == LS_ERR_MEMORY) {
        reader->no_memory = true;
    } else if (status != LS_OK) {
        ls_check__error(reader, node->mark, NULL, NULL, "%s", ls_error_last()->text);
    } else {
        *AT(const char *, base, field->offset) = text;
    }
    ls_order_free(order);
}

static void read_placements(ls_reader *reader, void *base, const ls_schema_field *field,
                            const ls_yaml_node *node) {
    if (node->kind != LS_YAML_SCALAR || ls_yaml_is_null(reader->tree, node)) {
        ls_read__complain(reader, node, field, "not placements", NULL);
        return;
    }
    ls_placements placements = {0};
    if (ls_placements_parse(&placements, ls_yaml_text(reader->tree, node)) != LS_OK) {
        ls_read__complain(reader, node, field, "not placements", NULL);
        return;
    }
    memcpy((char *)base + field->offset, &placements, sizeof placements);
    set_bool(base, field->aux, true);
}

static void read_uint64(ls_reader *reader, void *base, const ls_schema_field *field,
                        const ls_yaml_node *node) {
    if (!plain_scalar(reader, field, node, "not an integer")) {
        return;
    }
    bool negative = false;
    uint64_t value = 0;
    ls_number_status status = parse_integer(ls_yaml_text(reader->tree, node), &negative, &value);
    if (status == LS_NUMBER_NOT) {
        ls_read__complain(reader, node, field, "not an integer", NULL);
    } else if (status == LS_NUMBER_TOO_BIG || (negative && value != 0)) {
        ls_read__complain(reader, node, field, "out of range", NULL);
    } else {
        *AT(uint64_t, base, field->offset) = value;
    }
}

void ls_read__scalar(ls_reader *reader, void *base, const ls_schema_field *field,
                     const ls_yaml_node *node) {
    int64_t integer = 0;
    double real = 0;
    const ls_schema_name *name = NULL;
    switch (field->type) {
    case LS_FIELD_INT:
        if (ls_read__int(reader, &integer, field, node)) {
            *AT(int64_t, base, field->offset) = integer;
        }
        return;
    case LS_FIELD_INT32:
        if (ls_read__int(reader, &integer, field, node)) {
            set_int32(base, field->offset, (int)integer);
        }
        return;
    case LS_FIELD_UINT64:
        read_uint64(reader, base, field, node);
        return;
    case LS_FIELD_REAL:
        if (ls_read__real(reader, &real, field, node)) {
            *AT(double, base, field->offset) = real;
        }
        return;
    case LS_FIELD_BOOL:
    case LS_FIELD_FLAG:
        read_bool(reader, base, field, node);
        return;
    case LS_FIELD_STRING:
        read_text(reader, base, field, node);
        return;
    case LS_FIELD_PATH:
        read_path(reader, base, field, node);
        return;
    case LS_FIELD_ORDER:
        read_order(reader, base, field, node);
        return;
    case LS_FIELD_ENUM:
    case LS_FIELD_CLASS:
        name = ls_read__name(reader, field, node);
        if (name != NULL) {
            set_enum(base, field, name->value);
        }
        return;
    case LS_FIELD_PLACEMENTS:
        read_placements(reader, base, field, node);
        return;
    default:
        LS_ASSERT(!"a scalar type");
    }
}

// Defaults come from the table, so a bad one is a programmer's error. They may be outside of the
// field's range: -1 for "not given".
void ls_read__fallback(void *base, const ls_schema_field *field) {
    const char *text = field->fallback;
    if (text == NULL) {
        return;
    }
    int64_t integer = 0;
    double real = 0;
    const ls_schema_name *name = NULL;
    switch (field->type) {
    case LS_FIELD_INT:
        LS_ASSERT(parse_int64(text, &integer) == LS_NUMBER_OK);
        *AT(int64_t, base, field->offset) = integer;
        return;
    case LS_FIELD_UINT64:
        LS_ASSERT(parse_int64(text, &integer) == LS_NUMBER_OK);
        *AT(uint64_t, base, field->offset) = (uint64_t)integer;
        return;
    case LS_FIELD_INT32:
        LS_ASSERT(parse_int64(text, &integer) == LS_NUMBER_OK);
        set_int32(base, field->offset, (int)integer);
        return;
    case LS_FIELD_REAL:
        LS_ASSERT(parse_real(text, &real) == LS_NUMBER_OK);
        *AT(double, base, field->offset) = real;
        return;
    case LS_FIELD_BOOL:
        set_bool(base, field->offset, strcmp(text, "true") == 0);
        return;
    case LS_FIELD_ENUM:
    case LS_FIELD_CLASS:
        name = find_name(field->names, text);
        LS_ASSERT(name != NULL);
        set_enum(base, field, name->value);
        return;
    default:
        LS_ASSERT(!"a type with a default");
    }
}
