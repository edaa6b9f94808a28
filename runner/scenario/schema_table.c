// The schema table of scenario files. See schema.h; the members are in scenario.h.
#include "runner/scenario/schema_rows.h"

#include "runner/scenario/scenario.h"

// ---- Names --------------------------------------------------------------------------------------
#define SHARDING_NAME(name, text, ...) {text, name},
static const ls_schema_name sharding_names[] = {LS_SHARDING_MAP(SHARDING_NAME)};
#define NAME_2(name, text) {text, name},
static const ls_schema_name fault_names[] = {LS_FAULT_MAP(NAME_2)};
#define FINDING_NAME(id, name, ...) {name, id},
static const ls_schema_name finding_names[] = {LS_FINDING_MAP(FINDING_NAME)};
#define DTYPE_NAME(name, value, text, ...) {#text, LS_##name},
static const ls_schema_name weight_dtype_names[] = {LS_DTYPE_FLOAT_MAP(DTYPE_NAME)};
static const ls_schema_name pooling_names[] = {
    {"sum", LS_POOL_SUM}, {"mean", LS_POOL_MEAN}, {"max", LS_POOL_MAX}, {"none", LS_POOL_NONE}};
static const ls_schema_name divisor_names[] = {
    {"weights", LS_MEAN_WEIGHTS}, {"ids", LS_MEAN_IDS}, {"torchrec", LS_MEAN_TORCHREC}};
static const ls_schema_name row_names[LS_ROW_ELEMENT_COUNT] = {{"int8", LS_ROW_INT8},
                                                               {"int4", LS_ROW_INT4},
                                                               {"int2", LS_ROW_INT2},
#define ROW_NAME(name, value, text, ...) {#text, LS_ROW_##name},
                                                               LS_DTYPE_NARROW_MAP(ROW_NAME)};
static const ls_schema_name scale_names[] = {{"f16", LS_F16}, {"f32", LS_F32}};
static const ls_schema_name output_names[] = {
    {"f32", LS_F32}, {"f16", LS_F16}, {"bf16", LS_BF16}, {"f64", LS_F64}};
static const ls_schema_name order_names[] = {{"quantise_then_shard", LS_QUANTISE_THEN_SHARD},
                                             {"shard_then_quantise", LS_SHARD_THEN_QUANTISE}};
static const ls_schema_name stage_names[] = {
    {"forward", LS_TABLES_FORWARD}, {"backward", LS_TABLES_BACKWARD}, {"update", LS_TABLES_UPDATE}};
#define KERNEL_NAME(name, value, text) {text, name},
static const ls_schema_name kernel_names[] = {LS_PLANNER_KERNEL_MAP(KERNEL_NAME)};
static const ls_schema_name machine_names[] = {
    {"v100_torchrec", 0}, {"a100", 0}, {"h100", 0}, {"h200", 0}};
static const ls_schema_name class_names[] = {{"bit_exact", LS_CLASS_BIT_EXACT},
                                             {"reordered", LS_CLASS_REORDERED},
                                             {"within_bound", LS_CLASS_WITHIN_BOUND},
                                             {"by_design", LS_CLASS_BY_DESIGN},
                                             {"off", -1}};
#define ALLOWED_NAMES (&(const ls_schema_names){class_names, COUNT(class_names) - 1})  // not "off"
static const ls_schema_name verdict_names[] = {
    {"wrong", LS_CLASS_WRONG}};  // expectations name findings, never errors

// One line to a key: easier to read as a table than as clang-format has it.
// clang-format off

// ---- Generators ---------------------------------------------------------------------------------

// ---- Tables -------------------------------------------------------------------------------------
#define S ls_scenario_sharding
static const ls_schema_field sharding_fields[] = {
    {"type", LS_FIELD_STRINGS, .flags = LS_FIELD_SINGLE | LS_FIELD_SOME, MEMBER(types),
     .names = NAMES(sharding_names), .otherwise = "the planner chooses",
     .doc = "How the table is cut; of several the planner chooses one.",
     .example = "type: row_wise"},
    {"ranks", LS_FIELD_INTS, .flags = LS_FIELD_SINGLE | LS_FIELD_SOME, MEMBER(ranks), .min = 0,
     .max = LS_RANKS_MAX - 1, .otherwise = "the planner places the blocks",
     .doc = "The rank of each block, in the order of the blocks.", .example = "ranks: [0, 1]"},
    {"sizes", LS_FIELD_INTS, .flags = LS_FIELD_SOME, MEMBER(sizes), .min = 0,
     .max = LS_SCENARIO_ROWS_MAX,
     .otherwise = "equal blocks, rounded up, the last ones smaller or empty",
     .doc = "Rows (row wise) or columns (column wise) of each block.",
     .example = "sizes: [1, 3, 1, 3]"},
    {"columns", LS_FIELD_INT, MEMBER(columns), .min = 1, .max = LS_SCENARIO_DIM_MAX,
     .otherwise = "the planner chooses", .doc = "Width of a column block.",
     .example = "columns: 32"},
    {"host", LS_FIELD_INT, MEMBER(host), .min = 0, .max = LS_RANKS_MAX - 1, .fallback = "-1",
     .otherwise = "the planner places it", .doc = "The host that holds the table (table_row_wise).",
     .example = "host: 0"},
    {"kernel", LS_FIELD_STRINGS, .flags = LS_FIELD_SINGLE | LS_FIELD_SOME, MEMBER(kernels),
     .names = NAMES(kernel_names), .otherwise = "the planner chooses",
     .doc = "The compute kernel, for the planner's cost model; of several it chooses one.",
     .example = "kernel: fused"},
    {"only_ranks", LS_FIELD_INTS, .flags = LS_FIELD_SINGLE | LS_FIELD_SOME, MEMBER(only_ranks),
     .min = 0, .max = LS_RANKS_MAX - 1, .otherwise = "any rank",
     .doc = "Ranks that the planner may place the table on.", .example = "only_ranks: [0, 1]"},
    {"not_ranks", LS_FIELD_INTS, .flags = LS_FIELD_SINGLE, MEMBER(not_ranks), .min = 0,
     .max = LS_RANKS_MAX - 1, .otherwise = "none", .doc = "Ranks that it may not.",
     .example = "not_ranks: 0"},
    {"columns_min", LS_FIELD_INT, MEMBER(columns_min), .min = 1, .max = LS_SCENARIO_DIM_MAX,
     .fallback = "0", .otherwise = "the planner's rule",
     .doc = "The least width of a column block that it may cut.", .example = "columns_min: 32"},
    {"together", LS_FIELD_STRING, MEMBER(together), .otherwise = "free",
     .doc = "A name: it places all tables with it on the same ranks.", .example = "together: a"},
    {"apart", LS_FIELD_STRING, MEMBER(apart), .otherwise = "free",
     .doc = "A name: no two tables with it share a rank.", .example = "apart: big"},
    {"allow_broken", LS_FIELD_BOOL, MEMBER(allow_broken), .fallback = "false",
     .doc = "Accept sizes that do not add up to the table, to see which checks report it.",
     .example = "allow_broken: true"},
    {"plan", LS_FIELD_PATH, MEMBER(plan), .otherwise = "none",
     .doc = "A plan file that places this table.", .example = "plan: a.plan.yaml"},
};
static const ls_schema_record sharding_record = {
    NODE_RECORD("sharding", "Which rank holds which block of a table.", sharding_fields)};
#undef S

#define S ls_scenario_quantise
static const ls_schema_field quantise_fields[] = {
    {"to", LS_FIELD_ENUM, .flags = LS_FIELD_REQUIRED, MEMBER(format.element),
     .names = NAMES(row_names), .doc = "The type of each stored element of a row.",
     .example = "to: int8"},
    {"scale", LS_FIELD_ENUM, MEMBER(scale), .names = NAMES(scale_names), .fallback = "f16",
     .doc = "Type of each row's scale and bias (f32: int8 alone).", .example = "scale: f32"},
    {"scale_bias_last", LS_FIELD_BOOL, MEMBER(scale_last), .fallback = "false",
     .doc = "Whether scale and bias stand behind the elements, as in FBGEMM's fused rows, or ahead "
            "of them, as in its inference tables.",
     .example = "scale_bias_last: true"},
    {"row_alignment", LS_FIELD_INT, MEMBER(alignment), .min = 1, .max = LS_ROW_ALIGNMENT_MAX,
     .fallback = "16",
     .doc = "The bytes of a row are a multiple of this (FBGEMM: 16 on GPUs, 1 on CPUs).",
     .example = "row_alignment: 1"},
    {"order", LS_FIELD_ENUM, MEMBER(order), .names = NAMES(order_names),
     .fallback = "quantise_then_shard",
     .doc = "Whether whole rows are quantised and then cut, so that column shards keep the scale "
            "of the whole row, or each shard quantises its own columns.",
     .example = "order: shard_then_quantise"},
};
static const ls_schema_record quantise_record = {
    NODE_RECORD("quantise", "How the rows of an inference table are kept.", quantise_fields)};
#undef S

#define S ls_scenario_table
static const ls_schema_field table_fields[] = {
    {"name", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, MEMBER(name),
     .doc = "Unique among the tables.", .example = "name: user"},
    {"module", LS_FIELD_STRING, MEMBER(module), .otherwise = "the model itself",
     .doc = "Path of the table's collection in the PyTorch model, as named_modules() gives it. "
            "plan --torchrec writes the table under it.",
     .example = "module: sparse.ebc"},
    {"rows", LS_FIELD_INT, .flags = LS_FIELD_REQUIRED, MEMBER(rows), .min = 1,
     .max = LS_SCENARIO_ROWS_MAX, .doc = "Number of embeddings.", .example = "rows: 4096"},
    {"dim", LS_FIELD_INT, .flags = LS_FIELD_REQUIRED, MEMBER(dim), .min = 1,
     .max = LS_SCENARIO_DIM_MAX, .doc = "Numbers in each embedding.", .example = "dim: 64"},
    {"dtype", LS_FIELD_ENUM, MEMBER(dtype), .names = NAMES(weight_dtype_names), .fallback = "f32",
     .doc = "Element type of the weights.", .example = "dtype: f16"},
    {"quantise", LS_FIELD_RECORD, MEMBER(quantise), .record = &quantise_record,
     .otherwise = "rows are as dtype has them", .doc = "Keeps the rows in few bits, for inference.",
     .example = "quantise: {to: int8}"},
    {"output_dtype", LS_FIELD_ENUM, .flags = LS_FIELD_HIDDEN_BOOL, MEMBER(output_dtype),
     AUX(has_output_dtype), .names = NAMES(output_names),
     .otherwise = "f32 (dtype f64: f64); without pooling the rows' own",
     .doc = "Element type of the outputs, to which each shard rounds what it looked up; for "
            "inference.",
     .example = "output_dtype: f16"},
    {"pooling", LS_FIELD_ENUM, MEMBER(pooling), .names = NAMES(pooling_names), .fallback = "sum",
     .doc = "How the rows of a bag become one; none: a row per id.", .example = "pooling: mean"},
    {"weighted", LS_FIELD_BOOL, MEMBER(weighted), .fallback = "false", .otherwise = "as inputs say",
     .doc = "Whether the ids that look this table up have a factor each (sum and mean).",
     .example = "weighted: true"},
    {"mean_divisor", LS_FIELD_ENUM, MEMBER(mean_divisor), .names = NAMES(divisor_names),
     .fallback = "weights",
     .doc = "The divisor of a mean: the sum of the weights (1 each without weights), the number of "
            "ids, or TorchRec's. TorchRec's is the number of ids, and under row_wise and "
            "table_row_wise the sum of the weights + 1e-6.",
     .example = "mean_divisor: torchrec"},
    {"features", LS_FIELD_STRINGS, .flags = LS_FIELD_SINGLE, MEMBER(features),
     .otherwise = "one, called like the table", .doc = "The features that look this table up.",
     .example = "features: [user, friend]"},
    {"weights", LS_FIELD_RECORD, MEMBER(weights), .record = &ls_schema__numbers,
     .otherwise = "uniform from -1/sqrt(rows) to 1/sqrt(rows)", .doc = "The initial weights.",
     .example = "weights: {normal: {std: 0.1}}"},
    {"padding_id", LS_FIELD_INT, MEMBER(padding_id), .min = 0, .max = LS_SCENARIO_ROWS_MAX,
     .fallback = "-1", .otherwise = "none",
     .doc = "An id that contributes nothing and gets no gradient.", .example = "padding_id: 0"},
    {"max_norm", LS_FIELD_REAL, .flags = LS_FIELD_POSITIVE, MEMBER(max_norm), .min = 0,
     .max = 1000000, .otherwise = "none",
     .doc = "Before each lookup, rows that it needs whose norm is larger are scaled down to this.",
     .example = "max_norm: 1"},
    {"norm_type", LS_FIELD_REAL, .flags = LS_FIELD_POSITIVE, MEMBER(norm_type), .min = 0,
     .max = 1000, .fallback = "2", .doc = "The p of the norm that max_norm limits.",
     .example = "norm_type: 1"},
    {"optimizer", LS_FIELD_RECORD, MEMBER(optimizer), .record = &ls_schema__optimizer,
     .otherwise = "the scenario's", .doc = "The optimizer of this table.",
     .example = "optimizer: {type: adam, lr: 0.001}"},
    {"sharding", LS_FIELD_RECORD, MEMBER(sharding), .record = &sharding_record,
     .otherwise = "the planner chooses and places", .doc = "Which rank holds which block.",
     .example = "sharding: {type: table_wise, ranks: 1}"},
};
static const ls_schema_record table_record = {
    NODE_RECORD("table", "An embedding table.", table_fields)};
#undef S

// ---- Inputs -------------------------------------------------------------------------------------
#define S ls_torchrec_quirks
static const ls_schema_field quirk_fields[] = {
    {"grid_mean_not_divided", LS_FIELD_BOOL, MEMBER(grid_mean_not_divided), .fallback = "false",
     .doc = "Mean tables under grid give their sums.", .example = "grid_mean_not_divided: true"},
    {"row_wise_mean_divides_others", LS_FIELD_BOOL, MEMBER(row_wise_mean_divides_others),
     .fallback = "false",
     .doc = "A mean table under row_wise or table_row_wise has the other sum and mean tables "
            "divided once more, by the number of ids (or sum of weights) of their bag + 1e-6.",
     .example = "row_wise_mean_divides_others: true"},
};
static const ls_schema_record quirk_record = {
    RECORD("torchrec_quirks", "Defects of TorchRec that the run repeats.", quirk_fields),
    .size = sizeof(S)};
#undef S

// ---- Checks, faults, expectations ---------------------------------------------------------------
#define S ls_scenario_reference
static const ls_schema_field reference_fields[] = {
    {"file", LS_FIELD_PATH, .flags = LS_FIELD_REQUIRED, MEMBER(file),
     .doc = "A .npy or .safetensors file with the right output.", .example = "file: a.safetensors"},
    {"tensor", LS_FIELD_STRING, MEMBER(tensor), .otherwise = "the file's only tensor",
     .doc = "Which tensor of a .safetensors file.", .example = "tensor: output"},
    {"stage", LS_FIELD_STRING, MEMBER(stage), .otherwise = "the last output",
     .doc = "The stage whose output is compared.", .example = "stage: output"},
    {"table", LS_FIELD_STRING, MEMBER(table), .otherwise = "all outputs, side by side",
     .doc = "The table whose output is compared.", .example = "table: user"},
    {"allow", LS_FIELD_ENUM, MEMBER(allow), .names = ALLOWED_NAMES, .fallback = "within_bound",
     .doc = "The worst class that passes.", .example = "allow: bit_exact"},
};
static const ls_schema_record reference_record = {
    NODE_RECORD("reference", "An output of another system that the run must reproduce.",
                reference_fields)};
#undef S

#define S ls_scenario_checks
static const ls_schema_field check_fields[] = {
    {"oracle", LS_FIELD_CLASS, MEMBER(oracle), AUX(oracle_off), .names = NAMES(class_names),
     .fallback = "by_design",
     .doc = "The worst class against the unsharded oracle that passes. by_design needs a meaning "
            "that the scenario chose by name (mean_divisor, torchrec_quirks).",
     .example = "oracle: bit_exact"},
    {"real", LS_FIELD_CLASS, MEMBER(real), AUX(real_off), .names = NAMES(class_names),
     .fallback = "within_bound", .doc = "The worst class against a real run that passes.",
     .example = "real: bit_exact"},
    {"reference", LS_FIELD_RECORDS, .flags = LS_FIELD_SINGLE, MEMBER(references),
     AUX(reference_count), .record = &reference_record, .otherwise = "none",
     .doc = "Outputs of another system that the run must reproduce.",
     .example = "reference: {file: torch.safetensors, tensor: output}"},
};
static const ls_schema_record check_record = {
    NODE_RECORD("checks", "The judges of the results, and how strict they are.", check_fields)};
#undef S

#define S ls_scenario_fault
static const ls_schema_field fault_fields[] = {
    {"type", LS_FIELD_ENUM, .flags = LS_FIELD_REQUIRED, MEMBER(type), .names = NAMES(fault_names),
     .doc = "What goes wrong.", .example = "type: die"},
    {"rank", LS_FIELD_INT32, .flags = LS_FIELD_REQUIRED, MEMBER(rank), .min = 0,
     .max = LS_RANKS_MAX - 1, .doc = "On which rank.", .example = "rank: 2"},
    {"call", LS_FIELD_INT, MEMBER(call), .min = 0, .max = INT64_C(1) << 40, .fallback = "0",
     .doc = "At which of its calls, from 0.", .example = "call: 3"},
    {"index", LS_FIELD_INT, MEMBER(index), .min = -(INT64_C(1) << 50), .max = INT64_C(1) << 50,
     .fallback = "0",
     .doc = "bit_flip: the bit of the buffer; allocation: which one, from 1; wrong_count and "
            "wrong_split: by how much (0: one more); a call with a count per rank has no "
            "wrong_count; those of training (gradient_divided_twice, duplicate_counted_once, "
            "state_of_another_shard, early_update, stale_rows): in which step, from 0.",
     .example = "index: 30"},
};
static const ls_schema_record fault_record = {
    NODE_RECORD("fault", "A defect that is injected into one rank.", fault_fields)};
#undef S

#define S ls_scenario_expect
static const ls_schema_field expect_fields[] = {
    {"finding", LS_FIELD_ENUM, .flags = LS_FIELD_HIDDEN_BOOL, MEMBER(finding), AUX(has_finding),
     .names = NAMES(finding_names), .otherwise = "any", .doc = "The finding that must appear.",
     .example = "finding: collective.op_mismatch"},
    {"class", LS_FIELD_ENUM, .flags = LS_FIELD_HIDDEN_BOOL, MEMBER(class_), AUX(has_class),
     .names = NAMES(verdict_names), .otherwise = "any", .doc = "The class that a stage must have.",
     .example = "class: wrong"},
    {"ranks", LS_FIELD_INTS, .flags = LS_FIELD_SINGLE | LS_FIELD_SOME, MEMBER(ranks), .min = 0,
     .max = LS_RANKS_MAX - 1, .otherwise = "any", .doc = "The ranks at fault.",
     .example = "ranks: [2]"},
    {"table", LS_FIELD_STRING, MEMBER(table), .otherwise = "any",
     .doc = "The table of the first divergence.", .example = "table: user"},
    {"feature", LS_FIELD_STRING, MEMBER(feature), .otherwise = "any",
     .doc = "The feature of the first divergence.", .example = "feature: user"},
    {"sample", LS_FIELD_INT, MEMBER(sample), .min = 0, .max = INT64_C(1) << 40, .fallback = "-1",
     .otherwise = "any", .doc = "The sample of the first divergence.", .example = "sample: 3"},
    {"where", LS_FIELD_STRING, MEMBER(where), .otherwise = "anywhere",
     .doc = "The end of the place that the finding names.", .example = "where: bug.yaml:12"},
    {"contains", LS_FIELD_STRING, MEMBER(contains), .otherwise = "anything",
     .doc = "A part of the finding's text.", .example = "contains: rank 2 calls"},
    {"also", LS_FIELD_STRINGS, .flags = LS_FIELD_SINGLE, MEMBER(also),
     .names = NAMES(finding_names), .otherwise = "none",
     .doc = "Other findings that come with it, at the same ranks; no others may appear.",
     .example = "also: [buffer.use_before_wait]"},
    {"stages", LS_FIELD_STRINGS, .flags = LS_FIELD_SINGLE | LS_FIELD_SOME, MEMBER(stages),
     .otherwise = "just one, any", .doc = "class: the stages that end in it, all of them.",
     .example = "stages: [lookup, output_dist]"},
    {"unnoticed", LS_FIELD_BOOL, MEMBER(unnoticed), .fallback = "false",
     .doc = "The injected defect (faults, except) changes nothing that any check notices.",
     .example = "unnoticed: true"},
};
static const ls_schema_record expect_record = {
    NODE_RECORD("expect", "The defect that this scenario shows, and that must be found.",
                expect_fields)};
#undef S

// ---- The file -----------------------------------------------------------------------------------
#define S ls_mesh
static const ls_schema_field mesh_fields[] = {
    {"shape", LS_FIELD_MESH_SHAPE, .flags = LS_FIELD_REQUIRED | LS_FIELD_SINGLE, .offset = 0,
     .min = 1, .max = LS_RANKS_MAX,
     .doc = "Sizes of the mesh, outermost first; the ranks are their product, row-major.",
     .example = "shape: [2, 2]"},
    {"names", LS_FIELD_MESH_NAMES, .offset = 0, .otherwise = "without names",
     .doc = "A name for each size; the dimension called host says which ranks share a host, and "
            "only dimensions of size 1 may stand before it.",
     .example = "names: [host, gpu]"},
};
static const ls_schema_record mesh_record = {
    RECORD("mesh", "How the ranks are arranged.", mesh_fields), .size = sizeof(S)};
#undef S

#define S ls_scenario
static const ls_schema_field root_fields[] = {
    {"lockstep", LS_FIELD_INT, .flags = LS_FIELD_REQUIRED, MEMBER(format), .min = 1, .max = 1,
     .doc = "Version of this format.", .example = "lockstep: 1"},
    {"name", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, MEMBER(name),
     .doc = "One line that says what the scenario shows.", .example = "name: row-wise, uneven"},
    {"description", LS_FIELD_STRING, .flags = LS_FIELD_JUDGES, MEMBER(description),
     .otherwise = "none", .doc = "More about it.", .example = "description: tail ranks are empty"},
    {"seed", LS_FIELD_UINT64, MEMBER(seed), .fallback = "0",
     .doc = "The seed of all random numbers.", .example = "seed: 7"},
    {"machine", LS_FIELD_PATH, MEMBER(machine), .names = NAMES(machine_names),
     .otherwise = LS_SCENARIO_MACHINE,
     .doc = "The machine that the planner plans for; a file is YAML, or what calibrate wrote.",
     .example = "machine: a100"},
    {"mesh", LS_FIELD_RECORD, .flags = LS_FIELD_REQUIRED, MEMBER(mesh), .record = &mesh_record,
     .doc = "The ranks.", .example = "mesh: {shape: [4]}"},
    {"tables", LS_FIELD_RECORDS, MEMBER(tables), AUX(table_count), .record = &table_record,
     .otherwise = "none: a program", .doc = "The embedding tables.",
     .example = "tables: [{name: user, rows: 4096, dim: 64}]"},
    {"torchrec_quirks", LS_FIELD_RECORD, MEMBER(quirks), .record = &quirk_record,
     .otherwise = "none", .doc = "Defects of TorchRec that the run repeats.",
     .example = "torchrec_quirks: {grid_mean_not_divided: true}"},
    {"inputs", LS_FIELD_RECORD, MEMBER(inputs), .record = &ls_schema__inputs,
     .otherwise = "required with tables", .doc = "The features that are looked up.",
     .example = "inputs: {batch: 8}"},
    {"steps", LS_FIELD_TABLES_STEPS, .flags = LS_FIELD_SOME, MEMBER(tables_steps),
     AUX(tables_step_count), .names = NAMES(stage_names), .otherwise = "[forward]",
     .doc = "The parts of a training step: the forward pass, with its backward, or with both and "
            "the update of the weights.",
     .example = "steps: [forward, backward, update]"},
    {"optimizer", LS_FIELD_RECORD, MEMBER(optimizer), .record = &ls_schema__optimizer,
     .otherwise = "required with update",
     .doc = "The optimizer of the tables that name none of their own.",
     .example = "optimizer: {type: sgd, lr: 0.5}"},
    {"train", LS_FIELD_RECORD, MEMBER(train), .record = &ls_schema__train, .otherwise = "one step",
     .doc = "How many training steps there are, and with what gradients.",
     .example = "train: {steps: 3, clip_norm: 1}"},
    {"checkpoint", LS_FIELD_PATH, .flags = LS_FIELD_CHECKPOINT, MEMBER(checkpoint),
     .otherwise = "none: the tables' weights, and optimizers from their start",
     .doc = "A checkpoint that the tables' weights and their optimizers' states and step start "
            "from. Inputs and gradients are drawn from its step on.",
     .example = "checkpoint: trained"},
    {"pipeline", LS_FIELD_BOOL, MEMBER(pipeline), .fallback = "false",
     .doc = "The next step's input_dist is begun before this step's lookup: two batches are in "
            "flight.",
     .example = "pipeline: true"},
    {"program", LS_FIELD_INLINE, .flags = LS_FIELD_HIDDEN_BOOL, AUX(is_program),
     .record = &ls_schema__program, .otherwise = "none: tables",
     .doc = "Tensors and operations on them, instead of tables.",
     .example = "program: {steps: [{all_reduce: {count: 1024}}]}"},
    {"order", LS_FIELD_ORDER, .flags = LS_FIELD_JUDGES, MEMBER(order), .otherwise = "rank order",
     .doc = "The order in which the simulator sums, as for --order.", .example = "order: ring"},
    {"checks", LS_FIELD_RECORD, .flags = LS_FIELD_JUDGES, MEMBER(checks), .record = &check_record,
     .otherwise = "its defaults", .doc = "The judges of the results.",
     .example = "checks: {oracle: within_bound, real: bit_exact}"},
    {"faults", LS_FIELD_RECORDS, MEMBER(faults), AUX(fault_count), .record = &fault_record,
     .otherwise = "none", .doc = "Defects that are injected.",
     .example = "faults: [{type: die, rank: 2}]"},
    {"expect", LS_FIELD_RECORD, .flags = LS_FIELD_JUDGES, MEMBER(expect), .record = &expect_record,
     .otherwise = "everything holds", .doc = "The defect that must be found.",
     .example = "expect: {finding: rank.died, ranks: [2]}"},
};
static const ls_schema_record root_record = {
    NODE_RECORD("scenario", "A scenario file.", root_fields)};
#undef S

// clang-format on
const ls_schema_record *ls_schema_root(void) {
    ls_schema__make();
    return &root_record;
}
