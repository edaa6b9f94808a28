// Checks the meaning of a scenario's program: existing tensors, groups and counts that fit
// together. The run checks the shapes of results. See scenario_check.c for the rest.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/scenario/read.h"
#include "runner/steps/step.h"

#define PROGRAM_MAX   4096  // tensors, and steps, of a program
#define NEAREST_NAMES 64

typedef struct ls_names {
    const char **at;
    int count;
} ls_names;

static bool known(const ls_names *names, const char *name) {
    for (int i = 0; i < names->count; i++) {
        if (strcmp(names->at[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void check_name(ls_reader *reader, const ls_names *names, ls_mark mark, const char *name) {
    if (name == NULL || known(names, name)) {
        return;
    }
    int near = names->count < NEAREST_NAMES ? names->count : NEAREST_NAMES;
    ls_check__error(reader, mark, "a tensor of `tensors:` or the `into:` of an earlier step",
                    ls_nearest(name, names->at, (size_t)near), "there is no tensor %.60s", name);
}

void ls_check__range(ls_reader *reader, ls_mark mark, const char *what, int64_t value,
                     int64_t limit) {
    if (value >= limit) {
        ls_check__error(reader, mark, NULL, NULL, "%s: %" PRId64 " of only %" PRId64, what, value,
                        limit);
    }
}

// ---- Tensors ------------------------------------------------------------------------------------
static void check_sizes(ls_reader *reader, const ls_scenario *scenario,
                        ls_scenario_tensor *tensor) {
    ls_mark mark = ls_node_mark(&tensor->node, "sizes");
    int at = -1;
    int shards = 0;
    for (int i = 0; i < tensor->placements.count; i++) {
        if (tensor->placements.at[i].kind == LS_PLACE_SHARD) {
            at = i;
            shards++;
        }
    }
    if (shards != 1) {
        ls_check__error(reader, mark, NULL, NULL,
                        "sizes: they need exactly one S placement, there are %d", shards);
        return;
    }
    if (tensor->sizes.count != scenario->mesh.dim[at]) {
        ls_check__error(reader, mark, NULL, NULL, "sizes: %d for a mesh dimension of %d ranks",
                        tensor->sizes.count, scenario->mesh.dim[at]);
        return;
    }
    int dim = tensor->placements.at[at].dim;
    dim += dim < 0 ? tensor->shape.ndim : 0;
    int64_t sum = 0;
    for (int i = 0; i < tensor->sizes.count; i++) {
        sum += tensor->sizes.at[i];  // at most 65536 numbers up to 2^40
    }
    if (dim >= 0 && dim < tensor->shape.ndim && sum != tensor->shape.dim[dim]) {
        ls_check__error(reader, mark, NULL, NULL,
                        "sizes: they add up to %" PRId64 ", but dimension %d has %" PRId64, sum,
                        dim, tensor->shape.dim[dim]);
        return;
    }
    tensor->placements.at[at].sizes = tensor->sizes.at;
}

void ls_check__placements(ls_reader *reader, const ls_scenario *scenario, const ls_node *node,
                          const char *key, const ls_placements *placements,
                          const ls_scenario_tensor *tensor) {
    ls_mark mark = ls_node_mark(node, key);
    if (placements->count != scenario->mesh.ndim && scenario->mesh.ndim > 0) {
        ls_check__error(reader, mark, "one placement for each mesh dimension", NULL,
                        "%s: %d placements for %d mesh dimensions", key, placements->count,
                        scenario->mesh.ndim);
    }
    for (int i = 0; i < placements->count; i++) {
        if (placements->at[i].kind == LS_PLACE_PARTIAL && placements->at[i].op == LS_PREMUL_SUM) {
            ls_check__error(reader, mark, NULL, NULL,
                            "%s: P(premul_sum) needs factors, which a placement lacks", key);
        }
    }
    for (int i = 0; i < placements->count && tensor != NULL; i++) {
        const ls_placement *placement = &placements->at[i];
        int ndim = tensor->shape.ndim;
        if (placement->kind == LS_PLACE_SHARD &&
            (placement->dim >= ndim || placement->dim < -ndim)) {
            ls_check__error(reader, mark, NULL, NULL, "%s: S(%d) of a tensor with %d dimensions",
                            key, placement->dim, ndim);
        }
        if (placement->kind == LS_PLACE_PARTIAL && placement->op != LS_PREMUL_SUM &&
            !ls_op_supports(placement->op, tensor->dtype)) {
            ls_check__error(reader, mark, NULL, NULL, "%s: %s is not defined on %s", key,
                            ls_op_name(placement->op), ls_dtype_name(tensor->dtype));
        }
    }
}

static void check_block(ls_reader *reader, const ls_scenario *scenario,
                        const ls_scenario_tensor *tensor, const ls_scenario_block *block) {
    const ls_shape *shape = &tensor->shape;
    if (scenario->ranks > 0) {
        ls_check__range(reader, ls_node_mark(&block->node, "rank"), "rank", block->rank,
                        scenario->ranks);
    }
    if (block->offset.count != shape->ndim || block->size.count != shape->ndim) {
        ls_check__error(reader, block->node.mark, NULL, NULL,
                        "block: offset and size need %d numbers each", shape->ndim);
        return;
    }
    for (int i = 0; i < shape->ndim; i++) {
        if (block->offset.at[i] + block->size.at[i] > shape->dim[i]) {
            ls_check__error(reader, ls_check__element(&block->size, i), NULL, NULL,
                            "block: it ends at %" PRId64 " of dimension %d, which has %" PRId64,
                            block->offset.at[i] + block->size.at[i], i, shape->dim[i]);
        }
    }
}

static void check_tensor(ls_reader *reader, const ls_scenario *scenario,
                         ls_scenario_tensor *tensor) {
    size_t count = 0;
    if (tensor->values.kind == LS_GENERATOR_VALUES &&
        ls_shape_count(&count, &tensor->shape) == LS_OK &&
        (size_t)tensor->values.value_count != count) {
        ls_check__error(reader, ls_node_mark(&tensor->values.node, "values"), NULL, NULL,
                        "values: %" PRId64 " for %zu elements", tensor->values.value_count, count);
    }
    bool blocks = ls_node_has(&tensor->node, "blocks");
    if (blocks == ls_node_has(&tensor->node, "placements")) {
        ls_check__error(reader, tensor->node.mark, "placements: S(0), for example", NULL,
                        blocks ? "tensor: both placements and blocks"
                               : "tensor: neither placements nor blocks");
        return;
    }
    for (int i = 0; i < tensor->block_count && ls_read__going(reader); i++) {
        check_block(reader, scenario, tensor, &tensor->blocks[i]);
    }
    if (tensor->has_placements) {
        ls_check__placements(reader, scenario, &tensor->node, "placements", &tensor->placements,
                             tensor);
    }
    if (ls_node_has(&tensor->node, "sizes") && tensor->placements.count == scenario->mesh.ndim) {
        check_sizes(reader, scenario, tensor);
    }
    bool partial = tensor->has_placements && ls_placements_any_partial(&tensor->placements);
    if (tensor->parts != 0 && (!partial || ls_node_has(&tensor->node, "source"))) {
        ls_check__error(reader, ls_node_mark(&tensor->node, "parts"), NULL, NULL, "parts: each %s",
                        partial ? "has no source" : "needs a P placement");
    }
    for (int d = 0; tensor->parts != 0 && d < tensor->placements.count; d++) {
        if (tensor->placements.at[d].split > 1) {
            ls_check__error(reader, ls_node_mark(&tensor->node, "parts"), NULL, NULL,
                            "parts: each of a strided shard");
        }
    }
    if (ls_node_has(&tensor->node, "source") && scenario->ranks > 0) {
        ls_check__range(reader, ls_node_mark(&tensor->node, "source"), "source", tensor->source,
                        scenario->ranks);
    }
}

// ---- Steps --------------------------------------------------------------------------------------
void ls_check__members(ls_reader *reader, const ls_scenario *scenario, const ls_int_list *ranks,
                       const char *what) {
    for (int i = 0; i < ranks->count && scenario->ranks > 0 && ls_read__going(reader); i++) {
        ls_check__range(reader, ls_check__element(ranks, i), what, ranks->at[i], scenario->ranks);
        for (int j = 0; j < i && ranks->count <= PROGRAM_MAX; j++) {
            if (ranks->at[i] == ranks->at[j]) {
                ls_check__error(reader, ls_check__element(ranks, i), NULL, NULL,
                                "%s: %" PRId64 " is given twice", what, ranks->at[i]);
                break;
            }
        }
    }
}

void ls_check__rows(ls_reader *reader, const ls_int_rows *rows, int row_count, int row_length,
                    const char *what) {
    if (row_count >= 0 && rows->count != row_count) {
        ls_check__error(reader, rows->mark, NULL, NULL, "%s: %d lists for %d members", what,
                        rows->count, row_count);
    }
    for (int i = 0; i < rows->count && ls_read__going(reader); i++) {
        if (rows->at[i].count != row_length) {
            ls_mark mark = rows->at[i].count > 0 ? rows->at[i].marks[0] : rows->mark;
            ls_check__error(reader, mark, NULL, NULL, "%s: %d numbers, expected %d", what,
                            rows->at[i].count, row_length);
        }
    }
}

void ls_check__excepts(ls_reader *reader, const ls_scenario *scenario, const ls_scenario_step *step,
                       int members) {
    for (int i = 0; i < step->except_count && ls_read__going(reader); i++) {
        const ls_scenario_except *except = &step->excepts[i];
        ls_check__members(reader, scenario, &except->ranks, "rank");
        if (ls_node_has(&except->node, "root")) {
            ls_check__range(reader, ls_node_mark(&except->node, "root"), "root", except->root,
                            members);
        }
        if (ls_node_has(&except->node, "counts") && except->counts.count != members) {
            ls_check__error(reader, ls_node_mark(&except->node, "counts"), NULL, NULL,
                            "counts: %d for %d members", except->counts.count, members);
        }
        if (ls_node_has(&except->node, "group")) {
            ls_check__members(reader, scenario, &except->group, "group");
        }
        ls_check__except(reader, scenario, step, i);
    }
}

static void check_step(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step,
                       ls_names *names, int number) {
    const ls_step_type *type = step->type;
    ls_step_operand operand;
    for (int i = 0; ls_step_operand_of(&operand, step, i) && ls_read__going(reader); i++) {
        check_name(reader, names, operand.mark, operand.name);
    }
    if (type->check != NULL) {
        type->check(reader, scenario, step);
    }
    if (type->form == LS_STEP_OF_TENSORS) {
        ls_check__excepts(reader, scenario, step, scenario->ranks);
    }
    if (step->into != NULL && !known(names, step->into)) {
        names->at[names->count++] = step->into;
    }
    if (step->name != NULL) {
        ls_check__stage_name(reader, ls_node_mark(&step->node, "name"), step->name, NULL, NULL);
    } else {
        step->name = ls_arena_printf(reader->arena, "%d_%s", number, ls_step_kind_name(step));
        reader->no_memory = reader->no_memory || step->name == NULL;
    }
}

static int compare_steps(const void *a, const void *b) {
    const ls_scenario_step *const *left = a;
    const ls_scenario_step *const *right = b;
    int by_name = strcmp((*left)->name, (*right)->name);
    if (by_name != 0) {
        return by_name;
    }
    return *left < *right ? -1 : 1;
}

// A step's name is its stage's name, so it must be unique.
static void check_step_names(ls_reader *reader, const ls_scenario *scenario) {
    size_t count = 0;
    const ls_scenario_step **steps =
        ls_read__alloc(reader, (size_t)scenario->step_count, sizeof *steps);
    for (int i = 0; steps != NULL && i < scenario->step_count; i++) {
        if (scenario->steps[i].node.record != NULL && scenario->steps[i].name != NULL) {
            steps[count++] = &scenario->steps[i];
        }
    }
    if (count > 1) {
        qsort(steps, count, sizeof *steps, compare_steps);
    }
    for (size_t i = 1; i < count && ls_read__going(reader); i++) {
        if (strcmp(steps[i - 1]->name, steps[i]->name) == 0) {
            char text[160];
            (void)snprintf(text, sizeof text, "step %.60s: the name is given twice",
                           steps[i]->name);
            ls_diagnostics_add(
                reader->diagnostics,
                &(ls_diagnostic){.mark = ls_node_mark(&steps[i]->node, "name"),
                                 .text = text,
                                 .note = "first given here",
                                 .note_mark = ls_node_mark(&steps[i - 1]->node, "name")});
        }
    }
}

void ls_scenario__check_program(ls_reader *reader, ls_scenario *scenario) {
    if (scenario->tensor_count > PROGRAM_MAX || scenario->step_count > PROGRAM_MAX) {
        ls_check__error(reader, ls_node_mark(&scenario->node, "program"), NULL, NULL,
                        "program: more than %d tensors or steps", PROGRAM_MAX);
        return;
    }
    ls_names names = {
        .at = ls_read__alloc(reader, (size_t)scenario->tensor_count + (size_t)scenario->step_count,
                             sizeof *names.at)};
    for (int i = 0; i < scenario->tensor_count && names.at != NULL && ls_read__going(reader); i++) {
        ls_scenario_tensor *tensor = &scenario->tensors[i];
        check_tensor(reader, scenario, tensor);
        if (tensor->name != NULL && known(&names, tensor->name)) {
            ls_check__error(reader, ls_node_mark(&tensor->node, "name"), NULL, NULL,
                            "tensor %.60s: the name is given twice", tensor->name);
        } else if (tensor->name != NULL) {
            names.at[names.count++] = tensor->name;
        }
    }
    for (int i = 0; i < scenario->step_count && names.at != NULL && ls_read__going(reader); i++) {
        if (scenario->steps[i].node.record != NULL) {
            check_step(reader, scenario, &scenario->steps[i], &names, i);
        }
    }
    if (!reader->no_memory) {
        check_step_names(reader, scenario);
    }
}
