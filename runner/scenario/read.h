// Inside of the scenario reader: what its files share. Not for other folders.
#ifndef LS_RUNNER_SCENARIO_READ_H
#define LS_RUNNER_SCENARIO_READ_H

#include "runner/scenario/scenario.h"
#include "runner/scenario/schema.h"
#include "formats/yaml.h"

#define LS_SCENARIO_LIST_MAX 65536  // entries of a list of mappings

typedef struct ls_reader {
    const ls_yaml_tree *tree;
    ls_diagnostics *diagnostics;
    ls_arena *arena;
    const char *folder;  // of the scenario, real path; NULL: unknown (then no path is found)
    bool allow_outside;
    bool no_memory;    // an allocation failed
    bool root_is_odd;  // the file is no mapping, or has a key at its top that is none of ours: what
                       // seems to be missing there may stand under that key
} ls_reader;

// Fills the struct at `base` from a mapping, or with defaults when node is NULL.
void ls_read__record(ls_reader *reader, void *base, const ls_schema_record *record,
                     const ls_yaml_node *node);
// One value into the member(s) of `field`.
void ls_read__value(ls_reader *reader, void *base, const ls_schema_field *field,
                    const ls_yaml_node *node);

// Scalars (read_scalar.c). The default goes the same way, as its text.
void ls_read__scalar(ls_reader *reader, void *base, const ls_schema_field *field,
                     const ls_yaml_node *node);
void ls_read__fallback(void *base, const ls_schema_field *field);
bool ls_read__int(ls_reader *reader, int64_t *out, const ls_schema_field *field,
                  const ls_yaml_node *node);
bool ls_read__real(ls_reader *reader, double *out, const ls_schema_field *field,
                   const ls_yaml_node *node);

// One of the field's names; NULL: it is none, which was complained of.
const ls_schema_name *ls_read__name(ls_reader *reader, const ls_schema_field *field,
                                    const ls_yaml_node *node);

// Lists (read_list.c).
void ls_read__list(ls_reader *reader, void *base, const ls_schema_field *field,
                   const ls_yaml_node *node);

// Complains about `node` as the value of `field`: "KEY: WHAT: what was found", and what the schema
// expects. nearest may be NULL.
void ls_read__complain(ls_reader *reader, const ls_yaml_node *node, const ls_schema_field *field,
                       const char *what, const char *nearest);
// Whether to go on: false once enough errors were found or memory is out.
bool ls_read__going(const ls_reader *reader);
void *ls_read__alloc(ls_reader *reader, size_t count, size_t size);

// Meaning (scenario_check.c and program_check.c): what the schema cannot say.
void ls_scenario__check(ls_reader *reader, ls_scenario *scenario);
void ls_scenario__check_ends(ls_reader *reader, const ls_scenario *scenario);
void ls_scenario__check_program(ls_reader *reader, ls_scenario *scenario);
// Files that the scenario names, and lists of values: that they hold what is needed (file_check.c).
void ls_scenario__check_files(ls_reader *reader, ls_scenario *scenario);
// One finding of theirs: the sentence, what was expected (or NULL), a near miss (or NULL).
void ls_check__error(ls_reader *reader, ls_mark mark, const char *expected, const char *nearest,
                     const char *format, ...) LS_PRINTF(5, 6);
void ls_check__ranks(ls_reader *reader, const ls_scenario *scenario, const ls_int_list *ranks,
                     const char *whose);
// Exception `index` of a step on buffers: every field that it gives must change something.
void ls_check__except(ls_reader *reader, const ls_scenario *scenario, const ls_scenario_step *step,
                      int index);
// Parts of steps and tensors that several kinds of them have (program_check.c).
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
// steps, optimizers, train, and what tables say of it: training_check.c.
void ls_check__training(ls_reader *reader, ls_scenario *scenario);
void ls_check__features(ls_reader *reader, ls_scenario *scenario);
// One number for all ranks becomes one for each. what: the list's key in `node`.
void ls_check__spread(ls_reader *reader, const ls_scenario *scenario, ls_int_list *list,
                      const ls_node *node, const char *what);
// A name that becomes part of a stage output's: `table` and `feature` may be NULL.
void ls_check__stage_name(ls_reader *reader, ls_mark mark, const char *stage, const char *table,
                          const char *feature);
int64_t ls_check__sum(const ls_int_list *list);  // INT64_MAX when it does not fit
ls_mark ls_check__element(const ls_int_list *list, int index);

#endif
