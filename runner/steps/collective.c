// Collectives on buffers of each rank or on a tensor: the step's fields, execution and judge follow
// from the collective's descriptor (collectives.h).
#include <string.h>

#include "runner/scenario/inputs.h"
#include "runner/steps/fields.h"

// Fields of a collective whose descriptor uses them.
enum {
    GROUP = 1 << 0,
    DATA = 1 << 1,
    OP = 1 << 2,
    IN_PLACE = 1 << 3,
    COUNTS = 1 << 4,
    SPLITS = 1 << 5,
    ROOT = 1 << 6,
    DIM = 1 << 7,
    REPLICA = 1 << 8,
};

// clang-format off
static const struct {
    unsigned of;
    ls_schema_field field;
} fields[] = {
    {GROUP, LS_STEP_NAME_FIELD},
    {DATA, LS_STEP_INTO_FIELD},
    {DATA, LS_STEP_TENSOR_FIELD(0)},
    {DATA, LS_STEP_ASYNC_FIELD},
    {GROUP, {"axis", LS_FIELD_STRING, LS_MEMBER(call.axis_name),
      .otherwise = "the world",
      .doc = "Mesh dimension (name or number): one group for each line of ranks along it.",
      .example = "axis: gpu"}},
    {GROUP, {"ranks", LS_FIELD_INTS,
      .flags = LS_FIELD_SOME, LS_MEMBER(call.ranks), .min = 0,
      .max = LS_RANKS_MAX - 1, .otherwise = "the whole world",
      .doc = "The group's ranks, in order.", .example = "ranks: [0, 2, 3]"}},
    {GROUP, LS_STEP_EXCEPT_FIELD},
    {DATA, LS_STEP_COUNT_FIELD},
    {DATA, LS_STEP_DTYPE_FIELD},
    {DATA, LS_STEP_VALUES_FIELD},
    {OP, {"op", LS_FIELD_ENUM, LS_MEMBER(call.op), .names = &ls_schema__ops,
      .fallback = "sum", .doc = "The reduction.", .example = "op: max"}},
    {OP, {"factors", LS_FIELD_REALS, LS_MEMBER(call.factors),
      .min = -(INT64_C(1) << 53), .max = INT64_C(1) << 53, .otherwise = "none",
      .doc = "premul_sum: each member's factor.", .example = "factors: [0.5, 0.25]"}},
    {IN_PLACE, {"in_place", LS_FIELD_BOOL, LS_MEMBER(call.in_place),
      .fallback = "false", .doc = "Whether the result replaces the input.",
      .example = "in_place: true"}},
    {COUNTS, {"counts", LS_FIELD_INTS, LS_MEMBER(call.counts), .min = 0,
      .max = LS_SCENARIO_COUNT_MAX, .otherwise = "count for every member",
      .doc = "Elements of each member's block (uneven).", .example = "counts: [3, 0, 5]"}},
    {SPLITS, {"splits", LS_FIELD_INT_ROWS, LS_MEMBER(call.splits), .min = 0,
      .max = LS_SCENARIO_COUNT_MAX, .otherwise = "count for every pair",
      .doc = "For each member, what it sends to each.", .example = "splits: [[1, 2], [0, 3]]"}},
    {SPLITS, {"split_dim", LS_FIELD_INT32, LS_MEMBER(call.split_dim),
      .min = -LS_DIMS_MAX, .max = LS_DIMS_MAX - 1, .fallback = "0",
      .doc = "On a tensor: the dimension that is cut.", .example = "split_dim: 0"}},
    {SPLITS, {"cat_dim", LS_FIELD_INT32, LS_MEMBER(call.cat_dim),
      .min = -LS_DIMS_MAX, .max = LS_DIMS_MAX - 1, .fallback = "1",
      .doc = "On a tensor: the dimension that is joined.", .example = "cat_dim: 1"}},
    {ROOT, {"root", LS_FIELD_INT32, LS_MEMBER(call.root), .min = 0,
      .max = LS_RANKS_MAX - 1, .fallback = "0", .doc = "The root, as a member of the group.",
      .example = "root: 1"}},
    {DIM, LS_STEP_DIM_FIELD(call.dim)},
    {REPLICA, {"replica", LS_FIELD_BOOL, LS_MEMBER(call.replica),
      .fallback = "false",
      .doc = "The result must stay equal on all ranks: lockstep compares it until the end.",
      .example = "replica: true"}},
};
// clang-format on
#define FIELD_COUNT ((int)(sizeof fields / sizeof *fields))

static ls_schema_field taken[LS_COLLECTIVE_COUNT][FIELD_COUNT];
ls_schema_record ls_step__collective_records[LS_COLLECTIVE_COUNT];

static unsigned taken_by(ls_kind kind) {
    const ls_collective *collective = ls_collective_of(kind);
    bool splits = ls_collective_has_splits(collective);
    bool blocks = ls_collective_has_counts(collective) && !splits;
    return GROUP | (ls_collective_has_data(collective) ? DATA : 0u) |
           (collective->reduces ? OP : 0u) |
           (ls_collective_has_in_place(collective) ? IN_PLACE : 0u) | (blocks ? COUNTS : 0u) |
           (splits ? SPLITS : 0u) | (collective->root_word != NULL ? ROOT : 0u) |
           (blocks && ls_collective_tensor_form(kind) != NULL ? DIM : 0u) |
           (collective->replicates ? REPLICA : 0u);
}

void ls_step__make_collectives(void) {
    for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++) {
        const ls_collective *collective = ls_collective_of((ls_kind)kind);
        unsigned of = taken_by((ls_kind)kind);
        ls_schema_record *record = &ls_step__collective_records[kind];
        *record = (ls_schema_record){.name = ls_kind_name((ls_kind)kind),
                                     .doc = collective->doc,
                                     .fields = taken[kind],
                                     .has_node = true};
        for (int i = 0; i < FIELD_COUNT; i++) {
            if ((of & fields[i].of) != 0) {
                taken[kind][record->field_count++] = fields[i].field;
            }
        }
    }
}

static const ls_collective *of_step(const ls_scenario_step *step) {
    return ls_collective_of(ls_step_call_kind(step->kind));
}

// ---- Checks -------------------------------------------------------------------------------------
// The mesh dimension that `axis:` names; -1: the world or a list of ranks.
static void resolve_axis(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step) {
    const ls_mesh *mesh = &scenario->mesh;
    ls_step_call *call = &step->call;
    call->axis = -1;
    if (call->axis_name == NULL) {
        bool needed = step->tensor != NULL;
        if (needed && mesh->ndim > 1) {
            ls_check__error(
                reader, step->node.mark, "axis: the mesh dimension to act along", NULL,
                "a collective on a tensor needs the key axis on a mesh of %d dimensions",
                mesh->ndim);
        }
        call->axis = needed && mesh->ndim == 1 ? 0 : -1;
        return;
    }
    const char *words[LS_MESH_DIMS_MAX];
    for (int i = 0; i < mesh->ndim; i++) {
        words[i] = mesh->name[i];
        char number[16] = {(char)('0' + i), 0};
        if (strcmp(call->axis_name, mesh->name[i]) == 0 || strcmp(call->axis_name, number) == 0) {
            call->axis = i;
            return;
        }
    }
    ls_check__error(reader, ls_node_mark(&step->node, "axis"),
                    "a name or number of a mesh dimension",
                    ls_nearest(call->axis_name, words, (size_t)mesh->ndim),
                    "the mesh has no dimension %.40s", call->axis_name);
}

// Checks arguments that a collective on a tensor takes from the tensor.
static void check_on_tensor(ls_reader *reader, const ls_scenario_step *step) {
    static const char *const raw[] = {"ranks",  "count",   "dtype",    "values", "counts",
                                      "splits", "factors", "in_place", "replica"};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        if (ls_step_has(step, raw[i])) {
            ls_check__error(reader, ls_node_mark(&step->node, raw[i]), NULL, NULL,
                            "%s: does not apply to a collective on a tensor", raw[i]);
        }
    }
    if (ls_collective_tensor_form((ls_kind)step->kind) == NULL) {
        ls_check__error(reader, ls_node_mark(&step->node, "tensor"), NULL, NULL,
                        "%s: only on buffers, not on a tensor", ls_kind_name((ls_kind)step->kind));
    }
}

static void check_reduction(ls_reader *reader, const ls_scenario_step *step, int members) {
    const ls_step_call *call = &step->call;
    if (!ls_step_takes(step, "op")) {
        return;
    }
    if (step->tensor == NULL && !ls_op_supports(call->op, call->dtype)) {
        ls_check__error(reader, ls_node_mark(&step->node, "op"), NULL, NULL,
                        "op: %s is not defined on %s", ls_op_name(call->op),
                        ls_dtype_name(call->dtype));
    }
    bool factors = ls_node_has(&step->node, "factors");
    if (call->op == LS_PREMUL_SUM && !factors) {
        ls_check__error(reader, ls_node_mark(&step->node, "op"), "factors: [0.5, 2], for example",
                        NULL,
                        "op: premul_sum needs the key factors, a number for each of the %d "
                        "members",
                        members);
    } else if (call->op == LS_PREMUL_SUM && call->factors.count != members) {
        ls_check__error(reader, ls_node_mark(&step->node, "factors"), NULL, NULL,
                        "factors: %d for the %d members of a premul_sum", call->factors.count,
                        members);
    }
    if (call->op != LS_PREMUL_SUM && call->factors.count > 0) {
        ls_check__error(reader, ls_node_mark(&step->node, "factors"), "op: premul_sum", NULL,
                        "factors: only premul_sum takes them");
    }
}

// Checks arguments of a collective on buffers beside its group and its reduction.
static void check_on_buffers(ls_reader *reader, const ls_scenario_step *step, int members) {
    const ls_step_call *call = &step->call;
    bool counts = ls_step_has(step, "counts"), splits = ls_step_has(step, "splits");
    if (counts && call->counts.count != members) {
        ls_check__error(reader, ls_node_mark(&step->node, "counts"), NULL, NULL,
                        "counts: %d for %d members", call->counts.count, members);
    }
    if (splits) {
        ls_check__rows(reader, &call->splits, members, members, "splits");
    }
    static const char *const of_tensors[] = {"into", "dim", "split_dim", "cat_dim"};
    for (size_t i = 0; i < sizeof of_tensors / sizeof *of_tensors; i++) {
        if (ls_step_has(step, of_tensors[i])) {
            ls_check__error(reader, ls_node_mark(&step->node, of_tensors[i]), NULL, NULL,
                            "%s: applies to a collective on a tensor", of_tensors[i]);
        }
    }
    if (ls_step_has(step, "count") && (counts || splits)) {
        ls_check__error(reader, ls_node_mark(&step->node, "count"), NULL, NULL,
                        "count: excluded by %s", counts ? "counts" : "splits");
    }
    if (call->replica && call->asynchronous) {
        ls_check__error(reader, ls_node_mark(&step->node, "replica"), NULL, NULL,
                        "replica: excludes async, whose result comes later");
    }
    if (ls_step_takes(step, "count") && !ls_step_has(step, "count") && !counts && !splits) {
        ls_check__error(reader, step->node.mark, "count: 1024, for example", NULL,
                        "%s: the key count is missing", ls_kind_name((ls_kind)step->kind));
    }
    if (call->values.kind == LS_GENERATOR_VALUES && call->values.row_counts.count > 0 &&
        call->values.row_counts.count != members) {
        ls_check__error(reader, ls_node_mark(&call->values.node, "values"), NULL, NULL,
                        "values: %d lists for %d members", call->values.row_counts.count, members);
    }
}

static void check(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step) {
    resolve_axis(reader, scenario, step);
    if (step->call.axis_name != NULL && step->call.ranks.count > 0) {
        ls_check__error(reader, ls_node_mark(&step->node, "ranks"), NULL, NULL,
                        "ranks: a group is given by axis or by ranks, not by both");
    }
    ls_check__members(reader, scenario, &step->call.ranks, "rank");
    if (scenario->ranks == 0) {
        return;
    }
    int members = 0;
    (void)ls_inputs_member(scenario, step, 0, &members);
    ls_check__excepts(reader, scenario, step, members);
    check_reduction(reader, step, members);
    if (ls_step_takes(step, "root")) {
        ls_check__range(reader, ls_node_mark(&step->node, "root"), "root", step->call.root,
                        members);
    }
    if (step->tensor != NULL) {
        check_on_tensor(reader, step);
    } else {
        check_on_buffers(reader, step, members);
    }
}

// ---- On tensors ---------------------------------------------------------------------------------
static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)last, (void)first;
    const ls_collective *collective = of_step(step);
    bool gathers = collective->replicates && collective->recv.form == LS_SIDE_BLOCKS;
    if (gathers && step->call.axis >= 0) {
        double copies = made->copies * scenario->mesh.dim[step->call.axis];
        made->copies = copies < scenario->ranks ? copies : scenario->ranks;
    }
}

static int run(ls_program *program, const ls_scenario_step *step) {
    return step->tensor == NULL ? ls_program__call_step(program, step)
                                : ls_program__tensor_step(program, step);
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    const ls_step_call *call = &step->call;
    const ls_tensor_call told = {.op = call->op,
                                 .dim = call->dim,
                                 .split_dim = call->split_dim,
                                 .cat_dim = call->cat_dim,
                                 .root = call->root};
    ls_axis *axis = NULL;
    LS_TRY(ls_program__axis(&axis, program, call->axis >= 0 ? call->axis : 0));
    const ls_collective_on_tensor form = ls_collective_tensor_form((ls_kind)step->kind);
    if (form == NULL) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "%s does not work on tensors",
                       ls_kind_name((ls_kind)step->kind));
    }
    return form(out, in[0], &told, axis);
}

static bool sums(const ls_scenario_step *step, const ls_local_tensor *in) {
    (void)in;
    return of_step(step)->reduces;
}

const ls_step_type ls_step__collective = {
    .form = LS_STEP_OF_CALLS,
    .excepts = LS_EXCEPT_SKIP | LS_EXCEPT_REPEAT | LS_EXCEPT_CALL,
    .check = check,
    .size = size,
    .run = run,
    .make = make,
    .sums = sums,
    .know = ls_known__collective,
};
