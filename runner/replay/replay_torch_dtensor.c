// Replaying DTensor's shards: for each recorded (mesh, size, placements), the shards of
// arange(rows * columns) as lockstep distributes them, against the recorded ones, and the way back.
#include <stdio.h>
#include <string.h>

#include "backends/kinds.h"
#include "collectives/collectives.h"
#include "runner/replay/replay_torch_internal.h"

#define CASES_MAX         100000
#define ELEMENTS_MAX      ((size_t)1 << 24)
#define DTENSOR_RANKS_MAX 1024

typedef struct dtensor_case {
    const json_t *entry;
    ls_mesh mesh;
    ls_shape shape;
    ls_placements placements;
    char text[128];  // of the placements
    int ranks;
    size_t count;
    float *full;  // [count]
    ls_world *world;
    ls_backend *backend;
} dtensor_case;

// ---- Reading ------------------------------------------------------------------------------------

static int malformed(const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "%s is missing or malformed", what);
}

static int read_integers(int64_t *out, int *count, int most, const json_t *array,
                         const char *what) {
    if (!json_is_array(array) || json_array_size(array) > (size_t)most) {
        return malformed(what);
    }
    *count = (int)json_array_size(array);
    for (int i = 0; i < *count; i++) {
        const json_t *item = json_array_get(array, (size_t)i);
        if (!json_is_integer(item) || json_integer_value(item) < 0) {
            return malformed(what);
        }
        out[i] = json_integer_value(item);
    }
    return LS_OK;
}

static int read_case(dtensor_case *c) {
    int64_t dims[LS_MESH_DIMS_MAX];
    LS_TRY(read_integers(dims, &c->mesh.ndim, LS_MESH_DIMS_MAX, json_object_get(c->entry, "mesh"),
                         "mesh"));
    for (int d = 0; d < c->mesh.ndim; d++) {
        if (dims[d] < 1 || dims[d] > DTENSOR_RANKS_MAX) {
            return malformed("mesh");
        }
        c->mesh.dim[d] = (int)dims[d];
    }
    LS_TRY(ls_mesh_size(&c->ranks, &c->mesh));
    LS_TRY(read_integers(c->shape.dim, &c->shape.ndim, LS_DIMS_MAX,
                         json_object_get(c->entry, "size"), "size"));
    LS_TRY(ls_shape_count(&c->count, &c->shape));
    const json_t *world = json_object_get(c->entry, "world");
    if (world != NULL && (!json_is_integer(world) || json_integer_value(world) != c->ranks)) {
        return malformed("world");
    }
    if (c->ranks > DTENSOR_RANKS_MAX || c->count > ELEMENTS_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "%d ranks and %zu elements are too many", c->ranks, c->count);
    }
    const json_t *placements = json_object_get(c->entry, "placements");
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(placements); i++) {
        const char *text = json_string_value(json_array_get(placements, i));
        size_t left = sizeof(c->text) - used;
        int length = snprintf(c->text + used, left, "%s%s", i > 0 ? ", " : "", text ? text : "?");
        if (length < 0 || (size_t)length >= left) {
            return malformed("placements");
        }
        used += (size_t)length;
    }
    LS_TRY(ls_placements_parse(&c->placements, c->text));
    if (c->placements.count != c->mesh.ndim) {
        return malformed("placements");
    }
    LS_TRY(ls_alloc((void **)&c->full, NULL, c->count, sizeof(*c->full)));
    for (size_t i = 0; i < c->count; i++) {
        c->full[i] = (float)i;
    }
    return LS_OK;
}

// ---- Comparing ----------------------------------------------------------------------------------

// A stage under way.
typedef struct stage_state {
    ls_results *results;
    ls_stage_result *stage;
} stage_state;

static void wrong(const stage_state *state, const char *text) {
    state->stage->class_ = LS_CLASS_WRONG;
    if (!state->stage->divergence) {
        state->stage->divergence = text;
    }
}

// One rank's shard against the recorded [shape, values].
static int compare_shard(const stage_state *state, const ls_shard *shard, const json_t *local,
                         int rank) {
    const json_t *values = json_array_get(local, 1);
    ls_shape wanted = {0};
    if (json_array_size(local) != 2) {
        return malformed("local");
    }
    LS_TRY(read_integers(wanted.dim, &wanted.ndim, LS_DIMS_MAX, json_array_get(local, 0), "local"));
    size_t count;
    LS_TRY(ls_shape_count(&count, &wanted));
    if (!json_is_array(values) || json_array_size(values) != count) {
        return malformed("local");
    }
    ls_stage_result_compared(state->stage, count);
    if (!ls_shape_equal(&wanted, &shard->block.size)) {
        char ours[128], theirs[128];
        ls_shape_format(ours, sizeof(ours), &shard->block.size);
        ls_shape_format(theirs, sizeof(theirs), &wanted);
        state->stage->differing += count;
        wrong(state, ls_arena_printf(state->results->arena, "rank %d: torch has %s, lockstep %s",
                                     rank, theirs, ours));
        return LS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        double torch = json_number_value(json_array_get(values, i));
        double ours = (double)((const float *)shard->data)[i];
        if (!json_is_number(json_array_get(values, i))) {
            return malformed("local");
        }
        if (torch != ours) {
            state->stage->differing++;
            wrong(state, ls_arena_printf(state->results->arena,
                                         "rank %d, element %zu: torch has %.9g, lockstep %.9g",
                                         rank, i, torch, ours));
        }
    }
    return LS_OK;
}

static int compare_shards(const stage_state *state, const dtensor_case *c,
                          const ls_local_tensor *tensor) {
    const json_t *local = json_object_get(c->entry, "local");
    if (!json_is_object(local) || json_object_size(local) != (size_t)c->ranks) {
        return malformed("local");
    }
    for (int rank = 0; rank < c->ranks; rank++) {
        char key[16];
        snprintf(key, sizeof(key), "%d", rank);
        const ls_shard *shard = ls_local_tensor_shard(tensor, rank, 0);
        if (!shard) {
            return ls_error_last()->code;
        }
        LS_TRY(compare_shard(state, shard, json_object_get(local, key), rank));
    }
    return LS_OK;
}

// ---- Ways to the shards -------------------------------------------------------------------------

static int by_cutting(const stage_state *state, dtensor_case *c) {
    ls_local_tensor *tensor = NULL;
    LS_TRY(
        ls_local_tensor_distribute(&tensor, c->world, c->full, &c->shape, LS_F32, &c->placements));
    int status = ls_local_tensor_check(tensor);
    if (!status) {
        status = compare_shards(state, c, tensor);
    }
    ls_local_tensor_free(tensor);
    return status;
}

static int by_scattering(const stage_state *state, dtensor_case *c) {
    ls_local_tensor *tensor = NULL;
    LS_TRY(ls_tensor_scatter(&tensor, c->backend, c->full, 0, &c->shape, LS_F32, &c->placements));
    int status = compare_shards(state, c, tensor);
    ls_local_tensor_free(tensor);
    return status;
}

static ls_placements all_replicate(const dtensor_case *c) {
    ls_placements out = {.count = c->mesh.ndim};
    for (int d = 0; d < c->mesh.ndim; d++) {
        out.at[d] = LS_REPLICATE;
    }
    return out;
}

static int by_redistributing(const stage_state *state, dtensor_case *c) {
    ls_placements replicate = all_replicate(c);
    ls_local_tensor *whole = NULL, *tensor = NULL;
    LS_TRY(ls_local_tensor_distribute(&whole, c->world, c->full, &c->shape, LS_F32, &replicate));
    int status = ls_tensor_redistribute(&tensor, c->backend, whole, &c->placements);
    if (!status) {
        status = compare_shards(state, c, tensor);
    }
    ls_local_tensor_free(tensor);
    ls_local_tensor_free(whole);
    return status;
}

// The way back: the shards gathered to the whole again.
static int by_gathering(const stage_state *state, dtensor_case *c) {
    ls_local_tensor *tensor = NULL;
    float *back = NULL;
    LS_TRY(
        ls_local_tensor_distribute(&tensor, c->world, c->full, &c->shape, LS_F32, &c->placements));
    int status = ls_alloc((void **)&back, NULL, c->count, sizeof(*back));
    if (!status) {
        status = ls_tensor_full(back, c->count * sizeof(*back), c->backend, tensor);
    }
    ls_stage_result_compared(state->stage, c->count);
    const json_t *torch = json_object_get(c->entry, "full_ok");
    if (torch != NULL && !json_is_true(torch)) {
        wrong(state, "torch did not get the whole back from its shards");
    }
    for (size_t i = 0; i < c->count && !status; i++) {
        if (back[i] != c->full[i]) {
            state->stage->differing++;
            wrong(state, ls_arena_printf(state->results->arena,
                                         "element %zu of the whole: expected %.9g, got %.9g", i,
                                         (double)c->full[i], (double)back[i]));
        }
    }
    ls_free(NULL, back, c->count, sizeof(*back));
    ls_local_tensor_free(tensor);
    return status;
}

typedef struct dtensor_way {
    const char *name;
    int (*run)(const stage_state *state, dtensor_case *c);
} dtensor_way;

static const dtensor_way ways[] = {{"distribute", by_cutting},
                                   {"scatter", by_scattering},
                                   {"redistribute", by_redistributing},
                                   {"full", by_gathering}};
#define WAY_COUNT ((int)(sizeof(ways) / sizeof(ways[0])))

// ---- Cases --------------------------------------------------------------------------------------

static int run_case(ls_results *results, ls_case_result *result, dtensor_case *c) {
    LS_TRY(read_case(c));
    LS_TRY(ls_world_create(&c->world, &(ls_world_options){.mesh = c->mesh}));
    LS_TRY(ls_backend_sim_create(&c->backend, c->world));
    LS_TRY(ls_torch__stages(results, result, WAY_COUNT));
    for (int w = 0; w < WAY_COUNT; w++) {
        ls_stage_result *stage = &result->stages[result->stage_count];
        stage->name = ways[w].name;
        stage->judge = LS_JUDGE_REAL;
        LS_TRY(ways[w].run(&(stage_state){results, stage}, c));
        result->stage_count++;
        result->pass = result->pass && stage->class_ != LS_CLASS_WRONG;
    }
    return LS_OK;
}

static int replay_case(ls_results *results, const json_t *entry, size_t index, const char *path,
                       const char *name, const char *dir) {
    dtensor_case c = {.entry = entry};
    ls_case_result result = {
        .backend = ls_backend_kind_sim.name, .real = "recording", .pass = true};
    int status = run_case(results, &result, &c);
    if (status && status != LS_ERR_MEMORY) {
        ls_replay__case_error(results, &result);
        status = LS_OK;
    }
    result.name = ls_arena_printf(results->arena, "%s[%zu] %s", name, index, c.text);
    result.file = ls_arena_strdup(results->arena, path);
    result.reproduce = ls_result_command(results->arena, "lockstep replay", dir);
    ls_backend_free(c.backend);
    ls_world_free(c.world);
    ls_free(NULL, c.full, c.count, sizeof(*c.full));
    if (status || !result.name || !result.file || !result.reproduce) {
        return LS_ERR_MEMORY;
    }
    ls_case_result_skip_unjudged(&result);
    LS_TRY(ls_results_add(results, &result));
    static const char *const known[] = {"mesh",  "size",    "placements", "local",
                                        "world", "full_ok", NULL};
    ls_text unknown = {0};
    ls_replay__unknown_keys(&unknown, entry, known);
    status =
        ls_replay__not_replayed(results, result.name, "unknown", path, ls_text_string(&unknown));
    ls_text_free(&unknown);
    return status;
}

int ls_torch__dtensor(ls_results *results, const char *path, const char *name, const char *dir) {
    json_t *cases = NULL;
    LS_TRY(ls_json_read(&cases, path, LS_REPLAY_JSON_BYTES_MAX));
    if (!json_is_array(cases) || json_array_size(cases) > CASES_MAX) {
        json_decref(cases);
        return LS_FAIL(LS_ERR_FORMAT, "'%s' is not a list of cases", path);
    }
    int status = LS_OK;
    for (size_t i = 0; i < json_array_size(cases) && !status; i++) {
        status = replay_case(results, json_array_get(cases, i), i, path, name, dir);
    }
    json_decref(cases);
    return status;
}
