// Checks a table's `sharding:`: the keys that its type takes, ranks in the world, blocks that add
// up to the table. See scenario_check.c for the rest.
#include <inttypes.h>
#include <string.h>

#include "runner/scenario/read.h"
#include "runner/scenario/scenario_layout.h"

int64_t ls_check__sum(const ls_int_list *list) {
    int64_t sum = 0;
    for (int i = 0; i < list->count; i++) {
        if (__builtin_add_overflow(sum, list->at[i], &sum)) {
            return INT64_MAX;
        }
    }
    return sum;
}

// The sharding keys that a type takes.
static void check_applies(ls_reader *reader, const ls_scenario_sharding *sharding) {
    ls_sharding_traits of = ls_sharding_traits_of(sharding->type);
    bool rows = of.rows != LS_OVER_ONE;
    const struct {
        const char *key;
        bool allowed;
    } keys[] = {{"ranks", sharding->type != LS_DATA_PARALLEL},
                {"sizes", rows != of.columns},
                {"columns", of.columns},
                {"host", rows && !of.columns && of.one_host}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (ls_node_has(&sharding->node, keys[i].key) && !keys[i].allowed) {
            ls_check__error(reader, ls_node_mark(&sharding->node, keys[i].key), NULL, NULL,
                            "%s does not apply to %s", keys[i].key,
                            ls_sharding_name(sharding->type));
        }
    }
}

// Ranks may repeat only if a rank may hold several blocks (column blocks).
static void check_distinct(ls_reader *reader, const ls_scenario *scenario, const ls_int_list *ranks,
                           const char *whose) {
    unsigned char *seen = ls_read__alloc(reader, (size_t)scenario->ranks + 1, 1);
    for (int i = 0; i < ranks->count && seen != NULL && ls_read__going(reader); i++) {
        int64_t rank = ranks->at[i];
        if (rank < 0 || rank >= scenario->ranks) {
            continue;
        }
        if (seen[rank] != 0) {
            ls_check__error(reader, ls_check__element(ranks, i), NULL, NULL,
                            "%s: rank %" PRId64 " is given twice", whose, rank);
        }
        seen[rank] = 1;
    }
}

static void check_blocks(ls_reader *reader, const ls_scenario *scenario,
                         const ls_scenario_table *table) {
    const ls_scenario_sharding *sharding = &table->sharding;
    ls_sharding_traits traits = ls_sharding_traits_of(sharding->type);
    bool columns = traits.columns && traits.rows == LS_OVER_ONE;
    bool rows = traits.rows != LS_OVER_ONE && !traits.columns;
    int64_t whole = columns ? table->dim : table->rows;
    const char *what = columns ? "columns" : "rows";
    const ls_int_list *sizes = &sharding->sizes;
    const ls_int_list *ranks = &sharding->ranks;
    if (sizes->count > 0 && (rows || columns) && whole > 0) {
        int64_t sum = ls_check__sum(sizes);
        if (sum != whole && !sharding->allow_broken) {
            ls_check__error(reader, ls_node_mark(&sharding->node, "sizes"), NULL, NULL,
                            "sizes: they add up to %" PRId64 ", but table %s has %" PRId64 " %s",
                            sum, table->name, whole, what);
        }
        if (ranks->count > 0 && ranks->count != sizes->count) {
            ls_check__error(reader, ls_node_mark(&sharding->node, "ranks"), NULL, NULL,
                            "ranks: %d for %d sizes", ranks->count, sizes->count);
        }
        int width = ls_sharding_width(sharding->type, scenario->ranks, scenario->ranks_per_host);
        if (rows && ranks->count == 0 && scenario->ranks > 0 && sizes->count != width) {
            ls_check__error(reader, ls_node_mark(&sharding->node, "sizes"),
                            "one for each rank, or ranks beside it", NULL,
                            "sizes: %d row blocks for %d ranks", sizes->count, width);
        }
    }
    for (int i = 0; columns && i < sizes->count && ls_read__going(reader); i++) {
        if (sizes->at[i] == 0) {
            ls_check__error(reader, ls_check__element(sizes, i), NULL, NULL,
                            "sizes: a column block without columns");
        }
    }
    if (columns && sizes->count == 0 && ranks->count > 0 && table->dim > 0) {
        int64_t width = sharding->columns > 0 ? sharding->columns
                                              : (table->dim + ranks->count - 1) / ranks->count;
        int64_t blocks = (table->dim + width - 1) / width;
        if (blocks != ranks->count) {
            ls_check__error(reader, ls_node_mark(&sharding->node, "ranks"), NULL, NULL,
                            "ranks: %d for the %" PRId64 " blocks of %" PRId64 " that %" PRId64
                            " columns make",
                            ranks->count, blocks, width, table->dim);
        }
    }
    if (sharding->columns > table->dim && table->dim > 0) {
        ls_check__error(reader, ls_node_mark(&sharding->node, "columns"), NULL, NULL,
                        "columns: %" PRId64 ", but table %s has %" PRId64, sharding->columns,
                        table->name, table->dim);
    }
}

// Two keys with the same meaning: one would be ignored.
static void check_once(ls_reader *reader, const ls_scenario_sharding *sharding) {
    static const char *const pairs[][2] = {{"ranks", "host"}, {"sizes", "columns"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (ls_node_has(&sharding->node, pairs[i][0]) &&
            ls_node_has(&sharding->node, pairs[i][1])) {
            ls_check__error(reader, ls_node_mark(&sharding->node, pairs[i][1]), NULL, NULL,
                            "%s: excludes %s, which has the same meaning", pairs[i][1],
                            pairs[i][0]);
        }
    }
}

// The listed ranks of a column block (grid), or of the table (table_row_wise, table_column_wise)
// belong to one host.
static void check_hosts(ls_reader *reader, const ls_scenario *scenario,
                        const ls_scenario_table *table) {
    const ls_scenario_sharding *sharding = &table->sharding;
    const ls_int_list *ranks = &sharding->ranks;
    ls_sharding_traits of = ls_sharding_traits_of(sharding->type);
    bool grid = of.rows == LS_OVER_HOST && of.columns;
    if (ranks->count == 0 || scenario->ranks == 0 || !(grid || of.one_host) || table->dim <= 0) {
        return;
    }
    int together = ranks->count;
    if (grid) {
        int64_t width =
            sharding->columns > 0 ? sharding->columns : ls_plan_column_block(table->dim, 0);
        int64_t blocks = (table->dim + width - 1) / width;
        if (ranks->count % blocks != 0) {
            ls_check__error(reader, ls_node_mark(&sharding->node, "ranks"), NULL, NULL,
                            "ranks: %d for %" PRId64 " column blocks, each of which needs as many",
                            ranks->count, blocks);
            return;
        }
        together = (int)(ranks->count / blocks);
    }
    for (int i = 0; i < ranks->count && ls_read__going(reader); i++) {
        int64_t host = ranks->at[i / together * together] / scenario->ranks_per_host;
        if (ranks->at[i] < scenario->ranks && ranks->at[i] / scenario->ranks_per_host != host) {
            ls_check__error(reader, ls_check__element(ranks, i), NULL, NULL,
                            "ranks: %s keeps %s on one host, and rank %" PRId64
                            " is not on host %" PRId64,
                            ls_sharding_name(sharding->type), grid ? "a column block" : "a table",
                            ranks->at[i], host);
            return;
        }
    }
}

// `type:` is a single one, which shards the table, or several, from which the planner chooses.
static bool settle_types(ls_scenario_sharding *sharding) {
    for (int i = 0; i < sharding->types.count; i++) {
        if (ls_sharding_parse(&sharding->type, sharding->types.at[i]) != LS_OK) {
            ls_error_clear();
            return false;  // already reported
        }
        sharding->allowed |= 1u << sharding->type;
    }
    sharding->has_type = sharding->types.count == 1;
    return true;
}

// Keys that place blocks need a single type; keys that constrain the planner need the planner.
static void check_who_places(ls_reader *reader, const ls_scenario_sharding *sharding) {
    static const char *const of_planner[] = {"only_ranks", "not_ranks", "columns_min", "together",
                                             "apart"};
    static const char *const of_places[] = {"ranks", "sizes", "columns", "host"};
    const ls_node *node = &sharding->node;
    const char *placed = NULL;
    for (size_t i = 0; i < sizeof of_places / sizeof *of_places; i++) {
        placed = ls_node_has(node, of_places[i]) ? of_places[i] : placed;
    }
    if (placed != NULL && sharding->types.count > 1) {
        ls_check__error(reader, ls_node_mark(node, placed), "one type", NULL,
                        "%s: excludes several types, of which the planner chooses", placed);
    }
    if (sharding->has_type && sharding->type == LS_DATA_PARALLEL) {
        placed = "type: data_parallel";
    }
    for (size_t i = 0; i < sizeof of_planner / sizeof *of_planner && placed != NULL; i++) {
        if (ls_node_has(node, of_planner[i])) {
            ls_check__error(reader, ls_node_mark(node, of_planner[i]), NULL, NULL,
                            "%s: restricts the planner, but %s leaves it no choice", of_planner[i],
                            placed);
        }
    }
}

// Constraints that no plan can meet, reported at the constraint.
static void check_possible(ls_reader *reader, const ls_scenario *scenario,
                           const ls_scenario_table *table) {
    const ls_scenario_sharding *sharding = &table->sharding;
    bool left = false;
    for (int r = 0; r < scenario->ranks && !left; r++) {
        left =
            (sharding->only_ranks.count == 0 || ls_int_list_find(&sharding->only_ranks, r) >= 0) &&
            ls_int_list_find(&sharding->not_ranks, r) < 0;
    }
    if (!left && scenario->ranks > 0) {
        const char *key = sharding->not_ranks.count > 0 ? "not_ranks" : "only_ranks";
        ls_check__error(reader, ls_node_mark(&sharding->node, key), NULL, NULL,
                        "%s: no rank is left for table %.60s", key, table->name);
    }
    bool placed =
        ls_scenario_layout_given(table) || (sharding->has_type && sharding->type == LS_ROW_WISE);
    const unsigned of_sequences =
        1u << LS_DATA_PARALLEL | 1u << LS_TABLE_WISE | 1u << LS_COLUMN_WISE | 1u << LS_ROW_WISE;
    if (table->pooling == LS_POOL_NONE && !placed && sharding->allowed != 0 &&
        (sharding->allowed & of_sequences) == 0) {
        ls_check__error(reader, ls_node_mark(&sharding->node, "type"),
                        "data_parallel, table_wise, column_wise or row_wise, or ranks", NULL,
                        "type: the planner does not place tables without pooling %s",
                        sharding->types.at[0]);
    }
    bool dense = false, other = false;
    for (int i = 0; i < sharding->kernels.count; i++) {
        ls_planner_kernel kernel;
        if (ls_planner_kernel_parse(&kernel, sharding->kernels.at[i]) != LS_OK) {
            continue;  // reported by its reader
        }
        dense = dense || kernel == LS_PLANNER_DENSE;
        other = other || kernel != LS_PLANNER_DENSE;
    }
    bool copies = (sharding->allowed & 1u << LS_DATA_PARALLEL) != 0;
    bool shards = (sharding->allowed & ~(1u << LS_DATA_PARALLEL)) != 0;
    if (sharding->kernels.count > 0 && sharding->allowed != 0 &&
        !((dense && copies) || (other && shards))) {
        ls_check__error(
            reader, ls_node_mark(&sharding->node, "kernel"),
            dense ? "fused, fused_uvm or fused_uvm_caching" : "dense", NULL,
            "kernel: %s does not apply to %s: only data_parallel uses dense, and it uses no other",
            sharding->kernels.at[0], sharding->types.at[0]);
    }
}

void ls_check__sharding(ls_reader *reader, const ls_scenario *scenario, ls_scenario_table *table) {
    ls_scenario_sharding *sharding = &table->sharding;
    const ls_node *node = &sharding->node;
    if (node->mark.line == 0 || !settle_types(sharding)) {
        return;
    }
    if (sharding->plan != NULL) {
        static const char *const others[] = {"type",        "ranks",    "sizes",      "columns",
                                             "host",        "kernel",   "only_ranks", "not_ranks",
                                             "columns_min", "together", "apart"};
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            if (ls_node_has(node, others[i])) {
                ls_check__error(reader, ls_node_mark(node, others[i]), NULL, NULL,
                                "sharding: %s excludes plan, which places the table", others[i]);
            }
        }
        return;
    }
    ls_check__ranks(reader, scenario, &sharding->only_ranks, "only_ranks");
    ls_check__ranks(reader, scenario, &sharding->not_ranks, "not_ranks");
    check_who_places(reader, sharding);
    check_possible(reader, scenario, table);
    if (!sharding->has_type) {
        if (ls_node_has(node, "type")) {
            return;
        }
        if (ls_node_has(node, "ranks") || ls_node_has(node, "sizes") ||
            ls_node_has(node, "columns") || ls_node_has(node, "host")) {
            ls_check__error(reader, node->mark, "type: row_wise, for example", NULL,
                            "sharding: the key type is missing");
        }
        return;
    }
    check_applies(reader, sharding);
    ls_check__ranks(reader, scenario, &sharding->ranks, "sharding");
    if (ls_sharding_traits_of(sharding->type).rows != LS_OVER_ONE) {
        check_distinct(reader, scenario, &sharding->ranks, "sharding");
    }
    if (sharding->type == LS_TABLE_WISE && sharding->ranks.count > 1) {
        ls_check__error(reader, ls_node_mark(node, "ranks"), "one rank", NULL,
                        "ranks: table_wise puts the whole table on one rank, not on %d",
                        sharding->ranks.count);
    }
    if (sharding->type == LS_TABLE_ROW_WISE && sharding->host >= 0 && scenario->ranks > 0 &&
        sharding->host >= scenario->ranks / scenario->ranks_per_host) {
        ls_check__error(reader, ls_node_mark(node, "host"), NULL, NULL,
                        "host: %" PRId64 ", but the world has %d", sharding->host,
                        scenario->ranks / scenario->ranks_per_host);
    }
    check_once(reader, sharding);
    check_blocks(reader, scenario, table);
    check_hosts(reader, scenario, table);
}
