// The reduction orders that a real run used, call by call, from its recording. The simulator
// predicts that run with them.
#pragma once

#include "collectives/recording.h"

typedef struct ls_call_orders ls_call_orders;

// Reads the orders from a recording's calls; *out is empty if the recording has none. The caller
// frees it.
int ls_call_orders_create(ls_call_orders **out, const ls_recording *recording);
// The order of one call, the first of the first communicator, with this many channels (0: by the
// order's rule).
int ls_call_orders_of_text(ls_call_orders **out, const char *order, int channels);
void ls_call_orders_free(ls_call_orders *orders);  // NULL is allowed
int ls_call_orders_count(const ls_call_orders *orders);
// For the order_of of a simulator backend; its arg is the orders. LS_ERR_FORMAT, LS_ERR_INVALID:
// the recording names an order that cannot be parsed or does not fit the call.
int ls_call_orders_of(void *orders, const ls_order **out, const ls_call *call);
