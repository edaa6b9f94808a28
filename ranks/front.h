// Another frontend over the same matcher: programs written for another library (mpi/). Its calls
// are posted like every other call, match in the same places and are explained by the same graph.
// The frontend defines their data and their agreement.
#pragma once

#include <signal.h>

#include "collectives/check.h"
#include "ranks/state.h"

#define LS_SIGNAL_ESCAPE (SIGRTMAX - 3)  // ends the program of a rank that makes no call
#define LS_TAG_ANY       (-1)  // of a receive: any tag from 0; smaller tags match only their equals

#define LS_MATCH_CHOICES_MAX 256  // that are chosen from at a time

typedef struct ls_match_choice {
    ls_request *recv;  // a receive from any member, or a probe
    ls_request *send;  // its possible matches
} ls_match_choice;

typedef struct ls_front {
    // The calls of all members [size] have matched: checks that they agree and moves their data.
    // Another status than LS_OK ends the run.
    int (*met)(ls_spmd *run, ls_request *const *requests, int size);
    // The same of a send and its receive.
    int (*message)(ls_spmd *run, ls_request *send, ls_request *recv);
    // A probe has found the send, which may end before the probe's rank continues.
    void (*found)(const ls_request *probe, const ls_request *send);
    // Which of the matches [count] is made; -1: none, the run ends here.
    int (*choose)(ls_spmd *run, const ls_match_choice *choices, int count);
    // Whether the address is in a buffer that the rank has given to a call. Asked by a signal's
    // handler.
    bool (*holds)(const ls_rank *rank, uintptr_t address);
    // A fault or an abort of the program: gives it to the program's handler. False: there is none.
    bool (*signalled)(int signal, siginfo_t *info, void *context);
} ls_front;

// ---- Functions for frontends --------------------------------------------------------------------
// ls_spmd_run for a program whose calls are made through a frontend. The environment changes none
// of the options.
LS_API_BACKENDS int ls_spmd__run_front(ls_spmd_result **out, ls_spmd_program program, void *arg,
                                       const ls_spmd_options *options, const ls_front *front);
// Around everything that a rank does in the library.
LS_API_BACKENDS void ls_schedule__enter(ls_rank *rank);
LS_API_BACKENDS void ls_schedule__leave(ls_rank *rank);
LS_API_BACKENDS bool ls_schedule__inside(void);  // whether this thread is in between
// Around a call of the program, in which the functions above may be used many times: no other
// thread of the rank runs in the library meanwhile, but where this one waits.
LS_API_BACKENDS void ls_turns__arrive(ls_rank *rank);
LS_API_BACKENDS void ls_turns__depart(ls_rank *rank);
LS_API_BACKENDS void ls_turns__quit(ls_rank *rank);      // the thread makes no more calls
LS_API_BACKENDS ls_thread *ls_turns__me(ls_rank *rank);  // the calling thread
// Whether another thread of the rank runs in the library.
LS_API_BACKENDS bool ls_turns__inside(ls_rank *rank);
// Whether another thread of the rank is in a call, and where.
LS_API_BACKENDS bool ls_turns__other(ls_rank *rank, const char **file, int *line);
// A thread that the rank makes: before it exists (NULL: no memory), on it, where it could not be
// made, at its end.
LS_API_BACKENDS ls_thread *ls_turns__make(ls_rank *rank);
LS_API_BACKENDS void ls_turns__begin(ls_thread *thread);
LS_API_BACKENDS void ls_outside__never_began(ls_thread *thread);
LS_API_BACKENDS void ls_turns__end(void);
// The rank that the calling thread runs; NULL outside of programs.
LS_API_BACKENDS ls_rank *ls_schedule__current(void);
enum {
    LS_ESCAPE_STACK = 1,
    LS_ESCAPE_DEADLINE,
    LS_ESCAPE_EXIT,       // the front has set exit_status
    LS_ESCAPE_EXIT_CALL,  // the program has called the C library's exit
};
// Takes a rank's own thread out of its program, unless it is in the library.
LS_API_BACKENDS void ls_threads__escape(ls_rank *rank, int escape);
// The run is over for all ranks: the blocked ones wake, and every call returns `status`.
LS_API_BACKENDS void ls_spmd__fail(ls_spmd *run, int status, const char *why);
// Records a finding: ranks [rank_count] at fault (copied, sorted); where: a call site or "". The
// same finding at the same place with the same first rank is recorded once. Returns whether its
// check is on.
LS_API_BACKENDS bool ls_findings__add(ls_spmd *run, ls_finding_id id, const int *ranks,
                                      int rank_count, const char *file, int line, const char *text);
// A finding's text as it was assembled. Where there was no memory for all of it, the run ends
// with LS_ERR_MEMORY.
LS_API_BACKENDS const char *ls_findings__string(ls_spmd *run, const ls_text *text);
// "FILE:LINE" of a call; out [LS_CALL_WHERE_MAX].
LS_API_BACKENDS void ls_findings__history(ls_text *text, const ls_rank *rank, int most);
// "  ranks 0-2: WHAT (FILE:LINE)" for each group of requests that say the same; names the majority.
LS_API_BACKENDS void ls_findings__sides(ls_text *text, ls_request *const *requests, int count);
LS_API_BACKENDS void ls_request__free(ls_rank *rank, ls_request *request);
// Complete: its waiting rank, if any, can continue.
LS_API_BACKENDS void ls_request__done(ls_request *request, int status);
// Blocks until the rank's awaited requests are done or the run has failed, and none of its data is
// being moved any more. Returns the run's status.
LS_API_BACKENDS int ls_request__await(ls_rank *rank);
LS_API_BACKENDS void ls_request__drain(ls_rank *rank);  // waits for its data that is being moved
LS_API_BACKENDS int ls_request__poll(bool *hopeless, ls_rank *rank);  // see there
// Makes the call of `own` (kind, buffers, counts...) on `comm`; request NULL: blocking. A blocking
// one is stored in `own` until it is complete, and the caller forgets it.
LS_API_BACKENDS int ls_call__post(const char *file, int line, ls_rank_comm *comm, ls_request *own,
                                  ls_request **request);
// The oldest send that a receive or probe like this would match now; NULL: none.
LS_API_BACKENDS ls_request *ls_p2p__waiting(const ls_request *like);
LS_API_BACKENDS void
ls_p2p__withdraw(ls_request *request);  // an unmatched send or receive is cancelled
LS_API_BACKENDS int ls_shared_comm__make(ls_shared_comm **out, ls_spmd *run, ls_comm *comm,
                                         bool of_axis);
LS_API_BACKENDS int ls_rank_comm__make(ls_rank_comm **out, ls_shared_comm *shared, ls_rank *rank,
                                       bool of_run);
