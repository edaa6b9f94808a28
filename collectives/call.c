// Call records: names of kinds, texts, extents, and the checks that need no other rank.
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "collectives/check.h"

_Static_assert(offsetof(ls_call, say) % sizeof(uint64_t) == 0 &&
                   sizeof(ls_call) - offsetof(ls_call, say) == 6 * sizeof(uint64_t),
               "as many words as installed headers reserve");

const ls_collective *ls_collective_of(ls_kind kind) {
    static const ls_collective *const descriptors[] = {
#define LS_KIND_DESCRIPTOR(name, text) [LS_##name] = &ls_collective__##text,
        LS_KIND_MAP(LS_KIND_DESCRIPTOR)
#undef LS_KIND_DESCRIPTOR
    };
    LS_ASSERT((int)kind >= 0 && kind < LS_KIND_COUNT);
    return descriptors[kind];
}

void ls_call_describe(char *out, size_t out_bytes, const ls_call *call) {
    LS_ASSERT(out != NULL && out_bytes > 0 && call != NULL);
    if (call->say != NULL) {
        call->say(out, out_bytes, call);
        return;
    }
    const char *comm = call->comm != NULL ? call->comm->name : "no communicator";
    const ls_collective *collective =
        (int)call->kind >= 0 && call->kind < LS_KIND_COUNT ? ls_collective_of(call->kind) : NULL;
    char what[96] = "";
    if (collective != NULL && ls_collective_has_data(collective)) {
        const char *op =
            collective->reduces && ls_op_valid((int)call->op) ? ls_op_name(call->op) : NULL;
        const char *dtype = ls_dtype_valid((int)call->dtype) ? ls_dtype_name(call->dtype) : "?";
        char count[32] = "";
        if (call->kind != LS_ALL_TO_ALL || call->send_counts == NULL) {
            (void)snprintf(count, sizeof count, "%zu ", call->count);
        }
        (void)snprintf(what, sizeof what, "%s%s of %s%s", op != NULL ? " " : "",
                       op != NULL ? op : "", count, dtype);
    }
    char root[64] = "";
    if (collective != NULL && collective->root_word != NULL && call->comm != NULL &&
        call->root >= 0 && call->root < call->comm->size) {
        (void)snprintf(root, sizeof root, " %s rank %d", collective->root_word,
                       call->comm->ranks[call->root]);
    }
    bool said = call->purpose != NULL;
    (void)snprintf(out, out_bytes, "%s%s%s%s%s on %s", ls_kind_name(call->kind), what, root,
                   said ? " for " : "", said ? call->purpose : "", comm);
}

void ls_call_format(char *out, size_t out_bytes, const ls_call *call) {
    char where[LS_CALL_WHERE_MAX];
    ls_call_describe(out, out_bytes, call);
    size_t used = strlen(out);
    (void)snprintf(out + used, out_bytes - used, " (rank %d, call %llu, %s)", call->rank,
                   (unsigned long long)call->seq, ls_call__where(where, call));
}

// ---- Extents ------------------------------------------------------------------------------------
// Elements of all blocks together.
static int total_elements(size_t *out, const size_t *counts, size_t count, int size) {
    if (counts == NULL) {
        return ls_size_mul(out, count, (size_t)size);
    }
    size_t total = 0;
    bool over = false;
    for (int i = 0; i < size; i++) {
        over |= __builtin_add_overflow(total, counts[i], &total);
    }
    *out = total;
    return over ? LS_FAIL(LS_ERR_OVERFLOW, "the counts of %d ranks do not fit in a size", size)
                : LS_OK;
}

static int side_elements(size_t *out, const ls_side *side, const size_t *counts,
                         const ls_call *call, int member) {
    *out = 0;
    if (side->form == LS_SIDE_NONE || (side->root_only && member != call->root)) {
        return LS_OK;
    }
    if (side->form == LS_SIDE_BLOCKS) {
        return total_elements(out, counts, call->count, call->comm->size);
    }
    *out = call->count;
    return LS_OK;
}

static int elements(size_t *send, size_t *recv, const ls_call *call, int member) {
    const ls_collective *collective = ls_collective_of(call->kind);
    LS_TRY(side_elements(send, &collective->send, call->send_counts, call, member));
    return side_elements(recv, &collective->recv, call->recv_counts, call, member);
}

static int fail_call(const ls_call *call, const char *what) {
    char text[256];
    ls_call_format(text, sizeof text, call);
    return LS_FAIL_RANK(LS_ERR_INVALID, call->rank, "%s: %s", text, what);
}

// Preconditions for reading the rest of a call.
static int check_frame(int *member, const ls_call *call) {
    LS_ASSERT(call != NULL);
    if ((int)call->kind < 0 || call->kind >= LS_KIND_COUNT) {
        return LS_FAIL_RANK(LS_ERR_INVALID, call->rank, "rank %d: %d is not a kind of call",
                            call->rank, (int)call->kind);
    }
    if (call->comm == NULL) {
        return fail_call(call, "it names no communicator");
    }
    *member = ls_comm_member(call->comm, call->rank);
    if (*member < 0) {
        ls_check__note(LS_FINDING_GROUP_MISMATCH, call);
        return fail_call(call, "the rank is not a member of the communicator");
    }
    const ls_collective *collective = ls_collective_of(call->kind);
    if (!ls_collective_has_data(collective)) {
        return LS_OK;
    }
    if (!ls_dtype_valid((int)call->dtype)) {
        return fail_call(call, "its dtype is unknown");
    }
    if (collective->root_word != NULL && (call->root < 0 || call->root >= call->comm->size)) {
        char what[96];
        (void)snprintf(what, sizeof what, "%s %d is not in [0, %d)",
                       ls_kind_is_message(call->kind) ? "peer" : "root", call->root,
                       call->comm->size);
        return fail_call(call, what);
    }
    return LS_OK;
}

static int bytes_of(size_t *out, size_t count, const ls_call *call) {
    if (ls_size_mul(out, count, ls_dtype_bytes(call->dtype)) != LS_OK || *out > PTRDIFF_MAX) {
        char text[256];
        ls_call_format(text, sizeof text, call);
        return LS_FAIL_RANK(LS_ERR_OVERFLOW, call->rank, "%s: a buffer of %zu elements overflows",
                            text, count);
    }
    return LS_OK;
}

static int call_elements(size_t *send, size_t *recv, int *member, const ls_call *call) {
    LS_TRY(check_frame(member, call));
    if (elements(send, recv, call, *member) != LS_OK) {
        char text[256];
        ls_call_format(text, sizeof text, call);
        return ls_error_wrap("%s: its counts overflow", text);
    }
    return LS_OK;
}

int ls_call_send_elements(size_t *out, const ls_call *call) {
    size_t recv = 0, bytes = 0;
    int member = 0;
    LS_TRY(call_elements(out, &recv, &member, call));
    return bytes_of(&bytes, *out, call);
}

int ls_call_recv_elements(size_t *out, const ls_call *call) {
    size_t send = 0, bytes = 0;
    int member = 0;
    LS_TRY(call_elements(&send, out, &member, call));
    return bytes_of(&bytes, *out, call);
}

// ---- Checks -------------------------------------------------------------------------------------
// The counts of the only side with a block for each member; NULL: even, or no such side.
static const size_t *block_counts(const ls_call *call, const ls_collective *collective) {
    return collective->recv.form == LS_SIDE_BLOCKS ? call->recv_counts : call->send_counts;
}

size_t ls_call_own_offset(const ls_call *call, int member) {
    const ls_collective *collective = ls_collective_of(call->kind);
    size_t offset = 0;
    if (ls_collective_has_counts(collective) && !ls_collective_has_splits(collective)) {
        const size_t *counts = block_counts(call, collective);
        offset = counts == NULL ? call->count * (size_t)member : 0;
        for (int i = 0; counts != NULL && i < member; i++) {
            offset += counts[i];
        }
    }
    return offset;
}

// The uneven forms say each member's own count twice; both must agree.
static int check_counts(const ls_call *call, const ls_collective *collective, int member) {
    if (ls_collective_has_splits(collective)) {
        if ((call->send_counts == NULL) != (call->recv_counts == NULL)) {
            ls_check__note(LS_FINDING_SPLIT_MISMATCH, call);
            return fail_call(call, "it gives send_counts or recv_counts alone; give both or none");
        }
        return LS_OK;
    }
    bool elsewhere = collective->send.root_only || collective->recv.root_only;
    const size_t *counts =
        ls_collective_has_counts(collective) && !(elsewhere && member != call->root)
            ? block_counts(call, collective)
            : NULL;
    if (counts != NULL && counts[member] != call->count) {
        char what[128];
        (void)snprintf(what, sizeof what,
                       "its count is %zu, but its counts give %zu to member %d, the rank itself",
                       call->count, counts[member], member);
        ls_check__note(LS_FINDING_COUNT_MISMATCH, call);
        return fail_call(call, what);
    }
    return LS_OK;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t a_start = (uintptr_t)a, b_start = (uintptr_t)b;
    return a_bytes != 0 && b_bytes != 0 && a_start < b_start + b_bytes &&
           b_start < a_start + a_bytes;
}

static int check_overlap(ls_call_extent *extent, const ls_call *call,
                         const ls_collective *collective) {
    extent->in_place = false;
    if (!overlap(call->send, extent->send_bytes, call->recv, extent->recv_bytes)) {
        return LS_OK;
    }
    size_t offset = extent->own_offset * ls_dtype_bytes(call->dtype);
    const char *send = call->send, *recv = call->recv;
    const char *rule = "in place means the same address";
    if (ls_collective_has_splits(collective)) {
        rule = "this collective has no in-place form";
    } else if (collective->recv.form == LS_SIDE_BLOCKS) {
        extent->in_place = send == recv + offset;
        rule = "in place means that send is the rank's own block of recv";
    } else if (collective->send.form == LS_SIDE_BLOCKS) {
        extent->in_place = recv == send + offset;
        rule = "in place means that recv is the rank's own block of send";
    } else {
        extent->in_place = send == recv;
    }
    if (!extent->in_place && !call->overstated) {
        char what[128];
        (void)snprintf(what, sizeof what, "its buffers overlap; %s", rule);
        ls_check__note(LS_FINDING_BUFFER_OVERLAP, call);
        return fail_call(call, what);
    }
    return LS_OK;
}

int ls_call_check(ls_call_extent *out, const ls_call *call) {
    ls_call_extent extent = {0};
    size_t send = 0, recv = 0;
    int member = 0;
    ls_check_clear();
    LS_TRY(call_elements(&send, &recv, &member, call));
    const ls_collective *collective = ls_collective_of(call->kind);
    if (ls_collective_has_data(collective)) {
        if (collective->reduces) {
            if (!ls_op_valid((int)call->op)) {
                return fail_call(call, "its op is unknown");
            }
            if (!ls_op_supports(call->op, call->dtype)) {
                char what[96];
                (void)snprintf(what, sizeof what, "%s is not defined on %s", ls_op_name(call->op),
                               ls_dtype_name(call->dtype));
                return fail_call(call, what);
            }
        }
        LS_TRY(bytes_of(&extent.send_bytes, send, call));
        LS_TRY(bytes_of(&extent.recv_bytes, recv, call));
        LS_TRY(check_counts(call, collective, member));
        if ((send != 0 && call->send == NULL) || (recv != 0 && call->recv == NULL)) {
            ls_check__note(LS_FINDING_BUFFER_TOO_SMALL, call);
            return fail_call(call, send != 0 && call->send == NULL ? "its send buffer is NULL"
                                                                   : "its recv buffer is NULL");
        }
        extent.own_offset = ls_call_own_offset(call, member);
        LS_TRY(check_overlap(&extent, call, collective));
    }
    if (out != NULL) {
        *out = extent;
    }
    return LS_OK;
}

int ls_calls_check(const ls_call *const *calls, int size) {
    LS_ASSERT(calls != NULL && size >= 1);
    for (int i = 0; i < size; i++) {
        LS_TRY(ls_call_check(NULL, calls[i]));
    }
    const ls_collective *collective = ls_collective_of(calls[0]->kind);
    return collective->check != NULL ? collective->check(calls, size)
                                     : ls_check__agree(calls, size, collective->agree);
}

uint64_t ls_collective_bytes(const ls_call *const *calls, int from, int to) {
    const ls_collective *is = ls_collective_of(calls[0]->kind);
    if (is->bytes != NULL) {
        return is->bytes(calls, from, to);
    }
    int root = calls[0]->root;
    if ((is->send.root_only && from != root) || (is->recv.root_only && to != root)) {
        return 0;
    }
    const ls_call *counted = calls[is->send.form == LS_SIDE_COUNT ? from : to];
    return is->send.form == LS_SIDE_NONE
               ? 0
               : (uint64_t)counted->count * ls_dtype_bytes(counted->dtype);
}
