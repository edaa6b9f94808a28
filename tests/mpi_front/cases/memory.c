// Memory that the program frees or changes while a call owns it or a window exposes it.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "cases.h"

static MPI_Request request;
static MPI_Win window;

static void send_one(void) {
    if (rank == 1) {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    }
}

static void wait_if(bool now) {
    if (now) {
        MPI_Wait(&request, STATUS);
    }
}

static void free_of_what_is_received(void) {
    send_one();
    if (rank == 0) {
        int *value = malloc(64 * sizeof *value);
        MPI_Irecv(value + 8, 1, MPI_INT, 1, 0, WORLD, &request);
        wait_if(!wrong);
        free(value);  // wrong: buffer.use_before_wait, the program frees a buffer
        wait_if(wrong);
    }
}

static void free_of_what_is_sent(void) {
    if (rank == 0) {
        int *value = calloc(64, sizeof *value);
        MPI_Isend(value, 64, MPI_INT, 1, 0, WORLD, &request);
        wait_if(!wrong);
        free(value);  // wrong: buffer.use_before_wait, the program frees a buffer
        wait_if(wrong);
    } else if (rank == 1) {
        int *value = calloc(64, sizeof *value);
        MPI_Recv(value, 64, MPI_INT, 0, 0, WORLD, STATUS);
        free(value);
    }
}

static void realloc_of_what_is_received(void) {
    send_one();
    if (rank == 0) {
        int *value = malloc(4 * sizeof *value);
        value[3] = 7;
        MPI_Irecv(value, 1, MPI_INT, 1, 0, WORLD, &request);
        wait_if(!wrong);
        value = realloc(value, 4096);  // wrong: buffer.use_before_wait, the program frees a buffer
        wait_if(wrong);
        if (value[3] != 7) {
            abort();
        }
        free(value);
    }
}

static void unmap_of_what_is_received(void) {
    send_one();
    if (rank == 0) {
        int *value = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MPI_Irecv(value, 1, MPI_INT, 1, 0, WORLD, &request);
        wait_if(!wrong);
        munmap(value, 4096);  // wrong: buffer.use_before_wait, the program frees a buffer
        wait_if(wrong);
    }
}

// Another block is not owned.
static void free_beside_a_receive(void) {
    send_one();
    if (rank == 0) {
        int *values[3];
        for (int i = 0; i < 3; i++) {
            values[i] = malloc(sizeof(int));
        }
        MPI_Irecv(values[1], 1, MPI_INT, 1, 0, WORLD, &request);
        free(values[0]);
        free(values[2]);
        if (wrong) {
            free(values[1]);  // wrong: buffer.use_before_wait
        }
        MPI_Wait(&request, STATUS);
        if (!wrong) {
            free(values[1]);
        }
    }
}

static void free_of_a_collective(void) {
    int *sum = malloc(sizeof *sum);
    MPI_Iallreduce(&rank, sum, 1, MPI_INT, MPI_SUM, WORLD, &request);
    wait_if(!wrong);
    free(sum);  // wrong: buffer.use_before_wait, the program frees a buffer
    wait_if(wrong);
}

static void free_of_counts(void) {
    int *counts = malloc(3 * sizeof *counts), in[3] = {1, 2, 3}, out = 0;
    counts[0] = counts[1] = counts[2] = 1;
    MPI_Ireduce_scatter(in, &out, counts, MPI_INT, MPI_SUM, WORLD, &request);
    wait_if(!wrong);
    free(counts);  // wrong: buffer.use_before_wait, that MPI_Ireduce_scatter
    wait_if(wrong);
}

static void store_to_counts(void) {
    int counts[3] = {1, 1, 1}, places[3] = {0, 1, 2}, out[3];
    MPI_Iallgatherv(&rank, 1, MPI_INT, out, counts, places, MPI_INT, WORLD, &request);
    if (wrong) {
        MPI_Wait(&request, STATUS);
        MPI_Iallgatherv(&rank, 1, MPI_INT, out, counts, places, MPI_INT, WORLD, &request);
        counts[1] = 99;  // wrong: buffer.use_before_wait, that MPI_Iallgatherv
    }
    MPI_Wait(&request, STATUS);
    counts[1] = 98;
}

static void store_to_places(void) {
    int counts[3] = {1, 1, 1}, places[3] = {0, 1, 2}, out[3];
    MPI_Ialltoallv(counts, counts, places, MPI_INT, out, counts, places, MPI_INT, WORLD, &request);
    wait_if(!wrong);
    places[2] = 1;  // wrong: buffer.use_before_wait, that MPI_Ialltoallv
    wait_if(wrong);
}

// The lists are read even if nothing is received.
static void store_to_counts_of_nothing(void) {
    int *counts = calloc(6, sizeof *counts);
    MPI_Iallgatherv(NULL, 0, MPI_INT, NULL, counts, counts + 3, MPI_INT, WORLD, &request);
    wait_if(!wrong);
    counts[1] = 98;  // wrong: buffer.use_before_wait, that MPI_Iallgatherv
    wait_if(wrong);
    free(counts);
}

static void free_of_a_window(void) {
    int *memory = calloc(4, sizeof *memory);
    MPI_Win_create(memory, 16, 4, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_fence(0, window);
    if (wrong) {
        free(memory);  // wrong: buffer.use_before_wait, the program frees memory
    }
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    if (!wrong) {
        free(memory);
    }
}

static void free_of_attached_memory(void) {
    int *memory = calloc(4, sizeof *memory);
    MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &window);
    MPI_Win_attach(window, memory, 16);
    if (!wrong) {
        MPI_Win_detach(window, memory);
    }
    free(memory);  // wrong: buffer.use_before_wait, exposes until MPI_Win_detach
    MPI_Win_free(&window);
}

static const int sent_values[4];

static void __attribute__((noinline)) receive_into(int *value) {
    int own[4];
    MPI_Irecv(wrong ? own : value, 4, MPI_INT, MPI_ANY_SOURCE, 0, WORLD, &request);
    MPI_Send(sent_values, 4, MPI_INT, rank, 0, WORLD);  // its frame is still there
}

static void receive_into_a_frame_that_is_left(void) {
    int value[4] = {0};
    receive_into(value);
    // wrong: buffer.use_before_wait, a function has returned before
    MPI_Wait(&request, STATUS);
}

static int __attribute__((noinline)) wait_in_a_deeper_frame(int depth) {
    int own[64] = {depth};
    if (depth > 0) {
        return wait_in_a_deeper_frame(depth - 1) + own[rank];
    }
    MPI_Barrier(WORLD);
    MPI_Wait(&request, STATUS);
    return own[rank];
}

static void __attribute__((noinline)) send_from_a_frame(void) {
    int own[4] = {0};
    MPI_Isend(own, 4, MPI_INT, rank, 0, WORLD, &request);
    if (!wrong) {
        int got[4];
        MPI_Recv(got, 4, MPI_INT, rank, 0, WORLD, STATUS);
        (void)wait_in_a_deeper_frame(5);
    }
}

static void send_from_a_frame_that_is_left(void) {
    int got[4];
    send_from_a_frame();
    if (wrong) {
        // wrong: buffer.use_before_wait, a function has returned before
        MPI_Recv(got, 4, MPI_INT, rank, 0, WORLD, STATUS);
        MPI_Wait(&request, STATUS);
    }
}

static void __attribute__((noinline)) put_from_a_frame(const int *value) {
    int own = rank;
    MPI_Put(wrong ? &own : value, 1, MPI_INT, rank, 0, 1, MPI_INT, window);
    if (!wrong) {
        MPI_Put(&own, 1, MPI_INT, rank, 1, 1, MPI_INT, window);
        MPI_Win_flush_local(rank, window);
    }
}

static void put_from_a_frame_that_is_left(void) {
    int *memory, value = rank;
    MPI_Win_allocate(8, 4, MPI_INFO_NULL, WORLD, &memory, &window);
    MPI_Win_lock_all(0, window);
    put_from_a_frame(&value);
    // wrong: buffer.use_before_wait, MPI_Put, made at
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void __attribute__((noinline)) open_window(int *memory) {
    int own[8] = {0};
    MPI_Win_create(wrong ? own : memory, 32, 4, MPI_INFO_NULL, WORLD, &window);
}

static void window_of_a_frame_that_is_left(void) {
    int memory[8] = {0};
    open_window(memory);
    // wrong: buffer.use_before_wait, exposes one of its variables until MPI_Win_free
    MPI_Win_fence(0, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

// A request whose status says that it is complete owns nothing more.
static void load_after_get_status(void) {
    int in = 0, flag = 0, before = rank > 0 ? rank - 1 : size - 1;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, before, 0, WORLD, &request);
    MPI_Barrier(WORLD);
    if (!wrong) {
        MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 0, WORLD);
    }
    do {
        MPI_Request_get_status(request, &flag, STATUS);
    } while (!flag && !wrong);
    int seen = in;  // wrong: buffer.use_before_wait
    MPI_Barrier(WORLD);
    if (wrong) {
        MPI_Send(&seen, 1, MPI_INT, (rank + 1) % size, 0, WORLD);
    } else if (seen != before) {
        abort();
    }
    MPI_Wait(&request, STATUS);
}

static void release_of_an_attached_buffer(void) {
    int in, bytes = MPI_BSEND_OVERHEAD + (int)sizeof in;
    char *buffer = malloc((size_t)bytes);
    MPI_Buffer_attach(buffer, bytes);
    MPI_Bsend(&rank, 1, MPI_INT, rank, 0, WORLD);
    MPI_Recv(&in, 1, MPI_INT, rank, 0, WORLD, STATUS);
    if (!wrong) {
        MPI_Buffer_detach(&buffer, &bytes);
    }
    free(buffer);  // wrong: buffer.use_before_wait, that MPI_Buffer_attach, made at
}

CASES({"receive_into_a_frame_that_is_left", receive_into_a_frame_that_is_left},
      {"send_from_a_frame_that_is_left", send_from_a_frame_that_is_left},
      {"put_from_a_frame_that_is_left", put_from_a_frame_that_is_left},
      {"window_of_a_frame_that_is_left", window_of_a_frame_that_is_left},
      {"free_of_what_is_received", free_of_what_is_received},
      {"free_of_what_is_sent", free_of_what_is_sent},
      {"realloc_of_what_is_received", realloc_of_what_is_received},
      {"unmap_of_what_is_received", unmap_of_what_is_received},
      {"free_beside_a_receive", free_beside_a_receive},
      {"free_of_a_collective", free_of_a_collective}, {"free_of_counts", free_of_counts},
      {"store_to_counts", store_to_counts}, {"store_to_places", store_to_places},
      {"store_to_counts_of_nothing", store_to_counts_of_nothing},
      {"free_of_a_window", free_of_a_window}, {"free_of_attached_memory", free_of_attached_memory},
      {"load_after_get_status", load_after_get_status},
      {"release_of_an_attached_buffer", release_of_an_attached_buffer})
