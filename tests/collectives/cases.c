// Generates the calls of cases.h with counts, buffers and values, and compares their results.
#include "tests/collectives/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

#define GUARD_BYTES 64
#define GUARD       0xA5

static void *need(size_t count, size_t size) {
    void *memory = calloc(count != 0 ? count : 1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

bool coll_case_valid(const coll_case *c) {
    const ls_collective *collective = ls_collective_of(c->kind);
    if (collective->reduces ? !ls_op_supports(c->op, c->dtype) : c->op != LS_SUM) {
        return false;
    }
    if (c->uneven && !ls_collective_has_counts(collective)) {
        return false;
    }
    return !c->in_place || (c->kind != LS_ALL_TO_ALL && c->kind != LS_BARRIER);
}

// Element `index` of member `member`. Exact: small integers, and for products powers of two.
static double value(const coll_case *c, uint64_t seed, int member, size_t index) {
    uint32_t rank = (uint32_t)member;
    if (!c->exact) {
        double u = ls_random_uniform(seed, 1, rank, index);
        return ls_dtype_is_float(c->dtype) ? (u - 0.5) * 8.0 : u * 100.0;
    }
    uint64_t draw = ls_random_below(4, seed, 1, rank, index);
    if (c->op == LS_PROD) {
        return draw == 0 ? 2.0 : 1.0;
    }
    return ls_dtype_is_signed(c->dtype) ? (double)draw - 2.0 : (double)draw;
}

static void fill(const coll_case *c, uint64_t seed, int member, void *out, size_t count) {
    size_t bytes = ls_dtype_bytes(c->dtype);
    bool reduces = ls_collective_of(c->kind)->reduces;
    for (size_t i = 0; i < count; i++) {
        char *element = (char *)out + i * bytes;
        if (reduces) {
            ls_element_from_f64(element, c->dtype, value(c, seed, member, i));
        } else {
            // Moved data may have any bits, including NaN.
            uint64_t bits = ls_random_bits(seed, 2, (uint32_t)member, i);
            memcpy(element, &bits, bytes);
        }
    }
}

static void fill_counts(coll_set *set, const coll_case *c) {
    size_t n = (size_t)set->size;
    bool pairs = c->kind == LS_ALL_TO_ALL;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            // Some counts zero, some full, most between; equal for all senders except in
            // all_to_all.
            size_t key = pairs ? 3 * i + 5 * j : j;
            size_t count = key % 4 == 1 ? 0 : c->count - (key % 3) * (c->count / 3);
            set->counts[i * n + j] = count;
            set->transposed[j * n + i] = count;
        }
    }
}

static void set_counts(coll_set *set, const coll_case *c, int member) {
    ls_call *call = &set->calls[member];
    size_t n = (size_t)set->size, own = (size_t)member;
    call->count = c->kind == LS_BARRIER ? 0 : c->count;
    if (!c->uneven) {
        return;
    }
    switch (c->kind) {
    case LS_ALL_GATHER:
        call->recv_counts = set->counts;
        call->count = set->counts[own];
        break;
    case LS_REDUCE_SCATTER:
        call->send_counts = set->counts;
        call->count = set->counts[own];
        break;
    case LS_GATHER:
        call->recv_counts = member == c->root ? set->counts : NULL;
        call->count = set->counts[own];
        break;
    case LS_SCATTER:
        call->send_counts = member == c->root ? set->counts : NULL;
        call->count = set->counts[own];
        break;
    case LS_ALL_TO_ALL:
        call->send_counts = set->counts + own * n;
        call->recv_counts = set->transposed + own * n;
        break;
    default:
        break;
    }
}

// Where the smaller buffer is in the larger one for an in-place call, in elements.
static size_t own_block(const coll_set *set, const coll_case *c, int member) {
    size_t offset = 0;
    switch (c->kind) {
    case LS_ALL_GATHER:
    case LS_GATHER:
    case LS_REDUCE_SCATTER:
    case LS_SCATTER:
        for (int i = 0; i < member; i++) {
            offset += c->uneven ? set->counts[i] : c->count;
        }
        return offset;
    default:
        return 0;
    }
}

static char *new_buffer(coll_set *set, int slot, size_t bytes) {
    set->memory[slot] = need(bytes + 2 * GUARD_BYTES, 1);
    set->bytes[slot] = bytes;
    memset(set->memory[slot], GUARD, bytes + 2 * GUARD_BYTES);
    return set->memory[slot] + GUARD_BYTES;
}

static void set_buffers(coll_set *set, const coll_case *c, uint64_t seed, int member) {
    ls_call *call = &set->calls[member];
    size_t send = 0, recv = 0, element = ls_dtype_bytes(c->dtype);
    if (ls_call_send_elements(&send, call) != LS_OK ||
        ls_call_recv_elements(&recv, call) != LS_OK) {
        abort();
    }
    size_t offset = own_block(set, c, member) * element;
    char *send_at = NULL, *recv_at = NULL;
    if (c->in_place && send != 0 && recv != 0) {
        char *base = new_buffer(set, 2 * member, (send > recv ? send : recv) * element);
        bool send_inside = c->kind == LS_ALL_GATHER || c->kind == LS_GATHER;
        send_at = send_inside ? base + offset : base;
        recv_at = send_inside ? base : base + offset;
    } else {
        send_at = send != 0 ? new_buffer(set, 2 * member, send * element) : NULL;
        recv_at = recv != 0 ? new_buffer(set, 2 * member + 1, recv * element) : NULL;
    }
    call->send = send_at;
    call->recv = recv_at;
    fill(c, seed, member, send_at, send);
}

void coll_set_create(coll_set *set, const ls_comm *comm, const coll_case *c, uint64_t seed) {
    size_t n = (size_t)comm->size;
    *set = (coll_set){.size = comm->size};
    set->calls = need(n, sizeof *set->calls);
    set->memory = need(2 * n, sizeof *set->memory);
    set->bytes = need(2 * n, sizeof *set->bytes);
    set->counts = need(n * n, sizeof *set->counts);
    set->transposed = need(n * n, sizeof *set->transposed);
    fill_counts(set, c);
    for (int i = 0; i < comm->size; i++) {
        set->calls[i] = (ls_call){
            .kind = c->kind,
            .comm = comm,
            .rank = comm->ranks[i],
            .dtype = c->dtype,
            .op = c->op,
            .premul = i % 2 == 0 ? 0.5 : 2.0,
            .root = c->root,
            LS_HERE,
        };
        if (c->dtype == LS_F8E5M2) {
            set->calls[i].premul = 0.5;  // three digits hold no more
        }
        if (!ls_dtype_is_float(c->dtype)) {
            set->calls[i].premul = i % 2 == 0 ? 1.0 : 2.0;
        }
        set_counts(set, c, i);
        set_buffers(set, c, seed, i);
    }
}

void coll_set_free(coll_set *set) {
    for (int i = 0; i < 2 * set->size; i++) {
        free(set->memory[i]);
    }
    free(set->calls);
    free(set->memory);
    free(set->bytes);
    free(set->counts);
    free(set->transposed);
    *set = (coll_set){0};
}

int coll_set_differs(const coll_set *a, const coll_set *b, int first, int members) {
    for (int i = 2 * first; i < 2 * (first + members); i++) {
        size_t total = a->bytes[i] + 2 * GUARD_BYTES;
        if ((a->memory[i] == NULL) != (b->memory[i] == NULL) || a->bytes[i] != b->bytes[i]) {
            return i / 2;
        }
        if (a->memory[i] != NULL && memcmp(a->memory[i], b->memory[i], total) != 0) {
            return i / 2;
        }
        for (size_t k = 0; a->memory[i] != NULL && k < GUARD_BYTES; k++) {
            if ((unsigned char)a->memory[i][k] != GUARD ||
                (unsigned char)a->memory[i][total - 1 - k] != GUARD) {
                return i / 2;
            }
        }
    }
    return -1;
}

void coll_case_format(char *out, size_t out_bytes, const coll_case *c, int size) {
    (void)snprintf(out, out_bytes, "%s %s of %zu %s%s%s, root %d, %d ranks", ls_kind_name(c->kind),
                   ls_op_name(c->op), c->count, ls_dtype_name(c->dtype), c->uneven ? " uneven" : "",
                   c->in_place ? " in place" : "", c->root, size);
}
