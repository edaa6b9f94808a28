// Groups: lists of ranks of the world.
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

mpi_group *ls_mpi__group_make(int size) {
    mpi_group *made = ls_mpi__alloc(sizeof *made + (size_t)size * sizeof(int));
    made->size = size;
    return made;
}

int ls_mpi__group_rank(const mpi_group *group, int world_rank) {
    for (int i = 0; i < group->size; i++) {
        if (group->ranks[i] == world_rank) {
            return i;
        }
    }
    return MPI_UNDEFINED;
}

mpi_group *ls_mpi__group_of(const mpi_comm *comm, bool remote) {
    int size = remote ? comm->remote_size : comm->size;
    int first = remote ? comm->remote_first : comm->first;
    mpi_group *made = ls_mpi__group_make(size);
    for (int i = 0; i < size; i++) {
        made->ranks[i] = ls_mpi__comm_world_rank(comm, first + i);
    }
    return made;
}

int ls_mpi__group_handle(mpi_rank *me, mpi_group *group) {
    if (group->size == 0) {
        free(group);
        return MPI_GROUP_EMPTY;
    }
    return ls_mpi__handle_add(me, MPI_KIND_GROUP, group);
}

static int give(mpi_where at, mpi_group *group, MPI_Group *out) {
    int status = ls_mpi__out_arg(at, "group", out);
    if (status != MPI_SUCCESS) {
        free(group);
        return status;
    }
    *out = ls_mpi__group_handle(at.me, group);
    if (*out != MPI_GROUP_EMPTY) {
        ls_mpi__handle_slot(at.me, *out)->function = at.function;
    }
    return MPI_SUCCESS;
}

int MPI_Comm_group(MPI_Comm comm, MPI_Group *group) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    return give(at, ls_mpi__group_of(of, false), group);
}

int MPI_Comm_remote_group(MPI_Comm comm, MPI_Group *group) {
    MPI_ENTER_AT(at);
    mpi_comm *of;
    MPI_TRY(ls_mpi__comm_arg(&of, at, comm));
    if (!of->inter) {
        return ls_mpi__error(at.me, of, MPI_ERR_COMM, __func__,
                             "the communicator is not an intercommunicator");
    }
    return give(at, ls_mpi__group_of(of, true), group);
}

int MPI_Group_size(MPI_Group group, int *size) {
    MPI_ENTER_AT(at);
    mpi_group *of;
    MPI_TRY(ls_mpi__group_arg(&of, at, group));
    MPI_TRY(ls_mpi__out_arg(at, "size", size));
    *size = of->size;
    return MPI_SUCCESS;
}

int MPI_Group_rank(MPI_Group group, int *rank) {
    MPI_ENTER_AT(at);
    mpi_group *of;
    MPI_TRY(ls_mpi__group_arg(&of, at, group));
    MPI_TRY(ls_mpi__out_arg(at, "rank", rank));
    *rank = ls_mpi__group_rank(of, at.me->id);
    return MPI_SUCCESS;
}

int MPI_Group_translate_ranks(MPI_Group a, int n, const int ranks[], MPI_Group b, int out[]) {
    MPI_ENTER_AT(at);
    mpi_group *from, *to;
    MPI_TRY(ls_mpi__group_arg(&from, at, a));
    MPI_TRY(ls_mpi__group_arg(&to, at, b));
    MPI_TRY(n > 0 ? ls_mpi__out_arg(at, "ranks", out) : MPI_SUCCESS);
    for (int i = 0; i < n; i++) {
        if (ranks[i] != MPI_PROC_NULL && (ranks[i] < 0 || ranks[i] >= from->size)) {
            return ls_mpi__error(at.me, NULL, MPI_ERR_RANK, __func__, "rank %d is not in [0, %d)",
                                 ranks[i], from->size);
        }
        out[i] = ranks[i] == MPI_PROC_NULL ? MPI_PROC_NULL
                                           : ls_mpi__group_rank(to, from->ranks[ranks[i]]);
    }
    return MPI_SUCCESS;
}

static int compare(const mpi_group *a, const mpi_group *b) {
    if (a->size != b->size) {
        return MPI_UNEQUAL;
    }
    if (memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof(int)) == 0) {
        return MPI_IDENT;
    }
    for (int i = 0; i < a->size; i++) {
        if (ls_mpi__group_rank(b, a->ranks[i]) < 0) {
            return MPI_UNEQUAL;
        }
    }
    return MPI_SIMILAR;
}

int MPI_Group_compare(MPI_Group a, MPI_Group b, int *result) {
    MPI_ENTER_AT(at);
    mpi_group *x, *y;
    MPI_TRY(ls_mpi__group_arg(&x, at, a));
    MPI_TRY(ls_mpi__group_arg(&y, at, b));
    MPI_TRY(ls_mpi__out_arg(at, "result", result));
    *result = compare(x, y);
    return MPI_SUCCESS;
}

int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *result) {
    MPI_ENTER_AT(at);
    mpi_comm *x, *y;
    MPI_TRY(ls_mpi__comm_arg(&x, at, a));
    MPI_TRY(ls_mpi__comm_arg(&y, at, b));
    MPI_TRY(ls_mpi__out_arg(at, "result", result));
    if (x == y || x->inner == y->inner) {
        *result = MPI_IDENT;
        return MPI_SUCCESS;
    }
    int worst = x->inter != y->inter ? MPI_UNEQUAL : MPI_IDENT;
    for (int side = 0; side < (x->inter ? 2 : 1) && worst != MPI_UNEQUAL; side++) {
        mpi_group *p = ls_mpi__group_of(x, side == 1), *q = ls_mpi__group_of(y, side == 1);
        int here = compare(p, q);
        if (here == MPI_UNEQUAL || here == MPI_SIMILAR) {
            worst = here > worst ? here : worst;
        }
        free(p);
        free(q);
    }
    *result = worst == MPI_IDENT ? MPI_CONGRUENT : worst;
    return MPI_SUCCESS;
}

// ---- Making -------------------------------------------------------------------------------------
typedef enum set_operation { UNION, INTERSECTION, DIFFERENCE } set_operation;

static int combine(mpi_where at, MPI_Group a, MPI_Group b, set_operation how, MPI_Group *out) {
    mpi_group *x, *y;
    MPI_TRY(ls_mpi__group_arg(&x, at, a));
    MPI_TRY(ls_mpi__group_arg(&y, at, b));
    mpi_group *made = ls_mpi__group_make(x->size + y->size);
    int count = 0;
    for (int i = 0; i < x->size; i++) {
        bool in_both = ls_mpi__group_rank(y, x->ranks[i]) >= 0;
        if (how == UNION || in_both == (how == INTERSECTION)) {
            made->ranks[count++] = x->ranks[i];
        }
    }
    for (int i = 0; how == UNION && i < y->size; i++) {
        if (ls_mpi__group_rank(x, y->ranks[i]) < 0) {
            made->ranks[count++] = y->ranks[i];
        }
    }
    made->size = count;
    return give(at, made, out);
}

int MPI_Group_union(MPI_Group a, MPI_Group b, MPI_Group *out) {
    MPI_ENTER_AT(at);
    return combine(at, a, b, UNION, out);
}

int MPI_Group_intersection(MPI_Group a, MPI_Group b, MPI_Group *out) {
    MPI_ENTER_AT(at);
    return combine(at, a, b, INTERSECTION, out);
}

int MPI_Group_difference(MPI_Group a, MPI_Group b, MPI_Group *out) {
    MPI_ENTER_AT(at);
    return combine(at, a, b, DIFFERENCE, out);
}

// The listed ranks in their order, or all others.
static int select_ranks(mpi_where at, const mpi_group *of, int n, const int *ranks, bool include,
                        MPI_Group *out) {
    MPI_TRY(ls_mpi__count_arg(at, NULL, "n", n));
    bool *named = ls_mpi__alloc((size_t)of->size + 1);
    mpi_group *made = ls_mpi__group_make(of->size + n);
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= of->size || named[ranks[i]]) {
            bool twice = ranks[i] >= 0 && ranks[i] < of->size;
            free(named);
            free(made);
            return ls_mpi__error(at.me, NULL, MPI_ERR_RANK, at.function,
                                 twice ? "rank %d is named twice, group of %d"
                                       : "rank %d is not in [0, %d)",
                                 ranks[i], of->size);
        }
        named[ranks[i]] = true;
        if (include) {
            made->ranks[count++] = of->ranks[ranks[i]];
        }
    }
    for (int i = 0; !include && i < of->size; i++) {
        if (!named[i]) {
            made->ranks[count++] = of->ranks[i];
        }
    }
    free(named);
    made->size = count;
    return give(at, made, out);
}

int MPI_Group_incl(MPI_Group group, int n, const int ranks[], MPI_Group *out) {
    MPI_ENTER_AT(at);
    mpi_group *of;
    MPI_TRY(ls_mpi__group_arg(&of, at, group));
    return select_ranks(at, of, n, ranks, true, out);
}

int MPI_Group_excl(MPI_Group group, int n, const int ranks[], MPI_Group *out) {
    MPI_ENTER_AT(at);
    mpi_group *of;
    MPI_TRY(ls_mpi__group_arg(&of, at, group));
    return select_ranks(at, of, n, ranks, false, out);
}

static int ranges(mpi_where at, MPI_Group group, int n, int list[][3], bool include,
                  MPI_Group *out) {
    mpi_group *of;
    MPI_TRY(ls_mpi__group_arg(&of, at, group));
    int *ranks = ls_mpi__alloc((size_t)(of->size + 1) * sizeof *ranks), count = 0;
    for (int i = 0; i < n; i++) {
        int first = list[i][0], last = list[i][1], stride = list[i][2];
        if (stride == 0) {
            free(ranks);
            return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function, "range %d has stride 0", i);
        }
        for (int r = first; (stride > 0 ? r <= last : r >= last) && count <= of->size;
             r += stride) {
            ranks[count++] = r;
        }
    }
    int status = select_ranks(at, of, count, ranks, include, out);
    free(ranks);
    return status;
}

int MPI_Group_range_incl(MPI_Group group, int n, int list[][3], MPI_Group *out) {
    MPI_ENTER_AT(at);
    return ranges(at, group, n, list, true, out);
}

int MPI_Group_range_excl(MPI_Group group, int n, int list[][3], MPI_Group *out) {
    MPI_ENTER_AT(at);
    return ranges(at, group, n, list, false, out);
}

int MPI_Group_free(MPI_Group *group) {
    MPI_ENTER_AT(at);
    mpi_group *of;
    MPI_TRY(ls_mpi__group_arg(&of, at, group != NULL ? *group : MPI_GROUP_NULL));
    if (*group != MPI_GROUP_EMPTY) {
        ls_mpi__handle_free(at.me, *group);
        free(of);
    }
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}
