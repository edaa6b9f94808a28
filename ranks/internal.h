// Functions shared by the files of ranks/.
#pragma once

#include "collectives/check.h"
#include "ranks/checks/check.h"
#include "ranks/front.h"
#include "ranks/hooks.h"
#include "ranks/remote.h"
#include "ranks/seen.h"
#include "ranks/state.h"

// ---- schedule.c: who runs -----------------------------------------------------------------------
int ls_schedule__open(ls_spmd *run);
void ls_schedule__close(ls_spmd *run);
void ls_schedule__start(ls_spmd *run);            // gives the run token to the first rank
void ls_schedule__wait_for_start(ls_rank *rank);  // first thing in a rank's thread
void ls_schedule__yield(ls_rank *rank);           // others may run first
void ls_schedule__give_way(ls_rank *rank);        // under every schedule
void ls_schedule__block(ls_rank *rank, ls_rank_state state);   // until made ready
void ls_schedule__make_ready(ls_rank *rank);                   // a blocked rank can continue
void ls_schedule__finish(ls_rank *rank, ls_rank_state state);  // last thing in a rank's thread
void ls_schedule__set_current(ls_rank *rank);                  // of a run without threads
// A rank whose threads are all blocked or asleep gives the run token on; on one of them.
void ls_schedule__hand_on(ls_rank *rank, ls_thread *me);
void ls_schedule__count_choice(ls_rank *rank, const ls_thread *chosen);  // in the digest

// ---- turns.c: the threads of a rank -------------------------------------------------------------
int ls_turns__open(ls_rank *rank);
void ls_turns__close(ls_rank *rank);
bool ls_turns__left(const ls_rank *rank);   // no thread but the main one may call any more
void ls_turns__set_own(ls_thread *thread);  // the calling thread is that
// The rank has the run token: a thread of it that could continue is INSIDE; the main thread if none
// is.
ls_thread *ls_turns__take(ls_rank *rank);
// The thread inside stops, and the rank has no run token; whether a thread of it could continue.
bool ls_turns__stop(ls_thread *me, ls_thread_state state);
void ls_turns__start(ls_rank *rank);  // lets a thread that could continue do so
bool ls_turns__wake(ls_rank *rank);   // threads whose calls are complete could continue: any
void ls_turns__wait(ls_thread *me);   // until it is INSIDE

// ---- outside.c: the threads of a rank that are outside of the library ---------------------------
// Waits until the other threads of a rank sleep or are in calls: none has run between two looks.
void ls_outside__settle(ls_rank *rank, const ls_thread *me);
// No rank can run: whether a thread is about to make a call.
bool ls_outside__await_arrival(ls_spmd *run);
// All polls were in vain: whether a thread may have changed what they see since the last question,
// within the deadline.
bool ls_outside__may_change(ls_spmd *run);
// Seconds that a thread was ready and had no processor, so far; 0 where the kernel does not say.
double ls_outside__delayed(int tid);

// ---- trap.c: what signals tell ------------------------------------------------------------------
#define LS_STACK_GUARD_BYTES   ((size_t)256 << 10)  // below each rank's stack
#define LS_HANDLER_STACK_BYTES ((size_t)64 << 10)   // touched when a signal's handler runs
void ls_trap__open(void);                           // of each run
void ls_trap__close(void);
void ls_trap__enter_thread(ls_rank *rank);  // on the rank's thread
void ls_trap__leave_thread(ls_rank *rank);

extern const ls_core ls_core__run;  // in core.c

// ---- run.c --------------------------------------------------------------------------------------
// Returns the run's status with its reason; for calls made after the failure.
int ls_spmd__failed(const ls_spmd *run, const ls_rank *rank);

// A run without its threads: opened, and ended with `status` of opening or running it.
int ls_spmd__open(ls_spmd **out, ls_spmd_program program, void *arg, const ls_spmd_options *options,
                  const ls_remote *remote);
int ls_spmd__close(ls_spmd_result **out, ls_spmd *run, int status);
// Findings at the end of a run: before its threads go, where a debugger may stop.
void ls_spmd__judge(ls_spmd *run);
// Runs the program on all ranks' threads, or on none; judges. In threads.c.
int ls_threads__run(ls_spmd *run);
// The rank's program did not return: it is dead, and the run is over.
void ls_threads__lost(ls_rank *rank, ls_finding_id id, const char *format, ...) LS_PRINTF(3, 4);
int ls_spmd__make_result(ls_spmd *run, int rank_count);
int ls_spmd__verdict(const ls_spmd *run);  // what ls_spmd_run returns
// Completes calls [size] that have matched and agree: here, or in the run's backend.
int ls_spmd__complete(ls_spmd *run, const ls_call *const *calls, int size);

// ---- findings.c ---------------------------------------------------------------------------------
// The same, and the run fails with LS_ERR_FINDING. Returns the run's status.
int ls_findings__fatal_call(ls_spmd *run, ls_finding_id id, const ls_request *request,
                            const char *format, ...) LS_PRINTF(4, 5);
// Whether that was found at that place of this rank.
bool ls_findings__known(const ls_spmd *run, ls_finding_id id, int rank, const char *file, int line);
// Withdraws a finding of that kind if `explained` returns true for all its ranks: another finding
// explains it.
void ls_findings__withdraw(ls_spmd *run, ls_finding_id id,
                           bool (*explained)(const ls_spmd *run, int rank, const char *where));
// Records a finding for a call with invalid arguments. rank NULL: no rank is named.
// Returns LS_ERR_INVALID. Call outside of ls_schedule__enter.
int ls_findings__refuse(ls_rank *rank, const char *file, int line, const char *format, ...)
    LS_PRINTF(4, 5);
// The same for one rank's call: the text is put behind what the call is.
bool ls_findings__add_call(ls_spmd *run, ls_finding_id id, const ls_request *request,
                           const char *format, ...) LS_PRINTF(4, 5);
// The finding of this thread's last failing check of calls [count] (ls_check_last, ls_error_last):
// each rank's value, the majority, the last calls of both sides. Returns the status to fail the run
// with.
int ls_findings__add_check(ls_spmd *run, ls_request *const *requests, int count);
// The body of such a finding.
void ls_findings__check_text(ls_text *text, const ls_check_failure *failure,
                             ls_request *const *requests, int count);

// ---- witness.c: who is at fault where no majority says it ---------------------------------------
// Whether half of the matched calls differs from the other half.
bool ls_witness__wanted(const ls_check_failure *failure, const ls_call *const *calls, int count);
// Then turns the blame when other ranks make the call of that line as the blamed do, and says so in
// the text.
void ls_witness__turn(ls_check_failure *failure, ls_text *text, const ls_spmd *run,
                      const ls_call *const *calls, int count);
// Of two ranks that wait for each other in these calls, the one that reached its line unlike other
// ranks: 0, 1, or -1: unknown.
int ls_witness__odd(const ls_spmd *run, const int *circle, const ls_call *const *calls);

// ---- checks.c: the moments at which checks are called (checks/check.h) --------------------------
int ls_checks__made(ls_request *request);
void ls_checks__posted(ls_request *request);
int ls_checks__agreed(ls_spmd *run, ls_meet *meet);
void ls_checks__matched(ls_request *request);
void ls_checks__moving(ls_spmd *run, ls_move *move);
void ls_checks__moved(ls_spmd *run, ls_move *move);
void ls_checks__over(ls_spmd *run, ls_move *move);
void ls_checks__completed(const ls_request *request);
int ls_checks__asked(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests);
void ls_checks__freed(ls_rank *rank, const ls_allocation *allocation);
bool ls_checks__holds(const ls_rank *rank, const char *start, size_t bytes);
int ls_checks__ended(ls_spmd *run);
void ls_checks__closed(ls_spmd *run);
void ls_checks__closed_comm(ls_spmd *run, ls_shared_comm *shared);

// ---- checks/select.c: which are on --------------------------------------------------------------
int ls_checks__select(ls_spmd *run, const char *globs);
// Switches those off that read what is in buffers.
void ls_checks__without_data(ls_spmd *run);

// ---- checks/arguments.c -------------------------------------------------------------------------
int ls_checks__arguments(ls_request *request);  // LS_OK, or the status the run failed with

// ---- checks/values.c: garbage, NaN and Inf ------------------------------------------------------
// Whether the call's data is checked.
bool ls_values__on(const ls_spmd *run, const ls_call *call);
// Of ranges by several threads: a watch of a range's own (false: no memory), for the calling
// thread, and what it saw, taken in the order of the ranges.
bool ls_values__fork(ls_value_watch *out, const ls_value_watch *of);
void ls_values__begin(ls_value_watch *watch);
void ls_values__join(ls_value_watch *into, ls_value_watch *from);

// ---- memory.c -----------------------------------------------------------------------------------
// The place of the first allocation that starts after `pointer`; the allocation that holds it, or
// NULL. In memory_find.c.
int ls_memory__after(const ls_rank *rank, const void *pointer);
ls_allocation *ls_memory__find(ls_rank *rank, const void *pointer);
// Whether an earlier call found nothing unwritten in these bytes; and that this one does.
bool ls_memory__looked_at(const ls_allocation *allocation, const char *at, size_t bytes);
void ls_memory__look(ls_allocation *allocation, const char *at, size_t bytes);
// Memory next to it must not have been written.
void ls_memory__check_beside(ls_rank *rank, ls_allocation *allocation, const char *file, int line);
void ls_memory__close(ls_rank *rank);
// Whether two ranges have a byte in common.
bool ls_memory__meets(const void *a, size_t a_bytes, const void *b, size_t b_bytes);
// The bytes at `at` where this process can read them: there, or a copy of a device's memory.
typedef struct ls_view {
    const void *data;  // NULL: not readable
    void *copy;
    size_t bytes;
} ls_view;
ls_view ls_memory__view(const ls_spmd *run, const void *at, size_t bytes);
void ls_memory__unview(ls_view *view);

// ---- poison.c: what memory holds that holds nothing yet -----------------------------------------
// The number of the origin of memory that this rank allocates there, or of a call's result.
uint32_t ls_poison__memory(ls_rank *rank, const char *file, int line);
uint32_t ls_poison__call(ls_rank *rank, const ls_call *call);
void ls_poison__fill(void *at, size_t bytes, ls_dtype dtype, uint32_t origin);
// The first byte that is not the pattern any more, -1: none.
ptrdiff_t ls_poison__changed(const void *at, size_t bytes, ls_dtype dtype, uint32_t origin);
// Where an element comes from that is a pattern, or (*computed) was computed from one; NULL: else.
ls_origin *ls_poison__origin(bool *computed, const ls_spmd *run, const void *element,
                             ls_dtype dtype);
// The same of a word of memory of whatever type that was copied; own: the most likely one, or 0.
ls_origin *ls_poison__word(const ls_spmd *run, const void *word, uint32_t own);

// Whether there is one in [at, at + bytes).
bool ls_poison__any(const ls_spmd *run, const void *at, size_t bytes);
// Whether two ranges hold the same bits, or both nothing.
bool ls_poison__same(const void *a, const void *b, size_t bytes);

// ---- flight.c: asynchronous calls until their wait ----------------------------------------------
int ls_flight__open(ls_request *request);   // as it is posted
void ls_flight__land(ls_request *request);  // it is waited for: its result appears
// Reports a use before the wait. The program's memory then is as if it had waited.
void ls_flight__settle(ls_request *request, const char *file, int line);
void ls_flight__drop(ls_request *request);  // the end without a wait
void ls_flight__tell(ls_request *request);  // if it was touched too early
// Where the data of a call in flight is; the call's own buffers otherwise.
const void *ls_flight__send(const ls_request *request);
void *ls_flight__recv(const ls_request *request);
const ls_call *ls_flight__call(ls_request *request);
// An access to `address` was refused: opens the page; returns the rank whose call closed it, NULL:
// none. *opened: the number of pages opened so far.
ls_request *ls_flight__trapped(uint64_t *opened, uintptr_t address, bool write);

// ---- request.c ----------------------------------------------------------------------------------
// Asynchronous or grouped, on the heap; its counts are copied. NULL: no memory.
ls_request *ls_request__make(const ls_request *filled);
void ls_request__list(ls_rank *rank, ls_request *request);
void ls_request__unlist(ls_rank *rank, ls_request *request);
void ls_request__close(ls_rank *rank);
// The requests that a blocked rank waits for: out [most]; returns how many.
int ls_request__awaited(const ls_request **out, int most, const ls_rank *rank);

// ---- kept.c -------------------------------------------------------------------------------------
// A copy of `bytes` bytes that lives as long as the request; NULL: no memory.
void *ls_kept__copy(ls_request *request, const void *data, size_t bytes);
void ls_kept__drop(ls_request *request);  // and forgets the counts
// Its program has returned: a call of it that still waits for others, with a buffer on the stack
// that is gone, ends the run.
void ls_kept__returned(ls_rank *rank);

// ---- place.c ------------------------------------------------------------------------------------
// Reports this process's place to the backend's observer; awaited: the request that it waits for,
// or NULL.
void ls_place__tell(const ls_rank *rank, ls_place_state state, const ls_request *awaited);
// Adds the places of all ranks to the last finding of a run in which no rank can continue.
void ls_place__note(ls_spmd *run);

// ---- call.c -------------------------------------------------------------------------------------

// ---- meet_room.c --------------------------------------------------------------------------------
int ls_meet__open(ls_shared_comm *shared);
void ls_meet__close(ls_shared_comm *shared);
void ls_meet__free(ls_shared_comm *shared, ls_meet *meet);
ls_meet *ls_meet__at(const ls_shared_comm *shared, uint64_t round);  // NULL: no member has arrived

// ---- meet.c: where calls meet -------------------------------------------------------------------
// Passes a request to its communicator; completes a match.
int ls_meet__submit(ls_request *request);
// Checks that all ask for the same of what is no collective of data.
int ls_meet__check_asks(const ls_meet *meet);
// Moves the data of requests that have matched and agree, and checks it.
int ls_meet__move(ls_spmd *run, ls_meet *meet);

// ---- p2p.c --------------------------------------------------------------------------------------
int ls_p2p__submit(ls_request *request);
// No rank can continue: lets one receive from any member (or a probe) match one of the possible
// sends. False: there is none.
bool ls_p2p__choose(ls_spmd *run);
void ls_p2p__decide(ls_spmd *run);  // finding of a send and receive that do not fit
// Moves the data of a send and its receive; both are done then.
int ls_p2p__move(ls_spmd *run, ls_request *const pair[2]);

// ---- remote.c: runs whose ranks' programs are elsewhere -----------------------------------------
int ls_remote__math(ls_spmd *run, const ls_call *const *calls, int size);
static inline void ls_remote__block(ls_rank *rank) {
    rank->state = LS_RANK_BLOCKED;
    rank->main.state = LS_THREAD_BLOCKED;
    rank->run->running_count -= 1;
}

// ---- comm.c -------------------------------------------------------------------------------------
// Executes a matched split or subset. requests [size].
int ls_comm__split(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests);
int ls_comm__subset(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests);
void ls_comm__close(ls_spmd *run);

// ---- checks/replica.c ---------------------------------------------------------------------------
// A member's copy of memory that must be the same on all; what: buffer, count, dtype, site.
int ls_replica__declare(ls_rank_comm *comm, const ls_call *what);
void ls_replica__forget(ls_rank_comm *comm, const void *data);
// Whether all members' requests name the same count and dtype; else the run fails.
int ls_replica__check_form(ls_spmd *run, const ls_shared_comm *shared, ls_request *const *requests);
// Members wrong [count] of shared hold other bits than `right`; a, b [elements]: the copies of the
// first of them and of `right`. when: "after all_reduce ...", or ""; declared: where, or NULL.
typedef struct ls_replica_difference {
    const ls_shared_comm *shared;
    const int *wrong;
    int count, right;
    const void *a, *b;
    size_t elements;
    ls_dtype dtype;
    const char *when, *file, *declared;
    int line, declared_line;
} ls_replica_difference;
void ls_replica__report(ls_spmd *run, const ls_replica_difference *d);
// The copy that this rank has declared with that number and not forgotten; false: none.
bool ls_replica__declared(ls_call *out, const ls_rank_comm *comm, uint64_t number);

// ---- fault.c ------------------------------------------------------------------------------------
typedef enum ls_fault_do {
    LS_FAULT_DO_CALL,
    LS_FAULT_DO_SKIP,
    LS_FAULT_DO_DIE,
    LS_FAULT_DO_STALL
} ls_fault_do;
// Injects the faults of this call into it. *twice: make it twice.
int ls_fault__apply(ls_fault_do *out, bool *twice, ls_request *request);
bool ls_fault__reached(const ls_rank *rank, ls_fault_type type, int64_t amount);

// ---- checks/sites.c: lines from which calls meet ------------------------------------------------
// How strict the check is: "collective.order_mismatch=strict" of a list of checks.
int ls_sites__select(ls_spmd *run, const char *word);

// ---- lookahead.c --------------------------------------------------------------------------------
// After a mismatch of `meet` (the finding is in ls_check_last): continues without data for a few
// calls, or decides from the waiting calls. Returns the status of the run, LS_OK: it continues.
int ls_lookahead__start(ls_spmd *run, ls_meet *meet);
bool ls_lookahead__submit(ls_request *request);  // true: the request is dealt with
void ls_lookahead__end(ls_spmd *run);            // decides, fails the run

// ---- stuck.c ------------------------------------------------------------------------------------
// No rank can run although some are alive: finds the reason, and fails the run.
void ls_stuck__explain(ls_spmd *run);
// Whether it follows from a call that was refused and reported: then the run fails, too.
bool ls_stuck__refused(ls_spmd *run);
// Adds the histories of the first two ranks to the text, which it frees, and ends the run with that
// finding: with `status`, or LS_ERR_DEADLOCK where its check is off. In returned.c, as the next.
void ls_stuck__end(ls_spmd *run, int status, ls_finding_id id, const int *ranks, int count,
                   const char *file, int line, ls_text *text);
// The same where `request` waits for a rank that has returned.
void ls_stuck__returned(ls_spmd *run, const ls_request *request);
// Sends, receives and collectives that are incomplete at the end of the run.
void ls_stuck__leftovers(ls_spmd *run);

// ---- direct.c: runs on a backend that holds one rank --------------------------------------------
int ls_direct__submit(ls_request *request);
int ls_direct__wait(ls_request *request);
int ls_direct__group_end(ls_rank *rank);
int ls_direct__finish(ls_rank *rank);  // requests without a wait: others may wait for it
// The run ends with the last check or error of this thread, about the request. In direct_call.c,
// with the next one.
int ls_direct__fail(ls_request *request, int status);
// A call of the library's own on the request's communicator, complete at the end.
int ls_direct__collective(const ls_request *request, ls_call call);
int ls_direct__ask(ls_request *request);  // a split, a subset, a check of replicas
int ls_direct__replica(const ls_meet *meet, const ls_request *request);
