// Faults to inject in a rank: what can go wrong on real machines, at a call of one's choice.
#ifndef LS_RANKS_FAULT_H
#define LS_RANKS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

// Of training tables, in step `amount` (from 0); injected by what trains them, not at a call.
#define LS_FAULT_TRAINING_MAP(X)                                                                   \
    /* the gradients of its outputs are divided by the number of ranks once more */                \
    X(LS_FAULT_DIVIDED_TWICE, "gradient_divided_twice")                                            \
    /* of the ids that hit a row the first alone gives it its gradient */                          \
    X(LS_FAULT_DUPLICATE_ONCE, "duplicate_counted_once")                                           \
    /* a shard is updated with the optimizer state of the next of its shape on the rank */         \
    X(LS_FAULT_OTHER_STATE, "state_of_another_shard")                                              \
    /* it goes on before its gradients have come: it finds nothing but zeros */                    \
    X(LS_FAULT_EARLY_UPDATE, "early_update")                                                       \
    /* it looks rows up as they were before max_norm scaled them */                                \
    X(LS_FAULT_STALE_ROWS, "stale_rows")

// name, text. `call` counts the calls that the rank makes on any communicator, from 0.
// A wrong count needs a call of which a count says how much it moves.
#define LS_FAULT_MAP(X)                                                                            \
    X(LS_FAULT_DIE, "die")     /* the rank ends instead of making this call, as by kill -9 */      \
    X(LS_FAULT_STALL, "stall") /* the rank never returns from this call */                         \
    X(LS_FAULT_SLOW, "slow")   /* from this call on it runs when no other rank can */              \
    X(LS_FAULT_SKIP_CALL, "skip_call")     /* the call is not made */                              \
    X(LS_FAULT_DOUBLE_CALL, "double_call") /* the call is made twice */                            \
    X(LS_FAULT_BIT_FLIP, "bit_flip")       /* bit `amount` of the send buffer is flipped */        \
    X(LS_FAULT_WRONG_COUNT, "wrong_count") /* count becomes count + amount */                      \
    X(LS_FAULT_WRONG_SPLIT, "wrong_split") /* the first of its counts becomes + amount */          \
    X(LS_FAULT_ALLOCATION, "allocation")   /* allocation `amount` (from 1) of the rank fails */    \
    LS_FAULT_TRAINING_MAP(X)

typedef enum ls_fault_type {
#define LS_FAULT_ENUM(name, text) name,
    LS_FAULT_MAP(LS_FAULT_ENUM)
#undef LS_FAULT_ENUM
        LS_FAULT_TYPE_COUNT
} ls_fault_type;

static inline bool ls_fault_of_training(ls_fault_type type) {
    return type >= LS_FAULT_DIVIDED_TWICE && type <= LS_FAULT_STALE_ROWS;
}

typedef struct ls_fault {
    ls_fault_type type;
    int rank;
    uint64_t call;
    int64_t amount;
} ls_fault;

#endif
