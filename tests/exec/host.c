// A frontend for host memory, used like the backend of another library: each rank sums a vector,
// exchanges uneven blocks, copies results itself, and, by its argument, calls from several threads
// or waits for a missing call.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/collectives.h"
#include "exec/client.h"

static ls_client *client;
static uint32_t world, aside;
static int rank, ranks;

static void check(int status, int line) {
    if (status != LS_OK) {
        (void)fprintf(stderr, "rank %d, line %d: %s\n", rank, line, ls_error_last()->text);
        if (client != NULL) {
            ls_client_bye(client, 9);
        }
        _exit(9);
    }
}
#define CHECK(call) check(call, __LINE__)

// Requests a communicator that may never be created: returns the slot of the answer.
static uint32_t begin(uint32_t comm, const char *id, int members, uint32_t site) {
    ls_wire_comm_init message = {.head = {LS_WIRE_COMM_INIT, sizeof message},
                                 .comm = comm,
                                 .ranks = members,
                                 .rank = rank,
                                 .site = site,
                                 .later = ls_client_failed(client, NULL) ? 1 : 0};
    (void)snprintf((char *)message.id, sizeof message.id, "%s", id);
    CHECK(ls_client_slot_take(&message.slot, client));
    CHECK(ls_client_send(client, &message, -1));
    return message.slot;
}

static uint32_t join(const char *id) {
    uint32_t made = ls_client_comm_number(client);
    uint32_t number = begin(made, id, ranks, ls_client_here(client, NULL));
    CHECK(ls_client_wait(client, number));
    const ls_wire_slot *slot = ls_client_slot(client, number);
    CHECK(slot->value[0] == rank && slot->value[1] == ranks && slot->value[3] == ranks
              ? LS_OK
              : LS_FAIL(LS_ERR_INVALID, "another place in the world"));
    ls_client_slot_give(client, number);
    return made;
}

// A call from `send` to `recv`, with or without counts for each rank.
static void call(ls_kind kind, size_t count, const ls_client_region *send,
                 const ls_client_region *recv, const size_t *send_counts,
                 const size_t *recv_counts) {
    struct {
        ls_wire_call call;
        uint64_t counts[2 * 64];
    } message = {.call = {.head = {.type = LS_WIRE_CALL},
                          .comm = world,
                          .kind = kind,
                          .dtype = LS_F64,
                          .op = LS_SUM,
                          .site = ls_client_here(client, NULL),  // MARK alone
                          .premul = 1,
                          .count = count,
                          .send_address = (uintptr_t)send->at,
                          .recv_address = (uintptr_t)recv->at,
                          .send_memory = send->memory,
                          .recv_memory = recv->memory,
                          .send_offset = send->offset,
                          .recv_offset = recv->offset}};
    uint32_t sides = 0;
    for (int side = 0; side < 2; side++) {
        const size_t *counts = side == 0 ? send_counts : recv_counts;
        if (counts != NULL) {
            message.call.flags |= side == 0 ? LS_WIRE_SEND_COUNTS : LS_WIRE_RECV_COUNTS;
            memcpy(message.counts + sides * (uint32_t)ranks, counts,
                   (size_t)ranks * sizeof *counts);
            sides += 1;
        }
    }
    message.call.head.bytes =
        (uint32_t)(sizeof message.call + sides * (uint32_t)ranks * sizeof(uint64_t));
    CHECK(ls_client_slot_take(&message.call.slot, client));
    ls_client_slot(client, message.call.slot)->arrived = 1;
    CHECK(ls_client_send(client, &message, -1));
    CHECK(ls_client_wait(client, message.call.slot));
    ls_client_slot_give(client, message.call.slot);
}

static double got[64 * 64];  // copied by the ranks themselves

static uint32_t issue(ls_kind kind, size_t count, const ls_client_region *send,
                      const ls_client_region *pieces, const uint64_t *send_counts,
                      const uint64_t *recv_counts) {
    const ls_client_call made = {.comm = world,
                                 .kind = kind,
                                 .dtype = LS_F64,
                                 .op = LS_SUM,
                                 .members = ranks,
                                 .count = count,
                                 .send_counts = send_counts,
                                 .recv_counts = recv_counts,
                                 .send = *send,
                                 .recv = *pieces,
                                 .collects = true,
                                 .send_address = (uintptr_t)send->at,
                                 .recv_address = (uintptr_t)got,
                                 .stream = LS_WIRE_NO_STREAM};
    uint32_t slot = 0;
    CHECK(ls_client_issue(&slot, client, &made));
    CHECK(ls_client_wait(client, slot));
    return slot;
}

static void expect(bool holds, int line);

// Each rank copies its received data itself, at any time: the others' sent data stays, whatever
// they do with their memory.
static void collect(void) {
    uint64_t sends[64], receives[64], bytes[2] = {3 * sizeof(double), 0};
    ls_client_region in, pieces, other;
    CHECK(ls_client_region_take(&in, client, 64 * 64 * sizeof(double)));
    CHECK(ls_client_region_take(&pieces, client, (size_t)ranks * sizeof(ls_wire_piece)));
    double *given = in.at;
    for (int r = 0, at = 0; r < ranks; r++) {
        sends[r] = (uint64_t)(r + 1);
        receives[r] = (uint64_t)(rank + 1);
        bytes[1] += (uint64_t)(rank + 1) * sizeof(double);
        for (int i = 0; i <= r; i++) {
            given[at++] = rank * 1000 + r * 10 + i;
        }
    }
    bytes[1] -= bytes[0];
    uint32_t slot = issue(LS_ALL_TO_ALL, 0, &in, &pieces, sends, receives);
    ls_client_region_give(client, &in);
    CHECK(ls_client_region_take(&other, client, 64 * 64 * sizeof(double)));
    memset(other.at, 0xff, other.bytes);
    ls_client_region sum;
    CHECK(ls_client_region_take(&sum, client, (size_t)ranks * sizeof(ls_wire_piece)));
    double one = 1, total = 0;
    memcpy(other.at, &one, sizeof one);
    uint32_t added = issue(LS_ALL_REDUCE, 1, &other, &sum, NULL, NULL);  // all have written theirs
    ls_client_collect(client, added, &sum, (void *[]){&total}, (uint64_t[]){sizeof total}, 1);
    expect(total == ranks, __LINE__);
    ls_client_collect(client, slot, &pieces, (void *[]){got, got + 3}, bytes, 2);
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i <= rank; i++) {
            expect(got[r * (rank + 1) + i] == r * 1000 + rank * 10 + i, __LINE__);
        }
    }
    ls_client_slot_give(client, slot);
    ls_client_slot_give(client, added);
    ls_client_region_give(client, &pieces);
    ls_client_region_give(client, &sum);
    ls_client_region_give(client, &other);
}

static void expect(bool holds, int line) {
    CHECK(holds ? LS_OK : LS_FAIL(LS_ERR_MISMATCH, "a wrong result, line %d", line));
}

// Three ranks wait, each in a separate communicator, for the one that ends. The order of arrival
// does not matter: the smallest one is reported, and of equal ones that of the lowest rank.
static void wait_apart(const ls_client_region *in, const ls_client_region *out) {
    static const int turns[] = {0, 2, 1};
    uint32_t slot = 0;
    for (int i = 0; i < 3; i++) {
        if (rank == turns[i]) {
            char id[16];
            (void)snprintf(id, sizeof id, "of rank %d", rank);
            uint32_t site = ls_client_here(client, NULL);
            site = rank == 0 ? ls_client_here(client, NULL) : site;  // MARK apart
            slot = begin(ls_client_comm_number(client), id, rank == 1 ? 4 : 3, site);
        }
        call(LS_ALL_REDUCE, 1, in, out, NULL, NULL);
    }
    if (rank < 3) {
        CHECK(ls_client_wait(client, slot));
    }
}

// ---- Threads ------------------------------------------------------------------------------------
// A reduction of no elements on one communicator, without a wait.
static uint32_t begin_reduction(uint32_t comm, ls_op op) {
    const ls_client_call made = {.comm = comm,
                                 .kind = LS_ALL_REDUCE,
                                 .dtype = LS_F64,
                                 .op = op,
                                 .send.memory = LS_WIRE_NONE,
                                 .recv.memory = LS_WIRE_NONE,
                                 .stream = LS_WIRE_NO_STREAM};
    uint32_t slot = 0;
    CHECK(ls_client_issue(&slot, client, &made));  // MARK opposite joins shared
    return slot;
}

static uint32_t begin_sum(uint32_t comm) {
    return begin_reduction(comm, LS_SUM);
}

static void end_sum(uint32_t slot) {
    CHECK(ls_client_wait(client, slot));
    ls_client_slot_give(client, slot);
}

static void *begin_aside(void *out) {
    *(uint32_t *)out = begin_sum(aside);
    return NULL;
}

// One call on each communicator, in the opposite order on rank 1. threads: each in a separate
// thread.
static void cross(bool threads) {
    uint32_t slots[2];
    for (int i = 0; i < 2; i++) {
        bool is_aside = (i == 0) == (rank == 1);
        if (is_aside && threads) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, begin_aside, &slots[i]));
            CHECK(pthread_join(thread, NULL));
        } else {
            slots[i] = begin_sum(is_aside ? aside : world);
        }
    }
    end_sum(slots[0]);
    end_sum(slots[1]);
}

static void *begin_maximum(void *out) {
    *(uint32_t *)out = begin_reduction(world, LS_MAX);
    return NULL;
}

// Two threads share a communicator. On rank 1 the other one is first.
static void share_world(void) {
    uint32_t slots[2];
    for (int i = 0; i < 2; i++) {
        if ((i == 0) == (rank == 1)) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, begin_maximum, &slots[i]));
            CHECK(pthread_join(thread, NULL));
        } else {
            slots[i] = begin_sum(world);
        }
    }
    end_sum(slots[0]);
    end_sum(slots[1]);
}

// A side thread waits while the first thread works, or works before its call.
static void *work_apart(void *nothing) {
    end_sum(begin_sum(aside));
    (void)sleep(rank == 1 ? 2 : 0);
    end_sum(begin_sum(aside));
    return nothing;
}

static void apart_in_time(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work_apart, NULL));
    end_sum(begin_sum(world));
    (void)sleep(rank == 0 ? 2 : 0);
    end_sum(begin_sum(world));
    CHECK(pthread_join(thread, NULL));
}

static void *wait_crosswise(void *nothing) {
    for (int i = 0; i < 2; i++) {
        end_sum(begin_sum((i == 0) == (rank == 1) ? aside : world));
    }
    return nothing;
}

// Another thread waits for a call that nobody makes.
static void join_threads(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_crosswise, NULL));
    CHECK(pthread_join(thread, NULL));
}

// A call that fails because ranks differ or the communicator's run is over.
static void fail_on(uint32_t comm) {
    const ls_client_call made = {.comm = comm,
                                 .kind = LS_ALL_REDUCE,
                                 .dtype = LS_F64,
                                 .op = rank == 1 ? LS_MAX : LS_SUM,
                                 .send.memory = LS_WIRE_NONE,
                                 .recv.memory = LS_WIRE_NONE,
                                 .stream = LS_WIRE_NO_STREAM};
    uint32_t slot = 0;
    CHECK(ls_client_issue(&slot, client, &made));  // MARK session
    expect(ls_client_wait(client, slot) != LS_OK, __LINE__);
    ls_client_slot_give(client, slot);
}

// A session of tests: later calls fail at once, and calls of a new world succeed.
static void continue_after(void) {
    fail_on(world);
    (void)sleep(3);
    fail_on(world);
    for (int i = 0; i < 2; i++) {
        const uint32_t past = world;
        char id[256];
        (void)snprintf(id, sizeof id, "%.200s %d", getenv("MEET"), i);
        world = join(id);
        end_sum(begin_sum(world));
        fail_on(past);
        CHECK(ls_client_leave(client, past, false));
        aside = join("aside");
        end_sum(begin_sum(aside));
        if (i == 0) {
            fail_on(world);
        }
    }
    (void)fprintf(stderr, "rank %d continues\n", rank);
}

// A launcher's first attempt fails: one rank ends, or all do, or calls differ.
static int fail_first(const char *bug) {
    const char *count = getenv("TORCHELASTIC_RESTART_COUNT");
    bool first = count != NULL && strcmp(count, "0") == 0;
    if (first && strcmp(bug, "restart_op") == 0) {
        fail_on(world);
    } else if (first && strcmp(bug, "restart_all") == 0) {
        end_sum(begin_sum(world));
    } else if (!first || rank != 1) {
        end_sum(begin_sum(world));
    }
    return first ? 3 : 0;
}

static void call_from_threads(const char *bug) {
    aside = join("aside");
    if (strcmp(bug, "threads") == 0 || strcmp(bug, "opposite") == 0) {
        cross(bug[0] == 't');
    } else if (strcmp(bug, "working") == 0) {
        apart_in_time();
    } else if (strcmp(bug, "joins") == 0) {
        join_threads();
    } else if (strcmp(bug, "shared") == 0) {
        share_world();
    }
}

int main(int argc, char **argv) {
    const char *bug = argc > 1 ? argv[1] : "";
    ls_client_launched(&rank, &ranks);
    client = ls_client_get();
    CHECK(client != NULL ? LS_OK : LS_ERR_BACKEND);
    world = join(getenv("MEET"));
    ls_client_region in, out;
    CHECK(ls_client_region_take(&in, client, 100 * sizeof(double)));
    CHECK(ls_client_region_take(&out, client, 100 * sizeof(double)));
    double *given = in.at, *result = out.at;
    for (int i = 0; i < 100; i++) {
        given[i] = rank * 100 + i;
    }
    call(LS_ALL_REDUCE, 100, &in, &out, NULL, NULL);
    expect(result[99] == 100 * ranks * (ranks - 1) / 2 + 99 * ranks, __LINE__);
    size_t sends[64], receives[64];
    for (int r = 0; r < ranks; r++) {
        sends[r] = (size_t)(r + 1);
        receives[r] = (size_t)(rank + 1);
    }
    call(LS_ALL_TO_ALL, 0, &in, &out, sends, receives);
    for (int r = 0; r < ranks; r++) {
        expect(result[r * (rank + 1)] == r * 100 + rank * (rank + 1) / 2, __LINE__);
    }
    collect();
    if (strcmp(bug, "alone") == 0 && rank == 1) {
        call(LS_ALL_REDUCE, 5, &in, &out, NULL, NULL);
    }
    if (strcmp(bug, "apart") == 0) {
        wait_apart(&in, &out);
    }
    if (strcmp(bug, "session") == 0) {
        continue_after();
    } else if (strcmp(bug, "alone") != 0 && strcmp(bug, "apart") != 0) {
        call_from_threads(bug);
    }
    ls_client_region_give(client, &in);
    ls_client_region_give(client, &out);
    int code = strncmp(bug, "restart", strlen("restart")) == 0 ? fail_first(bug) : 0;
    ls_client_bye(client, code);
    return code;
}
