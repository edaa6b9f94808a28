// Rows by all_to_all: ids go to the ranks that own their rows, and the rows come back.
#include "embedding/functional_internal.h"

#include <string.h>

typedef struct side {
    size_t *sends, *recvs;  // [members] ids
    int64_t *out, *in;      // the ids, by member
    size_t *position;       // of each sent id among the rank's own
    int64_t *count_out, *count_in;
    size_t *ones;
    size_t sent, received;
} side;

static int owner_of(const int64_t *starts, int members, int64_t id) {
    int m = members - 1;
    while (m > 0 && starts[m] > id) {
        m -= 1;
    }
    return m;
}

// The first row of each member's shard, which ascend with the member; empty ones start at the next.
static int find_starts(int64_t **out, const ls_functional *f, const ls_comm *comm) {
    *out = ls_functional__need(f, (size_t)comm->size, sizeof **out);
    LS_TRY_MEMORY(*out != NULL);
    for (int m = 0; m < comm->size; m++) {
        ls_block block;
        LS_TRY(ls_placement_block(&block, ls_local_tensor_shape(f->weight), ls_world_mesh(f->world),
                                  ls_local_tensor_placements(f->weight), comm->ranks[m]));
        // An id never belongs to an empty shard.
        (*out)[m] = block.size.dim[0] > 0 ? block.offset.dim[0] : INT64_MAX;
    }
    return LS_OK;
}

// Sorts a rank's ids by the member that owns them, in their order.
static int route(side *s, const ls_functional *f, int i) {
    const ls_comm *comm = ls_functional__comm(f, i);
    const ls_shard *ids = ls_functional__shard(f, f->ids, i);
    const int64_t *id = ids->data;
    size_t members = (size_t)comm->size;
    int64_t *starts = NULL;
    LS_TRY(find_starts(&starts, f, comm));
    *s = (side){.sends = ls_functional__need(f, members, sizeof *s->sends),
                .recvs = ls_functional__need(f, members, sizeof *s->recvs),
                .ones = ls_functional__need(f, members, sizeof *s->ones),
                .count_out = ls_functional__need(f, members, sizeof *s->count_out),
                .count_in = ls_functional__need(f, members, sizeof *s->count_in),
                .out = ls_functional__need(f, ids->count, sizeof *s->out),
                .position = ls_functional__need(f, ids->count, sizeof *s->position)};
    LS_TRY_MEMORY(s->sends != NULL && s->recvs != NULL && s->ones != NULL && s->count_out != NULL &&
                  s->count_in != NULL && s->out != NULL && s->position != NULL);
    for (int m = 0; m < comm->size; m++) {
        s->ones[m] = 1;
        for (size_t k = 0; k < ids->count; k++) {
            if (owner_of(starts, comm->size, id[k]) == m) {
                s->out[s->sent] = id[k];
                s->position[s->sent++] = k;
                s->sends[m] += 1;
            }
        }
        s->count_out[m] = (int64_t)s->sends[m];
    }
    return LS_OK;
}

static ls_call call_of(const ls_functional *f, int i, const char *purpose, ls_dtype dtype) {
    return (ls_call){.kind = LS_ALL_TO_ALL,
                     .comm = ls_functional__comm(f, i),
                     .rank = ls_world_held(f->world)[i],
                     .dtype = dtype,
                     .purpose = purpose,
                     LS_HERE};
}

static int exchange_counts(side *sides, const ls_functional *f, ls_call *calls) {
    for (int i = 0; i < f->held; i++) {
        calls[i] = call_of(f, i, "ids to receive", LS_I64);
        calls[i].send_counts = calls[i].recv_counts = sides[i].ones;
        calls[i].send = sides[i].count_out;
        calls[i].recv = sides[i].count_in;
    }
    LS_TRY(ls_backend_run(f->backend, calls, f->held));
    for (int i = 0; i < f->held; i++) {
        side *s = &sides[i];
        for (int m = 0; m < ls_functional__comm(f, i)->size; m++) {
            if (s->count_in[m] < 0) {
                return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[i].rank,
                                    "rank %d receives a negative number of ids", calls[i].rank);
            }
            s->recvs[m] = (size_t)s->count_in[m];
            s->received += s->recvs[m];
        }
        s->in = ls_functional__need(f, s->received, sizeof *s->in);
        LS_TRY_MEMORY(s->in != NULL);
        calls[i] = call_of(f, i, "ids", LS_I64);
        calls[i].send_counts = s->sends;
        calls[i].recv_counts = s->recvs;
        calls[i].send = s->out;
        calls[i].recv = s->in;
    }
    return ls_backend_run(f->backend, calls, f->held);
}

// The ids that each owner got, as a tensor.
static int received_ids(ls_local_tensor **out, const ls_functional *f, const side *sides) {
    ls_shape *shapes = ls_functional__need(f, (size_t)f->held, sizeof *shapes);
    const void **data = ls_functional__need(f, (size_t)f->held, sizeof *data);
    LS_TRY_MEMORY(shapes != NULL && data != NULL);
    for (int i = 0; i < f->held; i++) {
        shapes[i] = LS_SHAPE((int64_t)sides[i].received);
        data[i] = sides[i].in;
    }
    return ls_local_tensor_from_shards(out, f->world, LS_I64, NULL, f->held, shapes, data);
}

// Rows of the received ids go back the way the ids came.
static int return_rows(ls_local_tensor *out, const ls_functional *f, side *sides, ls_call *calls) {
    ls_dtype dtype = ls_local_tensor_dtype(f->weight);
    size_t columns = (size_t)f->columns, row_bytes = columns * ls_dtype_bytes(dtype);
    for (int i = 0; i < f->held; i++) {
        side *s = &sides[i];
        const ls_shard *shard = ls_functional__shard(f, f->weight, i);
        char *rows = ls_functional__need(f, s->received, row_bytes);
        char *back = ls_functional__need(f, s->sent, row_bytes);
        LS_TRY_MEMORY(rows != NULL && back != NULL);
        for (size_t k = 0; k < s->received && row_bytes != 0; k++) {
            int64_t row = s->in[k] - shard->block.offset.dim[0];
            if (row < 0 || row >= shard->block.size.dim[0]) {
                return LS_FAIL_RANK(LS_ERR_MISMATCH, calls[i].rank,
                                    "rank %d is asked for a row that it does not hold",
                                    calls[i].rank);
            }
            memcpy(rows + k * row_bytes, (const char *)shard->data + (size_t)row * row_bytes,
                   row_bytes);
        }
        calls[i] = call_of(f, i, "rows", dtype);
        for (int m = 0; m < ls_functional__comm(f, i)->size; m++) {
            s->sends[m] *= columns;
            s->recvs[m] *= columns;
        }
        calls[i].send_counts = s->recvs;
        calls[i].recv_counts = s->sends;
        calls[i].send = rows;
        calls[i].recv = back;
    }
    LS_TRY(ls_backend_run(f->backend, calls, f->held));
    for (int i = 0; i < f->held; i++) {
        char *to = ls_functional__shard(f, out, i)->data;
        for (size_t k = 0; k < sides[i].sent && row_bytes != 0; k++) {
            memcpy(to + sides[i].position[k] * row_bytes,
                   (const char *)calls[i].recv + k * row_bytes, row_bytes);
        }
    }
    return LS_OK;
}

int ls_functional__exchange(ls_local_tensor **out, ls_functional *f) {
    side *sides = ls_functional__need(f, (size_t)f->held, sizeof *sides);
    ls_call *calls = ls_functional__need(f, (size_t)f->held, sizeof *calls);
    ls_shape *shapes = ls_functional__need(f, (size_t)f->held, sizeof *shapes);
    ls_local_tensor *seen = NULL;
    LS_TRY_MEMORY(sides != NULL && calls != NULL && shapes != NULL);
    for (int i = 0; i < f->held; i++) {
        LS_TRY(route(&sides[i], f, i));
        shapes[i] = ls_functional__shard(f, f->ids, i)->block.size;
        shapes[i].dim[shapes[i].ndim++] = f->columns;
    }
    LS_TRY(exchange_counts(sides, f, calls));
    LS_TRY(received_ids(&seen, f, sides));
    int status = ls_functional__renormalise(f, seen);
    ls_local_tensor_free(seen);
    LS_TRY(status);
    LS_TRY(ls_local_tensor_from_shards(out, f->world, ls_local_tensor_dtype(f->weight), NULL,
                                       f->held, shapes, NULL));
    return return_rows(*out, f, sides, calls);
}
