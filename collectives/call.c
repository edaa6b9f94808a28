// Call records: names of kinds, texts, extents, and the checks that need no other rank.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "collectives/check.h"

static const char *const kind_names[] = {
#define LS_KIND_NAME(name, text) [name] = text,
    LS_KIND_MAP(LS_KIND_NAME)
#undef LS_KIND_NAME
};

const char *ls_kind_name(ls_kind kind) {
    LS_ASSERT((int)kind >= 0 && kind < LS_KIND_COUNT);
    return kind_names[kind];
}

int ls_kind_parse(ls_kind *out, const char *text) {
    LS_ASSERT(out != NULL && text != NULL);
    for (int kind = 0; kind < LS_KIND_COUNT; kind++) {
        if (strcmp(text, kind_names[kind]) == 0) {
            *out = (ls_kind)kind;
            return LS_OK;
        }
    }
    const char *near = ls_nearest(text, kind_names, LS_KIND_COUNT);
    return LS_FAIL(LS_ERR_NOT_FOUND, "there is no collective named \"%.64s\"%s%s%s", text,
                   near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?" : "");
}

const ls_collective *ls_collective_of(ls_kind kind) {
    static const ls_collective *const descriptors[] = {
        [LS_ALL_REDUCE] = &ls_collective__all_reduce,
        [LS_REDUCE] = &ls_collective__reduce,
        [LS_BROADCAST] = &ls_collective__broadcast,
        [LS_ALL_GATHER] = &ls_collective__all_gather,
        [LS_REDUCE_SCATTER] = &ls_collective__reduce_scatter,
        [LS_ALL_TO_ALL] = &ls_collective__all_to_all,
        [LS_GATHER] = &ls_collective__gather,
        [LS_SCATTER] = &ls_collective__scatter,
        [LS_SEND] = &ls_collective__p2p,
        [LS_RECV] = &ls_collective__p2p,
        [LS_BARRIER] = &ls_collective__barrier,
    };
    LS_ASSERT((int)kind >= 0 && kind < LS_KIND_COUNT);
    return descriptors[kind];
}

const char *ls_call__where(char out[LS_CALL_WHERE_MAX], const ls_call *call) {
    if (call->file == NULL) {
        return "?";
    }
    const char *name = call->file;
    size_t length = strlen(name);
    size_t room = LS_CALL_WHERE_MAX - 16;  // the end of a long path says more than its start
    (void)snprintf(out, LS_CALL_WHERE_MAX, "%s:%d", length > room ? name + (length - room) : name,
                   call->line);
    return out;
}

void ls_call_format(char *out, size_t out_bytes, const ls_call *call) {
    LS_ASSERT(out != NULL && out_bytes > 0 && call != NULL);
    const char *kind = (int)call->kind >= 0 && call->kind < LS_KIND_COUNT ? kind_names[call->kind]
                                                                          : "unknown kind";
    const char *comm = call->comm != NULL ? call->comm->name : "no communicator";
    char what[96] = "";
    if ((int)call->kind >= 0 && call->kind < LS_KIND_COUNT && call->kind != LS_BARRIER) {
        const ls_collective *collective = ls_collective_of(call->kind);
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
    if (call->comm != NULL && call->root >= 0 && call->root < call->comm->size) {
        int rank = call->comm->ranks[call->root];
        const char *word = NULL;
        switch (call->kind) {
        case LS_SEND:
        case LS_REDUCE:
        case LS_GATHER:
            word = "to";
            break;
        case LS_RECV:
        case LS_BROADCAST:
        case LS_SCATTER:
            word = "from";
            break;
        default:
            break;
        }
        if (word != NULL) {
            (void)snprintf(root, sizeof root, " %s rank %d", word, rank);
        }
    }
    char where[LS_CALL_WHERE_MAX];
    bool said = call->purpose != NULL;
    (void)snprintf(out, out_bytes, "%s%s%s%s%s on %s (rank %d, call %llu, %s)", kind, what, root,
                   said ? " for " : "", said ? call->purpose : "", comm, call->rank,
                   (unsigned long long)call->seq, ls_call__where(where, call));
}

// ---- Extents ------------------------------------------------------------------------------------
// Elements of all blocks together.
static int total_elements(size_t *out, const size_t *counts, size_t count, int size) {
    if (counts == NULL) {
        return ls_size_mul(out, count, (size_t)size);
    }
    size_t total = 0;
    for (int i = 0; i < size; i++) {
        LS_TRY(ls_size_add(&total, total, counts[i]));
    }
    *out = total;
    return LS_OK;
}

static int elements(size_t *send, size_t *recv, const ls_call *call, int member) {
    bool is_root = member == call->root;
    int size = call->comm->size;
    *send = 0;
    *recv = 0;
    switch (call->kind) {
    case LS_ALL_REDUCE:
        *send = *recv = call->count;
        return LS_OK;
    case LS_REDUCE:
        *send = call->count;
        *recv = is_root ? call->count : 0;
        return LS_OK;
    case LS_BROADCAST:
        *send = is_root ? call->count : 0;
        *recv = call->count;
        return LS_OK;
    case LS_ALL_GATHER:
        *send = call->count;
        return total_elements(recv, call->recv_counts, call->count, size);
    case LS_REDUCE_SCATTER:
        *recv = call->count;
        return total_elements(send, call->send_counts, call->count, size);
    case LS_ALL_TO_ALL:
        LS_TRY(total_elements(send, call->send_counts, call->count, size));
        return total_elements(recv, call->recv_counts, call->count, size);
    case LS_GATHER:
        *send = call->count;
        return is_root ? total_elements(recv, call->recv_counts, call->count, size) : LS_OK;
    case LS_SCATTER:
        *recv = call->count;
        return is_root ? total_elements(send, call->send_counts, call->count, size) : LS_OK;
    case LS_SEND:
        *send = call->count;
        return LS_OK;
    case LS_RECV:
        *recv = call->count;
        return LS_OK;
    case LS_BARRIER:
    case LS_KIND_COUNT:
        break;
    }
    return LS_OK;
}

static int fail_call(const ls_call *call, const char *what) {
    char text[256];
    ls_call_format(text, sizeof text, call);
    return LS_FAIL_RANK(LS_ERR_INVALID, call->rank, "%s: %s", text, what);
}

// What must hold before anything else may be read from a call.
static int check_frame(int *member, const ls_call *call) {
    LS_ASSERT(call != NULL);
    if ((int)call->kind < 0 || call->kind >= LS_KIND_COUNT) {
        return LS_FAIL_RANK(LS_ERR_INVALID, call->rank, "rank %d: %d is no kind of call",
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
    if (call->kind == LS_BARRIER) {
        return LS_OK;
    }
    if (!ls_dtype_valid((int)call->dtype)) {
        return fail_call(call, "its dtype is none");
    }
    const ls_collective *collective = ls_collective_of(call->kind);
    if (collective->has_root && (call->root < 0 || call->root >= call->comm->size)) {
        char what[96];
        (void)snprintf(what, sizeof what, "%s %d is not in [0, %d)",
                       call->kind == LS_SEND || call->kind == LS_RECV ? "peer" : "root", call->root,
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
// Elements before the own block in the buffer with one block per member.
static size_t own_offset(const ls_call *call, int member) {
    const size_t *counts = NULL;
    switch (call->kind) {
    case LS_ALL_GATHER:
        counts = call->recv_counts;
        break;
    case LS_REDUCE_SCATTER:
        counts = call->send_counts;
        break;
    case LS_GATHER:
        counts = call->recv_counts;
        break;
    case LS_SCATTER:
        counts = call->send_counts;
        break;
    default:
        return 0;
    }
    if (counts == NULL) {
        return call->count * (size_t)member;
    }
    size_t offset = 0;
    for (int i = 0; i < member; i++) {
        offset += counts[i];
    }
    return offset;
}

// The uneven forms say each member's own count twice; both must agree.
static int check_counts(const ls_call *call, int member) {
    bool is_root = member == call->root;
    const size_t *counts = NULL;
    switch (call->kind) {
    case LS_ALL_GATHER:
        counts = call->recv_counts;
        break;
    case LS_REDUCE_SCATTER:
        counts = call->send_counts;
        break;
    case LS_GATHER:
        counts = is_root ? call->recv_counts : NULL;
        break;
    case LS_SCATTER:
        counts = is_root ? call->send_counts : NULL;
        break;
    case LS_ALL_TO_ALL:
        if ((call->send_counts == NULL) != (call->recv_counts == NULL)) {
            ls_check__note(LS_FINDING_SPLIT_MISMATCH, call);
            return fail_call(call, "it gives send_counts or recv_counts alone; give both or none");
        }
        return LS_OK;
    default:
        return LS_OK;
    }
    if (counts != NULL && counts[member] != call->count) {
        char what[128];
        (void)snprintf(what, sizeof what,
                       "its count is %zu, but its counts give %zu to member %d, which it is",
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

static int check_overlap(ls_call_extent *extent, const ls_call *call) {
    extent->in_place = false;
    if (!overlap(call->send, extent->send_bytes, call->recv, extent->recv_bytes)) {
        return LS_OK;
    }
    size_t offset = extent->own_offset * ls_dtype_bytes(call->dtype);
    const char *send = call->send, *recv = call->recv;
    const char *rule = NULL;
    switch (call->kind) {
    case LS_ALL_REDUCE:
    case LS_REDUCE:
    case LS_BROADCAST:
        extent->in_place = send == recv;
        rule = "in place means the same address";
        break;
    case LS_ALL_GATHER:
    case LS_GATHER:
        extent->in_place = send == recv + offset;
        rule = "in place means that send is the rank's own block of recv";
        break;
    case LS_REDUCE_SCATTER:
    case LS_SCATTER:
        extent->in_place = recv == send + offset;
        rule = "in place means that recv is the rank's own block of send";
        break;
    default:
        rule = "this collective has no in-place form";
        break;
    }
    if (!extent->in_place) {
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
    if (call->kind != LS_BARRIER) {
        if (ls_collective_of(call->kind)->reduces) {
            if (!ls_op_valid((int)call->op)) {
                return fail_call(call, "its op is none");
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
        LS_TRY(check_counts(call, member));
        if ((send != 0 && call->send == NULL) || (recv != 0 && call->recv == NULL)) {
            ls_check__note(LS_FINDING_BUFFER_TOO_SMALL, call);
            return fail_call(call, send != 0 && call->send == NULL ? "its send buffer is NULL"
                                                                   : "its recv buffer is NULL");
        }
        extent.own_offset = own_offset(call, member);
        LS_TRY(check_overlap(&extent, call));
    }
    if (out != NULL) {
        *out = extent;
    }
    return LS_OK;
}
