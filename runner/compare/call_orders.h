// The reduction orders that a real run used, call by call, as its recording tells: what the
// simulator predicts that run with.
#ifndef LS_RUNNER_COMPARE_CALL_ORDERS_H
#define LS_RUNNER_COMPARE_CALL_ORDERS_H

#include "collectives/recording.h"

typedef struct ls_call_orders ls_call_orders;

// Takes the orders from a recording's calls; *out has none where the recording tells none. The
// caller frees it.
int ls_call_orders_create(ls_call_orders **out, const ls_recording *recording);
// The order of one call, the first of the first communicator, which used so many channels (0: as
// the order says).
int ls_call_orders_of_text(ls_call_orders **out, const char *order, int channels);
void ls_call_orders_free(ls_call_orders *orders);  // NULL is allowed
int ls_call_orders_count(const ls_call_orders *orders);
// A simulator backend's order_of; its arg is the orders. LS_ERR_FORMAT, LS_ERR_INVALID: the
// recording names an order that cannot be parsed or does not fit the call.
int ls_call_orders_of(void *orders, const ls_order **out, const ls_call *call);

#endif
