// Shared by the files of the scenario reader. Private to this folder.
#pragma once

#include "runner/scenario/scenario.h"
#include "runner/scenario/schema.h"
#include "formats/yaml.h"

#define LS_SCENARIO_LIST_MAX 65536  // entries of a list of mappings

typedef struct ls_reader {
    const ls_yaml_tree *tree;
    ls_diagnostics *diagnostics;
    ls_arena *arena;
    const char *folder;  // of the scenario, real path; NULL: unknown (then no path resolves)
    bool allow_outside;
    bool no_memory;    // out of memory
    bool root_is_odd;  // the file is no mapping, or has an unknown key at the top level: a
                       // seemingly missing key may be below that
} ls_reader;

// Fills the struct at `base` from a mapping, or with defaults if node is NULL.
void ls_read__record(ls_reader *reader, void *base, const ls_schema_record *record,
                     const ls_yaml_node *node);
// One value into the member(s) of `field`.
void ls_read__value(ls_reader *reader, void *base, const ls_schema_field *field,
                    const ls_yaml_node *node);

// Scalars (read_scalar.c). Defaults are parsed the same way.
void ls_read__scalar(ls_reader *reader, void *base, const ls_schema_field *field,
                     const ls_yaml_node *node);
void ls_read__fallback(void *base, const ls_schema_field *field);
bool ls_read__int(ls_reader *reader, int64_t *out, const ls_schema_field *field,
                  const ls_yaml_node *node);
bool ls_read__real(ls_reader *reader, double *out, const ls_schema_field *field,
                   const ls_yaml_node *node);

// One of the field's names; NULL: none, which has been reported.
const ls_schema_name *ls_read__name(ls_reader *reader, const ls_schema_field *field,
                                    const ls_yaml_node *node);

// Lists (read_list.c).
void ls_read__list(ls_reader *reader, void *base, const ls_schema_field *field,
                   const ls_yaml_node *node);

// Reports that `node`, the value of `field`, is invalid. The message has the key, `what`, the value
// and what the schema expects. nearest: the closest valid word, or NULL.
void ls_read__complain(ls_reader *reader, const ls_yaml_node *node, const ls_schema_field *field,
                       const char *what, const char *nearest);
// Whether to continue: false after too many errors or out of memory.
bool ls_read__going(const ls_reader *reader);
void *ls_read__alloc(ls_reader *reader, size_t count, size_t size);

// Checks of meaning (scenario_check.c and program_check.c), beyond the schema.
void ls_scenario__check(ls_reader *reader, ls_scenario *scenario);
void ls_scenario__check_ends(ls_reader *reader, const ls_scenario *scenario);
void ls_scenario__check_program(ls_reader *reader, ls_scenario *scenario);
// Checks that files that the scenario names and lists of values have the needed data
// (file_check.c).
void ls_scenario__check_files(ls_reader *reader, ls_scenario *scenario);
// Reports an error: the sentence, the expectation (or NULL), a similar name (or NULL).
void ls_check__error(ls_reader *reader, ls_mark mark, const char *expected, const char *nearest,
                     const char *format, ...) LS_PRINTF(5, 6);
void ls_check__ranks(ls_reader *reader, const ls_scenario *scenario, const ls_int_list *ranks,
                     const char *whose);
// Exception `index` of a step on buffers: every given field must have an effect.
void ls_check__except(ls_reader *reader, const ls_scenario *scenario, const ls_scenario_step *step,
                      int index);
// Parts that several kinds of steps and tensors share (program_check.c).
void ls_check__excepts(ls_reader *reader, const ls_scenario *scenario, const ls_scenario_step *step,
                       int members);
void ls_check__members(ls_reader *reader, const ls_scenario *scenario, const ls_int_list *ranks,
                       const char *what);
void ls_check__range(ls_reader *reader, ls_mark mark, const char *what, int64_t value,
                     int64_t limit);
void ls_check__rows(ls_reader *reader, const ls_int_rows *rows, int row_count, int row_length,
                    const char *what);
void ls_check__placements(ls_reader *reader, const ls_scenario *scenario, const ls_node *node,
                          const char *key, const ls_placements *placements,
                          const ls_scenario_tensor *tensor);
void ls_check__sharding(ls_reader *reader, const ls_scenario *scenario, ls_scenario_table *table);
void ls_check__quantise(ls_reader *reader, const ls_scenario *scenario, ls_scenario_table *table);
// Steps, optimizers, train, and the tables' training keys: training_check.c.
void ls_check__training(ls_reader *reader, ls_scenario *scenario);
void ls_check__features(ls_reader *reader, ls_scenario *scenario);
// Expands one number for all ranks to one for each. what: the list's key in `node`.
void ls_check__spread(ls_reader *reader, const ls_scenario *scenario, ls_int_list *list,
                      const ls_node *node, const char *what);
// Checks a name that becomes part of a stage output's name: `table` and `feature` may be NULL.
void ls_check__stage_name(ls_reader *reader, ls_mark mark, const char *stage, const char *table,
                          const char *feature);
int64_t ls_check__sum(const ls_int_list *list);  // INT64_MAX when it does not fit
ls_mark ls_check__element(const ls_int_list *list, int index);
