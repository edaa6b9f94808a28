// The reduction orders that a real run summed in, where it does not tell them: found call by call
// from the inputs that the simulated calls have and the results that the real run left in its
// stages.
//
// The scenario is simulated again: twice, and more often where a stage holds what was computed from
// a sum (a mean) and so does not show it. The first time finds where each call's result goes: the
// stage arrays whose bits lie in it. From then on each call is summed in the order that gives the
// real run's bits, so that the calls after it begin with what the real ones began with.
#ifndef LS_RUNNER_COMPARE_ORDER_SEARCH_H
#define LS_RUNNER_COMPARE_ORDER_SEARCH_H

#include "runner/compare/call_orders.h"
#include "runner/compare/compare.h"

// simulated, real, recorded (NULL: none): borrowed while the search is there. The caller frees it.
int ls_order_search_create(ls_order_search **out, const ls_stages *simulated, const ls_stages *real,
                           ls_call_orders *recorded);
void ls_order_search_free(ls_order_search *search);  // NULL is allowed
// Makes the search see the calls of a simulator that fills these stages (borrowed while it runs):
// to find their results, and, after ls_order_search_located, to choose their orders.
void ls_order_search_watch(ls_order_search *search, ls_backend *backend, const ls_stages *filled);
int ls_order_search_located(ls_order_search *search);  // the status of finding them
// Forgets the orders that were found. Calls whose results no stage shows are summed in `order` from
// now on (NULL: as stated).
void ls_order_search_restart(ls_order_search *search, const char *order);
// Whether there are such calls.
bool ls_order_search_guesses(const ls_order_search *search);
// Puts what was found into a comparison of the stated simulation with the real run. again: the
// comparison of the simulation in the orders that were found, whose expectation knew the search.
int ls_order_search_tell(const ls_order_search *search, ls_comparison *comparison,
                         const ls_comparison *again);

#endif
