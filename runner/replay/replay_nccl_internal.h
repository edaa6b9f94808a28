// What the files of the NCCL replay share.
#ifndef LS_RUNNER_REPLAY_REPLAY_NCCL_INTERNAL_H
#define LS_RUNNER_REPLAY_REPLAY_NCCL_INTERNAL_H

#include "base/text.h"
#include "orders/explain.h"
#include "runner/result.h"

#define LS_REPLAY_WORLD_MAX 64
#define LS_REPLAY_TEXT_MAX  64

// One entry of the manifest.
typedef struct ls_nccl_entry {
    size_t index;  // in the manifest
    char file[256];
    char algo[LS_REPLAY_TEXT_MAX];
    char proto[LS_REPLAY_TEXT_MAX];
    char nccl[LS_REPLAY_TEXT_MAX];
    char op_name[LS_REPLAY_TEXT_MAX];  // "all_reduce", ...
    ls_order_call call;
    ls_dtype dtype;
    ls_op op;
    int world;
    int channels;  // used; 0: not recorded
    bool pinned;   // to one channel
    size_t count;
    uint64_t seed;
    double factors[LS_REPLAY_WORLD_MAX];  // of premul_sum
    char unknown[256];                    // keys that nothing reads; "": none
    const char *unsupported;              // why it is skipped, or NULL
    const char *malformed;                // why it cannot be read, or NULL
} ls_nccl_entry;

typedef struct ls_nccl_manifest {
    ls_nccl_entry *entries;
    size_t count;
} ls_nccl_manifest;

int ls_nccl_manifest__read(ls_nccl_manifest *out, const char *dir);
void ls_nccl_manifest__free(ls_nccl_manifest *manifest);

// The result of an entry, [elements] of its dtype. LS_ERR_FORMAT where the file's size is not that.
int ls_nccl_entry__result(void **out, const ls_nccl_entry *entry, size_t elements, const char *dir);
// out [elements]: rank's input, as the manifest's README derives it from the seed.
void ls_nccl_entry__input(void *out, const ls_nccl_entry *entry, int rank, size_t elements);

// What replaying one entry gave; texts are heap strings.
typedef struct ls_nccl_verdict {
    ls_class class_;
    int status;  // where class_ is error: which
    bool skipped;
    size_t elements;
    size_t differing;
    uint64_t max_ulps;
    double bound_ratio;
    ls_text name;
    ls_text order;
    ls_text detail;  // divergence, skip reason or error
    double seconds;
} ls_nccl_verdict;

// Replays one entry. *verdict starts as zeroes; its texts are freed by the caller.
void ls_nccl_entry__replay(ls_nccl_verdict *verdict, const ls_nccl_entry *entry, const char *dir);

#endif
