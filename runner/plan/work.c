// Observes a run in the simulator and records the inputs and results of its collectives and
// lookups.
#include "runner/plan/work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/plan/work_internal.h"
#include "runner/program/execute.h"
#include "embedding/stages.h"

const char *ls_work_stage_name(ls_work_stage stage) {
    static const char *const names[] = {"input_dist", "lookup", "output_dist", "gradients",
                                        "update"};
    LS_ASSERT((unsigned)stage < LS_WORK_STAGE_COUNT);
    return names[stage];
}

// ---- Capturing ----------------------------------------------------------------------------------
typedef struct watch {
    ls_work *steps;
    const ls_plan *plan;
    ls_arena *arena;
    int group_room, collective_room, lookup_room;
    int *comm_ids;  // [group_room] of each group, in the simulator
    int status;     // of the observers, which cannot return it
    ls_update_watch updates;
} watch;

static int find_group(int *out, watch *w, const ls_comm *comm) {
    ls_work *steps = w->steps;
    for (*out = 0; *out < steps->group_count; *out += 1) {
        if (w->comm_ids[*out] == comm->id) {
            return LS_OK;
        }
    }
    int room = w->group_room;
    ls_work_group *groups =
        ls_arena_grow(w->arena, steps->groups, steps->group_count, &room, sizeof *groups);
    int *comm_ids =
        ls_arena_grow(w->arena, w->comm_ids, steps->group_count, &w->group_room, sizeof *comm_ids);
    LS_TRY_MEMORY(groups != NULL && comm_ids != NULL);
    steps->groups = groups;
    w->comm_ids = comm_ids;
    ls_work_group *group = &steps->groups[steps->group_count];
    group->size = comm->size;
    group->ranks = ls_arena_copy(w->arena, comm->ranks, (size_t)comm->size * sizeof(int));
    w->comm_ids[steps->group_count++] = comm->id;
    return group->ranks != NULL ? LS_OK : LS_ERR_MEMORY;
}

// An embedding's call names its purpose: "input_dist sizes".
static void name_collective(ls_work_collective *out, const ls_call *call) {
    const char *what = call->purpose != NULL ? strchr(call->purpose, ' ') : NULL;
    LS_ASSERT(what != NULL);
    out->what = what + 1;
    // The gradients' calls and a clip's count as one.
    out->stage =
        call->stage_of_tables == LS_STAGE_OUTPUT_DIST ? LS_WORK_OUTPUT_DIST : LS_WORK_GRADIENTS;
    if (call->stage_of_tables == LS_STAGE_INPUT_DIST) {
        out->stage = LS_WORK_INPUT_DIST;
    }
}

static int copy_counts(const size_t **counts, int size, ls_arena *arena) {
    if (*counts != NULL) {
        *counts = ls_arena_copy(arena, *counts, (size_t)size * sizeof **counts);
        return *counts != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    return LS_OK;
}

// A call before its data moves. `recv` follows when it is complete.
static int keep_call(ls_work_collective *out, int member, const ls_call *from, ls_arena *arena) {
    ls_call *call = &out->calls[member];
    ls_call_extent extent;
    LS_TRY(ls_call_check(&extent, from));
    *call = *from;
    call->comm = NULL;
    call->recv = NULL;
    out->send_bytes[member] = extent.send_bytes;
    out->recv_bytes[member] = extent.recv_bytes;
    LS_TRY(copy_counts(&call->send_counts, out->size, arena));
    LS_TRY(copy_counts(&call->recv_counts, out->size, arena));
    if (extent.send_bytes > 0) {
        call->send = ls_arena_copy(arena, from->send, extent.send_bytes);
        return call->send != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    return LS_OK;
}

static int keep_set(watch *w, const ls_call *const *calls, int size) {
    ls_work *steps = w->steps;
    ls_work_collective *grown = ls_arena_grow(w->arena, steps->collectives, steps->collective_count,
                                              &w->collective_room, sizeof *grown);
    LS_TRY_MEMORY(grown != NULL);
    steps->collectives = grown;
    ls_work_collective *out = &steps->collectives[steps->collective_count];
    *out = (ls_work_collective){.size = size};
    name_collective(out, calls[0]);
    LS_TRY(find_group(&out->group, w, calls[0]->comm));
    out->calls = ls_arena_alloc(w->arena, (size_t)size, sizeof *out->calls);
    out->send_bytes = ls_arena_alloc(w->arena, (size_t)size, sizeof *out->send_bytes);
    out->recv_bytes = ls_arena_alloc(w->arena, (size_t)size, sizeof *out->recv_bytes);
    LS_TRY_MEMORY(out->calls != NULL && out->send_bytes != NULL && out->recv_bytes != NULL);
    for (int m = 0; m < size; m++) {
        LS_TRY(keep_call(out, m, calls[m], w->arena));
    }
    steps->collective_count++;
    return LS_OK;
}

static void see_met(void *arg, const ls_call *const *calls, int size) {
    watch *w = arg;
    w->status = w->status == LS_OK ? keep_set(w, calls, size) : w->status;
}

static int keep_result(watch *w, const ls_call *call) {
    int group = 0;
    LS_TRY(find_group(&group, w, call->comm));
    int member = ls_comm_member(call->comm, call->rank);
    for (int i = w->steps->collective_count - 1; i >= 0; i--) {
        ls_work_collective *collective = &w->steps->collectives[i];
        if (collective->group == group) {
            size_t bytes = collective->recv_bytes[member];
            collective->calls[member].recv =
                ls_arena_copy(w->arena, bytes > 0 ? call->recv : "", bytes > 0 ? bytes : 1);
            return collective->calls[member].recv != NULL ? LS_OK : LS_ERR_MEMORY;
        }
    }
    LS_ASSERT(!"a call is done after its set has met");
    return LS_ERR_INVALID;
}

static void see_call(void *arg, const ls_call *call) {
    watch *w = arg;
    w->status = w->status == LS_OK ? keep_result(w, call) : w->status;
}

static int new_lookup(ls_work_lookup **out, watch *w, const ls_stage_output *output) {
    const ls_scenario *scenario = w->steps->scenario;
    ls_work_lookup found = {.rank = output->rank, .padding_id = -1};
    while (strcmp(scenario->tables[found.table].name, output->table) != 0) {
        found.table++;
        LS_ASSERT(found.table < scenario->table_count);
    }
    const ls_scenario_table *table = &scenario->tables[found.table];
    while (strcmp(table->features.at[found.feature], output->feature) != 0) {
        found.feature++;
        LS_ASSERT(found.feature < table->features.count);
    }
    found.shard = ls_work__shard(&w->plan->tables[found.table], output->rank, output->field);
    LS_ASSERT(found.shard >= 0);
    for (int i = w->steps->lookup_count - 1; i >= 0; i--) {
        *out = &w->steps->lookups[i];
        if ((*out)->rank == found.rank && (*out)->table == found.table &&
            (*out)->feature == found.feature && (*out)->shard == found.shard) {
            return LS_OK;
        }
    }
    ls_work_lookup *grown = ls_arena_grow(w->arena, w->steps->lookups, w->steps->lookup_count,
                                          &w->lookup_room, sizeof *grown);
    LS_TRY_MEMORY(grown != NULL);
    w->steps->lookups = grown;
    found.block = w->plan->tables[found.table].shards[found.shard];
    found.dtype = table->dtype;
    found.pooling = table->pooling == LS_POOL_MEAN ? LS_POOL_SUM : table->pooling;
    int64_t padding = table->padding_id - found.block.row_offset;
    if (found.pooling != LS_POOL_NONE && table->padding_id >= 0 && padding >= 0 &&
        padding < found.block.rows) {
        found.padding_id = padding;
    }
    *out = &w->steps->lookups[w->steps->lookup_count++];
    **out = found;
    return LS_OK;
}

static int keep_offsets(ls_work_lookup *lookup, const ls_stage_output *output, ls_arena *arena) {
    const int64_t *lengths = output->data;
    lookup->bags = output->shape.dim[0];
    int64_t *offsets = ls_arena_alloc(arena, (size_t)lookup->bags + 1, sizeof *offsets);
    LS_TRY_MEMORY(offsets != NULL);
    for (int64_t b = 0; b < lookup->bags; b++) {
        offsets[b + 1] = offsets[b] + lengths[b];
    }
    lookup->offsets = offsets;
    lookup->id_count = offsets[lookup->bags];
    return LS_OK;
}

static int see_stage(void *arg, const ls_stage_output *output) {
    watch *w = arg;
    LS_TRY(w->status);
    bool input = output->stage_of_tables == LS_STAGE_INPUT_DIST;
    bool looked_up = output->stage_of_tables == LS_STAGE_LOOKUP;
    if (!input && !looked_up) {
        return ls_work__see_update(&w->updates, output);
    }
    ls_work_lookup *lookup = NULL;
    LS_TRY(new_lookup(&lookup, w, output));
    if (input && output->field_of_tables == LS_STAGE_FIELD_LENGTHS) {
        return keep_offsets(lookup, output, w->arena);
    }
    size_t bytes = ls_dtype_bytes(output->dtype);
    for (int d = 0; d < output->shape.ndim; d++) {
        LS_TRY(ls_size_mul(&bytes, bytes, (size_t)output->shape.dim[d]));
    }
    void *copy = ls_arena_alloc(w->arena, bytes, 1);
    LS_TRY_MEMORY(copy != NULL);
    if (bytes > 0) {
        memcpy(copy, output->data, bytes);
    }
    if (looked_up) {
        lookup->out_dtype = output->dtype;
        lookup->values = lookup->pooling == LS_POOL_MAX ? NULL : copy;
    } else if (output->field_of_tables == LS_STAGE_FIELD_IDS) {
        lookup->ids = copy;
    } else {
        lookup->weights = copy;
    }
    return LS_OK;
}

int ls_work_capture(ls_work *out, const ls_scenario *scenario, const ls_plan *plan,
                    ls_arena *arena) {
    LS_ASSERT(out != NULL && plan->ranks == scenario->ranks);
    if (scenario->is_program) {
        return LS_FAIL(LS_ERR_INVALID, "%s: a program has no plan", scenario->file);
    }
    bool updates = ls_scenario_runs(scenario, LS_TABLES_UPDATE);
    *out = (ls_work){.scenario = scenario,
                     .ranks = scenario->ranks,
                     .stage_count = updates ? LS_WORK_STAGE_COUNT : LS_WORK_FORWARD_STAGES};
    watch w = {.steps = out, .plan = plan, .arena = arena};
    w.updates = (ls_update_watch){.steps = out, .plan = plan, .arena = arena};
    for (int t = 0; t < scenario->table_count; t++) {
        const ls_table table = ls_scenario_table_config(scenario, t);
        bool inference = table.row_format != NULL || table.has_output_dtype;
        if (inference || (updates && table.max_norm > 0)) {
            const char *has = inference ? "an output_dtype" : "max_norm";
            if (table.row_format != NULL) {
                has = "quantised rows";
            }
            return LS_FAIL(LS_ERR_UNSUPPORTED, "%s: table %s has %s, whose work is not timed",
                           scenario->file, table.name, has);
        }
    }
    const ls_world_options options = {.mesh = scenario->mesh, .seed = scenario->seed};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_arena *scratch = NULL;
    LS_TRY(ls_world_create(&world, &options));
    int status = ls_arena_create(&scratch);
    status = status == LS_OK ? ls_backend_sim_create(&backend, world) : status;
    if (status == LS_OK) {
        backend->observer = see_call;
        backend->met = see_met;
        backend->observer_arg = backend->met_arg = &w;
        const ls_stage_sink sink = {.arg = &w, .emit = see_stage};
        const ls_execution execution = {.scenario = scenario,
                                        .backend = backend,
                                        .sink = &sink,
                                        .plan = plan,
                                        .one_step = true,
                                        .forward_only = !updates};
        ls_finding finding = {0};
        bool found = false;
        status = ls_execute(&execution, scratch, &finding, &found);
        if (found && finding.text != NULL) {
            status = LS_FAIL(LS_ERR_FINDING, "%s", finding.text);
        }
    }
    ls_backend_free(backend);
    ls_arena_free(scratch);
    ls_world_free(world);
    status = status == LS_OK ? w.status : status;
    return status == LS_OK && updates ? ls_work__join_updates(&w.updates) : status;
}

// ---- Checking -----------------------------------------------------------------------------------
// Any order of a sum of n terms is within (n - 1) u / (1 - (n - 1) u) times the sum of their
// magnitudes. The simulator's order is, too, so two results are within twice that.
static int check_sums(const ls_work_collective *collective, int member, const void *got) {
    const ls_call *call = &collective->calls[member];
    bool blocks = ls_collective_of(call->kind)->send.form == LS_SIDE_BLOCKS;
    size_t element = ls_dtype_bytes(call->dtype);
    size_t count = collective->recv_bytes[member] / element;
    double unit = call->dtype == LS_F64 ? 0x1p-53 : 0x1p-24;
    double share = 2.0 * (collective->size - 1) * unit / (1.0 - (collective->size - 1) * unit);
    for (size_t i = 0; i < count; i++) {
        double magnitude = 0;
        for (int from = 0; from < collective->size; from++) {
            const ls_call *source = &collective->calls[from];
            size_t first = blocks ? ls_call_own_offset(source, member) : 0;
            magnitude += fabs(
                ls_element_to_f64((const char *)source->send + (first + i) * element, call->dtype));
        }
        double expected = ls_element_to_f64((const char *)call->recv + i * element, call->dtype);
        double actual = ls_element_to_f64((const char *)got + i * element, call->dtype);
        // Written so that NaN fails, too.
        if (!(fabs(actual - expected) <= share * magnitude) && expected != actual) {
            return LS_FAIL_RANK(LS_ERR_FINDING, call->rank,
                                "%s %s, rank %d: element %zu is %.9g, the simulator's is %.9g",
                                ls_work_stage_name(collective->stage), collective->what, call->rank,
                                i, actual, expected);
        }
    }
    return LS_OK;
}

int ls_work_check_collective(const ls_work_collective *collective, int member, const void *got) {
    const ls_call *call = &collective->calls[member];
    if (collective->recv_bytes[member] == 0) {
        return LS_OK;
    }
    if (ls_collective_of(call->kind)->reduces && call->op == LS_SUM) {
        return check_sums(collective, member, got);
    }
    if (memcmp(got, call->recv, collective->recv_bytes[member]) != 0) {
        return LS_FAIL_RANK(LS_ERR_FINDING, call->rank,
                            "%s %s, rank %d: the received bytes differ from the simulator's",
                            ls_work_stage_name(collective->stage), collective->what, call->rank);
    }
    return LS_OK;
}

int ls_work_check_lookup(const ls_work_lookup *lookup, const void *got) {
    int64_t rows = lookup->pooling == LS_POOL_NONE ? lookup->id_count : lookup->bags;
    size_t bytes = (size_t)rows * (size_t)lookup->block.columns * ls_dtype_bytes(lookup->out_dtype);
    if (lookup->values != NULL && bytes > 0 && memcmp(got, lookup->values, bytes) != 0) {
        return LS_FAIL_RANK(
            LS_ERR_FINDING, lookup->rank,
            "lookup of table %d, shard %d, rank %d: the bits differ from the simulator's",
            lookup->table, lookup->shard, lookup->rank);
    }
    return LS_OK;
}
