// Kinds of program steps: each has a descriptor, in a file of this folder, with its fields, checks,
// execution and judge. LS_STEP_MAP (scenario.h) lists them. Private to the runner.
#pragma once

#include "runner/program/program.h"
#include "runner/program/program_cells.h"
#include "runner/scenario/memory_need.h"
#include "runner/scenario/read.h"

// The exceptions of `except:` for a step.
typedef enum ls_except_field {
    LS_EXCEPT_SKIP = 1 << 0,
    LS_EXCEPT_REPEAT = 1 << 1,
    LS_EXCEPT_CALL = 1 << 2,
    LS_EXCEPT_COUNT = 1 << 3,
    LS_EXCEPT_DTYPE = 1 << 4,
    LS_EXCEPT_OP = 1 << 5,
    LS_EXCEPT_ROOT = 1 << 6,
    LS_EXCEPT_COUNTS = 1 << 7,
    LS_EXCEPT_EXIT = 1 << 8,
    LS_EXCEPT_SWAP = 1 << 9,
    LS_EXCEPT_REVERSE = 1 << 10,
    LS_EXCEPT_GROUP = 1 << 11,
    LS_EXCEPT_ROOM = 1 << 12,
    LS_EXCEPT_UNWRITTEN = 1 << 13,
    LS_EXCEPT_OVERLAP = 1 << 14,
    LS_EXCEPT_POKE = 1 << 15,
    LS_EXCEPT_SENT = LS_EXCEPT_ROOM | LS_EXCEPT_UNWRITTEN | LS_EXCEPT_POKE,  // of a buffer
} ls_except_field;

typedef enum ls_step_form {
    LS_STEP_OF_CALLS,    // calls of the ranks: step->call
    LS_STEP_OF_TENSORS,  // an operation on tensors
    LS_STEP_OF_EARLIER,  // refers to the buffers of an earlier step: step->earlier
} ls_step_form;

typedef struct ls_step_operand {
    const char *name;  // NULL: not given
    ls_mark mark;
} ls_step_operand;

typedef struct ls_step_type {
    ls_schema_record record;  // its fields; collectives have a list for each kind
    ls_step_form form;
    unsigned excepts;  // of ls_except_field, beside exit and swap, which apply to every step; on
                       // tensors: skip and repeat
    // Checks its fields, beyond the checks of all steps of its form; NULL: none.
    void (*check)(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step);
    // Operand `index` of an operation on tensors; false: there are no more. NULL: `tensor` alone.
    bool (*operand)(ls_step_operand *out, const ls_scenario_step *step, int index);
    // For the memory of a run: how the result differs from the larger operand, in shape or in the
    // number of ranks that hold each element. NULL: it does not.
    void (*size)(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last);
    int (*run)(ls_program *program, const ls_scenario_step *step);
    // The placements to which operand `index` is redistributed first, as DTensor does for
    // incompatible placements; false: none. NULL: none for all.
    bool (*bring)(ls_placements *to, const ls_scenario_step *step, const ls_local_tensor *const *in,
                  int count, int index);
    // Operations executed by ls_program__tensor_step: the result from in [count]; whether it
    // depends on the order of a sum (NULL: it does not).
    int (*make)(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count);
    bool (*sums)(const ls_scenario_step *step, const ls_local_tensor *in);
    bool makes_replicas;  // its operand's replicas need not be equal before
    bool is_defect;       // replicas of its result are checked at their use
    bool refuses;         // if `make` fails, the program is wrong: call.invalid
    // Whether operand 1 is changed in place (NULL: never), and its expected value.
    bool (*changes_operand)(const ls_scenario_step *step);
    int (*changes)(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                   const ls_known_tensor *in);
    // The judge: the expected result from the known values of in [count]. `made` is the actual one,
    // read for its placements only.
    int (*know)(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made);
    // For the judge ls_known__operate: the operation on arrays, those of one rank or whole ones.
    int (*cells)(ls_cells *out, ls_arena *arena, const ls_scenario_step *step, const ls_cells *in,
                 int count, ls_dtype dtype);
    // For a field: replaces the step's float types by LS_FIELD; returns the reason why a field
    // lacks the operation ("compares ..."), NULL: it has it. NULL: it has it, and the step has no
    // type.
    const char *(*to_field)(ls_scenario_step *step);
    bool elementwise;    // operands are broadcast element by element
    bool moves_nothing;  // every element keeps its place, also without placements
} ls_step_type;

// The type of each step, by its kind.
void ls_step_settle_types(ls_scenario_step *steps, int count);
// Operand `index` of a step; false: there are no more.
bool ls_step_operand_of(ls_step_operand *out, const ls_scenario_step *step, int index);

#define LS_STEP_DECLARE(name, text) extern const ls_step_type ls_step__##text;
LS_STEP_MAP(LS_STEP_DECLARE)
#undef LS_STEP_DECLARE
extern const ls_step_type ls_step__collective;

// The records of collectives, made of their descriptors.
extern ls_schema_record ls_step__collective_records[LS_COLLECTIVE_COUNT];
void ls_step__make_collectives(void);

// Whether its kind takes a key, and whether the file gives it.
bool ls_step_takes(const ls_scenario_step *step, const char *key);
bool ls_step_has(const ls_scenario_step *step, const char *key);

// to_field of operations that compare, and of those that change placements.
const char *ls_step__compares(ls_scenario_step *step);
const char *ls_step__places(ls_scenario_step *step);
bool ls_placements__extreme(const ls_placements *placements);  // partial by max or min

// The check of steps with placements `to`.
void ls_step__check_to(ls_reader *reader, const ls_scenario *scenario, ls_scenario_step *step);
// `tensor` and `other`.
bool ls_step__binary_operand(ls_step_operand *out, const ls_scenario_step *step, int index);
