// Redistributes along a step's path, and lists the redistributions of a program.
#include "runner/program/redistribute.h"

#include <string.h>

#include "runner/program/program.h"

// ---- Placements as the planner has them ---------------------------------------------------------
static ls_reshard_placement planned(const ls_placement *placement) {
    ls_reshard_placement out = {.kind = LS_RESHARD_REPLICATE};
    if (placement->kind == LS_PLACE_SHARD) {
        out = (ls_reshard_placement){.kind = LS_RESHARD_SHARD, .dim = placement->dim};
    } else if (placement->kind == LS_PLACE_PARTIAL) {
        out = (ls_reshard_placement){.kind = LS_RESHARD_PARTIAL, .op = placement->op};
    }
    return out;
}

static ls_placement placed(const ls_reshard_placement *planned) {
    if (planned->kind == LS_RESHARD_SHARD) {
        return LS_SHARD(planned->dim);
    }
    return planned->kind == LS_RESHARD_PARTIAL ? LS_PARTIAL(planned->op) : LS_REPLICATE;
}

// Whether the planner supports such layouts: even shards, one mesh dimension after another.
static bool plannable(const ls_placements *placements) {
    for (int i = 0; placements != NULL && i < placements->count; i++) {
        const ls_placement *at = &placements->at[i];
        if (at->split > 1 || at->turn != 0 || at->sizes != NULL) {
            return false;
        }
    }
    return placements != NULL;
}

static int plan(ls_redistribution *out, const ls_scenario *scenario) {
    const ls_mesh *mesh = &scenario->mesh;
    ls_reshard_placement from[LS_RESHARD_MESH_MAX], to[LS_RESHARD_MESH_MAX];
    static int (*const searches[LS_PATH_COUNT])(
        ls_reshard_plan *, double, int, const ls_reshard_placement *, const ls_reshard_placement *,
        const ls_reshard_mesh *) = {ls_reshard_in_order, ls_reshard_greedy, ls_reshard_search};
    ls_reshard_mesh machine;
    size_t count = 0;
    LS_ASSERT(mesh->ndim >= 1 && mesh->ndim <= LS_RESHARD_MESH_MAX);
    for (int i = 0; i < mesh->ndim; i++) {
        from[i] = planned(&out->from.at[i]);
        to[i] = planned(&out->to.at[i]);
    }
    LS_TRY(ls_reshard_mesh_make(&machine, mesh->dim, mesh->ndim, scenario->ranks_per_host));
    LS_TRY(ls_shape_count(&count, &out->shape));
    double bytes = (double)count * (double)ls_dtype_bytes(out->dtype);
    for (int path = 0; path < LS_PATH_COUNT; path++) {
        int status = searches[path](&out->plans[path], bytes, out->shape.ndim, from, to, &machine);
        LS_TRY(status == LS_ERR_UNSUPPORTED ? LS_OK : status);
        out->possible[path] = status == LS_OK;
    }
    return LS_OK;
}

// ---- Running ------------------------------------------------------------------------------------
static int along_path(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in,
                      const ls_redistribution *one) {
    const ls_reshard_plan *plan = &one->plans[one->taken];
    ls_placements at = one->from;
    ls_local_tensor *now = NULL;
    if (!one->possible[one->taken]) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "redistribute: DTensor cannot make a shard partial");
    }
    for (int i = 0; i < plan->count; i++) {
        const ls_reshard_step *step = &plan->steps[i];
        ls_local_tensor *next = NULL;
        at.at[step->mesh_dim] = placed(&step->to);
        int status = ls_tensor_redistribute(&next, backend, now != NULL ? now : in, &at);
        ls_local_tensor_free(now);
        LS_TRY(status);
        now = next;
    }
    *out = now;
    return now != NULL ? LS_OK : ls_local_tensor_clone(out, in);
}

static int list(ls_redistributions *into, const ls_redistribution *one) {
    ls_redistribution *at =
        ls_arena_grow(into->arena, into->at, into->count, &into->room, sizeof *at);
    LS_TRY_MEMORY(at != NULL);
    into->at = at;
    into->at[into->count++] = *one;
    return LS_OK;
}

int ls_program__redistribute(ls_local_tensor **out, ls_program *program,
                             const ls_scenario_step *step, const char *tensor,
                             const ls_local_tensor *in, const ls_placements *to) {
    LS_ASSERT(out != NULL && program != NULL && step != NULL && in != NULL && to != NULL);
    const ls_placements *from = ls_local_tensor_placements(in);
    ls_redistributions *listed = program->execution->redistributions;
    ls_redistribute_path path =
        step->kind == LS_STEP_REDISTRIBUTE ? step->to.path : LS_PATH_IN_ORDER;
    if ((listed == NULL && path == LS_PATH_IN_ORDER) || ls_local_tensor_shape(in) == NULL) {
        return ls_tensor_redistribute(out, program->backend, in, to);
    }
    ls_redistribution one = {
        .line = ls_program__line(program, step),
        .tensor = tensor,
        .shape = *ls_local_tensor_shape(in),
        .dtype = ls_local_tensor_dtype(in),
        .taken = path,
    };
    LS_TRY(ls_placements_normalize(&one.to, to, &one.shape, &program->scenario->mesh));
    one.from = from != NULL ? *from : one.from;
    if (plannable(from) && plannable(&one.to)) {
        int status = plan(&one, program->scenario);
        LS_TRY(status == LS_ERR_MEMORY ? status : LS_OK);
        one.priced = status == LS_OK;
    }
    LS_TRY(listed != NULL ? list(listed, &one) : LS_OK);
    return path != LS_PATH_IN_ORDER && one.priced
               ? along_path(out, program->backend, in, &one)
               : ls_tensor_redistribute(out, program->backend, in, to);
}
