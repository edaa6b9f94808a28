// Runs whose ranks' programs are elsewhere: in processes of their own, whose calls arrive as
// messages. No thread waits here for a rank. One thread makes every rank's calls, as they come, and
// says when a rank waits, has ended, or died; the calls are matched, checked and explained as those
// of threads are. A match is reported at once, and its data is moved when it has come.
//
// The buffers of a call are the program's own, which the checks compare; its data is in memory that
// this process shares.
#pragma once

#include "base/text.h"
#include "ranks/ranks.h"

typedef struct ls_spmd ls_spmd;

typedef struct ls_remote {
    void *arg;
    // Requests [size, by member; 2 for a message: the send, then its receive] have matched and
    // agree. ls_remote_move completes them; not from here.
    void (*met)(void *arg, ls_request *const *requests, int size);
} ls_remote;

// Opens a run; options and remote must outlive it. Its schedule is ignored. Checks of a rank's own
// memory (buffer.use_before_wait, modified_in_flight) are off, and so is handle.leak unless it is
// named: a rank that ends releases its handles.
int ls_remote_open(ls_spmd **out, const ls_spmd_options *options, const ls_remote *remote);
// Ends it: what ls_spmd_run gives.
int ls_remote_close(ls_spmd_result **out, ls_spmd *run);
// LS_OK until the run has failed; *why (may be NULL) is its sentence.
int ls_remote_status(const ls_spmd *run, const char **why);
// The finding that ended it, or the first; NULL: none.
const ls_finding *ls_remote_found(const ls_spmd *run);
// Whether a mismatch was found that is named once it is known what the ranks call next
// (ls_remote_explain at the latest).
bool ls_remote_undecided(const ls_spmd *run);
ls_rank *ls_remote_rank(ls_spmd *run, int rank);

// The communicator of ranks [size], in this order: handles [size], by member, for which file:line
// [size] is where each was asked for.
int ls_remote_comm(ls_rank_comm **handles, ls_spmd *run, const int *ranks, int size,
                   const char *name, const char *const *files, const int *lines);
// Its first call has that number, for messages: earlier ones were made elsewhere.
void ls_remote_begin_at(ls_rank_comm *comm, uint64_t call);

// ---- Calls of a rank ----------------------------------------------------------------------------
// Where a rank issues a call.
typedef struct ls_issuer {
    uint64_t thread;  // 0: the rank's only one
    uint64_t stream;  // of a GPU; 0: none
} ls_issuer;

typedef struct ls_remote_call {
    ls_call call;      // as ls_post_at takes it, with its file (static storage) and line
    const void *send;  // where its data is, and where its result goes
    void *recv;        //
    void *owner;       // what ls_remote_owner gives
    ls_issuer issuer;
    const char *overlap;  // which of its blocks share memory, as a sentence that lives as long as
                          // the call; NULL: none. Its buffers are then not compared.
    int tag;              // messages match those of their tag
    bool any_source;      // a receive from the first sender, with root -1 until it has matched
    // LS_COMM_SPLIT: what it asks for, and where this rank's new communicator goes.
    int color, key;
    ls_rank_comm **made;
} ls_remote_call;

// Makes the call; LS_OK with *out NULL: a fault keeps it from being made.
int ls_remote_post(ls_request **out, ls_rank_comm *comm, const ls_remote_call *call);
// Calls of one rank between the two are one group.
int ls_remote_group(ls_rank *rank, bool start, const char *file, int line);
void *ls_remote_owner(const ls_request *request);
const ls_call *ls_remote_call_of(const ls_request *request);
bool ls_remote_posted(const ls_request *request);  // waits for other ranks' calls
bool ls_remote_done(const ls_request *request);
// Where its result goes, from here on; and where its data is, too.
void ls_remote_receive(ls_request *request, void *recv);
void ls_remote_place(ls_request *request, const void *send, void *recv);
// Moves the data of matched requests; they are done then. collected: the ranks copy it themselves,
// and only the checks remain.
int ls_remote_move(ls_spmd *run, ls_request *const *requests, int size, bool collected);
// The same in place: in memory of a device, where all their buffers are. *done false: a check needs
// the bytes, and nothing was reported: ls_remote_move does it, on the memory of ls_remote_place.
int ls_remote_move_on(bool *done, ls_spmd *run, ls_request *const *requests, int size,
                      struct ls_device *device);
// They are done, and their data moves elsewhere.
void ls_remote_skip(ls_request *const *requests, int size);
void ls_remote_release(ls_request *request);  // which is done, and forgotten then
int ls_remote_destroy(ls_rank_comm *comm, const char *file, int line);
// The same while calls are in flight on it, which are matched none the less.
void ls_remote_abandon(ls_rank_comm *comm, const char *file, int line);
void ls_remote_name(ls_rank_comm *comm, const char *name);  // for messages

// ---- Actions of ranks ---------------------------------------------------------------------------
// The rank waits for requests [count], if they are incomplete, and continues automatically when
// they have matched.
void ls_remote_wait(ls_rank *rank, ls_request *const *requests, int count);
void ls_remote_resume(ls_rank *rank);  // it continues, whatever it waited for
void ls_remote_return(ls_rank *rank, int exit_status);
// Before it returns: where its error was raised (file NULL: unknown) and what it was ("": unknown).
void ls_remote_failed(ls_rank *rank, const char *file, int line, const char *why);
// Its process ended otherwise: a finding, `how` behind "rank R".
void ls_remote_died(ls_rank *rank, const char *how);
bool ls_remote_gone(const ls_rank *rank);     // it has returned or died
bool ls_remote_dead(const ls_rank *rank);     // died
bool ls_remote_stalled(const ls_rank *rank);  // by a fault
// Whether a rank waits for a call that no rank is left to make: then the run ends with the reason.
bool ls_remote_doomed(ls_spmd *run);
// No progress for too long: every rank with an incomplete call counts as waiting for it, and the
// missing ranks as absent. The run ends with the reason. False: no rank waits.
bool ls_remote_explain(ls_spmd *run);
// The rank waits for others at that place, outside of what is called here.
void ls_remote_elsewhere(ls_rank *rank, const char *file, int line);
// Whether a rank could still make a call, as far as is known; and whether one waits for others.
bool ls_remote_runs(const ls_rank *rank);
bool ls_remote_waited_for(const ls_spmd *run);
bool ls_remote_stuck(const ls_spmd *run);  // no rank is left that could make a call
// Appends the ranks that wait for others, with their calls.
void ls_remote_waiting(const ls_spmd *run, ls_text *text);
// A defect that the ranks' launcher found: recorded, and the run ends. The text is copied.
void ls_remote_finding(ls_spmd *run, ls_finding_id id, const int *ranks, int count,
                       const char *file, int line, const char *text);
