// A backend that moves nothing, for calls without data: it holds one rank of each class of ranks
// that call alike, and takes its calls for those of the whole class.
#pragma once

#include "collectives/collectives.h"

// class_of [ranks of the world] (borrowed): the index of the held rank that calls as each rank
// does. A call of a held rank stands for its class: every rank of it makes that call on its own
// communicator of the call's family, with buffers that lie to each other as the call's do. So what
// meets, on all communicators of the family, is what would meet if each rank called for itself: it
// is checked, and reported to backend->met, with a call for each member. Its memory is addresses
// that nobody may touch.
//
// The calls of its ranks in one group must be one collective each, of one family: anything else is
// LS_ERR_UNSUPPORTED. LS_ERR_MISMATCH, LS_ERR_INVALID: as ls_backend_run says, but calls of other
// communicators may have been submitted by then.
int ls_backend_classes_create(ls_backend **out, ls_world *world, const int *class_of);
