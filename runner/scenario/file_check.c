// Checks the files that a scenario names and its lists of values before the run: the files'
// headers, and the number of values. The run finds errors that depend on the data.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "embedding/checkpoint.h"
#include "runner/scenario/input_file.h"
#include "runner/scenario/inputs.h"
#include "runner/scenario/read.h"
#include "runner/scenario/scenario_layout.h"

// ---- One file -----------------------------------------------------------------------------------
static ls_mark mark_of(const ls_generator *generator) {
    return ls_node_mark(&generator->node, generator->kind == LS_GENERATOR_FILE ? "file" : "values");
}

// The thread's last error as a diagnostic.
static void complain(ls_reader *reader, ls_mark mark, const char *what) {
    if (ls_error_last()->code == LS_ERR_MEMORY) {
        reader->no_memory = true;
    } else {
        ls_check__error(reader, mark, NULL, NULL, "%s: %s", what, ls_error_last()->text);
    }
}

// Whether the generator's file is usable; reports errors.
static bool describe(ls_reader *reader, ls_input_array *out, const ls_generator *generator,
                     const char *what) {
    if (generator->kind != LS_GENERATOR_FILE || generator->file == NULL ||
        !ls_read__going(reader)) {
        return false;
    }
    if (ls_input_file_describe(out, generator->file, generator->tensor) != LS_OK) {
        complain(reader, mark_of(generator), what);
        return false;
    }
    return true;
}

// ---- Types --------------------------------------------------------------------------------------
// A generator that may be a file, with the type of its use.
typedef struct file_use {
    const ls_generator *generator;
    ls_dtype dtype;
    const char *what;  // "weights"
    const char *kind;  // "table"; NULL: there is only one
    const char *name;
} file_use;

typedef void visit_use(void *context, const file_use *use);

// Gradients get the types of the outputs: the narrowest of these.
static ls_dtype gradient_dtype(const ls_scenario *scenario) {
    ls_dtype narrowest = LS_F64;
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        bool pooled = table->pooling != LS_POOL_NONE && table->dtype != LS_F64;
        ls_dtype dtype = pooled ? LS_F32 : table->dtype;
        bool narrower = ls_dtype_format(dtype).precision < ls_dtype_format(narrowest).precision;
        narrowest = narrower ? dtype : narrowest;
    }
    return narrowest;
}

// Every file of numbers whose type may differ from that of its use; ids and lengths are integers of
// any signed type.
static void visit_uses(const ls_scenario *scenario, visit_use *visit, void *context) {
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        visit(context, &(file_use){&table->weights, table->dtype, "weights", "table", table->name});
    }
    for (int i = 0; i < scenario->tensor_count; i++) {
        const ls_scenario_tensor *tensor = &scenario->tensors[i];
        visit(context,
              &(file_use){&tensor->values, tensor->dtype, "values", "tensor", tensor->name});
    }
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        if (step->node.record != NULL && ls_step_on_buffers(step)) {
            visit(context,
                  &(file_use){&step->call.values, step->call.dtype, "values", "step", step->name});
        }
    }
    for (int i = 0; i < scenario->inputs.feature_count; i++) {
        const ls_scenario_feature *feature = &scenario->inputs.features[i];
        visit(context, &(file_use){&feature->weights, LS_F32, "weights", "feature", feature->name});
    }
    visit(context, &(file_use){&scenario->train.gradients, gradient_dtype(scenario), "gradients",
                               NULL, NULL});
}

static bool is_file(const ls_generator *generator) {
    return generator->kind == LS_GENERATOR_FILE && generator->file != NULL;
}

static void check_type(void *context, const file_use *use) {
    ls_reader *reader = context;
    ls_input_array array;
    bool floats = ls_dtype_is_float(use->dtype);
    if (!is_file(use->generator) || !ls_read__going(reader)) {
        return;
    }
    if (ls_input_file_describe(&array, use->generator->file, use->generator->tensor) != LS_OK) {
        ls_error_clear();  // reported where the file's shape is checked
    } else if (ls_dtype_is_float(array.dtype) != floats) {
        ls_check__error(reader, mark_of(use->generator), floats ? "floats" : "integers", NULL,
                        "%s: the elements of the file are %s, expected %s", use->what,
                        ls_dtype_name(array.dtype), ls_dtype_name(use->dtype));
    }
}

// Whether one type represents every value of the other, both floats or both integers.
static bool holds_all(ls_dtype to, ls_dtype from) {
    if (ls_dtype_is_float(to)) {
        ls_float_format wide = ls_dtype_format(to), narrow = ls_dtype_format(from);
        return wide.precision >= narrow.precision && wide.max >= narrow.max &&
               wide.subnormal_exponent <= narrow.subnormal_exponent;
    }
    bool wider = ls_dtype_bytes(to) > ls_dtype_bytes(from);
    return to == from || (wider && (ls_dtype_is_signed(to) || !ls_dtype_is_signed(from)));
}

#define CONVERSIONS_MAX 4  // that are named

typedef struct conversions {
    ls_text *out;
    int count;
} conversions;

static void note_conversion(void *context, const file_use *use) {
    conversions *to = context;
    ls_input_array array;
    if (!is_file(use->generator)) {
        return;
    }
    if (ls_input_file_describe(&array, use->generator->file, use->generator->tensor) != LS_OK) {
        ls_error_clear();  // the generator's reader reports it
        return;
    }
    if (ls_dtype_is_float(array.dtype) != ls_dtype_is_float(use->dtype) ||
        holds_all(use->dtype, array.dtype) || to->count++ >= CONVERSIONS_MAX) {
        return;
    }
    const char *file = strrchr(use->generator->file, '/');
    ls_text_printf(to->out, "%s%s", to->count == 1 ? "" : "; ", use->what);
    if (use->kind != NULL) {
        ls_text_printf(to->out, " of %s %s", use->kind, use->name);
    }
    ls_text_printf(to->out, ": %s of %s, %s to %s", ls_dtype_name(array.dtype),
                   file != NULL ? file + 1 : use->generator->file,
                   ls_dtype_is_float(use->dtype) ? "rounded" : "narrowed",
                   ls_dtype_name(use->dtype));
}

void ls_scenario_conversions(ls_text *out, const ls_scenario *scenario) {
    conversions to = {.out = out};
    visit_uses(scenario, note_conversion, &to);
    if (to.count > CONVERSIONS_MAX) {
        ls_text_printf(out, "; and %d more files", to.count - CONVERSIONS_MAX);
    }
}

// ---- Shapes -------------------------------------------------------------------------------------
// A file of numbers of any type and of exactly this shape, since another shape may mean another
// order. A single dimension has no fixed order: `rows` of any shape are as good as flat ones.
static void check_shape(ls_reader *reader, const ls_generator *generator, const ls_shape *shape,
                        bool rows, const char *what) {
    ls_input_array array;
    size_t count = 0;
    if (!describe(reader, &array, generator, what) || ls_shape_count(&count, shape) != LS_OK) {
        return;
    }
    ls_shape has = {.ndim = array.ndim};
    memcpy(has.dim, array.dim, sizeof has.dim);
    bool as_many = array.count == count;
    bool alike = has.ndim == 1 || (rows && has.ndim > 1 && has.dim[0] == shape->dim[0]);
    if (!ls_shape_equal(&has, shape) && !(as_many && alike)) {
        char one[LS_SHAPE_TEXT_MAX], other[LS_SHAPE_TEXT_MAX];
        ls_shape_format(one, sizeof one, &has);
        ls_shape_format(other, sizeof other, shape);
        ls_check__error(reader, mark_of(generator), NULL, NULL,
                        "%s: the file has shape %s, expected %s", what, one, other);
    }
}

// ---- Tables -------------------------------------------------------------------------------------
// The first table that names the same plan file as table `index`.
static int first_with_plan(const ls_scenario *scenario, int index) {
    const char *path = scenario->tables[index].sharding.plan;
    for (int i = 0; i < index; i++) {
        const char *other = scenario->tables[i].sharding.plan;
        if (other != NULL && strcmp(other, path) == 0) {
            return i;
        }
    }
    return index;
}

// An unusable file is reported once, at the first table that names it; bad [tables] marks these.
static void check_plan(ls_reader *reader, const ls_scenario *scenario, int index, bool *bad) {
    const ls_scenario_table *table = &scenario->tables[index];
    ls_arena *arena = NULL;
    if (table->sharding.plan == NULL || scenario->ranks == 0) {
        return;
    }
    int first = first_with_plan(scenario, index);
    if (bad[first]) {
        return;
    }
    if (ls_arena_create(&arena) != LS_OK) {
        reader->no_memory = true;
        return;
    }
    ls_mark mark = ls_node_mark(&table->sharding.node, "plan");
    ls_plan whole;
    ls_plan_table placed = {0};
    if (first == index &&
        ls_scenario_plan_open(&whole, scenario, table->sharding.plan, arena) != LS_OK) {
        complain(reader, mark, "plan");
        bad[index] = true;
    } else if (table->rows > 0 && table->dim > 0 &&
               ls_scenario_layout(&placed, scenario, table, arena) != LS_OK) {
        char what[80];
        (void)snprintf(what, sizeof what, "table %.60s", table->name);
        complain(reader, mark, what);
    }
    ls_arena_free(arena);
}

static void check_table(ls_reader *reader, const ls_scenario *scenario, int index,
                        bool *bad_plans) {
    const ls_scenario_table *table = &scenario->tables[index];
    if (table->rows > 0 && table->dim > 0) {
        check_shape(reader, &table->weights, &LS_SHAPE(table->rows, table->dim), true, "weights");
    }
    check_plan(reader, scenario, index, bad_plans);
}

// Whether the checkpoint has the initial values of a table and its optimizer.
static void check_start(ls_reader *reader, const ls_scenario *scenario,
                        const ls_checkpoint *checkpoint, int index) {
    const ls_scenario_table *table = &scenario->tables[index];
    const ls_table config = ls_scenario_table_config(scenario, index);
    bool update = ls_scenario_runs(scenario, LS_TABLES_UPDATE);
    ls_checkpoint_place place;
    if (ls_node_has(&table->node, "weights")) {
        ls_check__error(reader, ls_node_mark(&table->node, "weights"), NULL, NULL,
                        "table %.60s: weights exclude a checkpoint, which has them", table->name);
    } else if (ls_node_has(&table->node, "quantise")) {
        ls_check__error(reader, ls_node_mark(&table->node, "quantise"), NULL, NULL,
                        "table %.60s: quantised rows cannot start from a checkpoint", table->name);
    } else if (ls_checkpoint_find(&place, checkpoint, &config,
                                  update ? ls_scenario_optimizer_of(scenario, index) : NULL) !=
               LS_OK) {
        complain(reader, table->node.mark, "checkpoint");
    }
}

static void check_checkpoint(ls_reader *reader, ls_scenario *scenario) {
    ls_checkpoint *checkpoint = NULL;
    if (scenario->checkpoint == NULL || ls_diagnostics_count(reader->diagnostics) > 0) {
        return;  // errors of tables and optimizers come first
    }
    ls_mark mark = ls_node_mark(&scenario->node, "checkpoint");
    int status = ls_checkpoint_open(&checkpoint, scenario->checkpoint);
    status = status == LS_OK ? ls_checkpoint_check_tensors(checkpoint) : status;
    if (status != LS_OK) {
        complain(reader, mark, "checkpoint");
        ls_checkpoint_free(checkpoint);
        return;
    }
    int64_t step = ls_checkpoint_step(checkpoint);
    if (step > INT32_MAX - LS_SCENARIO_STEPS_MAX) {
        ls_check__error(reader, mark, NULL, NULL, "checkpoint: step %" PRId64 " is too large",
                        step);
    } else {
        scenario->first_step = (int)step;
    }
    for (int i = 0; i < scenario->table_count && ls_read__going(reader); i++) {
        check_start(reader, scenario, checkpoint, i);
    }
    ls_checkpoint_free(checkpoint);
}

static bool check_integers(ls_reader *reader, const ls_generator *generator, const char *what) {
    ls_input_array array;
    if (!describe(reader, &array, generator, what)) {
        return generator->kind != LS_GENERATOR_FILE;
    }
    if (ls_dtype_is_float(array.dtype) || array.dtype == LS_U64) {
        ls_check__error(reader, mark_of(generator), "integers, signed or of at most 32 bits", NULL,
                        "%s: the elements of the file are %s", what, ls_dtype_name(array.dtype));
        return false;
    }
    return true;
}

static void check_feature(ls_reader *reader, const ls_scenario *scenario, int index) {
    const ls_scenario_feature *feature = &scenario->inputs.features[index];
    ls_input_array array;
    bool lengths = check_integers(reader, &feature->lengths, "lengths");
    bool ids = check_integers(reader, &feature->ids, "ids");
    bool weights = feature->weights.kind != LS_GENERATOR_FILE ||
                   describe(reader, &array, &feature->weights, "weights");
    bool inverse = check_integers(reader, &feature->inverse_indices, "inverse_indices");
    const ls_generator *const all[] = {&feature->lengths, &feature->ids, &feature->weights,
                                       &feature->inverse_indices};
    bool any = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        any = any || all[i]->kind == LS_GENERATOR_FILE || all[i]->kind == LS_GENERATOR_VALUES;
    }
    if (!lengths || !ids || !weights || !inverse || !any ||
        ls_diagnostics_count(reader->diagnostics) > 0) {
        return;
    }
    const ls_generator *wrong = NULL;
    if (ls_inputs_check(&wrong, scenario, index) != LS_OK) {
        static const char *const names[] = {"lengths", "ids", "weights", "inverse_indices"};
        const char *what = "feature";
        for (int i = 0; i < 4; i++) {
            what = wrong == all[i] ? names[i] : what;
        }
        complain(reader, wrong == NULL ? feature->node.mark : mark_of(wrong), what);
    }
}

// ---- Steps --------------------------------------------------------------------------------------
// The sent elements of a member of a step's group.
typedef struct ls_sent {
    ls_kind kind;
    int64_t count;
    const ls_int_list *counts;
    int64_t counts_sum;
    const ls_int_rows *splits;
    int root;
} ls_sent;

static int64_t times(int64_t count, int members) {
    return count > INT64_MAX / members ? INT64_MAX : count * members;
}

static int64_t sent_by(const ls_sent *sent, int member, int members) {
    const ls_side *side = &ls_collective_of(sent->kind)->send;
    bool uneven = sent->counts->count == members;
    if (side->form == LS_SIDE_NONE || (side->root_only && member != sent->root)) {
        return 0;
    }
    if (side->form == LS_SIDE_COUNT) {
        return uneven ? sent->counts->at[member] : sent->count;
    }
    if (uneven) {
        return sent->counts_sum;
    }
    return sent->splits->count == members ? ls_check__sum(&sent->splits->at[member])
                                          : times(sent->count, members);
}

// The mapping with the call: the step, or an exception.
static ls_sent sent_in(const ls_scenario_step *step, const ls_scenario_except *except) {
    ls_sent sent = {.kind = ls_step_call_kind(step->kind),
                    .count = step->call.count,
                    .counts = &step->call.counts,
                    .splits = &step->call.splits,
                    .root = step->call.root};
    if (except != NULL) {
        sent.kind = ls_node_has(&except->node, "call") ? except->kind : sent.kind;
        sent.count = ls_node_has(&except->node, "count") ? except->count : sent.count;
        sent.root = ls_node_has(&except->node, "root") ? except->root : sent.root;
        sent.counts = except->counts.count > 0 ? &except->counts : sent.counts;
        sent.count = except->skip || except->exit ? 0 : sent.count;
    }
    sent.counts_sum = ls_check__sum(sent.counts);
    return sent;
}

// The number of values for a member; -1: unlimited.
static int64_t given_to(const ls_generator *values, const ls_input_array *array, int member,
                        int members) {
    if (values->kind == LS_GENERATOR_FILE) {
        return (int64_t)(array->count / (size_t)members);
    }
    if (values->row_counts.count > 0) {
        return member < values->row_counts.count ? values->row_counts.at[member] : 0;
    }
    return values->value_count;
}

static int member_rank(const ls_scenario *scenario, const ls_scenario_step *step, int rank,
                       int *members) {
    int member = ls_inputs_member(scenario, step, rank, members);
    return member < *members ? member : *members - 1;
}

static bool enough(ls_reader *reader, const ls_scenario_step *step, const ls_input_array *array,
                   int64_t needed, int member, int members) {
    int64_t given = given_to(&step->call.values, array, member, members);
    if (given >= needed) {
        return true;
    }
    ls_check__error(reader, mark_of(&step->call.values), NULL, NULL,
                    "values: %" PRId64 " for the %" PRId64 " elements that member %d sends", given,
                    needed, member);
    return false;
}

static void check_step(ls_reader *reader, const ls_scenario *scenario,
                       const ls_scenario_step *step) {
    ls_input_array array = {0};
    const ls_generator *values = &step->call.values;
    bool file = describe(reader, &array, values, "values");
    if (scenario->ranks == 0 || !ls_read__going(reader) ||
        !(file || values->kind == LS_GENERATOR_VALUES)) {
        return;
    }
    int members = 1;
    (void)ls_inputs_member(scenario, step, 0, &members);
    if (file && (array.ndim < 1 || array.dim[0] != members)) {
        ls_check__error(reader, mark_of(values), NULL, NULL,
                        "values: the first dimension of the file is not the %d members", members);
        return;
    }
    if (ls_diagnostics_count(reader->diagnostics) > 0) {
        return;  // counts may be among the errors
    }
    ls_sent sent = sent_in(step, NULL);
    for (int m = 0; m < members && ls_step_is_collective(step->kind); m++) {
        if (!enough(reader, step, &array, sent_by(&sent, m, members), m, members)) {
            return;
        }
    }
    for (int i = 0; !ls_step_is_collective(step->kind) && i < step->call.pairs.count; i++) {
        if (!enough(reader, step, &array, step->call.count, (int)step->call.pairs.at[i].at[0],
                    members)) {
            return;
        }
    }
    for (int i = 0; i < step->except_count; i++) {
        const ls_scenario_except *except = &step->excepts[i];
        sent = sent_in(step, except);
        for (int k = 0; k < except->ranks.count; k++) {
            int member = member_rank(scenario, step, (int)except->ranks.at[k], &members);
            if (!enough(reader, step, &array, sent_by(&sent, member, members), member, members)) {
                return;
            }
        }
    }
}

// ---- Gradients ----------------------------------------------------------------------------------
static void check_gradients(ls_reader *reader, const ls_scenario *scenario) {
    const ls_generator *gradients = &scenario->train.gradients;
    ls_input_array array;
    bool file = describe(reader, &array, gradients, "gradients");
    if ((file || gradients->kind == LS_GENERATOR_VALUES) &&
        ls_diagnostics_count(reader->diagnostics) == 0 && scenario->inputs.feature_count > 0 &&
        ls_inputs_check_gradients(scenario) != LS_OK) {
        complain(reader, mark_of(gradients), "gradients");
    }
}

// ---- All ----------------------------------------------------------------------------------------
static void check_reference(ls_reader *reader, const ls_scenario_reference *reference) {
    ls_input_array array;
    if (reference->file != NULL &&
        ls_input_file_describe(&array, reference->file, reference->tensor) != LS_OK) {
        complain(reader, ls_node_mark(&reference->node, "file"), "reference");
    }
}

void ls_scenario__check_files(ls_reader *reader, ls_scenario *scenario) {
    check_checkpoint(reader, scenario);
    bool *bad_plans = ls_read__alloc(reader, (size_t)scenario->table_count, sizeof *bad_plans);
    for (int i = 0; bad_plans != NULL && i < scenario->table_count && ls_read__going(reader); i++) {
        check_table(reader, scenario, i, bad_plans);
    }
    for (int i = 0; i < scenario->tensor_count && ls_read__going(reader); i++) {
        check_shape(reader, &scenario->tensors[i].values, &scenario->tensors[i].shape, false,
                    "values");
    }
    for (int i = 0; i < scenario->step_count && ls_read__going(reader); i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        if (step->node.record != NULL && ls_step_on_buffers(step)) {
            check_step(reader, scenario, step);
        }
    }
    for (int i = 0; i < scenario->checks.reference_count && ls_read__going(reader); i++) {
        check_reference(reader, &scenario->checks.references[i]);
    }
    for (int i = 0; i < scenario->inputs.feature_count && ls_read__going(reader); i++) {
        if (scenario->inputs.features[i].node.record != NULL) {
            check_feature(reader, scenario, i);
        }
    }
    visit_uses(scenario, check_type, reader);
    check_gradients(reader, scenario);
}
