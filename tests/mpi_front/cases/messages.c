// Messages, requests and collectives: matches, mismatches, and leftovers at the end.
#include <pthread.h>

#include "cases.h"

static int values[8];

static int right_of(void) {
    return (rank + 1) % size;
}

static int left_of(void) {
    return (rank + size - 1) % size;
}

static void both_receive_first(void) {
    if (wrong || rank > 0) {
        MPI_Recv(values, 1, MPI_INT, left_of(), 0, WORLD, STATUS);  // wrong: deadlock.cycle
        MPI_Send(&rank, 1, MPI_INT, right_of(), 0, WORLD);
    } else {
        MPI_Send(&rank, 1, MPI_INT, right_of(), 0, WORLD);
        MPI_Recv(values, 1, MPI_INT, left_of(), 0, WORLD, STATUS);
    }
}

static void ring_of_ssends(void) {
    MPI_Request request;
    if (wrong) {
        MPI_Ssend(&rank, 1, MPI_INT, right_of(), 0, WORLD);  // wrong: deadlock.cycle
        MPI_Recv(values, 1, MPI_INT, left_of(), 0, WORLD, STATUS);
    } else {
        MPI_Irecv(values, 1, MPI_INT, left_of(), 0, WORLD, &request);
        MPI_Ssend(&rank, 1, MPI_INT, right_of(), 0, WORLD);
        MPI_Wait(&request, STATUS);
    }
}

// The message from rank 1 may match the receive from any source.
static void any_source_takes_the_wrong_one(void) {
    if (rank == 0) {
        if (wrong) {
            MPI_Recv(values, 1, MPI_INT, MPI_ANY_SOURCE, 0, WORLD, STATUS);
            MPI_Recv(values, 1, MPI_INT, 1, 0, WORLD, STATUS);  // wrong: p2p.unmatched_recv
        } else {
            MPI_Recv(values, 1, MPI_INT, 1, 0, WORLD, STATUS);
            MPI_Recv(values, 1, MPI_INT, MPI_ANY_SOURCE, 0, WORLD, STATUS);
        }
    } else {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    }
}

// Four receives that one call waits for: each takes a message before that call can continue.
static void any_source_four_at_once(void) {
    MPI_Request requests[4];
    if (rank == 0) {
        for (int i = 0; i < 4; i++) {
            MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, 0, WORLD, &requests[i]);
        }
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        if (values[0] + values[1] + values[2] + values[3] != 6) {
            MPI_Abort(WORLD, 1);
        }
    } else {
        for (int i = 0; i < 2; i++) {
            // wrong: deadlock.cycle
            MPI_Isend(&rank, 1, MPI_INT, 0, wrong && rank == 2 ? i : 0, WORLD, &requests[i]);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(WORLD);
}

static void length_by_luck(void) {
    MPI_Status status;
    if (rank == 0) {
        for (int i = 0; i < 2; i++) {
            int from = MPI_ANY_SOURCE, n = 2;
            if (!wrong) {
                MPI_Probe(MPI_ANY_SOURCE, 0, WORLD, &status);
                MPI_Get_count(&status, MPI_INT, &n);
                from = status.MPI_SOURCE;
            } else {
                n = i + 1;
            }
            MPI_Recv(values, n, MPI_INT, from, 0, WORLD, STATUS);  // wrong: p2p.count_mismatch
        }
    } else {
        MPI_Send(values, rank, MPI_INT, 0, 0, WORLD);
    }
}

// A later probe does not see a message that a receive from any source has taken.
static void probe_behind_any_source(void) {
    if (rank == 0) {
        MPI_Request request;
        int got[2] = {0};
        MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, 0, WORLD, &request);
        MPI_Probe(1, 0, WORLD, STATUS);  // wrong: p2p.unmatched_recv
        MPI_Recv(&got[1], 1, MPI_INT, 1, 0, WORLD, STATUS);
        MPI_Wait(&request, STATUS);
        if (got[0] != 1 || got[1] != 2) {
            MPI_Abort(WORLD, 1);
        }
    } else if (rank == 1) {
        MPI_Request sends[2];
        int sent[2] = {1, 2}, count = wrong ? 1 : 2;
        for (int i = 0; i < count; i++) {
            MPI_Isend(&sent[i], 1, MPI_INT, 0, 0, WORLD, &sends[i]);
        }
        MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
    }
}

static void other_tag(void) {
    if (rank == 0) {
        MPI_Send(&rank, 1, MPI_INT, 1, wrong ? 4 : 3, WORLD);  // wrong: deadlock.cycle
    } else if (rank == 1) {
        MPI_Recv(values, 1, MPI_INT, 0, 3, WORLD, STATUS);
    }
}

static void other_communicator(void) {
    MPI_Comm own;
    MPI_Comm_dup(WORLD, &own);
    if (rank == 0) {
        MPI_Comm used = wrong ? WORLD : own;
        MPI_Send(&rank, 1, MPI_INT, 1, 3, used);  // wrong: deadlock.cross_communicator
    } else if (rank == 1) {
        MPI_Recv(values, 1, MPI_INT, 0, 3, own, STATUS);
    }
    MPI_Comm_free(&own);
}

static void too_long(void) {
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        MPI_Recv(values, wrong ? 3 : 4, MPI_INT, 0, 0, WORLD, STATUS);  // wrong: p2p.count_mismatch
    }
}

static void other_type(void) {
    if (rank == 0) {
        MPI_Send(values, 1, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        MPI_Datatype type = wrong ? MPI_FLOAT : MPI_INT;
        MPI_Recv(values, 1, type, 0, 0, WORLD, STATUS);  // wrong: p2p.dtype_mismatch
    }
}

// The basic types of a derived datatype must agree, not their layout.
static void other_structure(void) {
    MPI_Datatype pair, parts[2] = {MPI_INT, wrong ? MPI_FLOAT : MPI_INT};
    const int lengths[2] = {1, 1};
    const MPI_Aint places[2] = {0, 8};
    MPI_Type_create_struct(2, lengths, places, parts, &pair);
    MPI_Type_commit(&pair);
    if (rank == 0) {
        MPI_Send(values, 1, pair, 1, 0, WORLD);
    } else if (rank == 1) {
        MPI_Recv(values, 2, MPI_INT, 0, 0, WORLD, STATUS);  // wrong: p2p.dtype_mismatch
    }
    MPI_Type_free(&pair);
}

static void received_by_nobody(void) {
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(values, 1, MPI_INT, 1, 0, WORLD, &request);  // wrong: p2p.unmatched_send
        MPI_Wait(&request, STATUS);
    } else if (rank == 1 && !wrong) {
        MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void *send_value(void *unused);

// The rank waits for one of its threads, which ends with the run.
static void received_by_nobody_from_a_thread(void) {
    pthread_t thread;
    if (rank == 0) {
        pthread_create(&thread, NULL, send_value, NULL);
        pthread_join(thread, NULL);
    } else if (rank == 1 && !wrong) {
        MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void *send_value(void *unused) {
    MPI_Send(values, 1, MPI_INT, 1, 0, WORLD);  // wrong: p2p.unmatched_send
    return unused;
}

static void never_waited_for(void) {
    MPI_Request request;
    if (rank == 0) {
        // wrong: handle.leak, MPI_Finalize: a request, made by MPI_Isend
        MPI_Isend(values, 1, MPI_INT, 1, 0, WORLD, &request);
        if (!wrong) {
            MPI_Wait(&request, STATUS);
        }
    } else if (rank == 1) {
        MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

// A second request in the variable of the first: the first is lost.
static void request_overwritten(void) {
    MPI_Request requests[2];
    if (rank == 0) {
        // wrong: handle.leak, MPI_Finalize: a request, made by MPI_Isend
        MPI_Isend(values, 1, MPI_INT, 1, 0, WORLD, &requests[0]);
        MPI_Request *second = &requests[wrong ? 0 : 1];
        MPI_Isend(values + 1, 1, MPI_INT, 1, 1, WORLD, second);
        MPI_Waitall(wrong ? 1 : 2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);
        MPI_Recv(values, 1, MPI_INT, 0, 1, WORLD, STATUS);
    }
}

static void started_twice(void) {
    MPI_Request request;
    if (rank == 0) {
        MPI_Send_init(values, 1, MPI_INT, 1, 0, WORLD, &request);
        MPI_Start(&request);
        if (!wrong) {
            MPI_Wait(&request, STATUS);
        }
        // wrong: call.invalid, MPI_Start: MPI_ERR_REQUEST: the request of MPI_Send_init, made
        MPI_Start(&request);
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);
        MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void never_started(void) {
    MPI_Request request;
    if (rank == 0) {
        MPI_Send_init(values, 1, MPI_INT, 1, 0, WORLD, &request);
        if (!wrong) {
            MPI_Start(&request);
        }
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);  // wrong: p2p.unmatched_recv
    }
}

static void persistent_never_freed(void) {
    MPI_Request request;
    // wrong: handle.leak, MPI_Finalize: a persistent request, made by MPI_Recv_init
    MPI_Recv_init(values, 1, MPI_INT, left_of(), 0, WORLD, &request);
    MPI_Start(&request);
    MPI_Send(&rank, 1, MPI_INT, right_of(), 0, WORLD);
    MPI_Wait(&request, STATUS);
    if (!wrong) {
        MPI_Request_free(&request);
    }
}

static void start_of_what_is_not_persistent(void) {
    MPI_Request request;
    if (wrong) {
        MPI_Irecv(values, 1, MPI_INT, left_of(), 0, WORLD, &request);
    } else {
        MPI_Recv_init(values, 1, MPI_INT, left_of(), 0, WORLD, &request);
    }
    // wrong: call.invalid, MPI_Start: MPI_ERR_REQUEST: the request is not persistent
    MPI_Start(&request);
    MPI_Send(&rank, 1, MPI_INT, right_of(), 0, WORLD);
    MPI_Wait(&request, STATUS);
    MPI_Request_free(&request);
}

static void collectives_in_another_order(void) {
    if (wrong && rank == 0) {
        MPI_Barrier(WORLD);
        MPI_Bcast(values, 1, MPI_INT, 0, WORLD);
    } else {
        MPI_Bcast(values, 1, MPI_INT, 0, WORLD);  // wrong: collective.kind_mismatch
        MPI_Barrier(WORLD);
    }
}

static void other_root(void) {
    MPI_Bcast(values, 1, MPI_INT, wrong && rank == 2, WORLD);  // wrong: collective.root_mismatch
}

static void other_operation(void) {
    MPI_Op op = wrong && rank == 1 ? MPI_MIN : MPI_SUM;
    MPI_Allreduce(&rank, values, 1, MPI_INT, op, WORLD);  // wrong: collective.op_mismatch
}

static void other_count(void) {
    int n = wrong && rank == 1 ? 3 : 2;
    MPI_Bcast(values, n, MPI_INT, 0, WORLD);  // wrong: collective.count_mismatch
}

static void other_element(void) {
    MPI_Datatype type = wrong && rank == 1 ? MPI_FLOAT : MPI_INT;
    MPI_Bcast(values, 2, type, 0, WORLD);  // wrong: collective.dtype_mismatch
}

// Nonblocking collectives do not match blocking ones.
static void blocking_beside_nonblocking(void) {
    MPI_Request request;
    if (wrong && rank == 0) {
        MPI_Ibarrier(WORLD, &request);
        MPI_Wait(&request, STATUS);
    } else {
        MPI_Barrier(WORLD);  // wrong: collective.kind_mismatch
    }
}

static void without_one_rank(void) {
    if (!wrong || rank > 0) {
        MPI_Barrier(WORLD);  // wrong: rank.exited_early
    }
}

// The barrier waits for rank 1, who waits for a message that comes after it.
static void barrier_across_a_message(void) {
    if (rank == 0) {
        if (!wrong) {
            MPI_Send(values, 1, MPI_INT, 1, 0, WORLD);
        }
        MPI_Barrier(WORLD);
        if (wrong) {
            MPI_Send(values, 1, MPI_INT, 1, 0, WORLD);
        }
    } else {
        if (rank == 1) {
            MPI_Recv(values, 1, MPI_INT, 0, 0, WORLD, STATUS);  // wrong: deadlock.cycle
        }
        MPI_Barrier(WORLD);
    }
}

static void crossed_communicators(void) {
    MPI_Comm own;
    MPI_Comm_dup(WORLD, &own);
    MPI_Comm first = wrong && rank == 0 ? own : WORLD, second = wrong && rank == 0 ? WORLD : own;
    MPI_Barrier(first);  // wrong: deadlock.cross_communicator
    MPI_Barrier(second);
    MPI_Comm_free(&own);
}

static void any_of_what_is_not_sent(void) {
    MPI_Request requests[2];
    int index;
    if (rank == 0) {
        MPI_Irecv(values, 1, MPI_INT, 1, 0, WORLD, &requests[0]);  // wrong: p2p.unmatched_recv
        MPI_Irecv(values + 1, 1, MPI_INT, 2, 0, WORLD, &requests[1]);
        MPI_Waitany(2, requests, &index, STATUS);
        MPI_Waitany(2, requests, &index, STATUS);
    } else if (!wrong) {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    }
}

static void aborts(void) {
    MPI_Barrier(WORLD);  // wrong: rank.died, rank 1 was ended by signal 6 (Aborted)
    if (wrong && rank == 1) {
        abort();
    }
}

static void rsend_without_receive(void) {
    MPI_Request request, others[2];
    if (rank == 1 && !wrong) {
        MPI_Irecv(values, 1, MPI_INT, 0, 0, WORLD, &request);
    } else if (rank == 1) {  // for another message, and for another rank's
        MPI_Irecv(values + 1, 1, MPI_INT, 0, 1, WORLD, &others[0]);
        MPI_Irecv(values + 2, 1, MPI_INT, 2, 0, WORLD, &others[1]);
    }
    MPI_Barrier(WORLD);
    if (rank == 0) {
        // wrong: call.invalid, MPI_Rsend: MPI_ERR_OTHER: a ready send to rank 1 with tag 0, whose
        MPI_Rsend(values, 1, MPI_INT, 1, 0, WORLD);
    }
    if (rank == 1 && wrong) {
        MPI_Barrier(MPI_COMM_SELF);
        MPI_Irecv(values, 1, MPI_INT, 0, 0, WORLD, &request);
    }
    if (rank == 1) {
        MPI_Wait(&request, STATUS);
    }
}

// Blocks of a scatter follow the own group's
// size.
static void reductions_between_groups(void) {
    MPI_Comm own, both;
    const int counts[2] = {rank == 0 ? 2 : 1, 1};
    int sums[2] = {0, 0}, side = rank == 0 ? 0 : 1;
    int root = rank == 0 ? 0 : rank == 1 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Comm_split(WORLD, side, rank, &own);
    MPI_Intercomm_create(own, 0, WORLD, 1 - side, 5, &both);
    MPI_Op op = wrong && rank == 0 ? MPI_MAX : MPI_SUM;
    MPI_Reduce(&size, values, 1, MPI_INT, op, root, both);  // wrong: collective.op_mismatch
    MPI_Reduce_scatter(values, sums, counts, MPI_INT, MPI_SUM, both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&own);
}

static int shared_value;

static void *send_shared(void *unused) {
    MPI_Send(&shared_value, 1, MPI_INT, 1, 3, WORLD);
    return unused;
}

static void *await_word(void *unused) {
    MPI_Recv(NULL, 0, MPI_INT, 1, 4, WORLD, STATUS);
    return unused;
}

// The thread that stores makes no call between the start of the thread that sends and its store.
static void store_while_a_thread_sends(void) {
    pthread_t sender, waiter;
    if (rank == 0) {
        pthread_create(&sender, NULL, send_shared, NULL);
        pthread_create(&waiter, NULL, await_word, NULL);
        pthread_join(waiter, NULL);
        if (wrong) {
            shared_value = 5;  // wrong: buffer.use_before_wait, the program writes a buffer
        }
        MPI_Send(NULL, 0, MPI_INT, 1, 5, WORLD);
        pthread_join(sender, NULL);
        shared_value = 6;
    } else if (rank == 1) {
        MPI_Probe(0, 3, WORLD, STATUS);
        MPI_Send(NULL, 0, MPI_INT, 0, 4, WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 0, 5, WORLD, STATUS);
        MPI_Recv(&shared_value, 1, MPI_INT, 0, 3, WORLD, STATUS);
    }
}

CASES({"store_while_a_thread_sends", store_while_a_thread_sends},
      {"both_receive_first", both_receive_first}, {"ring_of_ssends", ring_of_ssends},
      {"any_source_takes_the_wrong_one", any_source_takes_the_wrong_one},
      {"any_source_four_at_once", any_source_four_at_once}, {"length_by_luck", length_by_luck},
      {"probe_behind_any_source", probe_behind_any_source}, {"other_tag", other_tag},
      {"other_communicator", other_communicator}, {"too_long", too_long},
      {"other_type", other_type}, {"other_structure", other_structure},
      {"received_by_nobody", received_by_nobody},
      {"received_by_nobody_from_a_thread", received_by_nobody_from_a_thread},
      {"never_waited_for", never_waited_for}, {"request_overwritten", request_overwritten},
      {"started_twice", started_twice}, {"never_started", never_started},
      {"persistent_never_freed", persistent_never_freed},
      {"start_of_what_is_not_persistent", start_of_what_is_not_persistent},
      {"collectives_in_another_order", collectives_in_another_order}, {"other_root", other_root},
      {"other_operation", other_operation}, {"other_count", other_count},
      {"other_element", other_element},
      {"blocking_beside_nonblocking", blocking_beside_nonblocking},
      {"without_one_rank", without_one_rank},
      {"barrier_across_a_message", barrier_across_a_message},
      {"crossed_communicators", crossed_communicators},
      {"any_of_what_is_not_sent", any_of_what_is_not_sent}, {"aborts", aborts},
      {"rsend_without_receive", rsend_without_receive},
      {"reductions_between_groups", reductions_between_groups})
