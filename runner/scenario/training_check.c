// Checks the meaning of a scenario's training: the parts of a step, their requirements, and
// impossible optimizers and backward passes.
#include <string.h>

#include "runner/scenario/read.h"

const ls_optimizer *ls_scenario_optimizer_of(const ls_scenario *scenario, int table) {
    LS_ASSERT(table >= 0 && table < scenario->table_count);
    const ls_scenario_optimizer *own = &scenario->tables[table].optimizer;
    return own->node.mark.line > 0 ? &own->rule : &scenario->optimizer.rule;
}

// A step has forward, backward and update in this order, each once.
static void check_steps(ls_reader *reader, ls_scenario *scenario) {
    static const ls_tables_step forward[] = {LS_TABLES_FORWARD};
    ls_mark mark = ls_node_mark(&scenario->node, "steps");
    if (!ls_node_has(&scenario->node, "steps")) {
        scenario->tables_steps = forward;
        scenario->tables_step_count = 1;
    }
    for (int i = 0; i < scenario->tables_step_count; i++) {
        if ((int)scenario->tables_steps[i] != i) {
            static const char *const names[] = {"forward", "backward", "update"};
            int step = (int)scenario->tables_steps[i];
            ls_check__error(reader, mark, "forward, then backward, then update, each once", NULL,
                            step > i ? "steps: %s without %s before it" : "steps: %s is repeated",
                            names[step], step > 0 ? names[step - 1] : "");
            return;
        }
    }
}

// ---- Optimizers ---------------------------------------------------------------------------------
// Missing values are the defaults of the kind and form.
static void settle(ls_scenario_optimizer *optimizer, uint64_t seed) {
    static const struct {
        const char *key;
        size_t offset;
    } keys[] = {
        {"lr", offsetof(ls_optimizer, lr)},
        {"eps", offsetof(ls_optimizer, eps)},
        {"momentum", offsetof(ls_optimizer, momentum)},
        {"beta1", offsetof(ls_optimizer, beta1)},
        {"beta2", offsetof(ls_optimizer, beta2)},
        {"eta", offsetof(ls_optimizer, eta)},
        {"weight_decay", offsetof(ls_optimizer, weight_decay)},
        {"initial_accumulator", offsetof(ls_optimizer, initial_accumulator)},
    };
    ls_optimizer *rule = &optimizer->rule;
    ls_optimizer settled = ls_optimizer_default(rule->kind, rule->form);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (ls_node_has(&optimizer->node, keys[i].key)) {
            memcpy((char *)&settled + keys[i].offset, (char *)rule + keys[i].offset,
                   sizeof(double));
        }
    }
    settled.decay = ls_node_has(&optimizer->node, "weight_decay_mode")
                        ? rule->decay
                        : ls_optimizer_about(rule->kind)->decay[rule->form];
    settled.stochastic_rounding = rule->stochastic_rounding;
    settled.seed = seed;
    *rule = settled;
}

// A key that the kind's formula ignores would have no effect.
static void check_read(ls_reader *reader, const ls_scenario_optimizer *optimizer) {
    static const char *const keys[][2] = {
        {"eps", "an optimizer of adagrad's, adam's or lamb's"},
        {"momentum", "type: sgd or lars_sgd"},
        {"beta1", "an optimizer of adam's or lamb's"},
        {"beta2", "an optimizer of adam's or lamb's"},
        {"eta", "type: lars_sgd"},
        {"initial_accumulator", "type: adagrad or rowwise_adagrad"},
    };
    ls_optimizer_kind kind = optimizer->rule.kind;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *key = keys[i][0];
        if (ls_node_has(&optimizer->node, key) && !ls_optimizer_reads(kind, key)) {
            ls_check__error(reader, ls_node_mark(&optimizer->node, key), keys[i][1], NULL,
                            "%s does not apply to %s", key, ls_optimizer_about(kind)->name);
        }
    }
}

static void check_optimizer(ls_reader *reader, uint64_t seed, ls_scenario_optimizer *optimizer) {
    if (optimizer->node.mark.line == 0 || !ls_node_has(&optimizer->node, "type")) {
        return;
    }
    check_read(reader, optimizer);
    settle(optimizer, seed);
    if (ls_optimizer_check(&optimizer->rule) != LS_OK) {
        ls_check__error(reader, optimizer->node.mark, NULL, NULL, "%s", ls_error_last()->text);
    }
}

// ---- Tables -------------------------------------------------------------------------------------
static void check_table(ls_reader *reader, const ls_scenario *scenario, int index) {
    const ls_scenario_table *table = &scenario->tables[index];
    bool backward = ls_scenario_runs(scenario, LS_TABLES_BACKWARD);
    bool update = ls_scenario_runs(scenario, LS_TABLES_UPDATE);
    bool own = table->optimizer.node.mark.line > 0;
    // A table placed by a plan file is checked when it is run.
    if (backward && table->pooling == LS_POOL_MAX && table->sharding.has_type &&
        ls_sharding_traits_of(table->sharding.type).rows != LS_OVER_ONE) {
        ls_check__error(reader, ls_node_mark(&table->node, "pooling"),
                        "data_parallel, table_wise or column_wise, for example", NULL,
                        "table %.60s: max has no backward pass under %s", table->name,
                        ls_sharding_name(table->sharding.type));
    }
    if (ls_node_has(&table->node, "norm_type") && !ls_node_has(&table->node, "max_norm")) {
        ls_check__error(reader, ls_node_mark(&table->node, "norm_type"), "max_norm: 1", NULL,
                        "norm_type: the table has no max_norm");
    }
    bool eight = ls_dtype_bytes(table->dtype) == 1;
    if (eight && (backward || table->max_norm > 0)) {
        ls_check__error(reader, ls_node_mark(&table->node, "dtype"), "f32, f64, f16 or bf16", NULL,
                        "table %.60s: no weights of %s are %s", table->name,
                        ls_dtype_name(table->dtype), backward ? "trained" : "held to a max_norm");
    }
    if (update && !own && !ls_node_has(&scenario->node, "optimizer")) {
        ls_check__error(reader, ls_node_mark(&scenario->node, "steps"),
                        "optimizer: {type: sgd, lr: 0.1}, for example", NULL,
                        "steps: update without an optimizer for table %.60s", table->name);
        return;
    }
    bool rounds = update && ls_scenario_optimizer_of(scenario, index)->stochastic_rounding;
    if (rounds && table->dtype != LS_F16 && table->dtype != LS_BF16) {
        const ls_scenario_optimizer *of = own ? &table->optimizer : &scenario->optimizer;
        ls_check__error(
            reader, ls_node_mark(&of->node, "stochastic_rounding"), "tables of f16 or bf16", NULL,
            "stochastic_rounding: table %.60s has type %s, whose weights are not rounded",
            table->name, ls_dtype_name(table->dtype));
    }
}

// An optimizer without a trained table.
static void check_idle(ls_reader *reader, const ls_scenario *scenario,
                       const ls_scenario_optimizer *optimizer) {
    if (optimizer->node.mark.line > 0 && !ls_scenario_runs(scenario, LS_TABLES_UPDATE)) {
        ls_check__error(reader, optimizer->node.mark, "steps: [forward, backward, update]", NULL,
                        "optimizer: the steps have no update");
    }
}

// Keys of `train` without an effect on the given steps.
static void check_train(ls_reader *reader, const ls_scenario *scenario) {
    static const struct {
        const char *key, *expected;
        ls_tables_step needs;
    } keys[] = {
        {"gradients", "steps: [forward, backward]", LS_TABLES_BACKWARD},
        {"gradient_division", "steps: [forward, backward]", LS_TABLES_BACKWARD},
        {"clip_norm", "steps: [forward, backward, update]", LS_TABLES_UPDATE},
    };
    const ls_scenario_train *train = &scenario->train;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && train->node.mark.line > 0; i++) {
        if (ls_node_has(&train->node, keys[i].key) && !ls_scenario_runs(scenario, keys[i].needs)) {
            ls_check__error(reader, ls_node_mark(&train->node, keys[i].key), keys[i].expected, NULL,
                            "%s: the steps have no %s", keys[i].key,
                            keys[i].needs == LS_TABLES_UPDATE ? "update" : "backward");
        }
    }
}

static void check_pipeline(ls_reader *reader, const ls_scenario *scenario) {
    if (scenario->pipeline && scenario->train.steps < 2) {
        ls_check__error(reader, ls_node_mark(&scenario->node, "pipeline"),
                        "train: {steps: 3}, for example", NULL,
                        "pipeline: a single step has no next batch");
    }
}

// A quirk of a sharding that no table has. A plan file may place a table with any type.
static void check_quirks(ls_reader *reader, const ls_scenario *scenario) {
    bool read = !scenario->quirks.grid_mean_not_divided;
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        read = read || (table->pooling == LS_POOL_MEAN &&
                        (!table->sharding.has_type || table->sharding.type == LS_GRID));
    }
    if (!read) {
        ls_check__error(reader, ls_node_mark(&scenario->node, "torchrec_quirks"),
                        "a table with pooling: mean under type: grid", NULL,
                        "grid_mean_not_divided does not apply to any of the tables");
    }
}

void ls_check__training(ls_reader *reader, ls_scenario *scenario) {
    check_pipeline(reader, scenario);
    check_steps(reader, scenario);
    check_optimizer(reader, scenario->seed, &scenario->optimizer);
    check_idle(reader, scenario, &scenario->optimizer);
    for (int i = 0; i < scenario->table_count && ls_read__going(reader); i++) {
        check_optimizer(reader, scenario->seed, &scenario->tables[i].optimizer);
        check_idle(reader, scenario, &scenario->tables[i].optimizer);
        check_table(reader, scenario, i);
        ls_check__quantise(reader, scenario, &scenario->tables[i]);
    }
    check_train(reader, scenario);
    check_quirks(reader, scenario);
}
