// Tests of a process that holds one rank of two, as under MPI. The backend plays the other rank:
// the messages of this rank when its own input is unusable, and its reaction to wrong answers.
#include <criterion/criterion.h>
#include <string.h>

#include "case.h"

#define SIZES(ids, batch)                                                                          \
    { ~((ids) + (batch)), ids, batch }

// The other rank's answers in the exchange of sizes, and the data sent to it.
typedef struct other_rank {
    int64_t answer[3];   // check, ids, batch
    int64_t length, id;  // the one length and id that it sends
    int64_t told[3];
    int exchanges;
} other_rank;

// Both ranks' calls of one all_to_all; the other's is generated. Member 0 is the other rank.
static int play(ls_backend *backend, ls_call *calls, int call_count) {
    other_rank *other = backend->impl;
    cr_assert(call_count == 1 && calls[0].kind == LS_ALL_TO_ALL && calls[0].dtype == LS_I64);
    const int64_t *send = calls[0].send;
    int64_t *recv = calls[0].recv;
    size_t own_sent = calls[0].send_counts[1], from_other = calls[0].recv_counts[0];
    memcpy(recv + from_other, send + calls[0].send_counts[0], own_sent * sizeof(int64_t));
    switch (other->exchanges++) {
    case 0:
        memcpy(other->told, send, sizeof(other->told));
        memcpy(recv, other->answer, sizeof(other->answer));
        break;
    case 1:
        cr_assert(from_other == 1);
        recv[0] = other->length;
        break;
    default:
        cr_assert(from_other == 1);
        recv[0] = other->id;
    }
    return LS_OK;
}

static int open_comm(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    (void)comm;
    return LS_OK;
}

static void close_comm(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    (void)comm;
}

static int fill(void *arg, int table, int rank, int64_t r, int64_t rows, int64_t column,
                int64_t columns, void *out) {
    (void)arg;
    (void)table;
    (void)rank;
    (void)r;
    (void)column;
    memset(out, 0, (size_t)(rows * columns) * sizeof(float));
    return LS_OK;
}

// Runs input_dist on rank 1 of two, which owns the whole table of 4 rows and has one id.
static int run(other_rank *other, int64_t own_id) {
    static const ls_backend_ops ops = {
        .name = "play", .comm_open = open_comm, .comm_close = close_comm, .run = play};
    static const char *const keys[] = {"a"};
    static const int held[] = {1};
    static const int64_t lengths[] = {1};
    static ls_plan_shard shard = {1, 0, 0, 4, 2};
    ls_table table = {.name = "t",
                      .rows = 4,
                      .dim = 2,
                      .dtype = LS_F32,
                      .pooling = LS_POOL_SUM,
                      .features = keys,
                      .feature_count = 1};
    ls_plan_table plan_table = {.name = "t",
                                .sharding = LS_TABLE_WISE,
                                .rows = 4,
                                .columns = 2,
                                .shards = &shard,
                                .shard_count = 1};
    ls_plan plan = {2, 2, &plan_table, 1};
    ls_world *world;
    cr_assert(ls_world_create(
                  &world, &(ls_world_options){.mesh = LS_MESH(2), .held = held, .held_count = 1}) ==
              LS_OK);
    ls_backend backend = {.ops = &ops, .world = world, .impl = other};
    ls_embedding_options options = {
        .tables = &table, .table_count = 1, .plan = &plan, .fill = fill};
    ls_embedding *module;
    cr_assert(ls_embedding_create(&module, &backend, &options) == LS_OK, "%s",
              ls_error_last()->text);
    ls_keyed_jagged *input;
    cr_assert(ls_keyed_jagged_create(&input, 1, keys, 1, 1, lengths, &own_id, 1, NULL) == LS_OK);
    const ls_keyed_jagged *inputs[] = {input};
    ls_embedding_pass *pass;
    int status = ls_embedding_input_dist(&pass, module, inputs, NULL);
    ls_embedding_pass_free(pass);
    ls_keyed_jagged_free(input);
    ls_embedding_free(module);
    ls_world_free(world);
    return status;
}

// A rank whose id is out of range still takes part in the first exchange, reports the error there,
// and then returns it.
Test(processes, a_bad_input_is_announced) {
    other_rank other = {.answer = SIZES(1, 1)};
    cr_expect(run(&other, 9) == LS_ERR_FINDING);
    cr_expect(other.exchanges == 1);
    cr_expect(other.told[0] < 0);
    cr_expect(strstr(ls_error_last()->text, "rank 1, sample 0, position 0: id 9"), "%s",
              ls_error_last()->text);
}

// A rank that receives the report stops too and names the rank at fault; a correct run sends sizes
// unchanged.
Test(processes, an_announced_failure_stops_this_rank) {
    other_rank other = {.answer = {-1, -1, -1}};
    cr_expect(run(&other, 2) == LS_ERR_FINDING);
    cr_expect(other.exchanges == 1 && ls_error_last()->rank == 0);
    cr_expect(strstr(ls_error_last()->text, "rank 0 stopped because of its input"));
    cr_expect(other.told[0] == ~1 && other.told[1] == 0 && other.told[2] == 1);
    other = (other_rank){.answer = SIZES(1, 1), .length = 1, .id = 3};
    cr_expect(run(&other, 2) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(other.exchanges == 3);
}

// Sizes, lengths and rows that do not fit together are refused.
Test(processes, wrong_answers_are_refused) {
    static const other_rank wrong[] = {{.answer = {~3, 1, 1}, .length = 1, .id = 0},
                                       {.answer = {~2, 2, 1}, .length = 1, .id = 0},
                                       {.answer = {~2, 1, 2}, .length = 1, .id = 0},
                                       {.answer = {0, 0, 0}, .length = 1, .id = 0},
                                       {.answer = SIZES(-1, 1), .length = 1, .id = 0},
                                       {.answer = SIZES(1, -1), .length = 1, .id = 0},
                                       {.answer = SIZES(1, 1), .length = 2, .id = 0},
                                       {.answer = SIZES(1, 1), .length = 0, .id = 0},
                                       {.answer = SIZES(1, 1), .length = -1, .id = 0},
                                       {.answer = SIZES(1, 1), .length = 1, .id = 4},
                                       {.answer = SIZES(1, 1), .length = 1, .id = -1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        other_rank other = wrong[i];
        cr_expect(run(&other, 2) == LS_ERR_MISMATCH, "%zu: %s", i, ls_error_last()->text);
        cr_expect(strstr(ls_error_last()->text, "rank 1"), "%zu: %s", i, ls_error_last()->text);
    }
}
