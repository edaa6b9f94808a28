// The oracle of programs: partial values, their sums, and their redistribution.
#include "runner/program/program_oracle_internal.h"

// Whether values partial along mesh dimension d stay partial under `to` (NULL: they do not).
static bool stays_partial(const ls_placements *from, const ls_placements *to, int d) {
    return to != NULL && ls_known__is_partial(to, d) && to->at[d].op == from->at[d].op;
}

// The members along the partial dimensions that `to` (NULL: nothing) resolves.
typedef struct resolved {
    const ls_placements *from, *to;
    ls_block *blocks;  // [ranks] before
    int dims[LS_MESH_DIMS_MAX], dim_count;
    int count;        // of the ranks along dims, the first changing fastest
    ls_cells values;  // [count] theirs, of one element
    ls_cell *terms;   // [count]
} resolved;

static bool resolves(const resolved *r, int d) {
    return ls_known__is_partial(r->from, d) && !stays_partial(r->from, r->to, d);
}

static bool covers(const ls_block *block, const int64_t *at, size_t *index) {
    *index = 0;
    for (int d = 0; d < block->size.ndim; d++) {
        int64_t inside = at[d] - block->offset.dim[d];
        if (inside < 0 || inside >= block->size.dim[d]) {
            return false;
        }
        *index = *index * (size_t)block->size.dim[d] + (size_t)inside;
    }
    return true;
}

// The first rank that holds the element at `coordinates` in the dimensions that stay partial and at
// 0 in those that are resolved.
static int find_source(const ls_program_oracle *o, const resolved *r, const int64_t *at,
                       const int *coordinates, size_t *index) {
    for (int rank = 0; rank < o->ranks; rank++) {
        int own[LS_MESH_DIMS_MAX];
        ls_mesh_coordinates(own, o->mesh, rank);
        bool fits = true;
        for (int d = 0; d < o->mesh->ndim && fits; d++) {
            if (ls_known__is_partial(r->from, d)) {
                fits = own[d] == (resolves(r, d) ? 0 : coordinates[d]);
            }
        }
        if (fits && covers(&r->blocks[rank], at, index)) {
            return rank;
        }
    }
    return -1;
}

// The value of one element with the dimensions of `r` resolved, from the last to the first.
static int resolve(ls_cells *out, size_t to, const ls_program_oracle *o, const resolved *r,
                   const ls_cells *ranks, const int64_t *at, const int *coordinates) {
    size_t index = 0;
    int source = find_source(o, r, at, coordinates, &index), count = r->count;
    LS_ASSERT(source >= 0);
    int own[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(own, o->mesh, source);
    ls_cells values = r->values;
    for (int m = 0; m < count; m++) {
        int rest = m;
        for (int k = 0; k < r->dim_count; k++) {
            own[r->dims[k]] = rest % o->mesh->dim[r->dims[k]];
            rest /= o->mesh->dim[r->dims[k]];
        }
        ls_cells__copy(&values, (size_t)m, &ranks[ls_mesh_rank(o->mesh, own)], index, o->dtype);
    }
    for (int k = r->dim_count; k-- > 0;) {
        int size = o->mesh->dim[r->dims[k]];
        count /= size;
        for (int i = 0; i < count; i++) {
            for (int m = 0; m < size; m++) {
                r->terms[m] = (ls_cell){&r->values, (size_t)(i + m * count)};
            }
            LS_TRY(ls_cells__fold(&values, (size_t)i, r->terms, size, o->dtype,
                                  r->from->at[r->dims[k]].op));
        }
    }
    ls_cells__copy(out, to, &values, 0, o->dtype);
    return LS_OK;
}

static int open_resolved(resolved *r, const ls_program_oracle *o, const ls_known_tensor *of,
                         const ls_placements *from, const ls_placements *to) {
    *r = (resolved){.from = from, .to = to, .count = 1};
    r->blocks = ls_arena_alloc(o->arena, (size_t)o->ranks, sizeof *r->blocks);
    LS_TRY_MEMORY(r->blocks != NULL);
    for (int rank = 0; rank < o->ranks; rank++) {
        LS_TRY(ls_placement_block(&r->blocks[rank], ls_local_tensor_shape(of->tensor), o->mesh,
                                  r->from, rank));
    }
    for (int d = 0; d < o->mesh->ndim; d++) {
        if (resolves(r, d)) {
            r->dims[r->dim_count++] = d;
            r->count *= o->mesh->dim[d];
        }
    }
    r->terms = ls_arena_alloc(o->arena, (size_t)r->count, sizeof *r->terms);
    LS_TRY(r->terms != NULL ? LS_OK : LS_ERR_MEMORY);
    return ls_cells__new(&r->values, o->arena, &LS_SHAPE(r->count), o->dtype);
}

// The resolved elements of `block` on a rank at `coordinates`.
static int resolve_block(ls_cells *out, const ls_program_oracle *o, const resolved *r,
                         const ls_cells *ranks, const ls_block *block, const int *coordinates) {
    LS_TRY(ls_cells__new(out, o->arena, &block->size, o->dtype));
    for (size_t i = 0; i < out->count; i++) {
        int64_t at[LS_DIMS_MAX];
        size_t rest = i;
        for (int d = block->size.ndim; d-- > 0;) {
            at[d] = block->offset.dim[d] + (int64_t)(rest % (size_t)block->size.dim[d]);
            rest /= (size_t)block->size.dim[d];
        }
        LS_TRY(resolve(out, i, o, r, ranks, at, coordinates));
    }
    return LS_OK;
}

int ls_known__resolve_whole(ls_cells *out, const ls_program_oracle *o, const ls_known_tensor *of) {
    resolved r;
    int none[LS_MESH_DIMS_MAX] = {0};
    ls_block all = {.size = *ls_local_tensor_shape(of->tensor)};
    all.offset.ndim = all.size.ndim;
    LS_TRY(open_resolved(&r, o, of, ls_local_tensor_placements(of->tensor), NULL));
    LS_TRY(resolve_block(out, o, &r, of->known.ranks, &all, none));
    if (of->known.whole != NULL) {
        ls_cells__take_exact(out, of->known.whole);
    }
    return LS_OK;
}

// ---- Redistributing -----------------------------------------------------------------------------
int ls_known__place(ls_known *out, const ls_program_oracle *o, const ls_known_tensor *of) {
    const ls_placements *from = ls_local_tensor_placements(of->tensor),
                        *to = &o->step->to.placements;
    const ls_placements everywhere = {.count = o->mesh->ndim};
    ls_known_tensor in = *of;
    if (!ls_known__is_known(&of->known) ||
        (!ls_placements_any_partial(from) && of->known.whole == NULL) ||
        (ls_placements_any_partial(to) && ls_known__any_split(to))) {
        return LS_OK;
    }
    if (!ls_placements_any_partial(from)) {  // it does not matter which rank held a value
        from = &everywhere;
        in.known.ranks = NULL;
    }
    out->whole = ls_arena_alloc(o->arena, 1, sizeof *out->whole);
    LS_TRY_MEMORY(out->whole != NULL);
    *out->whole = in.known.whole != NULL ? *in.known.whole : (ls_cells){0};
    LS_TRY(ls_placements_any_partial(from) ? ls_known__resolve_whole(out->whole, o, of) : LS_OK);
    if (!ls_placements_any_partial(to)) {
        return LS_OK;
    }
    ls_cells *ranks = ls_known__new_ranks(o);
    resolved r;
    LS_TRY_MEMORY(ranks != NULL);
    LS_TRY(open_resolved(&r, o, &in, from, to));
    ls_placements fresh = *to;  // the dimensions that become partial now
    for (int d = 0; d < fresh.count; d++) {
        if (ls_known__is_partial(from, d) && stays_partial(from, to, d)) {
            fresh.at[d] = LS_REPLICATE;
        }
    }
    if (in.known.ranks == NULL) {
        in.known.ranks = ls_known__new_ranks(o);
        for (int rank = 0; in.known.ranks != NULL && rank < o->ranks; rank++) {
            LS_TRY(ls_cells__cut(&in.known.ranks[rank], o->arena, in.known.whole, &r.blocks[rank],
                                 o->dtype));
        }
    }
    for (int rank = 0; in.known.ranks != NULL && rank < o->ranks; rank++) {
        ls_block block;
        int at[LS_MESH_DIMS_MAX];
        ls_mesh_coordinates(at, o->mesh, rank);
        LS_TRY(ls_placement_block(&block, &out->whole->shape, o->mesh, to, rank));
        LS_TRY(resolve_block(&ranks[rank], o, &r, in.known.ranks, &block, at));
        LS_TRY(ls_known__make_partial(&ranks[rank], o, &fresh, rank));
    }
    out->ranks = ranks;
    return in.known.ranks != NULL ? LS_OK : LS_ERR_MEMORY;
}
