// The messages of a frontend (a library that replaces NCCL, a backend of torch.distributed) to the
// coordinator of `lockstep exec`: wire.h as functions. Needs no other part of lockstep but base.
// All functions may be called by any thread of the process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "exec/wire.h"

typedef struct ls_client ls_client;

// This process's connection, made by the first call; NULL, with the last error's text: there is no
// coordinator. After a fork the child makes its own.
LS_API ls_client *ls_client_get(void);
// Whether a connection exists already.
LS_API ls_client *ls_client_peek(void);
// Whether the run is over, and why; borrowed.
LS_API bool ls_client_failed(const ls_client *client, const char **why);
// Whether nobody observes the process any more: its calls are not to be reported, and go on.
LS_API bool ls_client_unobserved(const ls_client *client);
// Called once, by a thread of the client's, when the coordinator has gone away or ended the run.
LS_API void ls_client_on_end(ls_client *client, void (*ended)(void *arg), void *arg);
// The process is about to end with that exit status.
LS_API void ls_client_bye(ls_client *client, int status);

// ---- Memory that calls are made on --------------------------------------------------------------
typedef struct ls_client_region {
    void *at;
    uint32_t memory;
    uint64_t offset;
    size_t bytes;
} ls_client_region;

// `made` is called for each piece of memory that regions come from, so that a device can map it.
LS_API void ls_client_on_memory(ls_client *client, int (*made)(void *arg, void *at, size_t bytes),
                                void *arg);
LS_API int ls_client_region_take(ls_client_region *out, ls_client *client, size_t bytes);
// Memory of GPUs, which the coordinator opens by its handle [LS_WIRE_HANDLE_BYTES]: `made` makes a
// piece in the current one's. Regions of `device`; failing, which is no error of the program's,
// says that the call is to be made on ordinary memory.
typedef int (*ls_client_maker)(void **at, void *handle, size_t bytes);
LS_API int ls_client_staging_take(ls_client_region *out, ls_client *client, int device,
                                  size_t bytes, ls_client_maker made);
LS_API void ls_client_region_give(ls_client *client, const ls_client_region *region);
// The data that a collecting call has received, in blocks [count] of so many bytes, one after
// another. Once, when the call of `slot` is done; pieces: its recv.
LS_API void ls_client_collect(ls_client *client, uint32_t slot, const ls_client_region *pieces,
                              void *const *blocks, const uint64_t *bytes, int count);

// ---- Slots --------------------------------------------------------------------------------------
LS_API int ls_client_slot_take(uint32_t *out, ls_client *client);
LS_API void ls_client_slot_give(ls_client *client, uint32_t slot);
LS_API ls_wire_slot *ls_client_slot(ls_client *client, uint32_t slot);
// Whether it is answered. The second waits for the answer and reports the wait to the coordinator,
// which explains a deadlock of ranks that wait here at once. The status that the coordinator gave.
LS_API bool ls_client_done(ls_client *client, uint32_t slot);
LS_API int ls_client_wait(ls_client *client, uint32_t slot);

// A thread begins to wait for the call in another library's function, and goes on.
LS_API void ls_client_waits(ls_client *client, uint32_t slot);
LS_API void ls_client_resumes(ls_client *client);
// As above, but the coordinator is not reported: for a thread that waits in the program's stead.
LS_API int ls_client_await(ls_client *client, uint32_t slot);
// Sleeps until the call is answered, the slot is woken or a second has passed.
LS_API void ls_client_rest(ls_client *client, uint32_t slot);
LS_API void ls_client_wake(ls_client *client, uint32_t slot);
// The interpreter of this process is about to finalise: from now on the client's thread does not
// enter it. An uncaught exception, in one line, and where it was raised; NULL: there is none.
LS_API void ls_client_interpreter_ends(const char *raised, const char *file, int line);

// ---- Communicators and calls on host memory -----------------------------------------------------
// Joins the communicator of the processes with the same id [LS_WIRE_ID_BYTES]; waits until all have
// joined.
LS_API int ls_client_join(uint32_t *comm, ls_client *client, const unsigned char *id, int ranks,
                          int rank, const char *name);
// Destroys it for this process. in_flight: calls on it may not be done.
LS_API int ls_client_leave(ls_client *client, uint32_t comm, bool in_flight);

// Borrowed while it is issued. Meanings of count and counts: ls_call (collectives/collectives.h).
typedef struct ls_client_call {
    uint32_t comm;
    uint32_t kind, dtype, op;  // an ls_kind, ls_dtype, ls_op
    int32_t root;     // or the other member of a message; a receive's -1: the first sender, which
                      // is then the slot's first value
    int32_t members;  // of the communicator, as long as the counts are
    int32_t tag;      // of a message, which matches only those of its tag
    uint64_t count;
    const uint64_t *send_counts, *recv_counts;  // [members], or NULL
    ls_client_region send, recv;                // memory LS_WIRE_NONE: none
    bool observed;  // another library moves the data, and ls_client_arrived reports `recv`; else
                    // `send` has arrived, and `recv` receives the result
    bool collects;  // not `recv`, which has room for an ls_wire_piece of each member; that
                    // ls_client_collect takes
    uint64_t send_address, recv_address;  // the program's own
    uint64_t stream;                      // LS_WIRE_NO_STREAM: it waits for no call before it
    const char *purpose;  // name of the moved data, in the program's words; NULL: not known
    bool shares;          // two blocks of its lists of tensors share memory: block shared[0] of
    bool shares_sent;     // of the sent data, or else of the received data, and
    uint16_t shared[2];   // block shared[1] of what it receives
} ls_client_call;
// ---- Notes --------------------------------------------------------------------------------------
typedef struct ls_client_item {
    const char *name;
    const char *shown;  // the value as a text; of a tensor: its shape
    const void *data;   // of a tensor, in one piece; NULL: a text
    uint64_t count;     // its elements
    uint32_t dtype;
    // 1: in place of the elements, data is eight bytes of their digest and the LS_WIRE_SAMPLES
    // elements that a note has.
    uint32_t digested;
} ls_client_item;

typedef struct ls_client_note {
    const char *finding;     // the name of the finding that a difference is
    const char *key;         // identical on all members
    const char *about;       // the reason of a difference, as far as this rank knows; ""
    const int32_t *members;  // ranks of the world, ascending
    int32_t count;
    uint32_t flags;  // LS_WIRE_NOTE_...
    uint64_t step;
} ls_client_note;
// Sends the coordinator values that must be equal on all members. Does not wait.
LS_API int ls_client_note_values(ls_client *client, const ls_client_note *note,
                                 const ls_client_item *items, int count);

// Takes the slot that answers; the caller waits for it and gives it back.
LS_API int ls_client_issue(uint32_t *slot, ls_client *client, const ls_client_call *call);
LS_API void ls_client_arrived(ls_client *client, uint32_t slot);
// The layout of this header for a frontend in another language: the sizes of records with where
// each field is, and constants. Borrowed.
LS_API const char *ls_client_layout(void);
// The number of a kind of calls by its name (collectives/calls.h); -1: none is called so.
LS_API int ls_client_kind(const char *name);
// The sentence of this thread's last error.
LS_API const char *ls_client_said(void);
// torch's name of the element type of that number (ls_dtype); NULL: there is none.
LS_API const char *ls_client_dtype(uint32_t number);

// ---- Messages -----------------------------------------------------------------------------------
// The thread that calls, as orders of calls and waits name it. Invariant: autograd's threads count
// as the first thread, which waits in backward() while they call for it.
LS_API uint32_t ls_client_thread(void);
// The place in the program that calls this thread's front, for that purpose (NULL: none is known):
// a site's number. exec/site.c.
LS_API uint32_t ls_client_here(ls_client *client, const char *purpose);
LS_API uint32_t ls_client_comm_number(ls_client *client);  // a new one
// Sends a message of wire.h (head.bytes is its size), with `descriptor` unless it is -1.
LS_API int ls_client_send(ls_client *client, const void *message, int descriptor);
// Messages of other threads wait until the last of a group is sent.
LS_API void ls_client_hold(ls_client *client);
LS_API void ls_client_let_go(ls_client *client);

// The rank of this process and the number of ranks, from the launcher; -1 without one.
LS_API void ls_client_launched(int *rank, int *ranks);
// Arithmetic in a field, for Python (kernels/field.h).
struct ls_field_product;
struct ls_field_pairs;
LS_API void ls_client_field_matmul(const struct ls_field_product *product);
LS_API void ls_client_field_pairwise(const struct ls_field_pairs *pairs, int op);
LS_API void ls_client_field_inverse(int32_t *out, const int32_t *a, size_t count);
LS_API void ls_client_field_hash(int32_t *out, const int32_t *a, size_t count, uint64_t key);
LS_API void ls_client_field_sum(int32_t *out, const int32_t *a, size_t outer, size_t middle,
                                size_t inner);
