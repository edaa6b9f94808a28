// Defects that a scenario injects (faults, except), in a real run: the same ranks do them, and what
// the run shows is compared with what the simulation found.
#ifndef LS_RUNNER_LAUNCH_PLANTED_H
#define LS_RUNNER_LAUNCH_PLANTED_H

#include "runner/launch/real.h"
#include "runner/result.h"

typedef enum ls_planted_verdict {
    LS_PLANTED_NONE,     // nobody asked: the simulation found nothing, and nothing is injected
    LS_PLANTED_AGREES,   // the real run shows what the simulation found, at the same ranks
    LS_PLANTED_UNSEEN,   // it cannot show it: `text` says why
    LS_PLANTED_DIFFERS,  // it shows something else: `text` says what
} ls_planted_verdict;

typedef struct ls_planted {
    ls_planted_verdict verdict;
    const char *text;
    ls_finding death;  // LS_ERR_RANK_DIED: of which rank
} ls_planted;

// Runs a scenario in which the simulation found something, or defects are injected, for real: where
// the backend is a live one and its ranks make calls by themselves, else it is UNSEEN. It hangs as
// simulated where every rank is seen to wait in the call where the simulated one does.
// findings [count]: the simulation's; where the runs agree, the first one's text tells so. An
// error: the real run failed; LS_ERR_RANK_DIED: a rank did that nobody had injected.
int ls_planted_run(ls_planted *out, const ls_real_request *request, ls_finding *findings, int count,
                   ls_arena *arena);
// Whether what a real run shows is one of the simulation's findings [count], as far as a rank by
// itself can see: the same, the first call that does not fit of a call left out, doubled or moved,
// or, where the ranks wait for each other, a rank that did not come before the deadline.
bool ls_planted_agrees(const ls_finding *findings, int count, const ls_finding *real);
// The effect on the case: skipped with the reason, failed, or as it was.
void ls_planted_conclude(const ls_planted *planted, ls_case_result *result);

#endif
