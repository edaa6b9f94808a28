// Checking a table's `sharding:`: which keys its type takes, ranks of the world, blocks that make
// up the table. See scenario_check.c for the rest.
#include <inttypes.h>
#include <string.h>

#include "runner/scenario/read.h"

int64_t ls_check__sum(const ls_int_list *list) {
    int64_t sum = 0;
    for (int i = 0; i < list->count; i++) {
        if (__builtin_add_overflow(sum, list->at[i], &sum)) {
            return INT64_MAX;
        }
    }
    return sum;
}

// Which of the sharding's keys a type takes.
typedef struct ls_sharding_rule {
    bool ranks, sizes, columns, host;
} ls_sharding_rule;

static const ls_sharding_rule sharding_rules[LS_SHARDING_COUNT] = {
    [LS_DATA_PARALLEL] = {0},
    [LS_TABLE_WISE] = {.ranks = true},
    [LS_COLUMN_WISE] = {.ranks = true, .sizes = true, .columns = true},
    [LS_ROW_WISE] = {.ranks = true, .sizes = true},
    [LS_TABLE_ROW_WISE] = {.ranks = true, .sizes = true, .host = true},
    [LS_TABLE_COLUMN_WISE] = {.ranks = true, .sizes = true, .columns = true},
    [LS_GRID] = {.ranks = true, .columns = true},
};

static void check_applies(ls_reader *reader, const ls_scenario_sharding *sharding) {
    const ls_sharding_rule *rule = &sharding_rules[sharding->type];
    const struct {
        const char *key;
        bool allowed;
    } keys[] = {{"ranks", rule->ranks},
                {"sizes", rule->sizes},
                {"columns", rule->columns},
                {"host", rule->host}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (ls_node_has(&sharding->node, keys[i].key) && !keys[i].allowed) {
            ls_check__error(reader, ls_node_mark(&sharding->node, keys[i].key), NULL, NULL,
                            "%s does not apply to %s", keys[i].key,
                            ls_sharding_name(sharding->type));
        }
    }
}

// Ranks may repeat only where a rank may hold several blocks (column blocks).
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
        if (rows && ranks->count == 0 && scenario->ranks > 0 && sizes->count > scenario->ranks) {
            ls_check__error(reader, ls_node_mark(&sharding->node, "sizes"), NULL, NULL,
                            "sizes: %d row blocks for %d ranks", sizes->count, scenario->ranks);
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

void ls_check__sharding(ls_reader *reader, const ls_scenario *scenario,
                        const ls_scenario_table *table) {
    const ls_scenario_sharding *sharding = &table->sharding;
    const ls_node *node = &sharding->node;
    if (node->mark.line == 0) {
        return;
    }
    if (sharding->plan != NULL) {
        static const char *const others[] = {"type", "ranks", "sizes", "columns", "host"};
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            if (ls_node_has(node, others[i])) {
                ls_check__error(reader, ls_node_mark(node, others[i]), NULL, NULL,
                                "sharding: %s beside plan, which places the table", others[i]);
            }
        }
        return;
    }
    if (!sharding->has_type) {
        if (ls_node_has(node, "type")) {
            return;  // already refused
        }
        if (ls_node_has(node, "ranks") || ls_node_has(node, "sizes") ||
            ls_node_has(node, "columns") || ls_node_has(node, "host")) {
            ls_check__error(reader, node->mark, "type: row_wise, for example", NULL,
                            "sharding: the key type is missing");
        }
        return;
    }
    if ((int)sharding->type < 0 || sharding->type >= LS_SHARDING_COUNT) {
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
    check_blocks(reader, scenario, table);
}
