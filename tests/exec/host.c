// A front of its own, for host memory: what a backend of another library does with the client.
// Each rank sums a vector, exchanges uneven blocks, and, as its one argument says, waits for a
// call that the others never make.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/collectives.h"
#include "exec/client.h"

static ls_client *client;
static uint32_t world;
static int rank, ranks;

static void check(int status, int line) {
    if (status != LS_OK) {
        (void)fprintf(stderr, "rank %d, line %d: %s\n", rank, line, ls_error_last()->text);
        ls_client_bye(client, 9);
        _exit(9);
    }
}
#define CHECK(call) check(call, __LINE__)

static void join(const char *id) {
    ls_wire_comm_init message = {.head = {LS_WIRE_COMM_INIT, sizeof message},
                                 .comm = world = ls_client_comm_number(client),
                                 .ranks = ranks,
                                 .rank = rank,
                                 .site = ls_client_here(client, NULL)};
    (void)snprintf((char *)message.id, sizeof message.id, "%s", id);
    CHECK(ls_client_slot_take(&message.slot, client));
    CHECK(ls_client_send(client, &message, -1));
    CHECK(ls_client_wait(client, message.slot));
    const ls_wire_slot *slot = ls_client_slot(client, message.slot);
    CHECK(slot->value[0] == rank && slot->value[1] == ranks && slot->value[3] == ranks
              ? LS_OK
              : LS_FAIL(LS_ERR_INVALID, "another place in the world"));
    ls_client_slot_give(client, message.slot);
}

// A call whose data is in `send` and goes to `recv`, with counts for each rank or without.
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

static void expect(bool holds, int line) {
    CHECK(holds ? LS_OK : LS_FAIL(LS_ERR_MISMATCH, "a wrong result, line %d", line));
}

int main(int argc, char **argv) {
    const char *bug = argc > 1 ? argv[1] : "";
    ls_client_launched(&rank, &ranks);
    client = ls_client_get();
    CHECK(client != NULL ? LS_OK : LS_ERR_BACKEND);
    join(getenv("MEET"));
    ls_client_region in, out;
    CHECK(ls_client_region_take(&in, client, 100 * sizeof(double)));
    CHECK(ls_client_region_take(&out, client, 100 * sizeof(double)));
    double *given = in.at, *got = out.at;
    for (int i = 0; i < 100; i++) {
        given[i] = rank * 100 + i;
    }
    call(LS_ALL_REDUCE, 100, &in, &out, NULL, NULL);
    expect(got[99] == 100 * ranks * (ranks - 1) / 2 + 99 * ranks, __LINE__);
    size_t sends[64], receives[64];
    for (int r = 0; r < ranks; r++) {
        sends[r] = (size_t)(r + 1);
        receives[r] = (size_t)(rank + 1);
    }
    call(LS_ALL_TO_ALL, 0, &in, &out, sends, receives);
    for (int r = 0; r < ranks; r++) {
        expect(got[r * (rank + 1)] == r * 100 + rank * (rank + 1) / 2, __LINE__);
    }
    if (strcmp(bug, "alone") == 0 && rank == 1) {
        call(LS_ALL_REDUCE, 5, &in, &out, NULL, NULL);
    }
    ls_client_region_give(client, &in);
    ls_client_region_give(client, &out);
    ls_client_bye(client, 0);
    return 0;
}
