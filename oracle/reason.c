// Why an output is by design.
#include <stdio.h>

#include "oracle/internal.h"

// The table's own differences, or, where a norm joins the tables, those of one that has some.
void ls_oracle__say_why(const ls_oracle *oracle, const oracle_entry *entry, oracle_meaning *out) {
    bool trained = entry->stage > LS_STAGE_OUTPUT_DIST_BACKWARD || oracle->options.previous;
    (void)ls_oracle__documented(oracle, entry->table, out);
    if (ls_oracle__own_scales(oracle, entry->table)) {
        ls_oracle__say(
            out, "the table was sharded and then quantised: each column shard has the scale and "
                 "bias of its own columns, unsharded a row has one of each (quantise: order: "
                 "shard_then_quantise)");
    }
    for (int i = 0; trained && i <= oracle->options.table_count && !out->why[0]; i++) {
        int t = i == 0 ? entry->table : i - 1;  // the table itself first
        (void)ls_oracle__documented(oracle, t, out);
        if (ls_oracle__own_state(oracle, t)) {
            char text[256];
            snprintf(text, sizeof(text),
                     "%s of %.64s takes the norm of a row: each column shard that of its own "
                     "columns, and keeps a state of its own, as in TorchRec",
                     ls_optimizer_about(ls_oracle__training(oracle)->optimizers[t].kind)->name,
                     oracle->options.tables[t].name);
            ls_oracle__say(out, text);
        }
        if (t != entry->table && out->why[0]) {
            ls_oracle__say(out, "the norm that gradients are clipped by is of all tables");
        }
    }
}
