// The treatment of the ids of a bag and with those that name no row.
#ifndef LS_KERNELS_POOLING_H
#define LS_KERNELS_POOLING_H

// The treatment of an id outside of [0, rows).
typedef enum ls_id_policy {
    LS_ID_ERROR,  // LS_ERR_INVALID, naming the position
    LS_ID_CLAMP,  // nearest valid row
    LS_ID_WRAP,   // mathematical modulo
} ls_id_policy;

typedef enum ls_pooling {
    LS_POOL_NONE,  // sequence: no pooling
    LS_POOL_SUM,
    LS_POOL_MEAN,  // sum / number of ids that count; with weights sum(w e) / sum(w); empty bag: 0
    LS_POOL_MAX,   // empty bag: 0
} ls_pooling;

#endif
