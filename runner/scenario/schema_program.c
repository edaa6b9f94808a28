// The part of the schema table that says what a `program:` may hold. See schema.h.
#include <pthread.h>

#include "runner/scenario/scenario.h"
#include "runner/scenario/schema.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define NAMES(names)                                                                               \
    (&(const ls_schema_names){.at = (names), .count = (int)(sizeof(names) / sizeof *(names))})
#define MEMBER(name) .offset = offsetof(S, name)
#define AUX(name)    .aux = offsetof(S, name)

#define DTYPE_NAME(name, value, text, ...) {text, name},
static const ls_schema_name dtype_names[] = {LS_DTYPE_MAP(DTYPE_NAME)};
#define OP_NAME(name, value, text) {text, name},
static const ls_schema_name op_names[] = {LS_OP_MAP(OP_NAME)};
#define KIND_NAME(name, text) {#text, LS_##name},
static const ls_schema_name poke_names[] = {{"nan", 1}, {"inf", 2}};
static const ls_schema_name part_names[] = {{"recv", 0}, {"send", 1}};
static const ls_schema_name kind_names[] = {LS_KIND_MAP(KIND_NAME)};

// One line to a key: easier to read as a table than as clang-format has it.
// clang-format off

// ---- Fields that several steps share ------------------------------------------------------------
#define NAME_FIELD                                                                                 \
    {.key = "name", .type = LS_FIELD_STRING, MEMBER(name),                                         \
     .otherwise = "number and kind: 2_all_reduce", .doc = "The stage's name in reports.",          \
     .example = "name: sum of gradients"}
#define INTO_FIELD                                                                                 \
    {.key = "into", .type = LS_FIELD_STRING, MEMBER(into), .otherwise = "replaces the operand",    \
     .doc = "The name of the result.", .example = "into: b"}
#define TENSOR_FIELD(must)                                                                         \
    {.key = "tensor", .type = LS_FIELD_STRING, .flags = (must), MEMBER(tensor),                    \
     .otherwise = "a buffer of count elements on each rank", .doc = "The tensor it acts on.",      \
     .example = "tensor: a"}
#define DIM_FIELD                                                                                  \
    {.key = "dim", .type = LS_FIELD_INT32, MEMBER(dim), .min = -LS_DIMS_MAX,                       \
     .max = LS_DIMS_MAX - 1, .fallback = "0", .doc = "Tensor dimension; negative: from the end.",  \
     .example = "dim: 1"}
#define OTHER_FIELD                                                                                \
    {.key = "other", .type = LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, MEMBER(other),           \
     .doc = "The second operand.", .example = "other: b"}
#define EXCEPT_FIELD                                                                        \
    {.key = "except", .type = LS_FIELD_RECORDS, MEMBER(excepts), AUX(except_count),                \
     .record = &except_record, .otherwise = "none",                                                \
     .doc = "What some ranks do differently: a defect.",                                           \
     .example = "except: [{ranks: [2], skip: true}]"}
#define COUNT_FIELD                                                                                \
    {.key = "count", .type = LS_FIELD_INT, MEMBER(count), .min = 0, .max = LS_SCENARIO_COUNT_MAX,  \
     .fallback = "0", .otherwise = "required without tensor, counts or splits",                    \
     .doc = "Elements, as NCCL counts them for this collective.", .example = "count: 1024"}
#define DTYPE_FIELD                                                                                \
    {.key = "dtype", .type = LS_FIELD_ENUM, MEMBER(dtype), .names = NAMES(dtype_names),            \
     .fallback = "f32", .doc = "Element type.", .example = "dtype: bf16"}
#define VALUES_FIELD                                                                               \
    {.key = "values", .type = LS_FIELD_RECORD, MEMBER(values), .record = &ls_schema__numbers,      \
     .otherwise = "exact", .doc = "What each rank sends; drawn for each rank alone.",              \
     .example = "values: normal"}
#define ASYNC_FIELD                                                                                \
    {.key = "async", .type = LS_FIELD_BOOL, MEMBER(asynchronous), .fallback = "false",             \
     .doc = "The call returns at once; a wait step completes it.", .example = "async: true"}
#define OF_FIELDS                                                                                  \
    NAME_FIELD,                                                                                    \
        {.key = "step", .type = LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, MEMBER(of),           \
         .doc = "The name of an earlier step.", .example = "step: gradients"},                     \
        {.key = "ranks", .type = LS_FIELD_INTS, MEMBER(ranks), .min = 0, .max = LS_RANKS_MAX - 1,  \
         .otherwise = "all", .doc = "Which ranks do it.", .example = "ranks: [0]"},                \
        {.key = "except", .type = LS_FIELD_RECORDS, MEMBER(excepts), AUX(except_count),            \
         .record = &except_record, .otherwise = "none",                                            \
         .doc = "What some ranks do differently: a defect.",                                       \
         .example = "except: [{ranks: [2], skip: true}]"}

#define S ls_scenario_except
static const ls_schema_field except_fields[] = {
    {.key = "ranks", .type = LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED | LS_FIELD_SINGLE,
     MEMBER(ranks), .min = 0, .max = LS_RANKS_MAX - 1, .doc = "Which ranks.",
     .example = "ranks: [2]"},
    {.key = "skip", .type = LS_FIELD_BOOL, MEMBER(skip), .fallback = "false",
     .doc = "They make no call.", .example = "skip: true"},
    {.key = "repeat", .type = LS_FIELD_BOOL, MEMBER(repeat), .fallback = "false",
     .doc = "They make the call twice.", .example = "repeat: true"},
    {.key = "call", .type = LS_FIELD_ENUM, MEMBER(kind), .names = NAMES(kind_names),
     .otherwise = "the same", .doc = "They call another one.", .example = "call: all_gather"},
    {.key = "count", .type = LS_FIELD_INT, MEMBER(count), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "the same", .doc = "Their count.", .example = "count: 1023"},
    {.key = "dtype", .type = LS_FIELD_ENUM, MEMBER(dtype), .names = NAMES(dtype_names),
     .otherwise = "the same", .doc = "Their element type.", .example = "dtype: f16"},
    {.key = "op", .type = LS_FIELD_ENUM, MEMBER(op), .names = NAMES(op_names),
     .otherwise = "the same", .doc = "Their reduction.", .example = "op: max"},
    {.key = "root", .type = LS_FIELD_INT32, MEMBER(root), .min = 0, .max = LS_RANKS_MAX - 1,
     .otherwise = "the same", .doc = "Their root.", .example = "root: 1"},
    {.key = "counts", .type = LS_FIELD_INTS, MEMBER(counts), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .otherwise = "the same",
     .doc = "Their counts (all_to_all: what they send to each member).",
     .example = "counts: [1, 2, 3]"},
    {.key = "exit", .type = LS_FIELD_BOOL, MEMBER(exit), .fallback = "false",
     .doc = "Their program ends here.", .example = "exit: true"},
    {.key = "swap", .type = LS_FIELD_BOOL, MEMBER(swap), .fallback = "false",
     .doc = "They make the next step first, then this one.", .example = "swap: true"},
    {.key = "reverse", .type = LS_FIELD_BOOL, MEMBER(reverse), .fallback = "false",
     .doc = "send_recv: they post their messages in the opposite order.",
     .example = "reverse: true"},
    {.key = "group", .type = LS_FIELD_INTS, MEMBER(group), .min = 0, .max = LS_RANKS_MAX - 1,
     .otherwise = "the same", .doc = "The group as they name it, where the step gives ranks.",
     .example = "group: [0, 2]"},
    {.key = "room", .type = LS_FIELD_INT, MEMBER(room), .min = 1, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "what the call needs", .doc = "Elements that their buffers have.",
     .example = "room: 8"},
    {.key = "unwritten", .type = LS_FIELD_BOOL, MEMBER(unwritten), .fallback = "false",
     .doc = "The last element that they send is never written.", .example = "unwritten: true"},
    {.key = "overlap", .type = LS_FIELD_INT, MEMBER(overlap), .min = 1,
     .max = LS_SCENARIO_COUNT_MAX, .otherwise = "apart",
     .doc = "Their result starts so many elements behind what they send, in one buffer.",
     .example = "overlap: 2"},
    {.key = "poke", .type = LS_FIELD_ENUM, MEMBER(poke), .names = NAMES(poke_names),
     .otherwise = "none", .doc = "What the first element that they send is.",
     .example = "poke: nan"},
};
static const ls_schema_record except_record = {
    .name = "except", .doc = "What some ranks do differently from the step they stand in.",
    .fields = except_fields, .field_count = COUNT(except_fields), .size = sizeof(S),
    .has_node = true};
#undef S

// ---- Steps --------------------------------------------------------------------------------------
#define S ls_scenario_step
// What the steps of collectives take: each the fields that its descriptor has a use for.
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
static const struct {
    unsigned of;
    ls_schema_field field;
} collective_fields[] = {
    {GROUP, NAME_FIELD},
    {DATA, INTO_FIELD},
    {DATA, TENSOR_FIELD(0)},
    {DATA, ASYNC_FIELD},
    {GROUP, {.key = "axis", .type = LS_FIELD_STRING, MEMBER(axis_name), .otherwise = "the world",
      .doc = "Mesh dimension (name or number): one group for each line of ranks along it.",
      .example = "axis: gpu"}},
    {GROUP, {.key = "ranks", .type = LS_FIELD_INTS, MEMBER(ranks), .min = 0,
      .max = LS_RANKS_MAX - 1, .otherwise = "the whole world",
      .doc = "The group's ranks, in order.", .example = "ranks: [0, 2, 3]"}},
    {GROUP, EXCEPT_FIELD},
    {DATA, COUNT_FIELD},
    {DATA, DTYPE_FIELD},
    {DATA, VALUES_FIELD},
    {OP, {.key = "op", .type = LS_FIELD_ENUM, MEMBER(op), .names = NAMES(op_names),
      .fallback = "sum", .doc = "The reduction.", .example = "op: max"}},
    {OP, {.key = "factors", .type = LS_FIELD_REALS, MEMBER(factors), .min = -(INT64_C(1) << 53),
      .max = INT64_C(1) << 53, .otherwise = "none", .doc = "premul_sum: each member's factor.",
      .example = "factors: [0.5, 0.25]"}},
    {IN_PLACE, {.key = "in_place", .type = LS_FIELD_BOOL, MEMBER(in_place), .fallback = "false",
      .doc = "Whether the result lies where the input was.", .example = "in_place: true"}},
    {COUNTS, {.key = "counts", .type = LS_FIELD_INTS, MEMBER(counts), .min = 0,
      .max = LS_SCENARIO_COUNT_MAX, .otherwise = "count for every member",
      .doc = "Elements of each member's block (uneven).", .example = "counts: [3, 0, 5]"}},
    {SPLITS, {.key = "splits", .type = LS_FIELD_INT_ROWS, MEMBER(splits), .min = 0,
      .max = LS_SCENARIO_COUNT_MAX, .otherwise = "count for every pair",
      .doc = "For each member, what it sends to each.", .example = "splits: [[1, 2], [0, 3]]"}},
    {SPLITS, {.key = "split_dim", .type = LS_FIELD_INT32, MEMBER(split_dim), .min = -LS_DIMS_MAX,
      .max = LS_DIMS_MAX - 1, .fallback = "0", .doc = "On a tensor: the dimension that is cut.",
      .example = "split_dim: 0"}},
    {SPLITS, {.key = "cat_dim", .type = LS_FIELD_INT32, MEMBER(cat_dim), .min = -LS_DIMS_MAX,
      .max = LS_DIMS_MAX - 1, .fallback = "1", .doc = "On a tensor: the dimension that is joined.",
      .example = "cat_dim: 1"}},
    {ROOT, {.key = "root", .type = LS_FIELD_INT32, MEMBER(root), .min = 0, .max = LS_RANKS_MAX - 1,
      .fallback = "0", .doc = "The root, as a member of the group.", .example = "root: 1"}},
    {DIM, DIM_FIELD},
    {REPLICA, {.key = "replica", .type = LS_FIELD_BOOL, MEMBER(replica), .fallback = "false",
      .doc = "The result must stay the same on all ranks: compared again to the end.",
      .example = "replica: true"}},
};
static const ls_schema_field send_recv_fields[] = {
    NAME_FIELD,
    {.key = "pairs", .type = LS_FIELD_INT_ROWS, .flags = LS_FIELD_REQUIRED, MEMBER(pairs),
     .min = 0, .max = LS_RANKS_MAX - 1, .doc = "The messages: [from, to] each, all in one group.",
     .example = "pairs: [[0, 1], [1, 0]]"},
    {.key = "except", .type = LS_FIELD_RECORDS, MEMBER(excepts), AUX(except_count),
     .record = &except_record, .otherwise = "none",
     .doc = "What some ranks do differently: a defect.",
     .example = "except: [{ranks: [1], count: 3}]"},
    {.key = "blocking", .type = LS_FIELD_BOOL, MEMBER(blocking), .fallback = "false",
     .doc = "Each rank makes its sends and receives one after another, waiting for each.",
     .example = "blocking: true"},
    ASYNC_FIELD,
    COUNT_FIELD,
    DTYPE_FIELD,
    VALUES_FIELD,
};
static const ls_schema_field of_fields[] = {OF_FIELDS};
static const ls_schema_field touch_fields[] = {
    OF_FIELDS,
    {.key = "part", .type = LS_FIELD_ENUM, MEMBER(touch_send), .names = NAMES(part_names),
     .fallback = "recv", .doc = "Which buffer of that step.", .example = "part: send"},
    {.key = "write", .type = LS_FIELD_BOOL, MEMBER(touch_write), .fallback = "false",
     .doc = "Writes it (the first element changes) instead of reading it.",
     .example = "write: true"},
};
static const ls_schema_field redistribute_fields[] = {
    NAME_FIELD,
    EXCEPT_FIELD,
    INTO_FIELD,
    TENSOR_FIELD(LS_FIELD_REQUIRED),
    {.key = "to", .type = LS_FIELD_PLACEMENTS, .flags = LS_FIELD_REQUIRED, MEMBER(to),
     AUX(has_to), .doc = "The new placement for each mesh dimension: S(dim), R or P(op).",
     .example = "to: \"S(1), R\""},
};
static const ls_schema_field full_fields[] = {NAME_FIELD, EXCEPT_FIELD,
                                              TENSOR_FIELD(LS_FIELD_REQUIRED)};
static const ls_schema_field binary_fields[] = {NAME_FIELD, EXCEPT_FIELD, INTO_FIELD,
                                                TENSOR_FIELD(LS_FIELD_REQUIRED), OTHER_FIELD};
static const ls_schema_field transpose_fields[] = {NAME_FIELD, EXCEPT_FIELD, INTO_FIELD,
                                                   TENSOR_FIELD(LS_FIELD_REQUIRED)};
static const ls_schema_field sum_fields[] = {NAME_FIELD, EXCEPT_FIELD, INTO_FIELD,
                                             TENSOR_FIELD(LS_FIELD_REQUIRED), DIM_FIELD};
static const ls_schema_field scale_fields[] = {
    NAME_FIELD,
    EXCEPT_FIELD,
    INTO_FIELD,
    TENSOR_FIELD(LS_FIELD_REQUIRED),
    {.key = "factor", .type = LS_FIELD_REAL, .flags = LS_FIELD_REQUIRED, MEMBER(factor),
     .min = -(INT64_C(1) << 53), .max = INT64_C(1) << 53, .doc = "What every element is times.",
     .example = "factor: 0.5"},
};
static const ls_schema_field narrow_fields[] = {
    NAME_FIELD,
    EXCEPT_FIELD,
    INTO_FIELD,
    TENSOR_FIELD(LS_FIELD_REQUIRED),
    DIM_FIELD,
    {.key = "start", .type = LS_FIELD_INT, MEMBER(start), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .fallback = "0", .doc = "The first index that is kept.", .example = "start: 2"},
    {.key = "length", .type = LS_FIELD_INT, .flags = LS_FIELD_REQUIRED, MEMBER(length), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "How many are kept.", .example = "length: 3"},
};
static const ls_schema_field change_fields[] = {
    NAME_FIELD,
    TENSOR_FIELD(LS_FIELD_REQUIRED),
    {.key = "ranks", .type = LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED, MEMBER(ranks), .min = 0,
     .max = LS_RANKS_MAX - 1, .doc = "The ranks that do it.", .example = "ranks: [2]"},
    {.key = "element", .type = LS_FIELD_INT, MEMBER(element), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .fallback = "0",
     .doc = "Which of the rank's own elements, row by row.", .example = "element: 3"},
    {.key = "value", .type = LS_FIELD_REAL, .flags = LS_FIELD_REQUIRED, MEMBER(factor),
     .min = -(INT64_C(1) << 53), .max = INT64_C(1) << 53, .doc = "What it becomes.",
     .example = "value: 0.5"},
};
static const ls_schema_field cat_fields[] = {
    NAME_FIELD,
    EXCEPT_FIELD,
    {.key = "tensors", .type = LS_FIELD_STRINGS, .flags = LS_FIELD_REQUIRED, MEMBER(tensors),
     .doc = "What is joined, in order.", .example = "tensors: [a, b]"},
    {.key = "into", .type = LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, MEMBER(into),
     .doc = "The name of the result.", .example = "into: c"},
    DIM_FIELD,
};

#define STEP_RECORD(name_, fields_, doc_)                                                          \
    static const ls_schema_record name_##_record = {.name = #name_,                                \
                                                    .doc = (doc_),                                 \
                                                    .fields = (fields_),                           \
                                                    .field_count = COUNT(fields_),                 \
                                                    .has_node = true};
STEP_RECORD(send_recv, send_recv_fields, "Messages between pairs of ranks, as one group.")
STEP_RECORD(redistribute, redistribute_fields, "Changes how a tensor lies on the mesh.")
STEP_RECORD(full, full_fields, "Gathers a tensor to the whole on every rank: a result to compare.")
STEP_RECORD(matmul, binary_fields, "The matrix product of the shards on each rank.")
STEP_RECORD(add, binary_fields, "The sum of two tensors, element by element.")
STEP_RECORD(sub, binary_fields, "The difference of two tensors, element by element.")
STEP_RECORD(mul, binary_fields, "The product of two tensors, element by element.")
STEP_RECORD(scale, scale_fields, "A tensor times a number.")
STEP_RECORD(transpose, transpose_fields, "Swaps the two dimensions of a matrix.")
STEP_RECORD(narrow, narrow_fields, "A range of indices along one dimension.")
STEP_RECORD(cat, cat_fields, "Joins tensors along one dimension.")
STEP_RECORD(sum, sum_fields, "Adds up along one dimension.")
STEP_RECORD(change, change_fields, "Some ranks write an element of their shards: a defect.")
STEP_RECORD(wait, of_fields, "Waits for the calls of an asynchronous step.")
STEP_RECORD(touch, touch_fields, "The program reads or writes a buffer of a step.")
STEP_RECORD(check_replica, of_fields, "Checks that all ranks received the same bits in a step.")

// The collectives' own: made of their descriptors when they are first asked for.
#define COLLECTIVE_FIELDS COUNT(collective_fields)
static ls_schema_field taken[LS_COLLECTIVE_COUNT][COLLECTIVE_FIELDS];
static ls_schema_record collective_records[LS_COLLECTIVE_COUNT];

#define COLLECTIVE_STEP(name_, text_)                                                              \
    {.key = #text_, .type = LS_FIELD_INLINE, .tag = LS_STEP_##name_,                               \
     .record = &collective_records[LS_##name_], .doc = "See " #text_ " below.",                    \
     .example = #text_ ": {...}"},
#define STEP(name_, text_)                                                                         \
    {.key = #text_, .type = LS_FIELD_INLINE, .tag = LS_STEP_##name_, .record = &text_##_record,    \
     .doc = "See " #text_ " below.", .example = #text_ ": {...}"},
static ls_schema_field step_fields[] = {LS_COLLECTIVE_MAP(COLLECTIVE_STEP) LS_STEP_MAP(STEP)};
static const ls_schema_record step_record = {
    .name = "step", .doc = "One operation: its name and what it takes.", .fields = step_fields,
    .field_count = COUNT(step_fields), .size = sizeof(S), .one_of = true,
    .tag_offset = offsetof(S, kind)};
#undef S

// ---- Tensors ------------------------------------------------------------------------------------
#define S ls_scenario_block
static const ls_schema_field block_fields[] = {
    {.key = "rank", .type = LS_FIELD_INT32, .flags = LS_FIELD_REQUIRED, MEMBER(rank), .min = 0,
     .max = LS_RANKS_MAX - 1, .doc = "The rank that holds it.", .example = "rank: 2"},
    {.key = "offset", .type = LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED, MEMBER(offset), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "Where it starts, per dimension.",
     .example = "offset: [0, 0]"},
    {.key = "size", .type = LS_FIELD_INTS, .flags = LS_FIELD_REQUIRED, MEMBER(size), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "Its size, per dimension.", .example = "size: [8, 16]"},
};
static const ls_schema_record block_record = {
    .name = "block", .doc = "One block of a tensor on one rank.", .fields = block_fields,
    .field_count = COUNT(block_fields), .size = sizeof(S), .has_node = true};
#undef S

#define S ls_scenario_tensor
static const ls_schema_field tensor_fields[] = {
    {.key = "name", .type = LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, MEMBER(name),
     .doc = "Unique among the tensors.", .example = "name: a"},
    {.key = "shape", .type = LS_FIELD_SHAPE, .flags = LS_FIELD_REQUIRED, MEMBER(shape), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .doc = "Sizes of the whole.", .example = "shape: [8, 16]"},
    {.key = "dtype", .type = LS_FIELD_ENUM, MEMBER(dtype), .names = NAMES(dtype_names),
     .fallback = "f32", .doc = "Element type.", .example = "dtype: i64"},
    {.key = "values", .type = LS_FIELD_RECORD, MEMBER(values), .record = &ls_schema__numbers,
     .otherwise = "arange", .doc = "The whole tensor's values.", .example = "values: normal"},
    {.key = "placements", .type = LS_FIELD_PLACEMENTS, MEMBER(placements), AUX(has_placements),
     .otherwise = "blocks",
     .doc = "For each mesh dimension S(dim), R or P(op); _S(dim, split): strided, as DTensor's; "
            "S(dim)[turn]: of those that shard one dim, lower turns cut first.",
     .example = "placements: \"S(0), R\""},
    {.key = "sizes", .type = LS_FIELD_INTS, MEMBER(sizes), .min = 0, .max = LS_SCENARIO_COUNT_MAX,
     .otherwise = "equal chunks, rounded up", .doc = "Sizes of the one S placement's parts.",
     .example = "sizes: [1, 3, 1, 3]"},
    {.key = "blocks", .type = LS_FIELD_RECORDS, MEMBER(blocks), AUX(block_count),
     .record = &block_record, .otherwise = "placements",
     .doc = "Blocks, one by one; a rank may hold several or none.",
     .example = "blocks: [{rank: 0, offset: [0, 0], size: [8, 16]}]"},
    {.key = "source", .type = LS_FIELD_INT32, MEMBER(source), .min = 0, .max = LS_RANKS_MAX - 1,
     .fallback = "-1", .otherwise = "every rank cuts its own part",
     .doc = "The rank that holds all values and scatters them.", .example = "source: 0"},
};
static const ls_schema_record tensor_record = {
    .name = "tensor", .doc = "One logical tensor, spread over the ranks.", .fields = tensor_fields,
    .field_count = COUNT(tensor_fields), .size = sizeof(S), .has_node = true};
#undef S

#define S ls_scenario
static const ls_schema_field program_fields[] = {
    {.key = "tensors", .type = LS_FIELD_RECORDS, MEMBER(tensors), AUX(tensor_count),
     .record = &tensor_record, .otherwise = "none", .doc = "The tensors that there are at first.",
     .example = "tensors: [{name: a, shape: [8, 16], placements: S(0)}]"},
    {.key = "steps", .type = LS_FIELD_RECORDS, .flags = LS_FIELD_REQUIRED, MEMBER(steps),
     AUX(step_count), .record = &step_record, .doc = "Operations, in order.",
     .example = "steps: [{full: {tensor: a}}]"},
};
const ls_schema_record ls_schema__program = {
    .name = "program", .doc = "Tensors and operations on them.", .fields = program_fields,
    .field_count = COUNT(program_fields)};
#undef S
// clang-format on

static unsigned taken_by(const ls_collective *collective) {
    bool splits = ls_collective_has_splits(collective);
    bool blocks = ls_collective_has_counts(collective) && !splits;
    return GROUP | (ls_collective_has_data(collective) ? DATA : 0u) |
           (collective->reduces ? OP : 0u) |
           (ls_collective_has_in_place(collective) ? IN_PLACE : 0u) | (blocks ? COUNTS : 0u) |
           (splits ? SPLITS : 0u) | (collective->root_word != NULL ? ROOT : 0u) |
           (blocks && collective->on_tensors ? DIM : 0u) | (collective->replicates ? REPLICA : 0u);
}

static void make(void) {
    ls_schema__make_training();
    for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++) {
        const ls_collective *collective = ls_collective_of((ls_kind)kind);
        unsigned of = taken_by(collective);
        ls_schema_record *record = &collective_records[kind];
        *record = (ls_schema_record){.name = ls_kind_name((ls_kind)kind),
                                     .doc = collective->doc,
                                     .fields = taken[kind],
                                     .has_node = true};
        for (int i = 0; i < COLLECTIVE_FIELDS; i++) {
            if ((of & collective_fields[i].of) != 0) {
                taken[kind][record->field_count++] = collective_fields[i].field;
            }
        }
        if ((of & DATA) == 0) {  // nothing must be said: the word alone will do
            step_fields[kind].flags = LS_FIELD_BARE;
            step_fields[kind].example = step_fields[kind].key;
        }
    }
}

void ls_schema__make(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make);
}

const char *ls_step_kind_name(ls_step_kind kind) {
    LS_ASSERT((int)kind >= 0 && kind < LS_STEP_KIND_COUNT);
    return step_fields[kind].key;
}
