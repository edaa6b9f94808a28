// Collectives that reduce: MPI's operations and the program's own, which do or do not commute, in
// every form, on every kind of communicator, in place or not.
#include "compared.h"

static int in[ROOM], out[ROOM];
static const place *p;
static form how;

// An operation on elements of `width` ints.
typedef struct reduction {
    const char *name;
    MPI_Op op;
    MPI_Datatype type;
    int width;
} reduction;

static const reduction *r;

static void start(void) {
    for (int i = 0; i < ROOM; i++) {
        in[i] = (i * 37 + (p->rank + 5 * p->group) * (i % 5 + 11)) % 90 + 1;
    }
    fill(out, -1);
}

// x -> (a x + b) mod 1009 after another: does not commute.
static void compose(void *first, void *then, int *count, MPI_Datatype *type) {
    const int *f = first;
    int *g = then;
    for (int i = 0; i < 2 * *count; i += 2) {
        g[i + 1] = (f[i + 1] * g[i] + g[i + 1]) % 1009;
        g[i] = f[i] * g[i] % 1009;
    }
    (void)type;
}

// The sum of every second int, modulo 1009; the operation does not own the others.
static void sum_gapped(void *in_, void *inout, int *count, MPI_Datatype *type) {
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    for (int i = 0; i < *count; i++) {
        int *own = (int *)((char *)inout + i * extent);
        *own = (*own + *(int *)((char *)in_ + i * extent)) % 1009;
    }
}

static void rooted(int group) {
    int root = root_of(p, group, (int)how + 1), top = is_root(p, root);
    start();
    CALL(how, Reduce, reduce, in, out, 4, r->type, r->op, root, p->comm);
    show("reduce", out, ROOM);
    if (!p->inter && how != PERSISTENT) {
        start();
        CALL(how, Reduce, reduce, top ? MPI_IN_PLACE : in, top ? in : NULL, 4, r->type, r->op, root,
             p->comm);
        show("reduce in place", in, 4 * r->width);
    }
}

static void everywhere(void) {
    start();
    CALL(how, Allreduce, allreduce, in, out, 3, r->type, r->op, p->comm);
    show("allreduce", out, ROOM);

    int each = p->inter ? p->peers : 2, counts[ROOM];
    start();
    CALL(how, Reduce_scatter_block, reduce_scatter_block, in, out, each, r->type, r->op, p->comm);
    show("reduce_scatter_block", out, ROOM);
    for (int b = 0; b < p->size; b++) {
        counts[b] = each + (p->size == 1 ? 0 : b == 0 ? each : b == p->size - 1 ? -each : 0);
    }
    start();
    CALL(how, Reduce_scatter, reduce_scatter, in, out, counts, r->type, r->op, p->comm);
    show("reduce_scatter", out, ROOM);
    if (p->inter) {
        return;
    }
    start();
    CALL(how, Scan, scan, in, out, 3, r->type, r->op, p->comm);
    show("scan", out, ROOM);
    start();
    CALL(how, Exscan, exscan, in, out, 3, r->type, r->op, p->comm);
    show("exscan", out, p->rank == 0 ? 0 : ROOM);
    start();
    CALL(how, Allreduce, allreduce, MPI_IN_PLACE, in, 3, r->type, r->op, p->comm);
    show("allreduce in place", in, ROOM);
    start();
    CALL(how, Reduce_scatter_block, reduce_scatter_block, MPI_IN_PLACE, in, each, r->type, r->op,
         p->comm);
    show("reduce_scatter_block in place", in, each * r->width);
    start();
    CALL(how, Reduce_scatter, reduce_scatter, MPI_IN_PLACE, in, counts, r->type, r->op, p->comm);
    show("reduce_scatter in place", in, counts[p->rank] * r->width);
    start();
    CALL(how, Scan, scan, MPI_IN_PLACE, in, 3, r->type, r->op, p->comm);
    show("scan in place", in, ROOM);
    start();
    CALL(how, Exscan, exscan, MPI_IN_PLACE, in, 3, r->type, r->op, p->comm);
    show("exscan in place", in, p->rank == 0 ? 0 : ROOM);
}

int main(int argc, char **argv) {
    place places[PLACE_COUNT];
    MPI_Datatype pair, gapped;
    MPI_Op composed, summed;
    MPI_Init(&argc, &argv);
    make_places(places);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped);
    MPI_Type_commit(&pair);
    MPI_Type_commit(&gapped);
    MPI_Op_create(compose, 0, &composed);
    MPI_Op_create(sum_gapped, 1, &summed);
    const reduction reductions[] = {
        {"sum", MPI_SUM, MPI_INT, 1},
        {"minloc", MPI_MINLOC, MPI_2INT, 2},
        {"composed", composed, pair, 2},
        {"gapped", summed, gapped, 2},
    };
    for (int i = 0; i < LAST(reductions); i++) {
        int commutes;
        MPI_Op_commutative(reductions[i].op, &commutes);
        printf("%s commutes: %d\n", reductions[i].name, commutes != 0);
    }
    for (int i = 0; i < PLACE_COUNT * LAST(reductions); i++) {
        p = &places[i / LAST(reductions)];
        r = &reductions[i % LAST(reductions)];
        how = (form)((i + i / FORM_COUNT) % FORM_COUNT);
        printf("%s of %s, form %d\n", r->name, p->name, (int)how);
        for (int group = 0; group < (p->inter ? 2 : 1); group++) {
            rooted(group);
        }
        everywhere();
    }
    MPI_Op_free(&composed);
    MPI_Op_free(&summed);
    printf("freed: %d %d\n", composed == MPI_OP_NULL, summed == MPI_OP_NULL);
    MPI_Type_free(&pair);
    MPI_Type_free(&gapped);
    free_places(places);
    MPI_Finalize();
    return 0;
}
