// Shared by the oracle of programs and its part for partial values. Private to this folder.
#pragma once

#include "runner/program/program_cells.h"
#include "runner/program/program_oracle.h"

typedef struct ls_program_oracle {
    ls_arena *arena;
    const ls_scenario_step *step;
    const ls_mesh *mesh;
    ls_dtype dtype;
    int ranks;
} ls_program_oracle;

bool ls_known__is_partial(const ls_placements *placements, int d);
// Partial values of a rank with several blocks are not judged.
bool ls_known__any_split(const ls_placements *placements);
ls_cells *ls_known__new_ranks(const ls_program_oracle *o);
bool ls_known__is_known(const ls_known *known);

// Rank 0 along a partial dimension holds the values, the others hold the neutral value; avg has
// none: all hold the values.
int ls_known__make_partial(ls_cells *cells, const ls_program_oracle *o,
                           const ls_placements *placements, int rank);
// The whole of a tensor with partial values, with the bound of the sum over ranks.
int ls_known__resolve_whole(ls_cells *out, const ls_program_oracle *o, const ls_known_tensor *of);
// The result of a redistribution of a tensor.
int ls_known__place(ls_known *out, const ls_program_oracle *o, const ls_known_tensor *of);
