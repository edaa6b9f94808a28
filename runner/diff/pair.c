// Assembles a tensor of both captures, if its ranks agree about it.
#include <string.h>

#include "runner/diff/diff_internal.h"

static const ls_shape *size_said(const ls_captured *tensor) {
    if (tensor->has_shape) {
        return &tensor->shape;
    }
    return tensor->piece_count == 1 && !tensor->has_placements && !tensor->pieces[0].placed
               ? &tensor->pieces[0].size
               : NULL;
}

static bool has_rank(const ls_captured *tensor, int rank) {
    bool found = false;
    for (int i = 0; i < tensor->said_count; i++) {
        found = found || tensor->pieces[i].rank == rank;
    }
    return found;
}

// Whether `rank` has a tensor that `other` lacks, as ranks of different pipeline stages or with
// different experts do.
static bool has_own(const ls_diff_sides *d, const ls_capture *of, int rank, int other) {
    char *known = &d->alone[of == d->run][rank * of->ranks + other];
    for (size_t i = 0; *known == 0 && i < of->count; i++) {
        const ls_captured *tensor = &of->tensors[i];
        if (!tensor->optional && !tensor->part && has_rank(tensor, rank) &&
            !has_rank(tensor, other)) {
            *known = 1;
        }
    }
    *known = *known == 0 ? -1 : *known;
    return *known > 0;
}

// A rank that lacks a tensor for no visible reason; -1: none.
static int lacking_rank(const ls_diff_sides *d, const ls_capture *of, const ls_captured *tensor) {
    if (tensor->optional || tensor->has_placements || tensor->pieces[0].placed) {
        return -1;
    }
    for (int rank = 0; rank < of->ranks; rank++) {
        if (!has_rank(tensor, rank) && !has_own(d, of, rank, tensor->pieces[0].rank)) {
            return rank;
        }
    }
    return -1;
}

// The reference's value for each copy of the run. Its copies must agree, or be as many as the
// run's.
static int find_wanted(ls_diff_pair *p, const char **why, const ls_diff_sides *d) {
    const ls_assembled *ref = &p->ref, *run = &p->run;
    const void *first = NULL;
    p->wanted = ls_arena_alloc(d->arena, (size_t)run->copies, sizeof *p->wanted);
    LS_TRY_MEMORY(p->wanted != NULL);
    LS_TRY(ls_assembled_value(&first, d->arena, ref, 0));
    p->same = true;
    for (int copy = 1; copy < ref->copies; copy++) {
        const void *value = NULL;
        LS_TRY(ls_assembled_value(&value, d->arena, ref, copy));
        p->same = p->same && memcmp(value, first, ref->count * ls_dtype_bytes(ref->dtype)) == 0;
    }
    if (!p->same && ref->copies != run->copies) {
        *why = "the reference's ranks have different values: name its placements";
    }
    for (int copy = 0; copy < run->copies; copy++) {
        p->wanted[copy] = first;
        if (!p->same && *why == NULL) {
            LS_TRY(ls_assembled_value(&p->wanted[copy], d->arena, ref, copy));
        }
    }
    LS_TRY(ls_assembled_value(&first, d->arena, run, 0));
    p->alike = p->same;
    for (int copy = 1; copy < run->copies && p->alike; copy++) {
        const void *value = NULL;
        LS_TRY(ls_assembled_value(&value, d->arena, run, copy));
        p->alike = memcmp(value, first, run->count * ls_dtype_bytes(run->dtype)) == 0;
    }
    return LS_OK;
}

// Assembles both; *why: the reason why that is impossible.
static int assemble_both(ls_diff_pair *p, const char **why, const ls_diff_sides *d,
                         const ls_captured *run) {
    const ls_captured *ref = p->ref_of;
    ls_assembled *a = &p->ref, *b = &p->run;
    const struct side {
        const ls_capture *capture;
        const ls_captured *tensor;
        const char *whose;
    } sides[2] = {{d->ref, ref, "the reference's"}, {d->run, run, "the run's"}};
    *why = NULL;
    for (int i = 0; i < 2 && *why == NULL; i++) {
        int rank = lacking_rank(d, sides[i].capture, sides[i].tensor);
        if (rank >= 0) {
            *why = ls_arena_printf(d->arena,
                                   "%s: rank %d lacks it, rank %d has it: if this is intended, "
                                   "name its placements and mesh",
                                   sides[i].whose, rank, sides[i].tensor->pieces[0].rank);
            return *why != NULL ? LS_OK : LS_ERR_MEMORY;
        }
        int status = i == 0 ? ls_assemble(a, d->arena, ref, size_said(run))
                            : ls_assemble(b, d->arena, run, &a->shape);
        if (status == LS_ERR_MISMATCH) {
            *why = ls_arena_printf(d->arena, "%s: %s", sides[i].whose, ls_error_last()->text);
            ls_error_clear();
            return *why != NULL ? LS_OK : LS_ERR_MEMORY;
        }
        LS_TRY(status);
    }
    if (a->dtype != b->dtype || !ls_shape_equal(&a->shape, &b->shape)) {
        char one[LS_SHAPE_TEXT_MAX], other[LS_SHAPE_TEXT_MAX];
        ls_shape_format(one, sizeof one, &a->shape);
        ls_shape_format(other, sizeof other, &b->shape);
        *why = ls_arena_printf(d->arena, "the reference has %s %s, the run %s %s",
                               ls_dtype_name(a->dtype), one, ls_dtype_name(b->dtype), other);
        return *why != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    return find_wanted(p, why, d);
}

void ls_diff__place_terms(ls_captured *placed, int *ranks, const ls_captured *ref,
                          const ls_captured *run, ls_op op) {
    *placed = *run;
    placed->has_placements = placed->has_shape = true;
    placed->shape = ref->pieces[0].size;
    placed->placements = LS_PLACE(LS_PARTIAL(op));
    placed->mesh = LS_MESH(run->piece_count);
    for (int i = 0; i < run->piece_count; i++) {
        ranks[i] = run->pieces[i].rank;
    }
    placed->mesh_ranks = ranks;
    placed->mesh_count = 1;
}

// A linear layer whose input is sharded along the contracted dimension gives each rank a term of
// the sum. Fills in *placed, a copy of `run` with that placement, and *ranks [of the run].
static bool is_part(ls_captured *placed, int *ranks, const ls_diff_sides *d, const ls_captured *ref,
                    const ls_captured *run) {
    const ls_captured *input = ls_capture_find(d->run, run->input);
    const ls_captured *whole = ls_capture_find(d->ref, run->input);
    if (run->made != LS_MADE_LINEAR || run->has_placements || run->piece_count < 2 ||
        input == NULL || whole == NULL || input->has_placements || ref->piece_count != 1 ||
        input->piece_count != run->piece_count) {
        return false;
    }
    const ls_shape *cut = &input->pieces[0].size, *full = &whole->pieces[0].size;
    if (cut->ndim != full->ndim || cut->ndim == 0 ||
        cut->dim[cut->ndim - 1] >= full->dim[full->ndim - 1] ||
        !ls_shape_equal(&run->pieces[0].size, &ref->pieces[0].size)) {
        return false;
    }
    ls_diff__place_terms(placed, ranks, ref, run, LS_SUM);
    return true;
}

bool ls_diff__is_root(const ls_captured *tensor) {
    const char *const kinds[] = {"input model", "forward model", "backward model"};
    size_t number = 0, at = ls_diff__step(&number, tensor->name);
    bool found = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i]);
        found = found || (strncmp(tensor->name + at, kinds[i], length) == 0 &&
                          (tensor->name[at + length] == ' ' || tensor->name[at + length] == 0));
    }
    return tensor->optional && found;
}

// Whether two ranks share no parameter or buffer, and both have some. Then the model is a pipeline
// stage, whose input and output differ from the whole model's.
static bool has_stages(const ls_diff_sides *d, const ls_captured *run) {
    for (int i = 1; i < run->piece_count; i++) {
        int first = run->pieces[0].rank, other = run->pieces[i].rank;
        bool shared = !has_own(d, d->run, first, other) || !has_own(d, d->run, other, first);
        for (size_t t = 0; t < d->run->count && !shared; t++) {
            const ls_captured *tensor = &d->run->tensors[t];
            shared = !tensor->optional && !tensor->part && has_rank(tensor, first) &&
                     has_rank(tensor, other);
        }
        if (!shared) {
            return true;
        }
    }
    return false;
}

// Whether the parts add up to the whole along one dimension, and are shorter in another.
static bool is_shorter(const ls_captured *run, const ls_shape *whole) {
    bool shorter = false;
    for (int along = 0; whole != NULL && along < whole->ndim && !shorter; along++) {
        int64_t sum = 0;
        bool fits = !run->has_placements;
        for (int i = 0; i < run->piece_count && fits; i++) {
            const ls_shape *size = &run->pieces[i].size;
            fits = size->ndim == whole->ndim;
            for (int d = 0; d < whole->ndim && fits; d++) {
                fits = size->dim[d] <= whole->dim[d];
                shorter = shorter || (d != along && size->dim[d] < whole->dim[d]);
            }
            sum += fits ? size->dim[along] : 0;
        }
        shorter = shorter && fits && sum == whole->dim[along];
    }
    return shorter;
}

bool ls_diff__is_padded(const ls_diff_sides *sides, const ls_captured *of) {
    const ls_captured *first = ls_diff__first_input(sides->ref, of->name);
    for (size_t i = 0; first != NULL && i < sides->ref->count; i++) {
        const ls_captured *ref = &sides->ref->tensors[i];
        const ls_captured *run = ls_capture_find(sides->run, ref->name);
        if (ls_diff__is_of(first->name, ref->name) && run != NULL && run->piece_count > 1 &&
            is_shorter(run, size_said(ref))) {
            return true;
        }
    }
    return false;
}

const char *ls_diff__beyond(const ls_diff_sides *sides, const ls_diff_pair *pair,
                            const ls_captured *ref, const ls_captured *run, bool unlike) {
    if (unlike && (pair->ref.unknown || pair->run.unknown)) {
        return "its placements are not known";
    }
    if (unlike && ref->optional && ls_diff__is_padded(sides, ref)) {
        return "ranks pad rows of the batch to other lengths";
    }
    if (ls_diff__is_root(run) && has_stages(sides, run)) {
        return "the ranks' models are stages of a pipeline";
    }
    return unlike && ref->optional && ref->dtype != run->dtype && ls_dtype_is_float(ref->dtype) &&
                   ls_dtype_is_float(run->dtype)
               ? "the two runs compute it in different types"
               : NULL;
}

static size_t length_without_call(const char *name) {
    const char *call = strstr(name, " (call ");
    return call != NULL ? (size_t)(call - name) : strlen(name);
}

// Whether all copies of the run's tensor equal one of the reference.
static bool has_value(const ls_diff_sides *d, const ls_assembled *run, const ls_captured *ref) {
    ls_assembled other;
    const void *due = NULL, *got = NULL;
    bool same = ls_assemble(&other, d->arena, ref, &run->shape) == LS_OK &&
                other.dtype == run->dtype && ls_shape_equal(&other.shape, &run->shape) &&
                ls_assembled_value(&due, d->arena, &other, 0) == LS_OK;
    for (int copy = 0; copy < run->copies && same; copy++) {
        same = ls_assembled_value(&got, d->arena, run, copy) == LS_OK &&
               memcmp(got, due, run->count * ls_dtype_bytes(run->dtype)) == 0;
    }
    ls_error_clear();
    return same;
}

bool ls_diff__is_other_call(const ls_diff_sides *sides, const ls_diff_pair *pair) {
    const ls_captured *run = pair->run.of;
    size_t length = length_without_call(run->name);
    for (size_t i = 0; i < sides->ref->count && run->optional; i++) {
        const ls_captured *ref = &sides->ref->tensors[i];
        if (ref != pair->ref_of && length_without_call(ref->name) == length &&
            strncmp(ref->name, run->name, length) == 0 && has_value(sides, &pair->run, ref)) {
            return true;
        }
    }
    return false;
}

int ls_diff__pair(ls_diff_pair *out, const char **why, const ls_diff_sides *sides,
                  const ls_captured *ref, const ls_captured *run) {
    const ls_captured *of_parts = ls_capture_find(sides->run, run->parts);
    *out = (ls_diff_pair){.ref_of = ref};
    ls_captured *placed = ls_arena_alloc(sides->arena, 1, sizeof *placed);
    int *ranks = ls_arena_alloc(sides->arena, (size_t)run->piece_count, sizeof *ranks);
    LS_TRY_MEMORY(placed != NULL && ranks != NULL);
    run = is_part(placed, ranks, sides, ref, run) ? placed : run;
    LS_TRY(assemble_both(out, why, sides, run));
    if (*why == NULL && of_parts != NULL) {
        int status = ls_assemble(&out->parts, sides->arena, of_parts, NULL);
        out->has_parts = status == LS_OK;
        if (status != LS_OK && status != LS_ERR_MISMATCH) {
            return status;
        }
        ls_error_clear();
    }
    return LS_OK;
}
