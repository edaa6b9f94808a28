// ranks: SPMD programs as their users write them. ls_spmd_run runs one C function once per rank,
// each on its own named thread ("rank 3"), by default one at a time under a run token that a seeded
// schedule passes on, and the matcher where the ranks' calls meet checks every call of every rank.
// A program that would hang on real machines ends here with an explanation.
//
// The calls look like NCCL's (send, recv, count, dtype, op, communicator); the macros add the
// call's file and line. The same program runs through the same face on the GPUs of one process
// (NCCL), and where each process holds one rank (MPI, NCCL).
#ifndef LS_RANKS_RANKS_H
#define LS_RANKS_RANKS_H

#include "collectives/collectives.h"
#include "collectives/finding.h"
#include "ranks/fault.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_rank ls_rank;            // one rank of a run; valid inside its program
typedef struct ls_rank_comm ls_rank_comm;  // a communicator as one rank holds it
typedef struct ls_request ls_request;      // an asynchronous call that is not waited for yet
typedef struct ls_spmd_result ls_spmd_result;

// The user's program. Its return value is the rank's exit status: 0 is success.
typedef int (*ls_spmd_program)(ls_rank *self, void *arg);

typedef enum ls_schedule_kind {
    LS_SCHEDULE_ROUND_ROBIN,  // a rank runs until it blocks, then the next one
    LS_SCHEDULE_RANDOM,       // at every call any rank that can run, by the seed
    LS_SCHEDULE_DELAY,        // delayed_rank runs only when no other rank can
    LS_SCHEDULE_PARALLEL,     // all at once: for speed and for thread sanitizers; no replay
} ls_schedule_kind;

typedef struct ls_spmd_options {
    size_t size;    // sizeof this struct (LS_OPTIONS); 0: as this header has it
    int ranks;      // required
    ls_mesh mesh;   // ndim 0: one dimension of `ranks`
    uint64_t seed;  // of the schedule and of every random draw
    ls_schedule_kind schedule;
    int delayed_rank;  // LS_SCHEDULE_DELAY
    // Which checks are on: names and globs, applied left to right, "-" switches off: "-value.*",
    // "-*,p2p.*", "all". NULL: all but what reads whole buffers, which is
    // buffer.modified_in_flight, and value.* in data that is only moved (the results of reductions
    // are looked at); they are on when they are named. Behaviour that may be intended (padding that
    // nobody reads, an infinity that it brings, a replica between its update and its gather) is a
    // finding only if the check is named more specifically than by "all" or "*". Calls that cannot
    // be completed end the run even where their check is off, then without a finding.
    // "collective.order_mismatch=strict" (or =crossing, the default, or =off) says when equal calls
    // that meet from different lines of the program are a finding: see docs/ranks.md.
    const char *checks;
    const ls_order *order;  // of reductions; NULL: rank order
    const ls_fault *faults;
    int fault_count;
    size_t stack_bytes;  // per rank; 0: 1 MiB, 4 MiB with a backend of the caller's
    // A rank that runs for so long without a call is named, and ends the run; 0: 300, below 0:
    // none. Not while a debugger has the process.
    double deadline_seconds;
    int history;  // calls kept per rank for findings and debuggers; 0: 16
    // After a mismatch: how many more calls each rank may make, which move no data, to see whether
    // the ranks make the same calls in another order or one of them leaves a call out. The calls
    // then return LS_OK, so this is for programs that do not act on what they receive. 0: none.
    int lookahead;
    // Completes the calls that have met, and makes the communicators: a backend that holds every
    // rank of its world, as NCCL's in one process does; borrowed. Its world is then the run's: mesh
    // and random draws. Its order of reductions is its own. NULL: the simulator.
    ls_backend *backend;
    // The ranks are fibers of one thread, between which the kernel has no part: several times as
    // fast where they are thousands, and as many as a world can have. For programs that keep
    // nothing in the thread's storage (_Thread_local, errno across a call), have no threads of
    // their own and do not end the thread (pthread_exit). Threads all the same under
    // LS_SCHEDULE_PARALLEL and where a debugger has the process when the run begins.
    bool fibers;
    // No data: calls are matched, checked and explained, and move nothing; memory of ls_rank_alloc
    // is addresses alone, which nobody may touch. Checks that read what is in buffers are off. For
    // programs that do not act on what they receive.
    bool shape_only;
    // The environment (LOCKSTEP_SEED and others, see docs/ranks.md) changes none of this.
    bool fixed;
    // Sees every set of calls that has met, for traces; NULL: none. Parallel runs: one at a time
    // for each communicator.
    ls_met_observer met;
    void *met_arg;
} ls_spmd_options;

// The arg of a program under `lockstep spmd PROGRAM.so -- WORDS`; values[0]: the program.
typedef struct ls_spmd_arguments {
    int count;
    const char *const *values;
} ls_spmd_arguments;

// Whether a list of checks (as options.checks) has `id` on; LS_ERR_NOT_FOUND: it names no check.
int ls_spmd_check_on(bool *out, const char *checks, ls_finding_id id);

// Runs the program on every rank. LS_OK: all ranks returned 0 and no check fired. LS_ERR_DEADLOCK,
// LS_ERR_FINDING: a check fired; LS_ERR_MISMATCH: calls disagreed whose check is switched off;
// LS_ERR_RANK_DIED: a rank returned something else than 0. Then the result says more. *out is set
// whenever the run started, else NULL; the caller frees it.
LS_API int ls_spmd_run(ls_spmd_result **out, ls_spmd_program program, void *arg,
                       const ls_spmd_options *options);
// The same program where each process holds one rank (MPI; NCCL with a process per GPU): runs it
// here, for the rank that the backend's world holds. Calls are matched by the backend, so what this
// process and the calls that it takes part in can show is checked, and no more: who waits for whom
// is not, and under MPI a call that never comes is waited for. Calls are handed to the backend in
// the order in which they were made, asynchronous ones when a later one blocks at the latest. The
// result holds this rank's findings, and of all ranks' exit statuses its own. Statuses, *out: as
// above. Of the options (NULL: the defaults), only checks, faults and history apply.
LS_API int ls_spmd_run_backend(ls_spmd_result **out, ls_spmd_program program, void *arg,
                               ls_backend *backend, const ls_spmd_options *options);
LS_API void ls_spmd_result_free(ls_spmd_result *result);  // NULL is allowed
// Borrowed; NULL behind the last.
LS_API const ls_finding *ls_spmd_finding(const ls_spmd_result *result, int index);
LS_API int ls_spmd_finding_count(const ls_spmd_result *result);
// Warnings: behaviour that may be intended (collective.redundant_reduce, unless options.checks
// names it): reported beside the findings, for no status. Borrowed; NULL behind the last.
LS_API const ls_finding *ls_spmd_warning(const ls_spmd_result *result, int index);
LS_API int ls_spmd_warning_count(const ls_spmd_result *result);
LS_API int ls_spmd_exit_status(const ls_spmd_result *result, int rank);
// Why fault `index` of the options was not injected: its rank does not come to the call or
// allocation, or the call has nothing that the fault could change. NULL: it was. Borrowed.
LS_API const char *ls_spmd_fault_missed(const ls_spmd_result *result, int index);
int ls_spmd_rank_count(const ls_spmd_result *result);
uint64_t ls_spmd_call_count(const ls_spmd_result *result);
// Whether the run had a call to check. Of a frontend, the start of its library is one.
LS_API_BACKENDS bool ls_spmd_has_checked(const ls_spmd_result *result);
// A digest of the order in which ranks ran: equal seeds give equal digests.
uint64_t ls_spmd_schedule_digest(const ls_spmd_result *result);
// Times that a rank asked what the schedule had done so far (ls_test, ls_wait_any). Ranks of a run
// without any that share nothing but their calls do the same under every schedule: all
// interleavings are of one class (Mazurkiewicz: they differ in the order of independent calls).
LS_API_BACKENDS uint64_t ls_spmd_observed_count(const ls_spmd_result *result);

// Tries seeds first_seed, first_seed + 1, ... [tries] with random schedules; *failing_seed is the
// smallest that gives a finding (LS_ERR_FINDING, its result in *out), else LS_OK.
LS_API int ls_spmd_explore(ls_spmd_result **out, uint64_t *failing_seed, ls_spmd_program program,
                           void *arg, const ls_spmd_options *options, uint64_t first_seed,
                           int tries);

// A backend for code that works on the ranks which a process holds (local tensors, embedding
// modules), inside the program of `self`: its world, which the caller reaches as (*out)->world,
// holds that rank alone, and its calls are the rank's, made at file (which must live as long) and
// line. Calls of one group are one ls_group. Every rank must create the same communicators. Only
// for the thread of `self`; free it with ls_backend_free before the program returns.
int ls_rank_backend_create(ls_backend **out, ls_rank *self, const char *file, int line);
// Calls from here on are made at another line.
void ls_rank_backend_at(ls_backend *backend, const char *file, int line);

// The same; *observed: ls_spmd_observed_count of all runs.
int ls_spmd__explore(ls_spmd_result **out, uint64_t *failing_seed, ls_spmd_program program,
                     void *arg, const ls_spmd_options *options, uint64_t first_seed, int tries,
                     uint64_t *observed);

// ---- Inside a program --------------------------------------------------------------------------
LS_API int ls_rank_id(const ls_rank *self);
LS_API int ls_rank_count(const ls_rank *self);
LS_API ls_rank_comm *ls_rank_world(ls_rank *self);  // borrowed
// The communicator of this rank's fiber along a mesh axis, by its number or its name; every rank
// must ask. Owned by the run.
LS_API int ls_rank_axis(ls_rank_comm **out, ls_rank *self, int axis);
LS_API int ls_rank_axis_named(ls_rank_comm **out, ls_rank *self, const char *name);
// A helper thread of the rank's program says whose it is: its calls are the rank's from here on.
// One of a rank's threads is in a call at a time, the others wait for it; they are TSan-clean with
// each other where the program orders what they share, as for any threads. It detaches, or ends,
// before the program returns. LS_ERR_INVALID: the thread runs a rank already.
LS_API int ls_rank_attach(ls_rank *self);
LS_API void ls_rank_detach(ls_rank *self);
// Uniform in [0, 1), by the run's seed: of this rank, or the same on all ranks.
LS_API double ls_rank_uniform_shared(ls_rank *self, const char *stream, uint64_t index);
LS_API double ls_rank_uniform(ls_rank *self, const char *stream, uint64_t index);

// Memory that the checks know: its size, which of it was never written (it is filled with a
// pattern), whether it was freed. NULL when there is none. Memory that is not freed when the
// program returns is freed by the run, and is a finding.
#define ls_rank_alloc(self, bytes)  ls_rank_alloc_at(__FILE__, __LINE__, self, bytes)
#define ls_rank_free(self, pointer) ls_rank_free_at(__FILE__, __LINE__, self, pointer)

// Of a communicator: own member number, members, name. Communicators of splits and subsets are
// named after their origin ("world/0 #3") until a member gives it a name (47 bytes of it are kept),
// by which findings, traces and gdb then call it.
LS_API int ls_comm_rank(const ls_rank_comm *comm);
LS_API int ls_comm_size(const ls_rank_comm *comm);
const char *ls_comm_name(const ls_rank_comm *comm);
LS_API int ls_comm_set_name(ls_rank_comm *comm, const char *name);
// The communicator as calls name it (members, name); borrowed.
LS_API_BACKENDS const ls_comm *ls_comm_of(const ls_rank_comm *comm);

// All calls below return LS_OK, or a negative status once the run has failed: a program should then
// return. They block until the call is complete; the *_async forms return a request: the buffers
// must live until it is waited for, arrays of counts are copied.
#define LS_CALL_SITE_ const char *file, int line
// Memory [bytes] of the rank, which ls_rank_free takes back. NULL: there is none.
LS_API void *ls_rank_alloc_at(LS_CALL_SITE_, ls_rank *self, size_t bytes);
LS_API void ls_rank_free_at(LS_CALL_SITE_, ls_rank *self, void *pointer);
// Says that the program now reads or writes memory, so that use before wait and after free are
// seen.
LS_API int ls_touch_at(LS_CALL_SITE_, ls_rank *self, const void *memory, size_t bytes, bool write);
// Checks that all members hold the same bits; a call that every member makes.
LS_API int ls_check_replica_at(LS_CALL_SITE_, const void *data, size_t count, ls_dtype dtype,
                               ls_rank_comm *comm);
// Declares a replica: from now on all members must hold the same bits in it whenever they have made
// the same calls. It is compared after every collective that all members block in and that touches
// it (after every one at all where the check replica.diverged is named in options.checks, otherwise
// than by "all"), by ls_check_replicas, when the last member frees it with ls_rank_free, and
// at the end of the run; a difference is reported once. Every member declares its own, in the
// same order; nobody waits. Memory that ls_rank_alloc did not give must be forgotten before it
// goes.
LS_API int ls_replica_declare_at(LS_CALL_SITE_, const void *data, size_t count, ls_dtype dtype,
                                 ls_rank_comm *comm);
// Ends a replica before a copy changes or is freed: it is no longer compared, from the first
// member's call on. LS_OK also if none was declared.
LS_API int ls_replica_forget_at(LS_CALL_SITE_, const void *data, ls_rank_comm *comm);
// Compares all declared replicas of the communicator; a call that every member makes.
LS_API int ls_check_replicas_at(LS_CALL_SITE_, ls_rank_comm *comm);
// Any call as a record: kind, dtype, op, premul, root, counts and buffers count, the rest is set
// here.
LS_API int ls_post_at(LS_CALL_SITE_, const ls_call *call, ls_rank_comm *comm, ls_request **request);
// Parameters of the functions below. op: of reductions; root: or the peer; what a kind has no use
// for is ignored.
LS_API int ls_call_at(LS_CALL_SITE_, ls_kind kind, const void *send, void *recv, size_t count,
                      const size_t *send_counts, const size_t *recv_counts, ls_dtype dtype,
                      ls_op op, int root, ls_rank_comm *comm, ls_request **request);
// The communicator of the members that gave the same color, by ascending key and then by member
// number, as with MPI_Comm_split; every member makes the call. The caller destroys it.
LS_API int ls_comm_split_at(LS_CALL_SITE_, ls_rank_comm **out, ls_rank_comm *comm, int color,
                            int key);  // color < 0: *out is NULL
// The communicator of `ranks` [size], members of `comm`, in this order; every member of comm makes
// the call with the same list, as with torch.distributed.new_group. *out is NULL on the others.
LS_API int ls_comm_subset_at(LS_CALL_SITE_, ls_rank_comm **out, ls_rank_comm *comm,
                             const int *members, int size);
// Ends a communicator of a split or a subset; every member makes the call.
LS_API int ls_comm_destroy_at(LS_CALL_SITE_, ls_rank_comm *comm);
// Calls between start and end begin together, as with ncclGroupStart and ncclGroupEnd: none waits
// for another, and the end waits for all.
LS_API int ls_group_start_at(LS_CALL_SITE_, ls_rank *self);
LS_API int ls_group_end_at(LS_CALL_SITE_, ls_rank *self);
// Waits until the call of the request is complete, and frees the request.
LS_API int ls_wait_at(LS_CALL_SITE_, ls_request *request);
// Waits for requests [count], NULL entries aside, and sets them to NULL; the first error.
LS_API int ls_wait_all_at(LS_CALL_SITE_, ls_request **requests, int count);
// Waits for one of requests [count], sets it to NULL and *index to its place; -1: all were NULL.
LS_API int ls_wait_any_at(LS_CALL_SITE_, int *index, ls_request **requests, int count);
// Whether *request is complete; then it is as waited for, and set to NULL. Others run meanwhile.
LS_API int ls_test_at(LS_CALL_SITE_, bool *done, ls_request **request);

#define ls_comm_split(out, comm, color, key)                                                       \
    ls_comm_split_at(__FILE__, __LINE__, out, comm, color, key)
#define ls_comm_subset(out, comm, members, size)                                                   \
    ls_comm_subset_at(__FILE__, __LINE__, out, comm, members, size)
#define ls_reads(self, memory, bytes)  ls_touch_at(__FILE__, __LINE__, self, memory, bytes, false)
#define ls_writes(self, memory, bytes) ls_touch_at(__FILE__, __LINE__, self, memory, bytes, true)
#define ls_check_replica(data, count, dtype, comm)                                                 \
    ls_check_replica_at(__FILE__, __LINE__, data, count, dtype, comm)
#define ls_replica_declare(data, count, dtype, comm)                                               \
    ls_replica_declare_at(__FILE__, __LINE__, data, count, dtype, comm)
#define ls_replica_forget(data, comm) ls_replica_forget_at(__FILE__, __LINE__, data, comm)
#define ls_check_replicas(comm)       ls_check_replicas_at(__FILE__, __LINE__, comm)
#define ls_comm_destroy(comm)         ls_comm_destroy_at(__FILE__, __LINE__, comm)
#define ls_group_start(self)          ls_group_start_at(__FILE__, __LINE__, self)
#define ls_group_end(self)            ls_group_end_at(__FILE__, __LINE__, self)
#define ls_wait(request)              ls_wait_at(__FILE__, __LINE__, request)
#define ls_wait_all(requests, count)  ls_wait_all_at(__FILE__, __LINE__, requests, count)
#define ls_wait_any(index, requests, count)                                                        \
    ls_wait_any_at(__FILE__, __LINE__, index, requests, count)
#define ls_test(done, request) ls_test_at(__FILE__, __LINE__, done, request)

#ifdef __cplusplus
}
#endif
#endif
