// The kinds of calls, and what C programs write for each: all that lists the collectives.
#ifndef LS_COLLECTIVES_CALLS_H
#define LS_COLLECTIVES_CALLS_H

// The collectives, one file each: collectives/NAME.c holds the descriptor ls_collective__NAME.
#define LS_COLLECTIVE_MAP(X)                                                                       \
    X(ALL_REDUCE, all_reduce)                                                                      \
    X(REDUCE, reduce)                                                                              \
    X(BROADCAST, broadcast)                                                                        \
    X(ALL_GATHER, all_gather)                                                                      \
    X(REDUCE_SCATTER, reduce_scatter)                                                              \
    X(ALL_TO_ALL, all_to_all)                                                                      \
    X(GATHER, gather)                                                                              \
    X(SCATTER, scatter)                                                                            \
    X(SCAN, scan)                                                                                  \
    X(EXSCAN, exscan)                                                                              \
    X(BARRIER, barrier)
// And the two halves of a message, p2p.c.
#define LS_KIND_MAP(X)                                                                             \
    LS_COLLECTIVE_MAP(X)                                                                           \
    X(SEND, send)                                                                                  \
    X(RECV, recv)

// A call of the members of a communicator that moves no data: ranks/ makes it, no backend sees it,
// and it has no descriptor.
#define LS_ASK_MAP(X)                                                                              \
    X(COMM_SPLIT, comm_split)                                                                      \
    X(COMM_SUBSET, comm_subset)                                                                    \
    X(COMM_DESTROY, comm_destroy)                                                                  \
    X(CHECK_REPLICA, check_replica)                                                                \
    X(CHECK_REPLICAS, check_replicas)

typedef enum ls_kind {
#define LS_KIND_ENUM(name, text) LS_##name,
    LS_KIND_MAP(LS_KIND_ENUM)
#undef LS_KIND_ENUM
        LS_KIND_COUNT,
#define LS_ASK_ENUM(name, text) LS_##name,
    LS_ASK_MAP(LS_ASK_ENUM)
#undef LS_ASK_ENUM
        LS_ASK_END
} ls_kind;
#define LS_COLLECTIVE_COUNT LS_SEND  // kinds before it are calls of a whole group

// ---- Calls of C programs ------------------------------------------------------------------------
// Each stands for ls_call_at (ranks/ranks.h), which says what the arguments are, with the caller's
// file and line. NAME_v gives counts for each member. NAME_async does not wait: its last argument
// receives a request that ls_wait completes and frees. NAME_at says another file and line, and
// waits where the request is NULL.
#define ls_all_reduce_at(file, line, send, recv, count, dtype, op, comm, request)                  \
    ls_call_at(file, line, LS_ALL_REDUCE, send, recv, count, NULL, NULL, dtype, op, 0, comm,       \
               request)
#define ls_all_reduce(send, recv, count, dtype, op, comm)                                          \
    ls_all_reduce_at(__FILE__, __LINE__, send, recv, count, dtype, op, comm, NULL)
#define ls_all_reduce_async(send, recv, count, dtype, op, comm, request)                           \
    ls_all_reduce_at(__FILE__, __LINE__, send, recv, count, dtype, op, comm, request)

#define ls_reduce_at(file, line, send, recv, count, dtype, op, root, comm, request)                \
    ls_call_at(file, line, LS_REDUCE, send, recv, count, NULL, NULL, dtype, op, root, comm, request)
#define ls_reduce(send, recv, count, dtype, op, root, comm)                                        \
    ls_reduce_at(__FILE__, __LINE__, send, recv, count, dtype, op, root, comm, NULL)
#define ls_reduce_async(send, recv, count, dtype, op, root, comm, request)                         \
    ls_reduce_at(__FILE__, __LINE__, send, recv, count, dtype, op, root, comm, request)

#define ls_broadcast_at(file, line, send, recv, count, dtype, root, comm, request)                 \
    ls_call_at(file, line, LS_BROADCAST, send, recv, count, NULL, NULL, dtype, LS_SUM, root, comm, \
               request)
#define ls_broadcast(send, recv, count, dtype, root, comm)                                         \
    ls_broadcast_at(__FILE__, __LINE__, send, recv, count, dtype, root, comm, NULL)
#define ls_broadcast_async(send, recv, count, dtype, root, comm, request)                          \
    ls_broadcast_at(__FILE__, __LINE__, send, recv, count, dtype, root, comm, request)

#define ls_all_gather_at(file, line, send, recv, count, recv_counts, dtype, comm, request)         \
    ls_call_at(file, line, LS_ALL_GATHER, send, recv, count, NULL, recv_counts, dtype, LS_SUM, 0,  \
               comm, request)
#define ls_all_gather(send, recv, count, dtype, comm)                                              \
    ls_all_gather_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, comm, NULL)
#define ls_all_gather_v(send, recv, count, recv_counts, dtype, comm)                               \
    ls_all_gather_at(__FILE__, __LINE__, send, recv, count, recv_counts, dtype, comm, NULL)
#define ls_all_gather_async(send, recv, count, dtype, comm, request)                               \
    ls_all_gather_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, comm, request)
#define ls_all_gather_v_async(send, recv, count, recv_counts, dtype, comm, request)                \
    ls_all_gather_at(__FILE__, __LINE__, send, recv, count, recv_counts, dtype, comm, request)

#define ls_reduce_scatter_at(file, line, send, recv, count, send_counts, dtype, op, comm, request) \
    ls_call_at(file, line, LS_REDUCE_SCATTER, send, recv, count, send_counts, NULL, dtype, op, 0,  \
               comm, request)
#define ls_reduce_scatter(send, recv, count, dtype, op, comm)                                      \
    ls_reduce_scatter_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, op, comm, NULL)
#define ls_reduce_scatter_v(send, recv, count, send_counts, dtype, op, comm)                       \
    ls_reduce_scatter_at(__FILE__, __LINE__, send, recv, count, send_counts, dtype, op, comm, NULL)
#define ls_reduce_scatter_async(send, recv, count, dtype, op, comm, request)                       \
    ls_reduce_scatter_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, op, comm, request)
#define ls_reduce_scatter_v_async(send, recv, count, send_counts, dtype, op, comm, request)        \
    ls_reduce_scatter_at(__FILE__, __LINE__, send, recv, count, send_counts, dtype, op, comm,      \
                         request)

#define ls_all_to_all_at(file, line, send, recv, count, send_counts, recv_counts, dtype, comm,     \
                         request)                                                                  \
    ls_call_at(file, line, LS_ALL_TO_ALL, send, recv, count, send_counts, recv_counts, dtype,      \
               LS_SUM, 0, comm, request)
#define ls_all_to_all(send, recv, count, dtype, comm)                                              \
    ls_all_to_all_at(__FILE__, __LINE__, send, recv, count, NULL, NULL, dtype, comm, NULL)
#define ls_all_to_all_v(send, recv, send_counts, recv_counts, dtype, comm)                         \
    ls_all_to_all_at(__FILE__, __LINE__, send, recv, 0, send_counts, recv_counts, dtype, comm, NULL)
#define ls_all_to_all_async(send, recv, count, dtype, comm, request)                               \
    ls_all_to_all_at(__FILE__, __LINE__, send, recv, count, NULL, NULL, dtype, comm, request)
#define ls_all_to_all_v_async(send, recv, send_counts, recv_counts, dtype, comm, request)          \
    ls_all_to_all_at(__FILE__, __LINE__, send, recv, 0, send_counts, recv_counts, dtype, comm,     \
                     request)

#define ls_gather_at(file, line, send, recv, count, recv_counts, dtype, root, comm, request)       \
    ls_call_at(file, line, LS_GATHER, send, recv, count, NULL, recv_counts, dtype, LS_SUM, root,   \
               comm, request)
#define ls_gather(send, recv, count, dtype, root, comm)                                            \
    ls_gather_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, root, comm, NULL)
#define ls_gather_v(send, recv, count, recv_counts, dtype, root, comm)                             \
    ls_gather_at(__FILE__, __LINE__, send, recv, count, recv_counts, dtype, root, comm, NULL)
#define ls_gather_async(send, recv, count, dtype, root, comm, request)                             \
    ls_gather_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, root, comm, request)
#define ls_gather_v_async(send, recv, count, recv_counts, dtype, root, comm, request)              \
    ls_gather_at(__FILE__, __LINE__, send, recv, count, recv_counts, dtype, root, comm, request)

#define ls_scatter_at(file, line, send, recv, count, send_counts, dtype, root, comm, request)      \
    ls_call_at(file, line, LS_SCATTER, send, recv, count, send_counts, NULL, dtype, LS_SUM, root,  \
               comm, request)
#define ls_scatter(send, recv, count, dtype, root, comm)                                           \
    ls_scatter_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, root, comm, NULL)
#define ls_scatter_v(send, recv, count, send_counts, dtype, root, comm)                            \
    ls_scatter_at(__FILE__, __LINE__, send, recv, count, send_counts, dtype, root, comm, NULL)
#define ls_scatter_async(send, recv, count, dtype, root, comm, request)                            \
    ls_scatter_at(__FILE__, __LINE__, send, recv, count, NULL, dtype, root, comm, request)
#define ls_scatter_v_async(send, recv, count, send_counts, dtype, root, comm, request)             \
    ls_scatter_at(__FILE__, __LINE__, send, recv, count, send_counts, dtype, root, comm, request)

#define ls_scan_at(file, line, send, recv, count, dtype, op, comm, request)                        \
    ls_call_at(file, line, LS_SCAN, send, recv, count, NULL, NULL, dtype, op, 0, comm, request)
#define ls_scan(send, recv, count, dtype, op, comm)                                                \
    ls_scan_at(__FILE__, __LINE__, send, recv, count, dtype, op, comm, NULL)
#define ls_scan_async(send, recv, count, dtype, op, comm, request)                                 \
    ls_scan_at(__FILE__, __LINE__, send, recv, count, dtype, op, comm, request)

#define ls_exscan_at(file, line, send, recv, count, dtype, op, comm, request)                      \
    ls_call_at(file, line, LS_EXSCAN, send, recv, count, NULL, NULL, dtype, op, 0, comm, request)
#define ls_exscan(send, recv, count, dtype, op, comm)                                              \
    ls_exscan_at(__FILE__, __LINE__, send, recv, count, dtype, op, comm, NULL)
#define ls_exscan_async(send, recv, count, dtype, op, comm, request)                               \
    ls_exscan_at(__FILE__, __LINE__, send, recv, count, dtype, op, comm, request)

#define ls_send_at(file, line, send, count, dtype, peer, comm, request)                            \
    ls_call_at(file, line, LS_SEND, send, NULL, count, NULL, NULL, dtype, LS_SUM, peer, comm,      \
               request)
#define ls_send(send, count, dtype, peer, comm)                                                    \
    ls_send_at(__FILE__, __LINE__, send, count, dtype, peer, comm, NULL)
#define ls_send_async(send, count, dtype, peer, comm, request)                                     \
    ls_send_at(__FILE__, __LINE__, send, count, dtype, peer, comm, request)

#define ls_recv_at(file, line, recv, count, dtype, peer, comm, request)                            \
    ls_call_at(file, line, LS_RECV, NULL, recv, count, NULL, NULL, dtype, LS_SUM, peer, comm,      \
               request)
#define ls_recv(recv, count, dtype, peer, comm)                                                    \
    ls_recv_at(__FILE__, __LINE__, recv, count, dtype, peer, comm, NULL)
#define ls_recv_async(recv, count, dtype, peer, comm, request)                                     \
    ls_recv_at(__FILE__, __LINE__, recv, count, dtype, peer, comm, request)

#define ls_barrier_at(file, line, comm, request)                                                   \
    ls_call_at(file, line, LS_BARRIER, NULL, NULL, 0, NULL, NULL, LS_I8, LS_SUM, 0, comm, request)
#define ls_barrier(comm)                ls_barrier_at(__FILE__, __LINE__, comm, NULL)
#define ls_barrier_async(comm, request) ls_barrier_at(__FILE__, __LINE__, comm, request)

#endif
