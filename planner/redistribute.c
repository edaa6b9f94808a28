// The search over placements (Dijkstra's), and the orders of lockstep and of DTensor.
#include "planner/redistribute.h"

#include <math.h>
#include <string.h>

#define BYTES_PER_GIB 1073741824.0
#define TENSOR_MAX    16

typedef struct world {
    const ls_reshard_mesh *mesh;
    double bytes;
    int tensor_ndim;
} world;

static bool same(const ls_reshard_placement *a, const ls_reshard_placement *b) {
    return a->kind == b->kind && (a->kind != LS_RESHARD_SHARD || a->dim == b->dim) &&
           (a->kind != LS_RESHARD_PARTIAL || a->op == b->op);
}

static int check(const world *w, const ls_reshard_placement *from, const ls_reshard_placement *to) {
    LS_ASSERT(w->mesh->ndim >= 1 && w->mesh->ndim <= LS_RESHARD_MESH_MAX);
    if (w->tensor_ndim < 0 || w->tensor_ndim > TENSOR_MAX || !(w->bytes >= 0.0)) {
        return LS_FAIL(LS_ERR_INVALID, "redistribute: a tensor of %d dimensions and %g bytes",
                       w->tensor_ndim, w->bytes);
    }
    for (int i = 0; i < w->mesh->ndim; i++) {
        for (int k = 0; k < 2; k++) {
            const ls_reshard_placement *p = k ? &to[i] : &from[i];
            if (p->kind == LS_RESHARD_SHARD && (p->dim < 0 || p->dim >= w->tensor_ndim)) {
                return LS_FAIL(
                    LS_ERR_INVALID,
                    "redistribute: mesh dimension %d shards dimension %d of a tensor that "
                    "has %d",
                    i, p->dim, w->tensor_ndim);
            }
        }
        if (from[i].kind == LS_RESHARD_PARTIAL && to[i].kind == LS_RESHARD_PARTIAL &&
            from[i].op != to[i].op) {
            return LS_FAIL(LS_ERR_INVALID,
                           "redistribute: mesh dimension %d goes from a partial %s to a partial %s",
                           i, ls_op_name(from[i].op), ls_op_name(to[i].op));
        }
    }
    return LS_OK;
}

// Whether an inner mesh dimension cuts tensor dimension `dim`, too: then an outer one cannot
// change.
static bool cut_inside(const ls_reshard_placement *at, int ndim, int mesh_dim, int dim) {
    for (int i = mesh_dim + 1; i < ndim; i++) {
        if (at[i].kind == LS_RESHARD_SHARD && at[i].dim == dim) {
            return true;
        }
    }
    return false;
}

// Fills the step from at[mesh_dim] to `to`; false when no single collective does it.
static bool make_step(ls_reshard_step *out, const world *w, const ls_reshard_placement *at,
                      int mesh_dim, const ls_reshard_placement *to) {
    const ls_reshard_placement *from = &at[mesh_dim];
    int n = w->mesh->size[mesh_dim];
    if ((from->kind == LS_RESHARD_SHARD && cut_inside(at, w->mesh->ndim, mesh_dim, from->dim)) ||
        (to->kind == LS_RESHARD_SHARD && cut_inside(at, w->mesh->ndim, mesh_dim, to->dim))) {
        return false;
    }
    double bytes = w->bytes;
    for (int i = 0; i < w->mesh->ndim; i++) {
        bytes /= at[i].kind == LS_RESHARD_SHARD ? w->mesh->size[i] : 1.0;
    }
    double gib = bytes / BYTES_PER_GIB;
    *out = (ls_reshard_step){.mesh_dim = mesh_dim, .from = *from, .to = *to, .bytes = bytes};
    if (from->kind == LS_RESHARD_SHARD && to->kind == LS_RESHARD_REPLICATE) {
        out->collective = "all_gather";
        out->us = ls_reshard_all_gather_us(gib * n, w->mesh, mesh_dim);
    } else if (from->kind == LS_RESHARD_SHARD && to->kind == LS_RESHARD_SHARD) {
        out->collective = "all_to_all";
        out->us = ls_reshard_all_to_all_us(gib, w->mesh, mesh_dim);
    } else if (from->kind == LS_RESHARD_PARTIAL && to->kind == LS_RESHARD_REPLICATE) {
        out->collective = "all_reduce";
        out->us = ls_reshard_all_reduce_us(gib, w->mesh, mesh_dim);
    } else if (from->kind == LS_RESHARD_PARTIAL && to->kind == LS_RESHARD_SHARD) {
        out->collective = "reduce_scatter";
        out->us = ls_reshard_reduce_scatter_us(gib, w->mesh, mesh_dim);
    } else if (from->kind != LS_RESHARD_REPLICATE) {
        return false;  // shard or partial to partial
    }
    if (n == 1) {  // a single rank
        out->collective = NULL;
        out->us = 0.0;
    }
    return true;
}

// ---- Search -------------------------------------------------------------------------------------
//
// A state is a number with one digit per mesh dimension: 0 replicated, 1 partial, 2 + d sharded.

typedef struct node {
    double us;       // from the start
    int steps;       //
    int32_t before;  // the state it was reached from; -1: none
    int heap;        // position in the heap; -1: not in it
    bool closed;
} node;

typedef struct search {
    const world *w;
    const ls_reshard_placement *from, *to;
    int digits;
    node *nodes;
    int32_t *heap;
    int heap_count;
} search;

static ls_reshard_placement placement_of(int digit, ls_op op) {
    if (digit >= 2) {
        return (ls_reshard_placement){.kind = LS_RESHARD_SHARD, .dim = digit - 2, .op = LS_SUM};
    }
    return digit == 1 ? (ls_reshard_placement){.kind = LS_RESHARD_PARTIAL, .op = op}
                      : (ls_reshard_placement){.kind = LS_RESHARD_REPLICATE, .op = LS_SUM};
}

static void decode(ls_reshard_placement *at, const search *s, int state) {
    for (int i = s->w->mesh->ndim - 1; i >= 0; i--) {
        int digit = state % s->digits;
        // Which operation a partial stands for follows from where it came from or goes to.
        ls_op op = s->from[i].kind == LS_RESHARD_PARTIAL ? s->from[i].op : s->to[i].op;
        at[i] = placement_of(digit, op);
        state /= s->digits;
    }
}

static int digit_of(const ls_reshard_placement *p) {
    if (p->kind == LS_RESHARD_REPLICATE) {
        return 0;
    }
    return p->kind == LS_RESHARD_PARTIAL ? 1 : 2 + p->dim;
}

static int encode(const search *s, const ls_reshard_placement *at) {
    int state = 0;
    for (int i = 0; i < s->w->mesh->ndim; i++) {
        state = state * s->digits + digit_of(&at[i]);
    }
    return state;
}

static bool before(const search *s, int32_t a, int32_t b) {
    const node *x = &s->nodes[a];
    const node *y = &s->nodes[b];
    if (x->us != y->us) {
        return x->us < y->us;
    }
    return x->steps != y->steps ? x->steps < y->steps : a < b;
}

static void put_at(search *s, int position, int32_t state) {
    s->heap[position] = state;
    s->nodes[state].heap = position;
}

static void sift_up(search *s, int position) {
    int32_t state = s->heap[position];
    while (position > 0 && before(s, state, s->heap[(position - 1) / 2])) {
        put_at(s, position, s->heap[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    put_at(s, position, state);
}

static int32_t pop(search *s) {
    int32_t top = s->heap[0];
    int32_t state = s->heap[--s->heap_count];
    int position = 0;
    while (2 * position + 1 < s->heap_count) {
        int child = 2 * position + 1;
        child += child + 1 < s->heap_count && before(s, s->heap[child + 1], s->heap[child]);
        if (!before(s, s->heap[child], state)) {
            break;
        }
        put_at(s, position, s->heap[child]);
        position = child;
    }
    if (s->heap_count > 0) {
        put_at(s, position, state);
    }
    s->nodes[top].heap = -1;
    return top;
}

static void reach(search *s, int32_t state, int32_t from, double us) {
    node *next = &s->nodes[state];
    int steps = from < 0 ? 0 : s->nodes[from].steps + 1;
    if (next->closed || us > next->us || (us == next->us && steps >= next->steps)) {
        return;
    }
    next->us = us;
    next->steps = steps;
    next->before = from;
    if (next->heap < 0) {
        put_at(s, s->heap_count++, state);
    }
    sift_up(s, next->heap);
}

static void expand(search *s, int32_t state) {
    ls_reshard_placement at[LS_RESHARD_MESH_MAX];
    ls_reshard_step step;
    decode(at, s, state);
    for (int i = 0; i < s->w->mesh->ndim; i++) {
        ls_reshard_placement old = at[i];
        for (int digit = 0; digit < s->digits; digit++) {
            // A partial is only made where the end wants one: nothing else gains by it.
            if (digit == digit_of(&old) || (digit == 1 && s->to[i].kind != LS_RESHARD_PARTIAL)) {
                continue;
            }
            ls_reshard_placement next = placement_of(digit, s->to[i].op);
            if (make_step(&step, s->w, at, i, &next)) {
                at[i] = next;
                reach(s, encode(s, at), state, s->nodes[state].us + step.us);
                at[i] = old;
            }
        }
    }
}

// Reads the steps back from the end to the start.
static int read_back(ls_reshard_plan *out, const search *s, int32_t end) {
    *out = (ls_reshard_plan){.count = s->nodes[end].steps, .us = s->nodes[end].us};
    if (out->count > LS_RESHARD_STEPS_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "redistribute: more than %d steps", LS_RESHARD_STEPS_MAX);
    }
    int32_t state = end;
    for (int k = out->count - 1; k >= 0; k--) {
        ls_reshard_placement at[LS_RESHARD_MESH_MAX];
        ls_reshard_placement next[LS_RESHARD_MESH_MAX];
        decode(next, s, state);
        state = s->nodes[state].before;
        decode(at, s, state);
        int i = 0;
        while (digit_of(&at[i]) == digit_of(&next[i])) {
            i++;
        }
        bool possible = make_step(&out->steps[k], s->w, at, i, &next[i]);
        LS_ASSERT(possible);
    }
    return LS_OK;
}

int ls_reshard_search(ls_reshard_plan *out, double bytes, int tensor_ndim,
                      const ls_reshard_placement *from, const ls_reshard_placement *to,
                      const ls_reshard_mesh *mesh) {
    LS_ASSERT(out && from && to && mesh);
    world w = {mesh, bytes, tensor_ndim};
    *out = (ls_reshard_plan){.us = INFINITY};
    LS_TRY(check(&w, from, to));
    search s = {.w = &w, .from = from, .to = to, .digits = 2 + tensor_ndim};
    int64_t states = 1;
    for (int i = 0; i < mesh->ndim; i++) {
        states *= s.digits;
        if (states > LS_RESHARD_STATES_MAX) {
            return LS_FAIL(LS_ERR_LIMIT, "redistribute: more than %d placements to look at",
                           LS_RESHARD_STATES_MAX);
        }
    }
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    s.nodes = ls_arena_alloc(arena, (size_t)states, sizeof(*s.nodes));
    s.heap = ls_arena_alloc(arena, (size_t)states, sizeof(*s.heap));
    if (!s.nodes || !s.heap) {
        ls_arena_free(arena);
        return LS_ERR_MEMORY;
    }
    for (int64_t i = 0; i < states; i++) {
        s.nodes[i] = (node){.us = INFINITY, .before = -1, .heap = -1};
    }
    int32_t end = encode(&s, to);
    reach(&s, encode(&s, from), -1, 0.0);
    while (s.heap_count > 0) {
        int32_t state = pop(&s);
        s.nodes[state].closed = true;
        if (state == end) {
            break;
        }
        expand(&s, state);
    }
    int status =
        LS_FAIL(LS_ERR_UNSUPPORTED, "redistribute: no sequence of collectives reaches the target");
    if (s.nodes[end].closed) {
        status = read_back(out, &s, end);
    }
    ls_arena_free(arena);
    return status;
}

// ---- Fixed orders -------------------------------------------------------------------------------

static int take_step(ls_reshard_plan *out, const world *w, ls_reshard_placement *at, int mesh_dim,
                     const ls_reshard_placement *to) {
    LS_ASSERT(out->count < LS_RESHARD_STEPS_MAX);
    ls_reshard_step *step = &out->steps[out->count];
    if (!make_step(step, w, at, mesh_dim, to)) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "redistribute: no single collective changes mesh dimension %d", mesh_dim);
    }
    out->count++;
    out->us += step->us;
    at[mesh_dim] = *to;
    return LS_OK;
}

// An empty plan, at the placements where it begins.
static int begin(ls_reshard_plan *out, ls_reshard_placement *at, const world *w,
                 const ls_reshard_placement *from, const ls_reshard_placement *to) {
    *out = (ls_reshard_plan){0};
    LS_TRY(check(w, from, to));
    memcpy(at, from, (size_t)w->mesh->ndim * sizeof(*at));
    return LS_OK;
}

static int go(ls_reshard_plan *out, const world *w, ls_reshard_placement *at, int mesh_dim,
              const ls_reshard_placement *to) {
    return same(&at[mesh_dim], to) ? LS_OK : take_step(out, w, at, mesh_dim, to);
}

// Gathers the inner mesh dimensions that cut what `mesh_dim` is about to change.
static int gather_inner(ls_reshard_plan *out, const world *w, ls_reshard_placement *at,
                        int mesh_dim, const ls_reshard_placement *to) {
    static const ls_reshard_placement replicate = {.kind = LS_RESHARD_REPLICATE};
    const ls_reshard_placement *now = &at[mesh_dim];
    for (int inner = w->mesh->ndim - 1; inner > mesh_dim; inner--) {
        bool cuts = at[inner].kind == LS_RESHARD_SHARD &&
                    ((now->kind == LS_RESHARD_SHARD && now->dim == at[inner].dim) ||
                     (to->kind == LS_RESHARD_SHARD && to->dim == at[inner].dim));
        LS_TRY(cuts ? take_step(out, w, at, inner, &replicate) : LS_OK);
    }
    return LS_OK;
}

int ls_reshard_in_order(ls_reshard_plan *out, double bytes, int tensor_ndim,
                        const ls_reshard_placement *from, const ls_reshard_placement *to,
                        const ls_reshard_mesh *mesh) {
    LS_ASSERT(out && from && to && mesh);
    static const ls_reshard_placement replicate = {.kind = LS_RESHARD_REPLICATE};
    world w = {mesh, bytes, tensor_ndim};
    ls_reshard_placement at[LS_RESHARD_MESH_MAX];
    LS_TRY(begin(out, at, &w, from, to));
    for (int i = mesh->ndim - 1; i >= 0; i--) {
        if (!same(&at[i], &to[i])) {
            const ls_reshard_placement *next =
                to[i].kind == LS_RESHARD_PARTIAL ? &replicate : &to[i];
            LS_TRY(gather_inner(out, &w, at, i, next));
            LS_TRY(go(out, &w, at, i, next));
        }
    }
    for (int i = 0; i < mesh->ndim; i++) {
        LS_TRY(to[i].kind == LS_RESHARD_SHARD ? go(out, &w, at, i, &to[i]) : LS_OK);
    }
    for (int i = 0; i < mesh->ndim; i++) {
        LS_TRY(go(out, &w, at, i, &to[i]));
    }
    return LS_OK;
}

static bool cut_outside_alike(const ls_reshard_placement *at, const ls_reshard_placement *to,
                              int mesh_dim, int dim) {
    for (int i = 0; i < mesh_dim; i++) {
        bool now = at[i].kind == LS_RESHARD_SHARD && at[i].dim == dim;
        bool then = to[i].kind == LS_RESHARD_SHARD && to[i].dim == dim;
        if (now != then) {
            return false;
        }
    }
    return true;
}

int ls_reshard_greedy(ls_reshard_plan *out, double bytes, int tensor_ndim,
                      const ls_reshard_placement *from, const ls_reshard_placement *to,
                      const ls_reshard_mesh *mesh) {
    LS_ASSERT(out && from && to && mesh);
    static const ls_reshard_placement replicate = {.kind = LS_RESHARD_REPLICATE};
    world w = {mesh, bytes, tensor_ndim};
    ls_reshard_placement at[LS_RESHARD_MESH_MAX];
    LS_TRY(begin(out, at, &w, from, to));
    // Inner dimensions first; what an outer one will cut differently is gathered for now.
    for (int i = mesh->ndim - 1; i >= 0; i--) {
        const ls_reshard_placement *next = &to[i];
        if (next->kind == LS_RESHARD_SHARD && !cut_outside_alike(at, to, i, next->dim)) {
            next = &replicate;
        }
        LS_TRY(go(out, &w, at, i, next));
    }
    for (int i = 0; i < mesh->ndim; i++) {
        LS_TRY(go(out, &w, at, i, &to[i]));
    }
    return LS_OK;
}
