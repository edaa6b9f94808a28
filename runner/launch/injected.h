// Real runs of scenarios that inject defects (faults, except): the same ranks execute them, and the
// run's outcome is compared with the simulation's findings.
#pragma once

#include "runner/launch/real.h"
#include "runner/result.h"

typedef enum ls_injected_verdict {
    LS_INJECTED_NONE,     // not applicable: the simulation found nothing, and nothing is injected
    LS_INJECTED_AGREES,   // the real run shows the simulation's finding, at the same ranks
    LS_INJECTED_UNSEEN,   // it cannot show it: `text` gives the reason
    LS_INJECTED_DIFFERS,  // it shows another outcome: `text` describes it
} ls_injected_verdict;

typedef struct ls_injected {
    ls_injected_verdict verdict;
    const char *text;
    ls_finding death;  // LS_ERR_RANK_DIED: the rank
} ls_injected;

// Executes a scenario with findings or injected defects for real. UNSEEN unless the backend is live
// and its ranks make calls themselves. The run hangs as simulated if every rank waits in the same
// call as the simulated one. findings [count]: the simulation's; if the runs agree, the first one's
// text says so. An error: the real run failed; LS_ERR_RANK_DIED: a rank died of something else.
int ls_injected_run(ls_injected *out, const ls_real_request *request, ls_finding *findings,
                    int count, ls_arena *arena);
// Whether a real run's outcome matches one of the simulation's findings [count], as far as a single
// rank can observe it: the same finding; the first call that does not match, if a call was skipped,
// repeated or moved; or a rank that was absent at the deadline, if the ranks wait for each other.
bool ls_injected_agrees(const ls_finding *findings, int count, const ls_finding *real);
// Applies the outcome to the case: skips it with the reason, fails it, or leaves it.
void ls_injected_conclude(const ls_injected *injected, ls_case_result *result);
