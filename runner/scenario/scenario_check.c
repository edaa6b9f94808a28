// Checks the meaning of a scenario beyond the types of its keys: names refer to something, ranks
// are in the world, sizes add up. Also runs on a file with errors, so it skips missing parts.
// Programs: program_check.c.
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "embedding/jagged.h"
#include "runner/scenario/read.h"
#include "runner/plan/scenario_machine.h"

#define CUT_NAMES_MAX 64  // limit on names for "did you mean"

// ---- Mesh ---------------------------------------------------------------------------------------
// The ranks of a host are consecutive, so only dimensions of size 1 may precede `host`.
static void settle_hosts(ls_reader *reader, ls_scenario *scenario, ls_mark mark) {
    const ls_mesh *mesh = &scenario->mesh;
    int before = 1;
    for (int i = 0; i < mesh->ndim; i++) {
        const char *name = mesh->name[i];
        if (strcmp(name, "host") != 0) {
            if (strcasecmp(name, "host") == 0 || strcasecmp(name, "hosts") == 0) {
                ls_check__error(reader, mark, NULL, "host",
                                "mesh: the name %s does not define which ranks share a host", name);
            }
            before *= mesh->dim[i];
            continue;
        }
        if (before > 1 && mesh->dim[i] > 1) {
            ls_check__error(reader, mark, "host as the first name", NULL,
                            "mesh: the ranks of a host must be consecutive, but host is behind %d "
                            "coordinates of other dimensions",
                            before);
            return;
        }
        scenario->ranks_per_host = scenario->ranks / (mesh->dim[i] > 0 ? mesh->dim[i] : 1);
        return;
    }
}

static void check_mesh(ls_reader *reader, ls_scenario *scenario) {
    ls_mesh *mesh = &scenario->mesh;
    ls_mark mark = ls_node_mark(&scenario->node, "mesh");
    int names = 0;
    for (int i = 0; i < LS_MESH_DIMS_MAX; i++) {
        names += mesh->name[i][0] != 0 ? 1 : 0;
        for (int j = 0; j < i && mesh->name[i][0] != 0; j++) {
            if (strcmp(mesh->name[i], mesh->name[j]) == 0) {
                ls_check__error(reader, mark, NULL, NULL, "mesh: the name %s is given twice",
                                mesh->name[i]);
            }
        }
    }
    if (mesh->ndim == 0) {
        return;
    }
    if (names != 0 && names != mesh->ndim) {
        ls_check__error(reader, mark, "a name for each size", NULL,
                        "mesh: %d names for %d dimensions", names, mesh->ndim);
    }
    int64_t ranks = 1;
    for (int i = 0; i < mesh->ndim; i++) {
        ranks *= ranks > LS_RANKS_MAX ? 1 : mesh->dim[i];
    }
    if (ranks > LS_RANKS_MAX) {
        return;  // already reported
    }
    scenario->ranks = (int)ranks;
    scenario->ranks_per_host = (int)ranks;
    settle_hosts(reader, scenario, mark);
}

// ---- Features -----------------------------------------------------------------------------------
typedef struct ls_feature_name {
    const char *name;
    ls_mark mark;
    int table;
    int order;
} ls_feature_name;

static int compare_names(const void *a, const void *b) {
    const ls_feature_name *left = a;
    const ls_feature_name *right = b;
    int by_name = strcmp(left->name, right->name);
    return by_name != 0 ? by_name : left->order - right->order;
}

static void complain_of_twice(ls_reader *reader, const ls_feature_name *first,
                              const ls_feature_name *again, const char *what) {
    char text[160];
    (void)snprintf(text, sizeof text, "%s %.60s: the name is given twice", what, again->name);
    ls_diagnostic diagnostic = {
        .mark = again->mark, .text = text, .note = "first given here", .note_mark = first->mark};
    ls_diagnostics_add(reader->diagnostics, &diagnostic);
}

// All names [count], sorted; reports duplicates.
static void check_unique(ls_reader *reader, ls_feature_name *names, int count, const char *what) {
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 1; i < count && ls_read__going(reader); i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0) {
            complain_of_twice(reader, &names[i - 1], &names[i], what);
        }
    }
}

static int find_feature(const ls_feature_name *names, int count, const char *name) {
    int low = 0;
    int high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(names[middle].name, name);
        if (order == 0) {
            return middle;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return -1;
}

static void unknown_name(ls_reader *reader, ls_mark mark, const char *what, const char *name,
                         const ls_feature_name *names, int count) {
    const char *words[CUT_NAMES_MAX];
    int kept = count < CUT_NAMES_MAX ? count : CUT_NAMES_MAX;
    for (int i = 0; i < kept; i++) {
        words[i] = names[i].name;
    }
    ls_check__error(reader, mark, NULL, ls_nearest(name, words, (size_t)kept),
                    "there is no %s %.60s", what, name);
}

// Features by name, from the tables: names [*count], sorted.
static ls_feature_name *feature_names(ls_reader *reader, ls_scenario *scenario, int *count) {
    size_t total = 0;
    for (int i = 0; i < scenario->table_count; i++) {
        total += (size_t)scenario->tables[i].features.count;
    }
    ls_feature_name *names = ls_read__alloc(reader, total, sizeof *names);
    *count = 0;
    for (int i = 0; i < scenario->table_count && names != NULL; i++) {
        const ls_string_list *features = &scenario->tables[i].features;
        for (int j = 0; j < features->count; j++) {
            names[*count] = (ls_feature_name){
                .name = features->at[j], .mark = features->marks[j], .table = i, .order = *count};
            *count += 1;
        }
    }
    return names;
}

// Fills inputs->pairs from names [count], sorted. A feature has the index of its first table among
// the first tables. A table names each of its features once.
static bool make_pairs(ls_reader *reader, ls_scenario_inputs *inputs, const ls_feature_name *names,
                       int count) {
    inputs->pairs = ls_read__alloc(reader, (size_t)count, sizeof *inputs->pairs);
    int *first = ls_read__alloc(reader, (size_t)count, sizeof *first);
    if (inputs->pairs == NULL || first == NULL) {
        return false;
    }
    inputs->pair_count = count;
    for (int i = 0; i < count; i++) {
        bool again = i > 0 && strcmp(names[i - 1].name, names[i].name) == 0;
        if (again && names[i - 1].table == names[i].table) {
            complain_of_twice(reader, &names[i - 1], &names[i], "feature");
        }
        first[names[i].order] = again ? first[names[i - 1].order] : names[i].order;
        inputs->pairs[names[i].order].table = names[i].table;
    }
    inputs->feature_count = 0;
    for (int p = 0; p < count; p++) {
        inputs->pairs[p].feature =
            first[p] == p ? inputs->feature_count++ : inputs->pairs[first[p]].feature;
    }
    return true;
}

// Properties of a feature that follow from its tables.
static void settle_feature(const ls_scenario *scenario, ls_scenario_feature *feature, int index) {
    const ls_scenario_inputs *inputs = &scenario->inputs;
    feature->table = -1;
    feature->weighted = false;
    for (int p = 0; p < inputs->pair_count; p++) {
        const ls_scenario_table *table = &scenario->tables[inputs->pairs[p].table];
        if (inputs->pairs[p].feature != index) {
            continue;
        }
        bool is_first = feature->table < 0;
        feature->table = is_first ? inputs->pairs[p].table : feature->table;
        feature->rows = is_first || table->rows < feature->rows ? table->rows : feature->rows;
        feature->weighted = feature->weighted || table->weighted;
    }
}

// Sorts the features into table order and adds those that the file omits, with defaults.
static void order_features(ls_reader *reader, ls_scenario *scenario, const ls_feature_name *names,
                           int count) {
    ls_scenario_inputs *inputs = &scenario->inputs;
    int field = ls_schema_find(inputs->node.record, "features"),
        given_count = inputs->feature_count;
    const ls_schema_record *record = inputs->node.record->fields[field].record;
    ls_scenario_feature *ordered = ls_read__alloc(reader, (size_t)count, sizeof *ordered);
    if (ordered == NULL || !make_pairs(reader, inputs, names, count)) {
        inputs->feature_count = 0;
        return;
    }
    for (int i = 0; i < count; i++) {
        ls_scenario_feature *feature = &ordered[inputs->pairs[names[i].order].feature];
        if (feature->name == NULL) {
            ls_read__record(reader, feature, record, NULL);
            feature->name = names[i].name;
            feature->node.mark = names[i].mark;
        }
    }
    for (int i = 0; i < given_count && ls_read__going(reader); i++) {
        const ls_scenario_feature *given = &inputs->features[i];
        if (given->name == NULL) {
            continue;
        }
        int found = find_feature(names, count, given->name);
        if (found < 0) {
            unknown_name(reader, given->node.mark, "feature", given->name, names, count);
            continue;
        }
        ls_scenario_feature *feature = &ordered[inputs->pairs[names[found].order].feature];
        *feature = *given;
        settle_feature(scenario, feature, (int)(feature - ordered));
        if (ls_node_has(&given->node, "weights") && !feature->weighted && !inputs->weighted) {
            ls_check__error(reader, ls_node_mark(&given->node, "weights"), "weighted: true", NULL,
                            "feature %.60s: weights, but the inputs are not weighted", given->name);
        }
    }
    inputs->features = ordered;
    for (int f = 0; f < inputs->feature_count; f++) {
        settle_feature(scenario, &ordered[f], f);
    }
    for (int t = 0; t < scenario->table_count; t++) {
        inputs->weighted = inputs->weighted || scenario->tables[t].weighted;
    }
}

static void check_tables(ls_reader *reader, ls_scenario *scenario) {
    ls_feature_name *tables = ls_read__alloc(reader, (size_t)scenario->table_count, sizeof *tables);
    for (int i = 0; i < scenario->table_count && tables != NULL && ls_read__going(reader); i++) {
        ls_scenario_table *table = &scenario->tables[i];
        ls_mark mark = ls_node_mark(&table->node, "name");
        table->name = table->name == NULL ? "" : table->name;
        tables[i] = (ls_feature_name){.name = table->name, .mark = mark, .order = i};
        if (table->features.at != NULL && table->features.count == 0) {
            ls_check__error(reader, ls_node_mark(&table->node, "features"), "at least one feature",
                            NULL, "features: none");
        } else if (table->features.count == 0) {
            const char **name = ls_read__alloc(reader, 1, sizeof *name);
            ls_mark *marks = ls_read__alloc(reader, 1, sizeof *marks);
            if (name != NULL && marks != NULL) {
                name[0] = table->name;
                marks[0] = mark;
                table->features = (ls_string_list){.at = name, .marks = marks, .count = 1};
            }
        }
        if (ls_node_has(&table->node, "padding_id") && table->padding_id >= table->rows &&
            table->rows > 0) {
            ls_check__error(reader, ls_node_mark(&table->node, "padding_id"), NULL, NULL,
                            "padding_id: %" PRId64 " is not a row of the %" PRId64,
                            table->padding_id, table->rows);
        }
        bool sums = table->pooling == LS_POOL_SUM || table->pooling == LS_POOL_MEAN;
        bool own = ls_node_has(&table->node, "weighted");
        if (own && table->weighted && !sums) {
            ls_check__error(reader, ls_node_mark(&table->node, "weighted"), "pooling: sum or mean",
                            NULL, "weighted: the table is pooled by neither sum nor mean");
        }
        table->weighted = sums && (own ? table->weighted : scenario->inputs.weighted);
        if (ls_node_has(&table->node, "mean_divisor") && table->pooling != LS_POOL_MEAN) {
            ls_check__error(reader, ls_node_mark(&table->node, "mean_divisor"), "pooling: mean",
                            NULL, "mean_divisor: the table is not pooled by mean");
        }
        const ls_generator *weights = &table->weights;
        if (weights->kind == LS_GENERATOR_VALUES && table->rows > 0 &&
            weights->value_count / table->rows != table->dim) {
            ls_check__error(reader, ls_node_mark(&weights->node, "values"), NULL, NULL,
                            "weights: %" PRId64 " values for %" PRId64 " x %" PRId64,
                            weights->value_count, table->rows, table->dim);
        }
        ls_check__sharding(reader, scenario, table);
    }
    if (tables != NULL && ls_read__going(reader)) {
        check_unique(reader, tables, scenario->table_count, "table");
    }
}

static void check_inputs(ls_reader *reader, ls_scenario *scenario) {
    if (!ls_node_has(&scenario->node, "inputs")) {
        ls_check__error(reader, scenario->node.mark, "inputs: {batch: 8}, for example", NULL,
                        "the key inputs is missing, which tables need");
        return;
    }
    ls_check__spread(reader, scenario, &scenario->inputs.batch, &scenario->inputs.node, "batch");
    int count = 0;
    ls_feature_name *names = feature_names(reader, scenario, &count);
    if (names == NULL) {
        return;
    }
    for (int i = 0; i < count && ls_read__going(reader); i++) {
        ls_check__stage_name(reader, names[i].mark, "output_dist",
                             scenario->tables[names[i].table].name, names[i].name);
    }
    if (count > LS_JAGGED_KEYS_MAX) {
        ls_check__error(reader, names[LS_JAGGED_KEYS_MAX].mark, NULL, NULL,
                        "features: %d, more than %d", count, LS_JAGGED_KEYS_MAX);
    }
    qsort(names, (size_t)count, sizeof *names, compare_names);
    order_features(reader, scenario, names, count);
    ls_check__features(reader, scenario);
}

// ---- The rest -----------------------------------------------------------------------------------
static void check_form(ls_reader *reader, ls_scenario *scenario) {
    bool tables = ls_node_has(&scenario->node, "tables");
    if (tables && scenario->is_program) {
        ls_check__error(reader, ls_node_mark(&scenario->node, "program"), NULL, NULL,
                        "a program and tables exclude each other in a scenario");
    } else if (!tables && !scenario->is_program && !reader->root_is_odd) {
        ls_check__error(reader, scenario->node.mark, "tables with inputs, or a program", NULL,
                        "the scenario has neither tables nor a program");
    } else if (tables && scenario->table_count == 0) {
        ls_check__error(reader, ls_node_mark(&scenario->node, "tables"), "at least one table", NULL,
                        "tables: none");
    }
    static const char *const of_tables[] = {"inputs",     "steps",    "optimizer",      "train",
                                            "checkpoint", "pipeline", "torchrec_quirks"};
    for (size_t i = 0; i < sizeof of_tables / sizeof *of_tables && !tables; i++) {
        if (scenario->is_program && ls_node_has(&scenario->node, of_tables[i])) {
            ls_check__error(reader, ls_node_mark(&scenario->node, of_tables[i]), NULL, NULL,
                            "%s: applies to tables, not to a program", of_tables[i]);
        }
    }
}

// Reads a machine's file, so that its errors are reported with the scenario's.
static void check_machine(ls_reader *reader, const ls_scenario *scenario) {
    ls_text errors = {0};
    ls_topology topology;
    if (scenario->machine == NULL || scenario->ranks == 0 ||
        !ls_scenario_machine_is_path(scenario->machine)) {
        return;
    }
    int status = ls_scenario_machine(&topology, &errors, scenario, NULL);
    reader->no_memory = reader->no_memory || status == LS_ERR_MEMORY;
    if (status != LS_OK) {
        ls_check__error(reader, ls_node_mark(&scenario->node, "machine"), NULL, NULL, "machine: %s",
                        ls_error_last()->text);
    }
    ls_text_free(&errors);
}

void ls_scenario__check(ls_reader *reader, ls_scenario *scenario) {
    check_mesh(reader, scenario);
    check_machine(reader, scenario);
    check_form(reader, scenario);
    if (ls_node_has(&scenario->node, "tables")) {
        check_tables(reader, scenario);
        check_inputs(reader, scenario);
        ls_check__training(reader, scenario);
    }
    if (scenario->is_program) {
        ls_scenario__check_program(reader, scenario);
    }
    ls_scenario__check_ends(reader, scenario);
}
