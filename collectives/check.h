// Shared by the descriptors: checking whether the calls of a group agree, and folding reductions.
// Private to this folder and the folders that complete calls.
#pragma once

#include "collectives/collectives.h"
#include "collectives/finding.h"
#include "kernels/device.h"

// ---- Noting what a check found ------------------------------------------------------------------
// Begins a note with `call` as the first rank at fault; note_rank adds more.
LS_API_BACKENDS void ls_check__note(ls_finding_id id, const ls_call *call);
void ls_check__note_rank(const ls_call *call);
LS_API_BACKENDS void ls_check__note_rank_number(int rank);
LS_API_BACKENDS void ls_check__restore(const ls_check_failure *failure);
// Where the call site's text does not outlive the check.
LS_API_BACKENDS void ls_check__forget_file(void);
// Forgets the ranks noted so far, keeps the call site.
LS_API_BACKENDS void ls_check__restart_ranks(void);

// "train.c:41", or "?" where the call does not say.
#define LS_CALL_WHERE_MAX 1056  // a whole path and its line
LS_API_BACKENDS const char *ls_call__where(char out[LS_CALL_WHERE_MAX], const ls_call *call);

// ---- Agreement ----------------------------------------------------------------------------------
typedef enum ls_agree_field {
    LS_AGREE_KIND = 1 << 0,
    LS_AGREE_COMM = 1 << 1,
    LS_AGREE_DTYPE = 1 << 2,
    LS_AGREE_OP = 1 << 3,
    LS_AGREE_ROOT = 1 << 4,
    LS_AGREE_COUNT = 1 << 5,
    LS_AGREE_FORM = 1 << 6,  // even on all, or with counts on all
} ls_agree_field;

// Checks that calls [size] agree in all `fields` (bits of ls_agree_field; kind and comm always),
// then each call separately. The ranks at fault differ from the majority, or, without one, from
// member 0.
int ls_check__agree(const ls_call *const *calls, int size, unsigned fields);

// Checks that the members with a purpose have the same one. At fault are those without the
// majority's, or, on a tie, without the first one's.
int ls_check__purposes(const ls_call *const *calls, int size);

// Checks that counts [size] of every member are the same as member 0's. `of` selects the array.
int ls_check__same_counts(const ls_call *const *calls, int size,
                          const size_t *(*of)(const ls_call *call));

// Checks the members' counts of a collective with a root against the root's counts [size]; NULL:
// all members have the same count.
int ls_check__root_counts(const ls_call *const *calls, int size, const size_t *counts);

// ---- Blocks -------------------------------------------------------------------------------------
// Elements of block i: counts[i], or `count` where counts is NULL.
static inline size_t ls_block__count(const size_t *counts, size_t count, int i) {
    return counts != NULL ? counts[i] : count;
}

static inline char *ls_block__at(void *base, size_t element, size_t element_bytes) {
    return (char *)base + element * element_bytes;
}

static inline const char *ls_block__at_const(const void *base, size_t element,
                                             size_t element_bytes) {
    return (const char *)base + element * element_bytes;
}

// Copies that allow equal addresses (in place), and zero bytes with a NULL pointer.
LS_API_BACKENDS void ls_block__copy(void *to, const void *from, size_t bytes);

// Results of a call from this many bytes on, all members together, are larger than the caches.
#define LS_STREAM_BYTES ((size_t)8 << 20)
// Copies a piece of a call's result, `total` bytes of result in all; no overlap.
int ls_block__copy_result(ls_device *device, void *to, const void *from, size_t bytes,
                          size_t total);
// ls_block__copy in a device's memory.
int ls_block__move(ls_device *device, void *to, const void *from, size_t bytes);
// The device of the call's buffers; NULL: ordinary memory.
ls_device *ls_call__device(const ls_call *call);

// ---- Folding ------------------------------------------------------------------------------------
// The inputs of one reduction, set up once and folded range by range.
typedef struct ls_call_fold {
    const ls_order *order;
    ls_reduction reduction;  // reduction.in are the inputs' first elements
    const void **in;         // [size]
    const void **at;         // [size] scratch: the inputs at the current range
    double *premul;          // [size], or NULL
    size_t element_bytes;
    const int *members;  // owner of each input; -1: a result so far; NULL: input i is member i's
    bool looks_later;    // in rank order only ls_call_fold__look calls the watcher
} ls_call_fold;

// From here on this thread's folds in ordinary memory call the watcher where they make a NaN or an
// infinity, while results and inputs are in the cache and before the results are handed out: out
// [length] is the range from element `first` of the inputs on, in [in_count] where it begins in
// each (where a result is made in place, out is one of them), members as in ls_call_fold. NULL:
// nobody looks.
typedef void (*ls_fold_watcher)(void *arg, const void *out, const void *const *in,
                                const int *members, int in_count, size_t first, size_t length);
void ls_call_fold__watch(ls_fold_watcher watcher, void *arg);
void *ls_call_fold__watching(void);  // its arg
// Whether the watcher would be called for the range out [length] that was folded.
bool ls_call_fold__is_special(const ls_call_fold *fold, const void *out, size_t length);
// Calls it, if so, with the inputs that are set.
void ls_call_fold__look(ls_call_fold *fold, const void *out, size_t first, size_t length);

int ls_call_fold__open(ls_call_fold *fold, const ls_call *const *calls, int size,
                       const ls_order *order, size_t count);
void ls_call_fold__close(ls_call_fold *fold);
// Elements a range should have so that it fits the cache for all inputs.
size_t ls_call_fold__range(const ls_call_fold *fold);
// out [length] = elements [first, first + length) of the all_reduce, or of the reduce to `root`.
int ls_call_fold__all_reduce(ls_call_fold *fold, void *out, size_t first, size_t length);
int ls_call_fold__reduce(ls_call_fold *fold, void *out, int root, size_t first, size_t length);
// Block `block`, of reduction.count elements that start at element `start` of every input.
int ls_call_fold__block(ls_call_fold *fold, void *out, int block, size_t start);

// The plain fold for references: copies of all inputs of `elements` elements each, one after
// another; the caller frees it with ls_free(copy, size * elements, element_bytes).
int ls_reference__copies(char **out, const ls_call *const *calls, int size, size_t elements);
// out [count] = the fold in rank order of elements [first, first + count) of those copies, one by
// one.
int ls_reference__fold(void *out, const char *copies, const ls_call *const *calls, int size,
                       size_t elements, size_t first, size_t count);

// ---- Descriptors --------------------------------------------------------------------------------
#define LS_KIND_EXTERN(name, text) extern const ls_collective ls_collective__##text;
LS_KIND_MAP(LS_KIND_EXTERN)
#undef LS_KIND_EXTERN
