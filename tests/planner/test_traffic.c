// Planned bytes against the bytes of the simulator's collectives, on every rank and stage, for
// random collections of every sharding type.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "planner/traffic.h"
#include "tests/embedding/case.h"

// The bytes of one rank's calls by stage: integers go out, partial sums are reduced, and all other
// data is weights or outputs.
typedef struct moved {
    uint64_t integers[2], reduced[2], others[2];  // sent, received
} moved;

static void see(void *arg, const ls_call *call) {
    moved *ranks = arg;
    size_t elements[2];
    cr_assert(ls_call_send_elements(&elements[0], call) == LS_OK);
    cr_assert(ls_call_recv_elements(&elements[1], call) == LS_OK);
    moved *mine = &ranks[call->rank];
    for (int k = 0; k < 2; k++) {
        uint64_t *sum = call->kind == LS_REDUCE_SCATTER ? &mine->reduced[k]
                        : call->dtype == LS_I64         ? &mine->integers[k]
                                                        : &mine->others[k];
        *sum += elements[k] * ls_dtype_bytes(call->dtype);
    }
}

static ls_traffic_table traffic_table(const ls_table *table) {
    bool pooled = table->pooling != LS_POOL_NONE;
    return (ls_traffic_table){
        .pooling = !pooled                         ? LS_TRAFFIC_SEQUENCE
                   : table->pooling == LS_POOL_MAX ? LS_TRAFFIC_MAX
                                                   : LS_TRAFFIC_SUM,
        .output = pooled && table->dtype != LS_F64 ? LS_F32 : table->dtype,
        .weighted = table->weighted,
        .feature_count = table->feature_count,
    };
}

static void compare(embedding_case *c, uint64_t seed, int *compared) {
    moved ranks[CASE_RANKS_MAX] = {0};
    case_outcome outcome;
    c->observer = see;
    c->observer_arg = ranks;
    cr_assert(case_run(c, &outcome) == LS_OK, "%s", outcome.text);
    ls_traffic_table tables[CASE_TABLES_MAX];
    ls_traffic_ids ids[CASE_RANKS_MAX][2 * CASE_TABLES_MAX];
    const ls_traffic_ids *rows[CASE_RANKS_MAX];
    for (int t = 0; t < c->table_count; t++) {
        tables[t] = traffic_table(&c->tables[t]);
    }
    for (int r = 0; r < c->ranks; r++) {
        int next = 0;
        rows[r] = ids[r];
        for (int t = 0; t < c->table_count; t++) {
            for (int f = 0; f < c->tables[t].feature_count; f++) {
                int key = 0;
                while (strcmp(c->inputs[r]->keys[key], c->tables[t].features[f]) != 0) {
                    key++;
                }
                ls_jagged feature = ls_keyed_jagged_feature(c->inputs[r], key);
                int64_t count = feature.offsets[feature.batch] - feature.offsets[0];
                for (int64_t i = 0; i < count; i++) {
                    cr_assert(feature.ids[i] >= 0 && feature.ids[i] < c->tables[t].rows);
                }
                ids[r][next++] = (ls_traffic_ids){feature.ids, count, feature.batch};
            }
        }
    }
    ls_traffic_rank planned[CASE_RANKS_MAX];
    ls_plan plan = {c->ranks, c->ranks_per_host, c->plans, c->table_count};
    cr_assert(ls_plan_check(&plan) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(ls_plan_traffic(planned, &plan, tables, rows, c->variable) == LS_OK);
    for (int r = 0; r < c->ranks; r++) {
        const ls_traffic_rank *p = &planned[r];
        uint64_t want[6] = {p->sizes.sent + p->batches.sent + p->lengths.sent + p->ids.sent,
                            p->sizes.received + p->batches.received + p->lengths.received +
                                p->ids.received,
                            p->reduce.sent,
                            p->reduce.received,
                            p->weights.sent + p->outputs.sent,
                            p->weights.received + p->outputs.received};
        uint64_t got[6] = {ranks[r].integers[0], ranks[r].integers[1], ranks[r].reduced[0],
                           ranks[r].reduced[1],  ranks[r].others[0],   ranks[r].others[1]};
        for (int k = 0; k < 6; k++) {
            cr_expect(want[k] == got[k], "seed %d rank %d part %d: planned %llu, moved %llu",
                      (int)seed, r, k, (unsigned long long)want[k], (unsigned long long)got[k]);
        }
        *compared += 6;
    }
    case_outcome_free(&outcome);
}

// Planned bytes are simulated bytes, rank by rank.
Test(traffic, planned_bytes_are_simulated_bytes) {
    int compared = 0, variable = 0;
    for (uint64_t seed = 1; seed <= 90; seed++) {
        embedding_case c;
        cr_assert(case_random(&c, seed, 0) == LS_OK, "%s", ls_error_last()->text);
        bool inside = c.id_policy == LS_ID_ERROR;
        for (int t = 0; t < c.table_count; t++) {
            inside = inside && !c.tables[t].has_padding_id;
        }
        if (inside) {
            compare(&c, seed, &compared);
            variable += c.variable;
        }
        case_free(&c);
    }
    cr_expect(compared > 500, "only %d numbers compared", compared);
    cr_expect(variable > 5, "only %d cases with a batch size per feature", variable);
}
