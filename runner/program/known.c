// Expected values of a tensor.
#include "runner/program/program_oracle_internal.h"

bool ls_known__is_partial(const ls_placements *placements, int d) {
    return placements->at[d].kind == LS_PLACE_PARTIAL;
}

bool ls_known__any_split(const ls_placements *placements) {
    bool split = false;
    for (int d = 0; d < placements->count; d++) {
        split = split || placements->at[d].split > 1;
    }
    return split;
}

bool ls_known__is_known(const ls_known *known) {
    return known->whole != NULL || known->ranks != NULL;
}

ls_cells *ls_known__new_ranks(const ls_program_oracle *o) {
    return ls_arena_alloc(o->arena, (size_t)o->ranks, sizeof(ls_cells));
}

// ---- Partial values -----------------------------------------------------------------------------
int ls_known__make_partial(ls_cells *cells, const ls_program_oracle *o,
                           const ls_placements *placements, int rank) {
    int at[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(at, o->mesh, rank);
    for (int d = 0; d < placements->count; d++) {
        if (ls_known__is_partial(placements, d) && at[d] != 0 && placements->at[d].op != LS_AVG) {
            return ls_cells__neutral(cells, o->arena, o->dtype, placements->at[d].op);
        }
    }
    return LS_OK;
}
