// Drawings of shardings: the owners of the blocks of a table or tensor. Uneven and empty blocks,
// blocks on several ranks, gaps and any number of dimensions are drawn unchanged.
#pragma once

#include <stdbool.h>

#include "base/base.h"
#include "formats/json.h"
#include "local_tensor/local_tensor.h"
#include "planner/plan.h"

typedef struct ls_picture_block {
    int rank;
    ls_block block;
} ls_picture_block;

// One table or tensor. Strings and blocks are borrowed or live in the arena that made the picture.
typedef struct ls_picture {
    const char *title;  // "table product: 10 x 16 f32, row_wise"
    bool is_table;      // dimensions are called rows and columns
    ls_shape shape;     // of the whole
    int ranks;          // of the world
    ls_picture_block *blocks;
    int block_count;
} ls_picture;

// Pictures of one table of a plan, and of a tensor of `shape` under `placements` on `mesh`. Memory
// comes from `arena`. The title is made of name and sharding.
int ls_picture_of_table(ls_picture *out, ls_arena *arena, const ls_plan_table *table, int ranks);
int ls_picture_of_tensor(ls_picture *out, ls_arena *arena, const char *name, const ls_shape *shape,
                         const ls_mesh *mesh, const ls_placements *placements);

// Appends the drawing as a grid of characters, one slice at a time beyond two dimensions. Every
// cell names its ranks, or that it has none. Long grids are truncated with a note.
int ls_show_text(ls_text *out, const ls_picture *picture);
// Writes the members of the pictures in the open object: "ranks": N, "tensors": [{"title", "shape",
// "blocks": [{"rank", "offset", "size"}]}], as docs/reference.md lists them.
void ls_show_json(ls_json *json, const ls_picture *pictures, int count);
// Appends one SVG document with all pictures, one below the other, a colour per rank.
int ls_show_svg(ls_text *out, const ls_picture *pictures, int count);
