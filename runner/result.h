// Results: what run, compare and replay found, case by case and stage by stage. The reports (text,
// JSON, JUnit, HTML) are written from this and from nothing else.
#ifndef LS_RUNNER_RESULT_H
#define LS_RUNNER_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "collectives/finding.h"

#ifdef __cplusplus
extern "C" {
#endif

// Verdict classes, best first: a case's class is its worst stage's. pass is 1 where the class alone
// does not fail a case. "unjudged" is none of the verdicts: nothing was compared with anything, so
// it comes before them all and a case of nothing else does not pass. "checked": the calls of all
// ranks agreed, and no values were compared. "proved": equal in exact arithmetic.
#define LS_CLASS_MAP(X)                                                                            \
    X(LS_CLASS_UNJUDGED, "unjudged", 0)                                                            \
    X(LS_CLASS_CHECKED, "checked", 1)                                                              \
    X(LS_CLASS_BIT_EXACT, "bit_exact", 1)                                                          \
    X(LS_CLASS_PROVED, "proved", 1)                                                                \
    X(LS_CLASS_REORDERED, "reordered", 1)                                                          \
    X(LS_CLASS_WITHIN_BOUND, "within_bound", 1)                                                    \
    X(LS_CLASS_BY_DESIGN, "by_design", 1)                                                          \
    X(LS_CLASS_FINDING, "finding", 0)                                                              \
    X(LS_CLASS_WRONG, "wrong", 0)                                                                  \
    X(LS_CLASS_ERROR, "error", 0)

typedef enum ls_class {
#define LS_CLASS_ENUM(name, text, pass) name,
    LS_CLASS_MAP(LS_CLASS_ENUM)
#undef LS_CLASS_ENUM
        LS_CLASS_COUNT
} ls_class;

const char *ls_class_name(ls_class class_);  // "bit_exact", ...
bool ls_class_passes(ls_class class_);       // whether the class alone does not fail a case

// The judge of a stage.
typedef enum ls_judge {
    LS_JUDGE_ORACLE,     // what plain, unsharded code gives
    LS_JUDGE_REAL,       // the same stage of a real run, or of a recording
    LS_JUDGE_REFERENCE,  // numbers of another system, in a file
    LS_JUDGE_COUNT
} ls_judge;

const char *ls_judge_name(ls_judge judge);  // "oracle", "real", "reference"

// The outcome of injected defects that no check noticed.
typedef enum ls_unnoticed {
    LS_UNNOTICED_NONE,      // something was, or nothing is injected
    LS_UNNOTICED_MISSED,    // no rank came to one, or it had nothing to change
    LS_UNNOTICED_HARMLESS,  // they change no bit of any output
    LS_UNNOTICED_ROUNDING,  // outputs change as much as rounding may
} ls_unnoticed;

// One stage compared.
typedef struct ls_stage_result {
    const char *name;   // for reports: the stage, behind what it is compared with where that is
                        // needed to tell two results of a stage apart
    const char *stage;  // its name in the run
    ls_judge judge;     //
    int reference;      // LS_JUDGE_REFERENCE: which of the scenario's, from 0
    ls_class class_;
    uint64_t elements;  // compared
    uint64_t unjudged;  // elements of the stage that nothing is known to compare with
    uint64_t vacuous;   // of these, elements within a bound that proves nothing
    uint64_t differing;
    uint64_t max_ulps;        // of floats: the largest ls_element_ulps
    uint64_t max_difference;  // of integers: the largest difference
    double bound_ratio;       // largest |difference| / derived bound; 0 when nothing differs
    const char *order;        // the order that gives these bits, or NULL
    const char *divergence;   // several lines: the first element that differs, or NULL
    const char *design;       // by_design: why, without the element; NULL: it is not
} ls_stage_result;

// Counts elements that were compared: with the first of them the stage is judged, bit_exact so far.
void ls_stage_result_compared(ls_stage_result *stage, uint64_t elements);

// Notes a largest ls_element_ulps of elements of dtype.
void ls_stage_result_distance(ls_stage_result *stage, ls_dtype dtype, uint64_t distance);

// The 2-norms of all tables together in a training step.
typedef struct ls_step_norms {
    double gradients;  // of rows, as the optimizer gets them, before they are clipped
    double weights;    // after the update; 0: there is none
} ls_step_norms;

// Calls of a program that are alike: what they are, and for what.
typedef struct ls_call_row {
    const char *call;          // "all_to_all"
    const char *communicator;  //
    const char *purpose;       // in the program's words; NULL: not known
    const char *where;         // the first of them: "FILE:LINE"
    uint64_t calls;
    uint64_t bytes;  // that all members sent
} ls_call_row;

// Calls of a program that met, or one that did not: who made it, and where.
typedef struct ls_call_set {
    const char *call;
    const char *communicator;
    const char *purpose;  // NULL: not known
    bool met;
    const char **where;  // [timeline_ranks], "FILE:LINE"; NULL: the rank has no part in it
} ls_call_set;

// A tensor that was not compared, and why.
typedef struct ls_omitted {
    const char *name, *why;
} ls_omitted;

typedef struct ls_case_result {
    const char *name;
    const char *file;     // the scenario or recorded file
    const char *backend;  // "sim", ...; NULL: nothing was run (a plan, a drawing)
    const char *real;     // "nccl", "mpi", "recording" or NULL
    bool skipped;
    const char *skip_reason;  // why, when skipped
    bool pass;                // the verdict: what the checks (or expect:) demand was met
    ls_class class_;
    ls_stage_result *stages;
    int stage_count;
    ls_step_norms *norms;  // of each training step
    int norm_count;
    ls_call_row *calls;  // of a program of its own processes, in their order
    int call_count;
    const ls_call_set *timeline;  // of such a program: the first of its sets, in their order
    int timeline_count, timeline_ranks;
    ls_finding *findings;
    int finding_count;
    const ls_omitted *omitted;  // [omitted_count] the tensors that were not compared
    size_t omitted_count;
    const char *checked;  // what was; NULL unless class_ is checked or proved
    const char *start;    // how a program's ranks were started, where they might be forked; or NULL
    const char *note;     // what is not as the input has it, or may be meant, in lines; or NULL
    const char *unproven;    // how many tensors were not judged: a pass is `unjudged` then; or NULL
    const char *error;       // one sentence when class_ is error, else NULL
    bool environment;        // it failed for want of a backend, a process, memory or time
    const char *scenario;    // the text of a scenario that is in no file, or NULL
    const char *noticed_by;  // of an injected defect, the check that notices it; or NULL
    ls_unnoticed unnoticed;  //
    bool unusable;           // it failed for a file that cannot be used (weights, a recording)
    const char *reproduce;   // a command line
    double seconds;          // wall time, for the text report alone
} ls_case_result;

typedef struct ls_results {
    ls_arena *arena;      // owns every string and array here
    const char *command;  // "run", "compare", "replay", ...
    ls_case_result *cases;
    int case_count;
    int case_capacity;
    int passed, failed, skipped;
    int environment;  // failed cases that failed for the environment's sake
    int unusable;     // failed cases that failed for a file's sake
} ls_results;

LS_API int ls_results_create(ls_results **out, const char *command);
LS_API void ls_results_free(ls_results *results);  // NULL is allowed
// Whether everything that ran passed, and something did run.
LS_API bool ls_results_pass(const ls_results *results);
// How many elements of its stages were compared, with whatever judges them.
uint64_t ls_case_result_judged(const ls_case_result *result);
// Skips a case that passes although no element of it was compared with anything.
void ls_case_result_skip_unjudged(ls_case_result *result);
// Makes the thread's last error the case's outcome: its class, its text (a copy in `arena`), and
// whose fault it is.
void ls_case_result_set_error(ls_case_result *result, ls_arena *arena);
// A command line that shows the case again: `command` (NULL: there was no memory for it), then
// `file` as a word of the shell. In `arena`; NULL without memory.
const char *ls_result_command(ls_arena *arena, const char *command, const char *file);
// The text as a string of the results' arena, and frees it; NULL, and the arena failed, where there
// was no memory for either.
const char *ls_result_text(ls_arena *arena, ls_text *text);
// Adds a case whose fields point into results->arena; sets class from the stages and findings
// unless it is already worse, and counts it. Copies the struct. LS_ERR_MEMORY also where something
// of it could not be put into the arena: such a report would pass for a whole one.
int ls_results_add(ls_results *results, const ls_case_result *result);
// Skips a case that was added, where it passed. reason: static, or in the arena.
void ls_results_skip(ls_results *results, int index, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
