// Redistributing between any placements, one mesh dimension at a time, and the whole tensor on
// every rank.
#include <string.h>

#include "collectives/check.h"
#include "collectives/tensor.h"

typedef struct redistribution {
    ls_backend *backend;
    const ls_mesh *mesh;
    ls_placements target;  // shard dimensions >= 0
    ls_local_tensor *now;  // owned; NULL while it is still the input
    const ls_local_tensor *in;
} redistribution;

static const ls_local_tensor *current(const redistribution *r) {
    return r->now != NULL ? r->now : r->in;
}

static const ls_placement *placed(const redistribution *r, int axis) {
    return &ls_local_tensor_placements(current(r))->at[axis];
}

static bool same(const redistribution *r, int axis, const ls_placement *a, const ls_placement *b) {
    return ls_placement_equal(a, b, r->mesh->dim[axis]);
}

static int step_to(redistribution *r, int axis, const ls_placement *to) {
    if (same(r, axis, placed(r, axis), to)) {
        return LS_OK;
    }
    ls_local_tensor *next = NULL;
    if (ls_tensor__step(&next, r->backend, current(r), axis, to) != LS_OK) {
        char from_text[256];
        ls_placements_format(from_text, sizeof from_text, ls_local_tensor_placements(current(r)));
        return ls_error_wrap("redistribute from %s along mesh dimension %d", from_text, axis);
    }
    ls_local_tensor_free(r->now);
    r->now = next;
    return LS_OK;
}

static bool shards(const ls_placement *placement, int dim) {
    return placement->kind == LS_PLACE_SHARD && placement->dim == dim;
}

// An inner mesh dimension that shards the tensor dimension that an outer one is about to change
// cuts pieces of the outer one's blocks: it is gathered first, and cut again at the end.
static int gather_inner(redistribution *r, int axis, const ls_placement *to) {
    const ls_placement replicate = LS_REPLICATE;
    for (int inner = r->mesh->ndim - 1; inner > axis; inner--) {
        const ls_placement *at = placed(r, inner);
        if (at->kind != LS_PLACE_SHARD) {
            continue;
        }
        if (shards(placed(r, axis), at->dim) || shards(to, at->dim)) {
            LS_TRY(step_to(r, inner, &replicate));
        }
    }
    return LS_OK;
}

static int redistribute(redistribution *r) {
    const ls_placement replicate = LS_REPLICATE;
    for (int axis = r->mesh->ndim - 1; axis >= 0; axis--) {
        const ls_placement *wanted = &r->target.at[axis];
        if (same(r, axis, placed(r, axis), wanted)) {
            continue;
        }
        // Values become partial last, when all that is to be reduced has been.
        const ls_placement *to = wanted->kind == LS_PLACE_PARTIAL ? &replicate : wanted;
        LS_TRY(gather_inner(r, axis, to));
        LS_TRY(step_to(r, axis, to));
    }
    for (int axis = 0; axis < r->mesh->ndim; axis++) {
        if (r->target.at[axis].kind == LS_PLACE_SHARD) {
            LS_TRY(step_to(r, axis, &r->target.at[axis]));
        }
    }
    for (int axis = 0; axis < r->mesh->ndim; axis++) {
        LS_TRY(step_to(r, axis, &r->target.at[axis]));
    }
    return LS_OK;
}

// ---- Layouts that mesh dimension by mesh dimension cannot reach ---------------------------------
static bool is_plain(const ls_placements *placements) {
    bool plain = placements != NULL;
    for (int d = 0; plain && d < placements->count; d++) {
        plain = placements->at[d].split <= 1 && placements->at[d].turn == 0;
    }
    return plain;
}

static int exchange_to(redistribution *r, const ls_placements *to) {
    ls_local_tensor *next = NULL;
    LS_TRY(ls_tensor__exchange(&next, r->backend, current(r), to));
    ls_local_tensor_free(r->now);
    r->now = next;
    return LS_OK;
}

// One exchange; where values are or become partial gathered whole, reduced or made so, and cut.
static int redistribute_any(redistribution *r) {
    const ls_placements wanted = r->target, *from = ls_local_tensor_placements(r->in);
    if (!ls_placements_any_partial(from) && !ls_placements_any_partial(&wanted)) {
        return exchange_to(r, &wanted);
    }
    if (!is_plain(from)) {
        ls_placements gathered = {.count = r->mesh->ndim};
        for (int d = 0; from != NULL && d < gathered.count; d++) {
            gathered.at[d] = from->at[d].kind == LS_PLACE_PARTIAL ? from->at[d] : gathered.at[d];
        }
        LS_TRY(exchange_to(r, &gathered));
    }
    for (int d = 0; d < wanted.count && !is_plain(&wanted); d++) {
        ls_placement *at = &r->target.at[d];
        *at = at->kind == LS_PLACE_SHARD ? LS_REPLICATE : *at;
    }
    LS_TRY(redistribute(r));
    return is_plain(&wanted) ? LS_OK : exchange_to(r, &wanted);
}

// ---- Replicas -----------------------------------------------------------------------------------
int ls_tensor_check_replicas_at(const char *file, int line, const ls_local_tensor *tensor) {
    void *memory = NULL;
    size_t held = (size_t)ls_world_held_count(ls_local_tensor_world(tensor));
    LS_TRY(ls_alloc(&memory, held, sizeof(int)));
    int *ranks = memory, count = 0;
    ls_check_clear();
    int status = ls_local_tensor_check_replicas(ranks, &count, tensor);
    if (count > 0) {
        ls_check__note(LS_FINDING_REPLICA_DIVERGED,
                       &(ls_call){.rank = ranks[0], .file = file, .line = line});
    }
    for (int i = 1; i < count; i++) {
        ls_check__note_rank_number(ranks[i]);
    }
    ls_free(memory, held, sizeof(int));
    return status;
}

static int check_input(const ls_backend *backend, const ls_local_tensor *in) {
    if (!backend->check_replicas) {
        return LS_OK;
    }
    return ls_tensor_check_replicas_at(NULL, 0, in) == LS_OK ? LS_OK
                                                             : ls_error_wrap("redistribute");
}

int ls_tensor_redistribute(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in,
                           const ls_placements *placements) {
    LS_ASSERT(out != NULL && backend != NULL && in != NULL && placements != NULL);
    *out = NULL;
    const ls_shape *shape = ls_local_tensor_shape(in);
    redistribution r = {.backend = backend, .in = in, .target = *placements};
    r.mesh = ls_world_mesh(backend->world);
    if (shape == NULL) {
        return LS_FAIL(LS_ERR_INVALID,
                       "redistribute: the tensor has no logical shape or placement");
    }
    if (ls_local_tensor_world(in) != backend->world) {
        return LS_FAIL(LS_ERR_INVALID, "redistribute: the tensor belongs to another world");
    }
    LS_TRY(check_input(backend, in));
    LS_TRY(ls_placements_normalize(&r.target, placements, shape, r.mesh));
    bool plain = is_plain(ls_local_tensor_placements(in)) && is_plain(&r.target);
    if (plain) {
        ls_block block;
        LS_TRY(ls_placement_block(&block, shape, r.mesh, &r.target, 0));  // sizes that fit?
    }
    int status = plain ? redistribute(&r) : redistribute_any(&r);
    if (status == LS_OK && r.now == NULL) {
        status = ls_local_tensor_clone(&r.now, in);
    }
    if (status != LS_OK) {
        ls_local_tensor_free(r.now);
        return status;
    }
    *out = r.now;
    return LS_OK;
}

int ls_tensor_full(void *out, size_t out_bytes, ls_backend *backend, const ls_local_tensor *in) {
    LS_ASSERT(backend != NULL && in != NULL);
    size_t count = 0, bytes = 0;
    if (ls_local_tensor_shape(in) == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "full: the tensor has no logical shape");
    }
    LS_TRY(ls_shape_count(&count, ls_local_tensor_shape(in)));
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(ls_local_tensor_dtype(in))));
    if (out_bytes != bytes) {
        return LS_FAIL(LS_ERR_INVALID, "full: the tensor has %zu bytes, the buffer %zu", bytes,
                       out_bytes);
    }
    ls_placements replicate = {.count = ls_world_mesh(backend->world)->ndim};
    ls_local_tensor *whole = NULL;
    LS_TRY(ls_tensor_redistribute(&whole, backend, in, &replicate));
    int status = ls_local_tensor_reconcile(out, whole);
    ls_local_tensor_free(whole);
    return status;
}
