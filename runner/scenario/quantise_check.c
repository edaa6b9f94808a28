// Checks quantised tables and types of outputs.
#include "runner/scenario/read.h"

void ls_check__quantise(ls_reader *reader, const ls_scenario *scenario, ls_scenario_table *table) {
    ls_scenario_quantise *quantise = &table->quantise;
    bool quantised = quantise->node.mark.line > 0;
    quantise->format.scale_f32 = quantise->scale == LS_F32;
    quantise->format.scale_first = !quantise->scale_last && quantise->format.element <= LS_ROW_INT2;
    quantise->format.alignment = (size_t)quantise->alignment;
    if (quantised && ls_row_format_check(&quantise->format) != LS_OK) {
        ls_check__error(reader, quantise->node.mark, NULL, NULL, "quantise: %s",
                        ls_error_last()->text);
    }
    if (quantised && table->dtype != LS_F32 && table->dtype != LS_F16 && table->dtype != LS_BF16) {
        ls_check__error(reader, ls_node_mark(&table->node, "dtype"), "f32, f16 or bf16", NULL,
                        "quantise: the table's numbers are %s", ls_dtype_name(table->dtype));
    }
    if (quantised && table->max_norm > 0) {
        ls_check__error(reader, ls_node_mark(&table->node, "max_norm"), NULL, NULL,
                        "max_norm: changes rows, and quantised ones stay as they are");
    }
    // Scale and bias are of integers.
    bool integer = quantise->format.element <= LS_ROW_INT2;
    if (quantised && !integer && ls_node_has(&quantise->node, "scale_bias_last")) {
        ls_check__error(reader, ls_node_mark(&quantise->node, "scale_bias_last"), NULL, NULL,
                        "scale_bias_last: rows of %s have neither",
                        ls_row_element_name(quantise->format.element));
    }
    if (ls_scenario_runs(scenario, LS_TABLES_BACKWARD) && (quantised || table->has_output_dtype)) {
        const char *key = quantised ? "quantise" : "output_dtype";
        ls_check__error(reader, ls_node_mark(&table->node, key), "steps: [forward]", NULL,
                        "%s: is for inference, and has no backward pass", key);
    }
}

bool ls_scenario_quantises(const ls_scenario *scenario) {
    for (int t = 0; t < scenario->table_count; t++) {
        if (scenario->tables[t].quantise.node.mark.line > 0) {
            return true;
        }
    }
    return false;
}

ls_table ls_scenario_table_config(const ls_scenario *scenario, int index) {
    LS_ASSERT(index >= 0 && index < scenario->table_count);
    const ls_scenario_table *table = &scenario->tables[index];
    const ls_scenario_quantise *quantise = &table->quantise;
    return (ls_table){
        .name = table->name,
        .rows = table->rows,
        .dim = table->dim,
        .dtype = table->dtype,
        .pooling = table->pooling,
        .features = table->features.at,
        .feature_count = table->features.count,
        .weighted = table->weighted,
        .has_padding_id = table->padding_id >= 0,
        .padding_id = table->padding_id,
        .mean_divisor = table->mean_divisor,
        .max_norm = table->max_norm,
        .norm_type = table->norm_type,
        .row_format = quantise->node.mark.line > 0 ? &quantise->format : NULL,
        .quantise_shards = quantise->order == LS_SHARD_THEN_QUANTISE,
        .has_output_dtype = table->has_output_dtype,
        .output_dtype = table->output_dtype,
    };
}
