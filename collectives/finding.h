// Findings: defects of the program under test, under the stable names of docs/reference.md. A check
// that fires makes one; reports, gdb and expectations of scenarios read it.
#ifndef LS_COLLECTIVES_FINDING_H
#define LS_COLLECTIVES_FINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// One row per finding: id, stable name, whether its check is on unless asked otherwise, what it
// reads (docs/reference.md says of each word what it costs), and what was found.
#define LS_FINDING_MAP(X)                                                                          \
    X(LS_FINDING_KIND_MISMATCH, "collective.kind_mismatch", true, "calls",                         \
      "ranks of one communicator make different collectives at the same place")                    \
    X(LS_FINDING_COUNT_MISMATCH, "collective.count_mismatch", true, "calls",                       \
      "ranks disagree about the number of elements")                                               \
    X(LS_FINDING_DTYPE_MISMATCH, "collective.dtype_mismatch", true, "calls",                       \
      "ranks disagree about the element type")                                                     \
    X(LS_FINDING_OP_MISMATCH, "collective.op_mismatch", true, "calls",                             \
      "ranks disagree about the reduce operation")                                                 \
    X(LS_FINDING_ROOT_MISMATCH, "collective.root_mismatch", true, "calls",                         \
      "ranks disagree about the root")                                                             \
    X(LS_FINDING_SPLIT_MISMATCH, "collective.split_mismatch", true, "calls",                       \
      "a rank sends another count than the receiver expects")                                      \
    X(LS_FINDING_GROUP_MISMATCH, "collective.group_mismatch", true, "calls",                       \
      "ranks disagree about the members of the communicator")                                      \
    X(LS_FINDING_PURPOSE_MISMATCH, "collective.purpose_mismatch", true, "calls",                   \
      "equal calls that move different data")                                                      \
    X(LS_FINDING_ORDER_MISMATCH, "collective.order_mismatch", true, "calls",                       \
      "the same calls in different orders")                                                        \
    X(LS_FINDING_REDUNDANT_REDUCE, "collective.redundant_reduce", true, "calls, bytes",            \
      "a sum of an earlier sum, which all ranks already have")                                     \
    X(LS_FINDING_MISSING_RANK, "collective.missing_rank", true, "calls, waiting",                  \
      "a rank never makes the call that the others wait in")                                       \
    X(LS_FINDING_EXTRA_CALL, "collective.extra_call", true, "calls, waiting",                      \
      "a rank makes a call that no other makes")                                                   \
    X(LS_FINDING_P2P_UNMATCHED_SEND, "p2p.unmatched_send", true, "calls, waiting",                 \
      "a send that nobody receives")                                                               \
    X(LS_FINDING_P2P_UNMATCHED_RECV, "p2p.unmatched_recv", true, "calls, waiting",                 \
      "a receive that nobody sends to")                                                            \
    X(LS_FINDING_P2P_COUNT_MISMATCH, "p2p.count_mismatch", true, "calls",                          \
      "sender and receiver disagree about the number of elements")                                 \
    X(LS_FINDING_P2P_DTYPE_MISMATCH, "p2p.dtype_mismatch", true, "calls",                          \
      "sender and receiver disagree about the element type")                                       \
    X(LS_FINDING_P2P_ORDER_MISMATCH, "p2p.order_mismatch", true, "calls",                          \
      "messages between two ranks match in another order than intended")                           \
    X(LS_FINDING_DEADLOCK_CYCLE, "deadlock.cycle", true, "waiting",                                \
      "ranks wait for each other in a circle")                                                     \
    X(LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR, "deadlock.cross_communicator", true,                 \
      "calls, waiting",                                                                            \
      "two communicators are used in different orders on different ranks; also reported when the " \
      "run happened to finish")                                                                    \
    X(LS_FINDING_BUFFER_OVERLAP, "buffer.overlap", true, "memory",                                 \
      "buffers of concurrent calls share memory in a way that the collective does not "            \
      "allow")                                                                                     \
    X(LS_FINDING_BUFFER_TOO_SMALL, "buffer.too_small", true, "memory",                             \
      "a buffer is smaller than the call says")                                                    \
    X(LS_FINDING_BUFFER_UNINITIALISED, "buffer.uninitialised", true, "memory, bytes",              \
      "memory is sent that was never written")                                                     \
    X(LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT, "buffer.modified_in_flight", false, "bytes",           \
      "a buffer changed while its call was not complete")                                          \
    X(LS_FINDING_BUFFER_USE_BEFORE_WAIT, "buffer.use_before_wait", true, "memory, bytes",          \
      "a result is read before its call was waited for")                                           \
    X(LS_FINDING_RMA_RACE, "rma.race", true, "memory",                                             \
      "two accesses to window memory that nothing orders, one of which writes")                    \
    X(LS_FINDING_HANDLE_LEAK, "handle.leak", true, "handles",                                      \
      "a communicator or request is not freed")                                                    \
    X(LS_FINDING_CALL_INVALID, "call.invalid", true, "calls",                                      \
      "a call that is invalid where it is made: a group end without its start, a wait without a "  \
      "request")                                                                                   \
    X(LS_FINDING_HANDLE_USE_AFTER_FREE, "handle.use_after_free", true, "handles, memory",          \
      "a communicator, a request or memory is used after it was freed")                            \
    X(LS_FINDING_REPLICA_DIVERGED, "replica.diverged", true, "bytes",                              \
      "copies that must be equal are not")                                                         \
    X(LS_FINDING_MODEL_DIFFERS, "model.differs", true, "bytes",                                    \
      "ranks wrap models that differ in a parameter's shape, type, order or requires_grad")        \
    X(LS_FINDING_OPTIMIZER_DIFFERS, "optimizer.differs", true, "bytes",                            \
      "optimizers of replicas have different settings on some ranks")                              \
    X(LS_FINDING_REQUEST_NEVER_WAITED, "request.never_waited", true, "handles",                    \
      "an optimizer uses a gradient whose reduction was not waited for")                           \
    X(LS_FINDING_VALUE_NAN_FIRST, "value.nan_first", true, "bytes",                                \
      "where the first NaN came from")                                                             \
    X(LS_FINDING_VALUE_INF_FIRST, "value.inf_first", true, "bytes",                                \
      "where the first infinity came from")                                                        \
    X(LS_FINDING_RANK_DIED, "rank.died", true, "processes",                                        \
      "a rank's process ended by a signal or an error; code 3, unless the scenario "               \
      "injected it")                                                                               \
    X(LS_FINDING_RANK_EXITED_EARLY, "rank.exited_early", true, "waiting",                          \
      "a rank returned while others still wait for it")                                            \
    X(LS_FINDING_INPUT_ID_OUT_OF_RANGE, "input.id_out_of_range", true, "ids",                      \
      "an embedding id outside its table")                                                         \
    X(LS_FINDING_RUNS_CALLS_DIFFER, "runs.calls_differ", true, "calls",                            \
      "a rank makes different calls when the same program runs again")                             \
    X(LS_FINDING_RUNS_INPUTS_DIFFER, "runs.inputs_differ", true, "bytes",                          \
      "a rank sends different data when the same program runs again, although it received the "    \
      "same")                                                                                      \
    X(LS_FINDING_WORK_DIFFERS, "work.differs", true, "bytes",                                      \
      "ranks do different work in a step: backwards, autocast, training mode, number of steps")    \
    X(LS_FINDING_GRADIENT_UNREDUCED, "gradient.unreduced", true, "handles",                        \
      "an optimizer uses gradients that were not reduced, or has none")                            \
    X(LS_FINDING_DATA_REPEATED, "data.repeated", true, "bytes",                                    \
      "ranks or epochs that must have different data have the same; a note unless --strict")       \
    X(LS_FINDING_DATA_DIFFERS, "data.differs", true, "bytes",                                      \
      "ranks that must share data have different data; a note unless --strict")                    \
    X(LS_FINDING_GRADIENT_KEPT, "gradient.kept", true, "bytes",                                    \
      "an optimizer adds up the gradients of all steps; a note unless --strict")

typedef enum ls_finding_id {
#define LS_FINDING_ENUM(name, ...) name,
    LS_FINDING_MAP(LS_FINDING_ENUM)
#undef LS_FINDING_ENUM
        LS_FINDING_COUNT
} ls_finding_id;

LS_API const char *ls_finding_name(ls_finding_id id);
int ls_finding_parse(ls_finding_id *out, const char *name);
bool ls_finding_default(ls_finding_id id);        // whether its check is on unless asked otherwise
const char *ls_finding_reads(ls_finding_id id);   // "calls", "memory, bytes", ...
bool ls_finding_needs_data(ls_finding_id id);     // it is seen in what buffers hold
bool ls_finding_spares_values(ls_finding_id id);  // the run's values are as without it
const char *ls_finding_text(ls_finding_id id);    // the summary, in a line

// Where a rank is in its program. The calls that it has made and the one that it waits for say it
// alike in the simulator and in a real process.
typedef enum ls_place_state {
    LS_PLACE_UNKNOWN,   // it has not begun
    LS_PLACE_RUNS,      // between calls
    LS_PLACE_WAITS,     // in a call that others must complete, or at its end for one that is open
    LS_PLACE_STALLS,    // by a fault: it never continues
    LS_PLACE_RETURNED,  // its program has ended, and nothing of it is open
    LS_PLACE_DIED,      // by a fault
} ls_place_state;

typedef struct ls_place {
    ls_place_state state;
    int line;          // WAITS: of the call that it waits for
    uint64_t calls;    // made so far
    uint64_t awaited;  // WAITS: the number of that call among them, from 0
    char what[128];    // WAITS: that call, for people: "all_reduce sum of 8 f32 on world"
} ls_place;

bool ls_place_equal(const ls_place *a, const ls_place *b);  // but for people's words
// "waits in call 1, barrier on world (line 11)"; out [out_bytes].
void ls_place_format(char *out, size_t out_bytes, const ls_place *place);

typedef struct ls_finding {
    ls_finding_id id;
    const int *ranks;   // the ranks at fault (the minority where ranks disagree), ascending
    int rank_count;     //
    const char *where;  // "FILE:LINE" of the first rank at fault, or ""
    const char *text;   // the whole explanation, several lines
    // Where each rank stays without end [place_count, by rank]; NULL where the run did not hang.
    const ls_place *places;
    int place_count;
    // Where half of a call's members differ from the others, and ranks elsewhere were asked who is
    // right: those that a run which cannot ask would name instead [other_count]; NULL elsewhere.
    const int *others;
    int other_count;
} ls_finding;

// The finding of this thread's last failing check (ls_call_check, a descriptor's check,
// ls_backend_run), beside the sentence in ls_error_last().
#define LS_CHECK_RANKS_MAX 16
typedef struct ls_check_failure {
    bool found;                     // false: the failure, if any, was no defect of the program
    ls_finding_id id;               //
    int ranks[LS_CHECK_RANKS_MAX];  // the first of the ranks at fault, ascending
    int rank_count;                 // entries of ranks
    int rank_total;                 // ranks at fault in all
    const char *file;               // call site of the first of them; static storage, or ""
    int line;                       //
} ls_check_failure;

// Borrowed; valid until the next check of this thread.
LS_API_BACKENDS const ls_check_failure *ls_check_last(void);
LS_API_BACKENDS void ls_check_clear(void);
// The same as a finding, with the sentence of ls_error_last() as its text; all of it in `arena`.
// LS_ERR_NOT_FOUND when the last failure was no defect of the program.
int ls_check_finding(ls_finding *out, ls_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
