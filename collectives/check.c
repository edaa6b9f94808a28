// Whether the calls of a group agree.
#include "collectives/check.h"

#include "kernels/kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t field_value(const ls_call *call, ls_agree_field field) {
    switch (field) {
    case LS_AGREE_KIND:
        return (uint64_t)call->kind;
    case LS_AGREE_COMM:
        return (uint64_t)(uintptr_t)call->comm;
    case LS_AGREE_DTYPE:
        return (uint64_t)call->dtype;
    case LS_AGREE_OP:
        return (uint64_t)call->op;
    case LS_AGREE_ROOT:
        return (uint64_t)call->root;
    case LS_AGREE_COUNT:
        return (uint64_t)call->count;
    case LS_AGREE_FORM:
        return (uint64_t)(call->send_counts != NULL) * 2 + (uint64_t)(call->recv_counts != NULL);
    }
    return 0;
}

static void field_text(char *out, size_t out_bytes, const ls_call *call, ls_agree_field field) {
    switch (field) {
    case LS_AGREE_KIND:
        (void)snprintf(out, out_bytes, "%s", ls_kind_name(call->kind));
        break;
    case LS_AGREE_COMM:
        (void)snprintf(out, out_bytes, "%s", call->comm != NULL ? call->comm->name : "none");
        break;
    case LS_AGREE_DTYPE:
        (void)snprintf(out, out_bytes, "%s",
                       ls_dtype_valid((int)call->dtype) ? ls_dtype_name(call->dtype) : "none");
        break;
    case LS_AGREE_OP:
        (void)snprintf(out, out_bytes, "%s",
                       ls_op_valid((int)call->op) ? ls_op_name(call->op) : "none");
        break;
    case LS_AGREE_ROOT:
        (void)snprintf(out, out_bytes, "%d", call->root);
        break;
    case LS_AGREE_COUNT:
        (void)snprintf(out, out_bytes, "%zu", call->count);
        break;
    case LS_AGREE_FORM:
        (void)snprintf(out, out_bytes, "%s",
                       call->send_counts != NULL || call->recv_counts != NULL ? "counts per rank"
                                                                              : "one count");
        break;
    }
}

typedef struct field_info {
    ls_agree_field field;
    const char *name;
    ls_finding_id finding;
} field_info;

// In order of importance: the first difference explains those after it.
static const field_info fields_known[] = {
    {LS_AGREE_KIND, "kind", LS_FINDING_KIND_MISMATCH},
    {LS_AGREE_COMM, "communicator", LS_FINDING_GROUP_MISMATCH},
    {LS_AGREE_DTYPE, "dtype", LS_FINDING_DTYPE_MISMATCH},
    {LS_AGREE_OP, "op", LS_FINDING_OP_MISMATCH},
    {LS_AGREE_ROOT, "root", LS_FINDING_ROOT_MISMATCH},
    {LS_AGREE_FORM, "form", LS_FINDING_COUNT_MISMATCH},
    {LS_AGREE_COUNT, "count", LS_FINDING_COUNT_MISMATCH},
};

// The member whose value is taken as right: one of a strict majority, else member 0.
static int expected_member(const ls_call *const *calls, int size, ls_agree_field field) {
    int candidate = 0, votes = 0;
    for (int i = 0; i < size; i++) {
        if (votes == 0) {
            candidate = i;
        }
        bool same = field_value(calls[i], field) == field_value(calls[candidate], field);
        votes += same ? 1 : -1;
    }
    int count = 0, first = -1;
    for (int i = 0; i < size; i++) {
        if (field_value(calls[i], field) == field_value(calls[candidate], field)) {
            count += 1;
            first = first < 0 ? i : first;
        }
    }
    return count > size / 2 ? first : 0;
}

static int report_difference(const ls_call *const *calls, int size, const field_info *info) {
    int right = expected_member(calls, size, info->field);
    uint64_t value = field_value(calls[right], info->field);
    int wrong = -1, wrong_count = 0;
    for (int i = 0; i < size; i++) {
        if (field_value(calls[i], info->field) == value) {
            continue;
        }
        if (wrong < 0) {
            wrong = i;
            ls_check__note(info->finding, calls[i]);
        } else {
            ls_check__note_rank(calls[i]);
        }
        wrong_count += 1;
    }
    LS_ASSERT(wrong >= 0);
    char says_wrong[64], says_right[64];
    char where_wrong[LS_CALL_WHERE_MAX], where_right[LS_CALL_WHERE_MAX];
    field_text(says_wrong, sizeof says_wrong, calls[wrong], info->field);
    field_text(says_right, sizeof says_right, calls[right], info->field);
    return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[wrong]->rank,
                        "%s on %s, call %" PRIu64
                        ": %s differs: rank %d says %s (%s), rank %d says %s (%s); %d of "
                        "%d ranks differ",
                        ls_kind_name(calls[right]->kind), calls[right]->comm->name,
                        calls[right]->seq, info->name, calls[wrong]->rank, says_wrong,
                        ls_call__where(where_wrong, calls[wrong]), calls[right]->rank, says_right,
                        ls_call__where(where_right, calls[right]), wrong_count, size);
}

// ---- Purposes -----------------------------------------------------------------------------------
static bool has_purpose(const ls_call *call) {
    return call->purpose != NULL && call->purpose[0] != 0;
}

static bool same_purpose(const ls_call *a, const ls_call *b) {
    return a->purpose == b->purpose || strcmp(a->purpose, b->purpose) == 0;
}

// The first member with the majority's value.
static int common_purpose(const ls_call *const *calls, int size) {
    int best = -1, most = 0;
    for (int i = 0; i < size && 2 * most < size; i++) {
        int count = 0;
        for (int k = 0; k < size && has_purpose(calls[i]); k++) {
            count += has_purpose(calls[k]) && same_purpose(calls[i], calls[k]) ? 1 : 0;
        }
        best = count > most ? i : best;
        most = count > most ? count : most;
    }
    return best;
}

static int report_purposes(const ls_call *const *calls, int size) {
    const ls_call *right = calls[common_purpose(calls, size)], *wrong = NULL;
    int wrong_count = 0;
    for (int i = 0; i < size; i++) {
        if (!has_purpose(calls[i]) || same_purpose(calls[i], right)) {
            continue;
        }
        if (wrong == NULL) {
            wrong = calls[i];
            ls_check__note(LS_FINDING_PURPOSE_MISMATCH, wrong);
        } else {
            ls_check__note_rank(calls[i]);
        }
        wrong_count += 1;
    }
    LS_ASSERT(wrong != NULL);
    char where_wrong[LS_CALL_WHERE_MAX], where_right[LS_CALL_WHERE_MAX];
    return LS_FAIL_RANK(
        LS_ERR_MISMATCH, wrong->rank,
        "%s on %s, call %" PRIu64
        ": purpose differs: rank %d says \"%.100s\" (%s), rank %d says \"%.100s\" (%s); %d of %d "
        "ranks differ",
        ls_kind_name(right->kind), right->comm->name, right->seq, wrong->rank, wrong->purpose,
        ls_call__where(where_wrong, wrong), right->rank, right->purpose,
        ls_call__where(where_right, right), wrong_count, size);
}

int ls_check__purposes(const ls_call *const *calls, int size) {
    LS_ASSERT(calls != NULL && size >= 1);
    const ls_call *first = NULL;
    for (int i = 0; i < size; i++) {
        if (has_purpose(calls[i])) {
            first = first == NULL ? calls[i] : first;
            if (!same_purpose(first, calls[i])) {
                return report_purposes(calls, size);
            }
        }
    }
    return LS_OK;
}

int ls_check__agree(const ls_call *const *calls, int size, unsigned fields) {
    LS_ASSERT(calls != NULL && size >= 1);
    fields |= LS_AGREE_KIND | LS_AGREE_COMM;
    for (size_t f = 0; f < sizeof fields_known / sizeof fields_known[0]; f++) {
        const field_info *info = &fields_known[f];
        if ((fields & (unsigned)info->field) == 0) {
            continue;
        }
        uint64_t value = field_value(calls[0], info->field);
        for (int i = 1; i < size; i++) {
            if (field_value(calls[i], info->field) != value) {
                return report_difference(calls, size, info);
            }
        }
    }
    const ls_comm *comm = calls[0]->comm;
    if (comm->size != size) {
        ls_check__note(LS_FINDING_MISSING_RANK, calls[0]);
        return LS_FAIL(LS_ERR_MISMATCH, "%s on %s: %d calls for %d members",
                       ls_kind_name(calls[0]->kind), comm->name, size, comm->size);
    }
    for (int i = 0; i < size; i++) {
        if (calls[i]->rank != comm->ranks[i]) {
            ls_check__note(LS_FINDING_GROUP_MISMATCH, calls[i]);
            return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[i]->rank,
                                "%s on %s: rank %d's call stands for member %d, which is rank %d",
                                ls_kind_name(calls[0]->kind), comm->name, calls[i]->rank, i,
                                comm->ranks[i]);
        }
    }
    return LS_OK;
}

static bool counts_equal(const size_t *a, const size_t *b, int size) {
    return a == b || memcmp(a, b, (size_t)size * sizeof *a) == 0;
}

// The member whose counts are taken as right: one of a strict majority, else member 0.
static int expected_counts(const ls_call *const *calls, int size,
                           const size_t *(*of)(const ls_call *call)) {
    int candidate = 0, votes = 0, count = 0;
    for (int i = 0; i < size; i++) {
        candidate = votes == 0 ? i : candidate;
        votes += counts_equal(of(calls[i]), of(calls[candidate]), size) ? 1 : -1;
    }
    for (int i = 0; i < size; i++) {
        count += counts_equal(of(calls[i]), of(calls[candidate]), size) ? 1 : 0;
    }
    return count > size / 2 ? candidate : 0;
}

static int fail_counts(const ls_call *const *calls, int size,
                       const size_t *(*of)(const ls_call *call)) {
    int right = expected_counts(calls, size, of), wrong = -1;
    for (int i = 0; i < size; i++) {
        if (counts_equal(of(calls[i]), of(calls[right]), size)) {
            continue;
        }
        if (wrong < 0) {
            wrong = i;
            ls_check__note(LS_FINDING_SPLIT_MISMATCH, calls[i]);
        } else {
            ls_check__note_rank(calls[i]);
        }
    }
    const size_t *counts = of(calls[wrong]), *expected = of(calls[right]);
    int k = 0;
    while (counts[k] == expected[k]) {
        k += 1;
    }
    char where[LS_CALL_WHERE_MAX], where_right[LS_CALL_WHERE_MAX];
    return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[wrong]->rank,
                        "%s on %s, call %" PRIu64 ": counts differ: rank %d gives member %d %zu "
                        "elements (%s), rank %d gives it %zu (%s)",
                        ls_kind_name(calls[wrong]->kind), calls[wrong]->comm->name,
                        calls[wrong]->seq, calls[wrong]->rank, k, counts[k],
                        ls_call__where(where, calls[wrong]), calls[right]->rank, expected[k],
                        ls_call__where(where_right, calls[right]));
}

int ls_check__same_counts(const ls_call *const *calls, int size,
                          const size_t *(*of)(const ls_call *call)) {
    const size_t *expected = of(calls[0]);
    for (int i = 1; i < size && expected != NULL; i++) {
        if (!counts_equal(of(calls[i]), expected, size)) {
            return fail_counts(calls, size, of);
        }
    }
    return LS_OK;
}

int ls_check__root_counts(const ls_call *const *calls, int size, const size_t *counts) {
    const ls_call *root = calls[calls[0]->root];
    if (counts == NULL) {
        return ls_check__agree(calls, size, LS_AGREE_COUNT);
    }
    bool sends = counts == root->send_counts;
    for (int i = 0; i < size; i++) {
        if (counts[i] != calls[i]->count) {
            char where[LS_CALL_WHERE_MAX], where_root[LS_CALL_WHERE_MAX];
            ls_check__note(LS_FINDING_SPLIT_MISMATCH, calls[i]);
            return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[i]->rank,
                                "%s on %s, call %" PRIu64 ": rank %d %s %zu elements (%s), the "
                                "root, rank %d, %s %zu%s (%s)",
                                ls_kind_name(root->kind), root->comm->name, root->seq,
                                calls[i]->rank, sends ? "receives" : "sends", calls[i]->count,
                                ls_call__where(where, calls[i]), root->rank,
                                sends ? "sends it" : "receives", counts[i], sends ? "" : " from it",
                                ls_call__where(where_root, root));
        }
    }
    return LS_OK;
}

void ls_block__copy(void *to, const void *from, size_t bytes) {
    if (bytes != 0 && to != from) {
        memcpy(to, from, bytes);
    }
}

int ls_block__move(ls_device *device, void *to, const void *from, size_t bytes) {
    if (device != NULL) {
        return device->ops->copy(device, to, from, bytes);
    }
    ls_block__copy(to, from, bytes);
    return LS_OK;
}

ls_device *ls_call__device(const ls_call *call) {
    const ls_backend *backend = call->comm->backend;
    return backend != NULL ? backend->device : NULL;
}

int ls_block__copy_result(ls_device *device, void *to, const void *from, size_t bytes,
                          size_t total) {
    if (device != NULL) {
        return device->ops->copy(device, to, from, bytes);
    }
    // Short pieces are not worth the fence that ends a streamed copy.
    if (total >= LS_STREAM_BYTES && bytes >= 1024) {
        ls_kernel_copy_streamed(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
    return LS_OK;
}
