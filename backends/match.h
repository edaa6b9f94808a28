// Matches calls that are all known: which calls of which ranks match.
#pragma once

#include "collectives/collectives.h"

// One matched set: a collective of all members, or a send and its receive.
typedef struct ls_event {
    const ls_collective *collective;
    const ls_call *const *calls;  // [size]
    int size;
} ls_event;

typedef struct ls_match {
    ls_event *events;  // [event_count], in the order in which their last calls were made
    int event_count;
    const ls_call **slots;  // target of the pointers in events' calls
    size_t slot_count;
    int event_room;
} ls_match;

// Matches and checks calls [call_count], all members' calls of every communicator being there.
// LS_ERR_MISMATCH or LS_ERR_INVALID, naming rank and call. Time grows with the calls and the sizes
// of the communicators that they use (and n log n for sends and receives).
LS_API_BACKENDS int ls_match__calls(ls_match *out, const ls_call *calls, int call_count);
// The same for calls without buffers: matched calls need only be of one kind.
int ls_match__kinds(ls_match *out, const ls_call *calls, int call_count);
LS_API_BACKENDS void ls_match__free(ls_match *match);

// Room for one number per member in a communicator that takes part in matching (comm->impl).
LS_API_BACKENDS int ls_match__open(ls_comm *comm);
LS_API_BACKENDS void ls_match__close(ls_comm *comm);
