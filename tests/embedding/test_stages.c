// Tests of the steps inside of the stages: splits, order of arrival, ids out of range, broken
// plans, unusable arguments. Expected numbers are computed by hand.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

// ---- Splits -------------------------------------------------------------------------------------

#define SEEN_MAX 64

typedef struct seen_call {
    ls_kind kind;
    ls_dtype dtype;
    int rank, size;
    size_t send[4], recv[4];
} seen_call;

typedef struct seen_calls {
    seen_call calls[SEEN_MAX];
    int count;
} seen_calls;

static void see(void *arg, const ls_call *call) {
    seen_calls *seen = arg;
    cr_assert(seen->count < SEEN_MAX && call->comm->size <= 4);
    seen_call *entry = &seen->calls[seen->count++];
    *entry = (seen_call){call->kind, call->dtype, call->rank, call->comm->size, {0}, {0}};
    for (int i = 0; i < call->comm->size; i++) {
        entry->send[i] = call->send_counts ? call->send_counts[i] : call->count;
        entry->recv[i] = call->recv_counts ? call->recv_counts[i] : 0;
    }
}

// The nth collective of `rank`, 0 being the exchange of sizes.
static const seen_call *call_of(const seen_calls *seen, int rank, int nth) {
    for (int i = 0; i < seen->count; i++) {
        if (seen->calls[i].rank == rank && nth-- == 0) {
            return &seen->calls[i];
        }
    }
    cr_assert_fail("no such call");
    return NULL;
}

static void give(embedding_case *c, int rank, int64_t batch, const int64_t *lengths,
                 const int64_t *ids, int64_t count) {
    static const char *const keys[] = {"a", "b", "c"};
    cr_assert(ls_keyed_jagged_create(&c->inputs[rank], rank, keys, 3, batch, lengths, ids, count,
                                     NULL) == LS_OK);
}

// Three tables of dims 2, 3, 3: the first on rank 0, the others on rank 1; batches 2 and 1. Every
// split of every exchange, in elements.
Test(stages, table_wise_splits) {
    embedding_case c;
    seen_calls seen = {.count = 0};
    case_init(&c, 2, 2, 0);
    c.observer = see;
    c.observer_arg = &seen;
    case_table(&c, "t0", 9, 2, LS_POOL_SUM, false, "a");
    case_table(&c, "t1", 9, 3, LS_POOL_SUM, false, "b");
    case_table(&c, "t2", 9, 3, LS_POOL_SUM, false, "c");
    for (int t = 0; t < 3; t++) {
        c.plans[t].sharding = LS_TABLE_WISE;
        c.plans[t].shards = calloc(1, sizeof(ls_plan_shard));
        c.plans[t].shards[0] = (ls_plan_shard){t > 0, 0, 0, 9, t > 0 ? 3 : 2};
        c.plans[t].shard_count = 1;
    }
    static const int64_t lengths0[] = {1, 2, 0, 1, 3, 0}, ids0[] = {1, 2, 3, 4, 5, 6, 7};
    static const int64_t lengths1[] = {4, 0, 1}, ids1[] = {1, 2, 3, 4, 5};
    give(&c, 0, 2, lengths0, ids0, 7);
    give(&c, 1, 1, lengths1, ids1, 5);
    case_outcome out;
    cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
    cr_expect(out.wrong == 0, "%s", out.text);
    // sizes, lengths, ids, outputs: send and receive of ranks 0 and 1
    static const size_t want[4][2][4] = {{{3, 3, 3, 3}, {3, 3, 3, 3}},
                                         {{2, 4, 2, 1}, {1, 2, 4, 2}},
                                         {{3, 4, 3, 4}, {4, 1, 4, 1}},
                                         {{4, 2, 4, 12}, {12, 6, 2, 6}}};
    cr_assert(seen.count == 8, "%d calls", seen.count);
    for (int nth = 0; nth < 4; nth++) {
        for (int rank = 0; rank < 2; rank++) {
            const seen_call *call = call_of(&seen, rank, nth);
            const size_t *w = want[nth][rank];
            cr_expect(call->kind == LS_ALL_TO_ALL);
            cr_expect(call->dtype == (nth == 3 ? LS_F32 : LS_I64));
            cr_expect(call->send[0] == w[0] && call->send[1] == w[1] && call->recv[0] == w[2] &&
                          call->recv[1] == w[3],
                      "exchange %d of rank %d: sent %zu %zu, received %zu %zu", nth, rank,
                      call->send[0], call->send[1], call->recv[0], call->recv[1]);
        }
    }
    case_outcome_free(&out);
    case_free(&c);
}

// Row-wise: lengths go to every rank, each id goes to the rank of its block, and the result is
// reduced with as many rows for each rank as that rank has samples.
Test(stages, row_wise_splits) {
    embedding_case c;
    seen_calls seen = {.count = 0};
    case_init(&c, 4, 4, 0);
    c.observer = see;
    c.observer_arg = &seen;
    case_table(&c, "t0", 5, 3, LS_POOL_MEAN, false, "a");
    cr_assert(case_place(&c, 0, LS_ROW_WISE, 0));  // rows 2, 2, 1, 0
    static const int64_t lengths[4][6] = {{2, 3}, {1}, {0}, {0, 4, 0}};
    static const int64_t batches[] = {2, 1, 0, 3}, counts[] = {5, 1, 0, 4};
    static const int64_t ids[4][5] = {{0, 4, 1, 2, 3}, {4}, {0}, {0, 0, 1, 3}};
    for (int r = 0; r < 4; r++) {
        int64_t all[9] = {0};
        memcpy(all, lengths[r], (size_t)batches[r] * sizeof(int64_t));
        give(&c, r, batches[r], all, ids[r], counts[r]);
    }
    case_outcome out;
    cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
    cr_expect(out.wrong == 0, "%s", out.text);
    static const size_t ids_sent[4][4] = {{2, 2, 1, 0}, {0, 0, 1, 0}, {0, 0, 0, 0}, {3, 1, 0, 0}};
    for (int rank = 0; rank < 4; rank++) {
        for (int to = 0; to < 4; to++) {
            cr_expect(call_of(&seen, rank, 1)->send[to] == (size_t)batches[rank]);
            cr_expect(call_of(&seen, rank, 1)->recv[to] == (size_t)batches[to]);
            cr_expect(call_of(&seen, rank, 2)->send[to] == ids_sent[rank][to]);
            cr_expect(call_of(&seen, rank, 2)->recv[to] == ids_sent[to][rank]);
            cr_expect(call_of(&seen, rank, 3)->kind == LS_REDUCE_SCATTER);
            cr_expect(call_of(&seen, rank, 3)->send[to] == 3 * (size_t)batches[to]);
        }
    }
    case_outcome_free(&out);
    case_free(&c);
}

// ---- Order of arrival ---------------------------------------------------------------------------

typedef struct caught {
    int rank;
    const char *feature;
    int64_t ids[8];
    int64_t count;
} caught;

static int catch_ids(void *arg, const ls_stage_output *output) {
    caught *c = arg;
    if (strcmp(output->stage, "input_dist") == 0 && strcmp(output->field, "ids") == 0 &&
        output->rank == c->rank && strcmp(output->feature, c->feature) == 0) {
        c->count = output->shape.dim[0];
        cr_assert(c->count <= 8);
        memcpy(c->ids, output->data, (size_t)c->count * sizeof(int64_t));
    }
    return LS_OK;
}

// Two features from four ranks, one id each: they arrive by source rank and feature, and end up by
// feature and source rank: the permutation 0 2 4 6 1 3 5 7; staggered over two hosts of two ranks
// 0 4 2 6 1 5 3 7.
Test(stages, arrivals_are_sorted_by_feature) {
    static const ls_sharding types[] = {LS_TABLE_WISE, LS_TABLE_ROW_WISE};
    static const int64_t want[2][2][4] = {{{0, 2, 4, 6}, {1, 3, 5, 7}},
                                          {{0, 4, 2, 6}, {1, 5, 3, 7}}};
    static const char *const features[] = {"a", "b"};
    for (int type = 0; type < 2; type++) {
        for (int f = 0; f < 2; f++) {
            embedding_case c;
            caught found = {.rank = 0, .feature = features[f]};
            case_init(&c, 4, 2, 0);
            c.sink = (ls_stage_sink){.arg = &found, .emit = catch_ids};
            case_table(&c, "t0", 16, 2, LS_POOL_SUM, false, "a,b");
            cr_assert(case_place(&c, 0, types[type], 0));  // rank 0 has rows 0 to 7 at least
            static const int64_t lengths[] = {1, 1, 0};
            for (int r = 0; r < 4; r++) {
                const int64_t ids[] = {2 * r, 2 * r + 1};
                give(&c, r, 1, lengths, ids, 2);
            }
            case_outcome out;
            cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
            cr_expect(out.wrong == 0, "%s", out.text);
            cr_expect(found.count == 4);
            cr_expect(memcmp(found.ids, want[type][f], sizeof(want[type][f])) == 0,
                      "%s, feature %s: %d %d %d %d", ls_sharding_name(types[type]), features[f],
                      (int)found.ids[0], (int)found.ids[1], (int)found.ids[2], (int)found.ids[3]);
            case_outcome_free(&out);
            case_free(&c);
        }
    }
}

// ---- Room of the sink's -------------------------------------------------------------------------

#define ROOMS 8

typedef struct rooms {
    unsigned char *given[ROOMS], *seen[ROOMS];  // and their contents when they were passed on
    size_t bytes[ROOMS];
    int count, used;
} rooms;

static void *give_room(void *arg, size_t bytes) {
    rooms *r = arg;
    cr_assert(r->count < ROOMS);
    r->bytes[r->count] = bytes;
    r->seen[r->count] = calloc(1, bytes);
    r->given[r->count] = calloc(1, bytes);
    return r->given[r->count++];
}

static int note_room(void *arg, const ls_stage_output *output) {
    rooms *r = arg;
    for (int i = 0; output->in_room && i < r->count; i++) {
        if (output->data == r->given[i]) {
            memcpy(r->seen[i], output->data, r->bytes[i]);
            r->used++;
        }
    }
    return LS_OK;
}

// Partial results of one shard are written where the sink requests, and stay unchanged afterwards.
Test(stages, outputs_are_made_in_the_sinks_room) {
    embedding_case c;
    rooms r = {.count = 0};
    case_init(&c, 4, 4, 5);
    c.sink = (ls_stage_sink){.arg = &r, .emit = note_room, .room = give_room};
    case_table(&c, "t0", 16, 2, LS_POOL_SUM, false, "a");
    cr_assert(case_place(&c, 0, LS_ROW_WISE, 0));
    static const int64_t lengths[] = {2, 0, 0};
    for (int rank = 0; rank < 4; rank++) {
        const int64_t ids[] = {3 * rank, 15 - rank};
        give(&c, rank, 1, lengths, ids, 2);
    }
    case_outcome out;
    cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
    cr_expect(out.wrong == 0 && out.judged > 0, "%s", out.text);
    cr_expect(r.count == 4 && r.used == 4, "%d rooms, %d used", r.count, r.used);
    size_t filled = 0;
    for (int i = 0; i < r.count; i++) {
        cr_expect(r.bytes[i] == sizeof(float[4][2]));  // a bag of each rank
        cr_expect(memcmp(r.given[i], r.seen[i], r.bytes[i]) == 0, "room %d was written to", i);
        for (size_t k = 0; k < r.bytes[i]; k++) {
            filled += r.seen[i][k] != 0;
        }
        free(r.given[i]);
        free(r.seen[i]);
    }
    cr_expect(filled > 0);
    case_outcome_free(&out);
    case_free(&c);
}

// ---- Ids out of range ---------------------------------------------------------------------------

static const ls_sharding all_types[] = {LS_DATA_PARALLEL, LS_TABLE_WISE,     LS_COLUMN_WISE,
                                        LS_ROW_WISE,      LS_TABLE_ROW_WISE, LS_TABLE_COLUMN_WISE,
                                        LS_GRID};
#define TYPE_COUNT (sizeof(all_types) / sizeof(all_types[0]))

// By default an id out of range is a finding with its place, under every sharding type.
Test(stages, bad_ids_are_named) {
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (int negative = 0; negative < 2; negative++) {
            embedding_case c;
            case_init(&c, 4, 2, 3);
            case_table(&c, "table", 9, 4, LS_POOL_SUM, false, "a,b");
            cr_assert(case_place(&c, 0, all_types[i], 2));
            cr_assert(case_inputs(&c, NULL, 2) == LS_OK);
            ls_keyed_jagged_free(c.inputs[2]);
            static const int64_t lengths[] = {1, 0, 1, 3, 0, 0};
            const int64_t ids[] = {1, 2, 8, 3, negative ? -1 : 9};
            give(&c, 2, 2, lengths, ids, 5);
            case_outcome out;
            cr_expect(case_run(&c, &out) == LS_ERR_FINDING, "%s", ls_sharding_name(all_types[i]));
            cr_expect(strstr(out.text, "input.id_out_of_range"), "%s", out.text);
            cr_expect(
                strstr(out.text, negative ? "id -1 is not in [0, 9)" : "id 9 is not in [0, 9)"));
            cr_assert(out.has_bad_id);
            cr_expect_str_eq(out.bad_id.table, "table");
            cr_expect_str_eq(out.bad_id.feature, "b");
            cr_expect(out.bad_id.rank == 2 && out.bad_id.sample == 1 && out.bad_id.position == 2);
            cr_expect(out.bad_id.id == (negative ? -1 : 9) && out.bad_id.rows == 9);
            case_outcome_free(&out);
            case_free(&c);
        }
    }
}

// A bad id at the start of a bag belongs to that bag, not to the one before.
Test(stages, bad_id_at_the_start_of_a_bag) {
    static const int64_t lengths[] = {2, 0, 2, 0, 0, 0, 0, 0, 0}, ids[] = {1, 2, 9, 3};
    embedding_case c;
    case_outcome out;
    case_init(&c, 2, 2, 3);
    case_table(&c, "table", 9, 4, LS_POOL_SUM, false, "a");
    cr_assert(case_place(&c, 0, LS_ROW_WISE, 0));
    give(&c, 0, 3, lengths, ids, 4);
    give(&c, 1, 0, lengths, ids, 0);
    cr_expect(case_run(&c, &out) == LS_ERR_FINDING);
    cr_assert(out.has_bad_id);
    cr_expect(out.bad_id.sample == 2 && out.bad_id.position == 0 && out.bad_id.id == 9);
    case_outcome_free(&out);
    case_free(&c);
}

// In a table without rows no id is valid, under any policy.
Test(stages, no_id_is_right_without_rows) {
    static const ls_id_policy policies[] = {LS_ID_ERROR, LS_ID_CLAMP, LS_ID_WRAP};
    static const int64_t lengths[] = {1, 0, 0}, ids[] = {0};
    for (int p = 0; p < 3; p++) {
        embedding_case c;
        case_outcome out;
        case_init(&c, 2, 2, 3);
        c.id_policy = policies[p];
        c.allow_broken_plan = true;  // no plan of lockstep has such a table
        case_table(&c, "table", 0, 4, LS_POOL_SUM, false, "a");
        cr_assert(case_place(&c, 0, LS_ROW_WISE, 0));
        give(&c, 0, 1, lengths, ids, 1);
        give(&c, 1, 1, lengths, ids, 1);
        cr_expect(case_run(&c, &out) == LS_ERR_FINDING, "%d: %s", p, out.text);
        cr_expect(strstr(out.text, "id 0 is not in [0, 0)"), "%s", out.text);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// Clamp and wrap give the same rows under every sharding type: bit for bit where nothing is summed.
Test(stages, clamp_and_wrap_agree_everywhere) {
    static const ls_id_policy policies[] = {LS_ID_CLAMP, LS_ID_WRAP};
    static const int64_t ids[] = {-1, 9, 8, INT64_MAX, INT64_MIN, 100, 3, 17};
    static const int64_t lengths[] = {4, 4, 0};
    for (int p = 0; p < 2; p++) {
        case_outcome first;
        for (size_t i = 0; i < TYPE_COUNT; i++) {
            embedding_case c;
            case_init(&c, 4, 2, 3);
            c.id_policy = policies[p];
            case_table(&c, "table", 9, 4, LS_POOL_NONE, false, "a,b");
            cr_assert(case_place(&c, 0, all_types[i], 2));
            for (int r = 0; r < 4; r++) {
                give(&c, r, 1, lengths, ids, 8);
            }
            case_outcome out;
            cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
            cr_expect(out.wrong == 0, "%s", out.text);
            if (i == 0) {
                first = out;
            } else {
                cr_expect_str_eq(case_difference(&c, &first, &out), "");
                case_outcome_free(&out);
            }
            case_free(&c);
        }
        case_outcome_free(&first);
    }
}
