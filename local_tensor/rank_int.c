// Rank-dependent integers: arithmetic rank by rank, and comparisons that refuse to give one answer
// where the ranks would give two.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <string.h>

struct ls_rank_int {
    const ls_world *world;
    int count;
    int64_t value[];  // [count], by held index
};

static size_t rank_int_bytes(int count) {
    return sizeof(ls_rank_int) + (size_t)count * sizeof(int64_t);
}

static int rank_int_new(ls_rank_int **out, const ls_world *world) {
    LS_ASSERT(out != NULL && world != NULL);
    void *memory = NULL;
    *out = NULL;
    LS_TRY(ls_alloc(&memory, 1, rank_int_bytes(world->held_count)));
    ls_rank_int *value = memory;
    value->world = world;
    value->count = world->held_count;
    *out = value;
    return LS_OK;
}

int ls_rank_int_create(ls_rank_int **out, const ls_world *world, const int64_t *values) {
    LS_TRY(rank_int_new(out, world));
    memcpy((*out)->value, values, (size_t)(*out)->count * sizeof *values);
    return LS_OK;
}

int ls_rank_int_same(ls_rank_int **out, const ls_world *world, int64_t value) {
    LS_TRY(rank_int_new(out, world));
    for (int i = 0; i < (*out)->count; i++) {
        (*out)->value[i] = value;
    }
    return LS_OK;
}

int ls_rank_int_rank(ls_rank_int **out, const ls_world *world) {
    LS_TRY(rank_int_new(out, world));
    for (int i = 0; i < (*out)->count; i++) {
        (*out)->value[i] = world->held[i];
    }
    return LS_OK;
}

int ls_rank_int_coordinate(ls_rank_int **out, const ls_world *world, int axis) {
    if (axis < 0 || axis >= world->mesh.ndim) {
        return LS_FAIL(LS_ERR_INVALID, "the mesh has no dimension %d, only %d", axis,
                       world->mesh.ndim);
    }
    LS_TRY(rank_int_new(out, world));
    for (int i = 0; i < (*out)->count; i++) {
        int coordinates[LS_MESH_DIMS_MAX];
        ls_mesh_coordinates(coordinates, &world->mesh, world->held[i]);
        (*out)->value[i] = coordinates[axis];
    }
    return LS_OK;
}

void ls_rank_int_free(ls_rank_int *value) {
    if (value != NULL) {
        ls_free(value, 1, rank_int_bytes(value->count));
    }
}

const ls_world *ls_rank_int__world(const ls_rank_int *value) {
    return value->world;
}

int64_t ls_rank_int_at(const ls_rank_int *value, int rank) {
    int i = ls_world_held_index(value->world, rank);
    LS_ASSERT(i >= 0);
    return value->value[i];
}

static int check_same_world(const ls_rank_int *a, const ls_rank_int *b) {
    if (a->world != b->world) {
        return LS_FAIL(LS_ERR_INVALID,
                       "the two rank-dependent integers belong to different worlds");
    }
    return LS_OK;
}

static const char *int_op_name(ls_int_op op) {
    static const char *const names[] = {"+", "-", "*", "//", "%", "min", "max"};
    LS_ASSERT((unsigned)op < sizeof names / sizeof *names);
    return names[op];
}

// *out = a op b; division rounds toward minus infinity and the remainder has the divisor's sign.
// Returns LS_OK, LS_ERR_INVALID (division by zero) or LS_ERR_OVERFLOW.
static int apply(int64_t *out, ls_int_op op, int64_t a, int64_t b) {
    bool overflow = false;
    switch (op) {
    case LS_INT_ADD:
        overflow = __builtin_add_overflow(a, b, out);
        break;
    case LS_INT_SUB:
        overflow = __builtin_sub_overflow(a, b, out);
        break;
    case LS_INT_MUL:
        overflow = __builtin_mul_overflow(a, b, out);
        break;
    case LS_INT_FLOORDIV:
        if (b == 0) {
            return LS_ERR_INVALID;
        }
        if (a == INT64_MIN && b == -1) {
            return LS_ERR_OVERFLOW;
        }
        *out = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
        break;
    case LS_INT_MOD:
        if (b == 0) {
            return LS_ERR_INVALID;
        }
        *out = b == -1 ? 0 : a % b;
        *out += *out != 0 && (*out < 0) != (b < 0) ? b : 0;
        break;
    case LS_INT_MIN:
        *out = a < b ? a : b;
        break;
    case LS_INT_MAX:
        *out = a > b ? a : b;
        break;
    }
    return overflow ? LS_ERR_OVERFLOW : LS_OK;
}

int ls_rank_int_binary(ls_rank_int **out, ls_int_op op, const ls_rank_int *a,
                       const ls_rank_int *b) {
    LS_ASSERT(op >= LS_INT_ADD && op <= LS_INT_MAX);
    *out = NULL;
    LS_TRY(check_same_world(a, b));
    ls_rank_int *result = NULL;
    LS_TRY(rank_int_new(&result, a->world));
    for (int i = 0; i < result->count; i++) {
        int status = apply(&result->value[i], op, a->value[i], b->value[i]);
        if (status != LS_OK) {
            ls_rank_int_free(result);
            int rank = a->world->held[i];
            return LS_FAIL_RANK(status, rank, "rank %d: %" PRId64 " %s %" PRId64 " %s", rank,
                                a->value[i], int_op_name(op), b->value[i],
                                status == LS_ERR_OVERFLOW ? "overflows" : "divides by zero");
        }
    }
    *out = result;
    return LS_OK;
}

static bool compare(ls_int_compare how, int64_t a, int64_t b) {
    switch (how) {
    case LS_INT_EQ:
        return a == b;
    case LS_INT_NE:
        return a != b;
    case LS_INT_LT:
        return a < b;
    case LS_INT_LE:
        return a <= b;
    case LS_INT_GT:
        return a > b;
    case LS_INT_GE:
        return a >= b;
    }
    LS_ASSERT(false);
    return false;
}

// The ranks on which the comparison gives `answer`: their text, and the first one's held index.
static void format_side(char *out, size_t out_bytes, int *first, int *scratch, bool answer,
                        ls_int_compare how, const ls_rank_int *a, const ls_rank_int *b) {
    int count = 0;
    *first = -1;
    for (int i = 0; i < a->count; i++) {
        if (compare(how, a->value[i], b->value[i]) == answer) {
            *first = *first < 0 ? i : *first;
            scratch[count++] = a->world->held[i];
        }
    }
    ls_ranks_format(out, out_bytes, scratch, count);
}

static int split_error(ls_int_compare how, const ls_rank_int *a, const ls_rank_int *b) {
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    char yes[256];
    char no[256];
    int first_yes = 0;
    int first_no = 0;
    void *scratch = NULL;
    LS_TRY(ls_alloc(&scratch, (size_t)a->count, sizeof(int)));
    format_side(yes, sizeof yes, &first_yes, scratch, true, how, a, b);
    format_side(no, sizeof no, &first_no, scratch, false, how, a, b);
    ls_free(scratch, (size_t)a->count, sizeof(int));
    const int *held = a->world->held;
    const char *sign = names[how];
    return LS_FAIL_RANK(LS_ERR_MISMATCH, held[first_no],
                        "ranks disagree on a comparison: true on %s (rank %d: %" PRId64
                        " %s %" PRId64 "), false on %s (rank %d: %" PRId64 " %s %" PRId64 ")",
                        yes, held[first_yes], a->value[first_yes], sign, b->value[first_yes], no,
                        held[first_no], a->value[first_no], sign, b->value[first_no]);
}

int ls_rank_int_compare(bool *out, ls_int_compare how, const ls_rank_int *a, const ls_rank_int *b) {
    LS_TRY(check_same_world(a, b));
    LS_ASSERT(how >= LS_INT_EQ && how <= LS_INT_GE && a->count >= 1);
    bool answer = compare(how, a->value[0], b->value[0]);
    for (int i = 1; i < a->count; i++) {
        if (compare(how, a->value[i], b->value[i]) != answer) {
            return split_error(how, a, b);
        }
    }
    *out = answer;
    return LS_OK;
}

int ls_rank_int_value(int64_t *out, const ls_rank_int *value) {
    const int *held = value->world->held;
    for (int i = 1; i < value->count; i++) {
        if (value->value[i] != value->value[0]) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, held[i],
                                "ranks disagree on a value: rank %d has %" PRId64
                                ", rank %d has %" PRId64,
                                held[0], value->value[0], held[i], value->value[i]);
        }
    }
    *out = value->value[0];
    return LS_OK;
}
