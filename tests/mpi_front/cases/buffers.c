// Buffers that a call owns: a send buffer may not be written, a receive buffer not even read.
#include "cases.h"

static int memory[8], keep_it;
static MPI_Win window;

static void store_before_wait(void) {
    int value = rank;
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(&value, 1, MPI_INT, 1, 0, WORLD, &request);
        if (!wrong) {
            MPI_Wait(&request, STATUS);
        }
        value = 5;  // wrong: buffer.use_before_wait
        if (wrong) {
            MPI_Wait(&request, STATUS);
        }
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void load_before_wait(void) {
    int value = 0;
    MPI_Request request;
    if (rank == 0) {
        MPI_Irecv(&value, 1, MPI_INT, 1, 0, WORLD, &request);
        if (!wrong) {
            MPI_Wait(&request, STATUS);
        }
        keep_it = value;  // wrong: buffer.use_before_wait
        if (wrong) {
            MPI_Wait(&request, STATUS);
        }
    } else if (rank == 1) {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    }
}

// Reading a send buffer is allowed.
static void load_of_what_is_sent(void) {
    int value = rank;
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(&value, 1, MPI_INT, 1, 0, WORLD, &request);
        keep_it = value;
        if (wrong) {
            value += 1;  // wrong: buffer.use_before_wait
        }
        MPI_Wait(&request, STATUS);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

static void store_in_a_loop(void) {
    int *values = calloc(64, sizeof(int));
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(values + 32, 32, MPI_INT, 1, 0, WORLD, &request);
        for (int i = 0, n = wrong ? 33 : 32; i < n; i++) {
            values[i] = i;  // wrong: buffer.use_before_wait
        }
        MPI_Wait(&request, STATUS);
    } else if (rank == 1) {
        MPI_Recv(values, 32, MPI_INT, 0, 0, WORLD, STATUS);
    }
    free(values);
}

static void copied_over(void) {
    char text[32] = "", other[32] = "abc";
    MPI_Request request;
    if (rank == 0) {
        MPI_Irecv(text, 32, MPI_CHAR, 1, 0, WORLD, &request);
        if (wrong) {
            // wrong: buffer.use_before_wait, the program writes
            memcpy(text, other, sizeof text);
        }
        MPI_Wait(&request, STATUS);
    } else if (rank == 1) {
        MPI_Send(other, 32, MPI_CHAR, 0, 0, WORLD);
    }
}

// The code of newer compilers for a copy and for zeros.
void *__tsan_memmove(void *to, const void *from, unsigned long bytes);
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes);
void *__tsan_memset(void *to, int value, unsigned long bytes);

static void moved_from_a_receive(void) {
    char text[32] = "", other[32] = "abc";
    MPI_Request request;
    if (rank == 0) {
        MPI_Irecv(text, 32, MPI_CHAR, 1, 0, WORLD, &request);
        if (wrong) {
            __tsan_memmove(other, text, 32);  // wrong: buffer.use_before_wait, the program reads
        }
        MPI_Wait(&request, STATUS);
    } else if (rank == 1) {
        MPI_Send(other, 32, MPI_CHAR, 0, 0, WORLD);
    }
}

static void copied_over_what_is_sent(void) {
    char text[32] = "abc", other[32] = "";
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(text, 32, MPI_CHAR, 1, 0, WORLD, &request);
        memcpy(other, text, 8 * (size_t)size);
        if (strcmp(__tsan_memcpy(other + 8, text, 8), other) != 0) {
            abort();
        }
        if (wrong) {
            __tsan_memcpy(text, other, 32);  // wrong: buffer.use_before_wait, the program writes
        }
        MPI_Wait(&request, STATUS);
    } else if (rank == 1) {
        MPI_Recv(other, 32, MPI_CHAR, 0, 0, WORLD, STATUS);
    }
}

static void cleared_while_it_is_sent(void) {
    char text[32] = "abc";
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(text, 32, MPI_CHAR, 1, 0, WORLD, &request);
        if (!wrong) {
            MPI_Wait(&request, STATUS);
        }
        __tsan_memset(text, 0, 32);  // wrong: buffer.use_before_wait, the program writes
        if (wrong) {
            MPI_Wait(&request, STATUS);
        }
    } else if (rank == 1) {
        MPI_Recv(text, 32, MPI_CHAR, 0, 0, WORLD, STATUS);
    }
}

static void two_receives(void) {
    int values[4];
    MPI_Request requests[2];
    if (rank == 0) {
        MPI_Irecv(values, 2, MPI_INT, 1, 0, WORLD, &requests[0]);
        int *second = values + (wrong ? 1 : 2);
        MPI_Irecv(second, 2, MPI_INT, 1, 1, WORLD, &requests[1]);  // wrong: buffer.use_before_wait
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Send(memory, 2, MPI_INT, 0, 0, WORLD);
        MPI_Send(memory, 2, MPI_INT, 0, 1, WORLD);
    }
}

static void collective_on_a_receive(void) {
    int value = rank;
    MPI_Request request;
    if (rank == 1) {
        MPI_Irecv(&value, 1, MPI_INT, 0, 0, WORLD, &request);
    }
    if (rank == 0) {
        MPI_Send(&value, 1, MPI_INT, 1, 0, WORLD);
    }
    int *buffer = wrong ? &value : memory;
    MPI_Bcast(buffer, 1, MPI_INT, 2, WORLD);  // wrong: buffer.use_before_wait
    if (rank == 1) {
        MPI_Wait(&request, STATUS);
    }
}

static void nonblocking_collective(void) {
    int sum = 0, value = rank;
    MPI_Request request;
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, WORLD, &request);
    if (wrong) {
        value = 7;  // wrong: buffer.use_before_wait
    }
    MPI_Wait(&request, STATUS);
    keep_it = sum;
}

// Several calls may read one buffer at once.
static void two_collectives_of_one_buffer(void) {
    int sums[2];
    MPI_Request requests[2];
    MPI_Iallreduce(memory, &sums[0], 1, MPI_INT, MPI_SUM, WORLD, &requests[0]);
    // wrong: buffer.use_before_wait
    MPI_Iallreduce(memory, &sums[wrong ? 0 : 1], 1, MPI_INT, MPI_SUM, WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

// Columns of a matrix are in flight together: here the second begins a row lower in the first.
static void columns_in_flight(void) {
    MPI_Datatype column;
    MPI_Request requests[2];
    MPI_Type_vector(3, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    int peer = rank < 2 ? 1 - rank : MPI_PROC_NULL;
    MPI_Irecv(memory, 1, column, peer, 0, WORLD, &requests[0]);
    // wrong: buffer.use_before_wait
    MPI_Isend(memory + (wrong ? 2 : 1), 1, column, peer, 0, WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Type_free(&column);
}

static void overlap_of_sendrecv(void) {
    int values[4] = {0}, to = (rank + 1) % size, from = (rank + size - 1) % size;
    int *in = values + (wrong ? 1 : 2), n = 2;
    // wrong: buffer.overlap, MPI_Sendrecv: the send and the receive buffer overlap
    MPI_Sendrecv(values, n, MPI_INT, to, 0, in, n, MPI_INT, from, 0, WORLD, STATUS);
}

static void one_buffer_for_allreduce(void) {
    int value = rank;
    const void *send = wrong ? (const void *)&value : MPI_IN_PLACE;
    // wrong: call.invalid, MPI_Allreduce: MPI_ERR_BUFFER: the send and the receive buffer overlap
    MPI_Allreduce(send, &value, 1, MPI_INT, MPI_SUM, WORLD);
}

static void persistent_buffer(void) {
    int value = rank;
    MPI_Request request;
    if (rank == 0) {
        MPI_Send_init(&value, 1, MPI_INT, 1, 0, WORLD, &request);
        value = 1;
        MPI_Start(&request);
        if (wrong) {
            value = 2;  // wrong: buffer.use_before_wait
        }
        MPI_Wait(&request, STATUS);
        value = 3;
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
}

// A test that returns false leaves the buffer owned.
static void after_a_test(void) {
    int value = 0, flag = 0;
    MPI_Request request;
    if (rank == 0) {
        MPI_Irecv(&value, 1, MPI_INT, 1, 0, WORLD, &request);
        MPI_Test(&request, &flag, STATUS);
        MPI_Send(&rank, 1, MPI_INT, 1, 0, WORLD);
        if (!wrong && !flag) {
            MPI_Wait(&request, STATUS);
        }
        keep_it = value;  // wrong: buffer.use_before_wait
        if (wrong) {
            MPI_Wait(&request, STATUS);
        }
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, WORLD, STATUS);
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    }
}

// The column that is sent may not be written; the others may.
static void column(void) {
    int table[4][4] = {{0}};
    MPI_Datatype one;
    MPI_Request request;
    MPI_Type_vector(4, 1, 4, MPI_INT, &one);
    MPI_Type_commit(&one);
    if (rank == 0) {
        MPI_Isend(table, 1, one, 1, 0, WORLD, &request);
        table[2][wrong ? 0 : 1] = 9;  // wrong: buffer.use_before_wait
        MPI_Wait(&request, STATUS);
    } else if (rank == 1) {
        MPI_Recv(table, 1, one, 0, 0, WORLD, STATUS);
    }
    MPI_Type_free(&one);
}

static void past_the_end(void) {
    int *values = malloc(4 * sizeof(int));
    memset(values, 0, 4 * sizeof(int));
    // wrong: buffer.too_small, MPI_Bcast: its arguments describe a buffer of 20 bytes, but
    MPI_Bcast(values, wrong ? 5 : 4, MPI_INT, 0, WORLD);
    free(values);
}

static void open_window(void) {
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, WORLD, &window);
}

static void store_before_the_fence(void) {
    int value = 1;
    open_window();
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    if (!wrong) {
        MPI_Win_fence(0, window);
    }
    value = 2;  // wrong: buffer.use_before_wait
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void load_before_the_flush(void) {
    int got;
    open_window();
    MPI_Win_lock_all(0, window);
    MPI_Get(&got, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    if (!wrong) {
        MPI_Win_flush_local_all(window);
    }
    keep_it = got;  // wrong: buffer.use_before_wait
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void load_before_the_request(void) {
    int got;
    MPI_Request request;
    open_window();
    MPI_Win_lock_all(0, window);
    MPI_Rget(&got, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window, &request);
    if (!wrong) {
        MPI_Wait(&request, STATUS);
    }
    keep_it = got;  // wrong: buffer.use_before_wait
    if (wrong) {
        MPI_Wait(&request, STATUS);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void get_into_what_is_put(void) {
    int value = 0, other = 0;
    open_window();
    MPI_Win_lock_all(0, window);
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    int *to = wrong ? &value : &other, peer = (rank + 1) % size;
    // wrong: buffer.use_before_wait
    MPI_Get(to, 1, MPI_INT, peer, 1, 1, MPI_INT, window);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void send_of_what_is_fetched(void) {
    int got = 0, one = 1;
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 0) {
        MPI_Fetch_and_op(&one, &got, MPI_INT, 1, 0, MPI_SUM, window);
        if (!wrong) {
            MPI_Win_flush(1, window);
        }
        MPI_Send(&got, 1, MPI_INT, 2, 0, WORLD);  // wrong: buffer.use_before_wait
    } else if (rank == 2) {
        MPI_Recv(&got, 1, MPI_INT, 0, 0, WORLD, STATUS);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void load_before_complete(void) {
    int got = 0, other = rank == 0 ? 1 : 0;
    MPI_Group all, peer;
    MPI_Comm_group(WORLD, &all);
    MPI_Group_incl(all, 1, &other, &peer);
    open_window();
    if (rank == 0) {
        MPI_Win_start(peer, 0, window);
        MPI_Get(&got, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
        if (!wrong) {
            MPI_Win_complete(window);
        }
        keep_it = got;  // wrong: buffer.use_before_wait
        if (wrong) {
            MPI_Win_complete(window);
        }
    } else if (rank == 1) {
        MPI_Win_post(peer, 0, window);
        MPI_Win_wait(window);
    }
    MPI_Group_free(&peer);
    MPI_Group_free(&all);
    MPI_Win_free(&window);
}

// The end of the epoch completes what has a request, too.
static void load_between_unlock_and_wait(void) {
    int got = 0;
    MPI_Request request;
    open_window();
    MPI_Win_lock_all(0, window);
    MPI_Rget(&got, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window, &request);
    if (wrong) {
        keep_it = got;  // wrong: buffer.use_before_wait
    }
    MPI_Win_unlock_all(window);
    keep_it = got;
    MPI_Wait(&request, STATUS);
    MPI_Win_free(&window);
}

// Freeing its request does not complete a send.
static void store_into_what_a_freed_send_reads(void) {
    MPI_Request request;
    keep_it = rank;
    if (rank == 0) {
        MPI_Isend(&keep_it, 1, MPI_INT, 1, 1, WORLD, &request);
        MPI_Request_free(&request);
        if (wrong) {
            keep_it = 7;  // wrong: buffer.use_before_wait
        }
        MPI_Send(&size, 1, MPI_INT, 1, 2, WORLD);
        MPI_Recv(&size, 1, MPI_INT, 1, 3, WORLD, STATUS);
        keep_it = 8;
    } else if (rank == 1) {
        int got = -1;
        MPI_Recv(&size, 1, MPI_INT, 0, 2, WORLD, STATUS);
        MPI_Recv(&got, 1, MPI_INT, 0, 1, WORLD, STATUS);
        MPI_Send(&got, 1, MPI_INT, 0, 3, WORLD);
    }
}

// MPI_Finalize waits for a send whose request was freed: it owns its buffer until then.
static void freed_send_at_the_end(void) {
    static int mine = 42;
    MPI_Request request;
    int go = 0;
    if (rank == 0) {
        MPI_Isend(&mine, 1, MPI_INT, 1, 1, WORLD, &request);  // wrong: p2p.unmatched_send
        MPI_Request_free(&request);
    } else if (rank == 2) {
        MPI_Send(&go, 1, MPI_INT, 1, 2, WORLD);
    } else {
        MPI_Recv(&go, 1, MPI_INT, 2, 2, WORLD, STATUS);
        if (!wrong) {
            MPI_Recv(&go, 1, MPI_INT, 0, 1, WORLD, STATUS);
        }
    }
}

// A member's own block needs MPI_IN_PLACE.
static void gather_over_what_is_sent(void) {
    memory[rank + (wrong ? 0 : 3)] = rank;
    // wrong: call.invalid, MPI_Allgather: MPI_ERR_BUFFER: the send and the receive buffer overlap
    MPI_Allgather(&memory[rank + (wrong ? 0 : 3)], 1, MPI_INT, memory, 1, MPI_INT, WORLD);
}

// Blocks may be between the received ones, not inside of them.
static void blocks_between_blocks(void) {
    const int counts[3] = {1, 1, 1}, in[3] = {0, 2, 4}, out[3] = {1, 3, wrong ? 4 : 5};
    // wrong: call.invalid, MPI_Alltoallv: MPI_ERR_BUFFER: the send and the receive buffer overlap
    MPI_Alltoallv(memory, counts, out, MPI_INT, memory, counts, in, MPI_INT, WORLD);
}

// One block from each neighbor, and none without neighbors.
static void blocks_of_neighbors(void) {
    const int both[2] = {0, 1}, n = rank < 2 ? 2 : 0;
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(WORLD, n, both, MPI_UNWEIGHTED, n, both, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    int *got = malloc((size_t)(wrong && n > 0 ? 1 : n) * sizeof *got);
    // wrong: buffer.too_small, MPI_Neighbor_allgather: its arguments describe a buffer of 8
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, graph);
    free(got);
    MPI_Comm_free(&graph);
}

CASES({"blocks_of_neighbors", blocks_of_neighbors}, {"store_before_wait", store_before_wait},
      {"load_before_wait", load_before_wait}, {"load_of_what_is_sent", load_of_what_is_sent},
      {"store_in_a_loop", store_in_a_loop}, {"copied_over", copied_over},
      {"moved_from_a_receive", moved_from_a_receive},
      {"copied_over_what_is_sent", copied_over_what_is_sent},
      {"cleared_while_it_is_sent", cleared_while_it_is_sent}, {"two_receives", two_receives},
      {"collective_on_a_receive", collective_on_a_receive},
      {"nonblocking_collective", nonblocking_collective},
      {"two_collectives_of_one_buffer", two_collectives_of_one_buffer},
      {"columns_in_flight", columns_in_flight}, {"overlap_of_sendrecv", overlap_of_sendrecv},
      {"one_buffer_for_allreduce", one_buffer_for_allreduce},
      {"persistent_buffer", persistent_buffer}, {"after_a_test", after_a_test}, {"column", column},
      {"past_the_end", past_the_end}, {"store_before_the_fence", store_before_the_fence},
      {"load_before_the_flush", load_before_the_flush},
      {"load_before_the_request", load_before_the_request},
      {"get_into_what_is_put", get_into_what_is_put},
      {"send_of_what_is_fetched", send_of_what_is_fetched},
      {"load_before_complete", load_before_complete},
      {"load_between_unlock_and_wait", load_between_unlock_and_wait},
      {"store_into_what_a_freed_send_reads", store_into_what_a_freed_send_reads},
      {"freed_send_at_the_end", freed_send_at_the_end},
      {"gather_over_what_is_sent", gather_over_what_is_sent},
      {"blocks_between_blocks", blocks_between_blocks})
