// redistribute: changes a tensor's placements.
#include "runner/program/redistribute.h"
#include "runner/steps/fields.h"

static const ls_schema_name path_names[] = {
    {"in_order", LS_PATH_IN_ORDER}, {"dtensor", LS_PATH_DTENSOR}, {"cheapest", LS_PATH_CHEAPEST}};
static const ls_schema_names paths = {path_names, LS_PATH_COUNT};

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_TENSOR_FIELDS,
    {"to", LS_FIELD_PLACEMENTS, .flags = LS_FIELD_REQUIRED, LS_MEMBER(to.placements),
     LS_AUX(to.given), .doc = "The new placement for each mesh dimension: S(dim), R or P(op).",
     .example = "to: \"S(1), R\""},
    {"path", LS_FIELD_ENUM, LS_MEMBER(to.path), .names = &paths, .fallback = "in_order",
     .doc = "Which collectives: in_order (mesh dimensions from the last to the first), dtensor (as "
            "DTensor takes them) or cheapest (by PyTorch's cost model, see lockstep plan).",
     .example = "path: cheapest"},
};
// clang-format on

static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)last, (void)first;
    made->copies = ls_memory_copies(scenario, &step->to.placements);
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    return ls_program__redistribute(out, program, step, step->tensor, in[0], &step->to.placements);
}

static bool sums(const ls_scenario_step *step, const ls_local_tensor *in) {
    (void)step;
    return ls_placements_any_partial(ls_local_tensor_placements(in));
}

const ls_step_type ls_step__redistribute = {
    LS_STEP_RECORD("redistribute", fields, "Changes the placements of a tensor on the mesh."),
    .form = LS_STEP_OF_TENSORS,
    .to_field = ls_step__places,
    .check = ls_step__check_to,
    .size = size,
    .run = ls_program__tensor_step,
    .make = make,
    .sums = sums,
    .know = ls_known__redistribute,
};
