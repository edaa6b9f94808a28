// Shared by the files of the spread simulator.
#pragma once

#include <mpi.h>

#include "backends/blocks/blocks.h"

// Messages between two processes keep their order, so one tag for each kind of message will do: a
// parcel's calls, the data of its calls, and that the sender has failed.
#define LS_BLOCKS_TAG_CALLS  1
#define LS_BLOCKS_TAG_DATA   2
#define LS_BLOCKS_TAG_FAILED 3

// Exchanges the inputs of calls [call_count] of this process's ranks. out [out_count], in `arena`,
// gets those that are completed here and the matching calls of other processes, with their own
// buffers. Every call has passed ls_call_check.
int ls_blocks__exchange(ls_call **out, int *out_count, const ls_world *world, const ls_call *calls,
                        int call_count, ls_arena *arena);
