// Results of run, compare and replay, by case and stage. All reports (text, JSON, JUnit, HTML) are
// written from this structure only.
#ifndef LS_RUNNER_RESULT_H
#define LS_RUNNER_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "collectives/finding.h"

#ifdef __cplusplus
extern "C" {
#endif

// Verdict classes, best first: a case's class is its worst stage's. pass is 1 if the class alone
// does not fail a case. "unjudged" is no verdict: nothing was compared. It comes before all others,
// and a case of only unjudged stages does not pass. "checked": the calls of all ranks agreed, and
// no values were compared. "proved": equal in exact arithmetic.
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
    LS_JUDGE_ORACLE,     // plain, unsharded code
    LS_JUDGE_REAL,       // the same stage of a real run, or of a recording
    LS_JUDGE_REFERENCE,  // numbers of another system, in a file
    LS_JUDGE_COUNT
} ls_judge;

const char *ls_judge_name(ls_judge judge);  // "oracle", "real", "reference"

// The effect of injected defects that no check noticed.
typedef enum ls_unnoticed {
    LS_UNNOTICED_NONE,      // there was an effect, or nothing is injected
    LS_UNNOTICED_MISSED,    // no rank reached one, or it had nothing to change
    LS_UNNOTICED_HARMLESS,  // they change no bit of any output
    LS_UNNOTICED_ROUNDING,  // outputs change within rounding
} ls_unnoticed;

// One stage compared.
typedef struct ls_stage_result {
    const char *name;   // the name in reports: the stage, after its judge if needed to distinguish
                        // two results of a stage
    const char *stage;  // its name in the run
    ls_judge judge;     //
    int reference;      // LS_JUDGE_REFERENCE: index in the scenario's list
    ls_class class_;
    uint64_t elements;  // compared
    uint64_t unjudged;  // elements of the stage without an expected value
    uint64_t vacuous;   // of these, elements within a bound that proves nothing
    uint64_t differing;
    uint64_t max_ulps;        // of floats: the largest ls_element_ulps
    uint64_t max_difference;  // of integers: the largest difference
    double bound_ratio;       // largest |difference| / derived bound; 0 when nothing differs
    const char *order;        // the order with these bits, or NULL
    const char *divergence;   // several lines: the first element that differs, or NULL
    const char *design;       // by_design: the reason, without the element; NULL: none
} ls_stage_result;

// Counts compared elements: the first of them makes the stage judged, bit_exact so far.
void ls_stage_result_compared(ls_stage_result *stage, uint64_t elements);

// Records a largest ls_element_ulps of elements of dtype.
void ls_stage_result_distance(ls_stage_result *stage, ls_dtype dtype, uint64_t distance);

// The 2-norms of all tables together in a training step.
typedef struct ls_step_norms {
    double gradients;  // of rows, in the optimizer's input, before clipping
    double weights;    // after the update; 0: no update
} ls_step_norms;

// A group of similar calls of a program: their kind and purpose.
typedef struct ls_call_row {
    const char *call;          // "all_to_all"
    const char *communicator;  //
    const char *purpose;       // the program's word; NULL: unknown
    const char *where;         // the first of them: "FILE:LINE"
    uint64_t calls;
    uint64_t bytes;  // sent by all members
} ls_call_row;

// A set of calls that matched, or a call that did not: its callers and their places.
typedef struct ls_call_set {
    const char *call;
    const char *communicator;
    const char *purpose;  // NULL: unknown
    bool met;
    const char **where;  // [timeline_ranks], "FILE:LINE"; NULL: the rank takes no part
} ls_call_set;

// A tensor that was not compared, with the reason.
typedef struct ls_omitted {
    const char *name, *why;
} ls_omitted;

typedef struct ls_case_result {
    const char *name;
    const char *file;     // the scenario or recorded file
    const char *backend;  // "sim", ...; NULL: no run (a plan, a drawing)
    const char *real;     // "nccl", "mpi", "recording" or NULL
    bool skipped;
    const char *skip_reason;  // why, when skipped
    bool pass;                // the verdict: the checks or the expectation hold
    ls_class class_;
    ls_stage_result *stages;
    int stage_count;
    ls_step_norms *norms;  // of each training step
    int norm_count;
    ls_call_row *calls;  // of a program in its own processes, in their order
    int call_count;
    const ls_call_set *timeline;  // of such a program: its first sets, in their order
    int timeline_count, timeline_ranks;
    ls_finding *findings;
    int finding_count;
    const ls_omitted *omitted;  // [omitted_count] the tensors that were not compared
    size_t omitted_count;
    const char *checked;     // "checked" and "proved": the statement; NULL for other classes
    const char *start;       // start method of a program's ranks, if they could be forked; or NULL
    const char *note;        // deviations from the input, or hints, in lines; or NULL
    const char *unproven;    // number of tensors that were not judged: a pass is `unjudged` then;
                             // or NULL
    const char *error;       // one sentence when class_ is error, else NULL
    bool environment;        // the environment failed: a backend, a process, memory or time
    const char *scenario;    // the text of a scenario that is in no file, or NULL
    const char *noticed_by;  // of an injected defect, the check that finds it; or NULL
    ls_unnoticed unnoticed;  //
    bool unusable;           // an unusable file (weights, a recording)
    const char *reproduce;   // a command line
    double seconds;          // wall time, only for the text report
} ls_case_result;

typedef struct ls_results {
    ls_arena *arena;      // owns all strings and arrays here
    const char *command;  // "run", "compare", "replay", ...
    ls_case_result *cases;
    int case_count;
    int passed, failed, skipped;
    int environment;  // failed cases because of the environment
    int unusable;     // failed cases because of a file
    // Inside the library
    int case_capacity;
} ls_results;

LS_API int ls_results_create(ls_results **out, const char *command);
LS_API void ls_results_free(ls_results *results);  // NULL is allowed
// Whether something ran and all of it passed.
LS_API bool ls_results_pass(const ls_results *results);
// The number of compared elements of its stages, over all judges.
uint64_t ls_case_result_judged(const ls_case_result *result);
// Skips a passed case without a compared element.
void ls_case_result_skip_unjudged(ls_case_result *result);
// Makes the thread's last error the case's outcome: its class, its text (a copy in `arena`), and
// its cause.
void ls_case_result_set_error(ls_case_result *result, ls_arena *arena);
// A command line that repeats the case: `command` (NULL: out of memory), then `file` as a shell
// word. In `arena`; NULL: out of memory.
const char *ls_result_command(ls_arena *arena, const char *command, const char *file);
// Copies the text to the results' arena and frees it. NULL, and the arena is marked as failed: out
// of memory.
const char *ls_result_text(ls_arena *arena, ls_text *text);
// Adds a case whose fields point into results->arena. Sets its class from the stages and findings
// unless it is already worse, and counts it. Copies the struct. LS_ERR_MEMORY also if a part of it
// was lost for lack of memory: the report would seem complete.
int ls_results_add(ls_results *results, const ls_case_result *result);
// Skips an added case if it passed. reason: static, or in the arena.
void ls_results_skip(ls_results *results, int index, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
