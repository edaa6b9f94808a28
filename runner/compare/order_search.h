// Finds the reduction orders of a real run that does not record them. For each call it uses the
// inputs of the simulated call and the result in the real run's stages.
//
// The scenario is simulated twice, and again if a stage contains a function of a sum (a mean)
// instead of the sum. The first simulation finds the stage arrays that contain each call's result.
// Later simulations sum each call in the order that gives the real run's bits, so that the next
// calls have the real run's inputs.
#pragma once

#include "runner/compare/call_orders.h"
#include "runner/compare/compare.h"

// simulated, real, recorded (NULL: none): borrowed during the search. The caller frees it.
int ls_order_search_create(ls_order_search **out, const ls_stages *simulated, const ls_stages *real,
                           ls_call_orders *recorded);
void ls_order_search_free(ls_order_search *search);  // NULL is allowed
// Observes the calls of a simulator that fills these stages (borrowed during the run): first to
// locate their results, and after ls_order_search_located to choose their orders.
void ls_order_search_watch(ls_order_search *search, ls_backend *backend, const ls_stages *filled);
int ls_order_search_located(ls_order_search *search);  // the status of locating them
// Forgets the orders that were found. From now on calls whose results no stage shows are summed in
// `order` (NULL: as stated).
void ls_order_search_restart(ls_order_search *search, const char *order);
// Whether there are such calls.
bool ls_order_search_guesses(const ls_order_search *search);
// Adds the orders to a comparison of the stated simulation with the real run. again: the comparison
// of the simulation in these orders, whose expectation had the search.
int ls_order_search_tell(const ls_order_search *search, ls_comparison *comparison,
                         const ls_comparison *again);
