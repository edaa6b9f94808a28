// Which arrays a table has in a checkpoint, and whether a checkpoint has those of a table.
#include <inttypes.h>
#include <string.h>

#include "embedding/checkpoint.h"

void ls_checkpoint_describe(ls_checkpoint_table *out, const ls_table *table,
                            const ls_optimizer *optimizer) {
    LS_ASSERT(out && table);
    *out = (ls_checkpoint_table){.array_count = 1};
    out->arrays[0] = (ls_checkpoint_array){"weights", table->dtype, false};
    const ls_optimizer_traits *about = optimizer ? ls_optimizer_about(optimizer->kind) : NULL;
    int states = optimizer ? ls_optimizer_state_count(optimizer) : 0;
    out->optimizer = states > 0 ? about->name : NULL;
    for (int s = 0; s < states; s++) {
        out->arrays[out->array_count++] =
            (ls_checkpoint_array){about->states[s].name, ls_optimizer_state_dtype(table->dtype),
                                  about->states[s].per_row};
    }
}

static int find_table(int *out, const ls_checkpoint *checkpoint, const ls_table *table) {
    const ls_plan *plan = ls_checkpoint_plan(checkpoint);
    for (int t = 0; t < plan->table_count; t++) {
        if (strcmp(plan->tables[t].name, table->name) != 0) {
            continue;
        }
        if (plan->tables[t].rows != table->rows || plan->tables[t].columns != table->dim) {
            return LS_FAIL(LS_ERR_INVALID,
                           "table %s is %" PRId64 " x %" PRId64 ", in the checkpoint %" PRId64
                           " x %" PRId64,
                           table->name, table->rows, table->dim, plan->tables[t].rows,
                           plan->tables[t].columns);
        }
        *out = t;
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_INVALID, "the checkpoint has no table %s", table->name);
}

static int find_array(int *out, const ls_checkpoint_array *wanted, const ls_checkpoint_table *have,
                      const char *table) {
    for (int a = 0; a < have->array_count; a++) {
        if (strcmp(have->arrays[a].name, wanted->name) != 0) {
            continue;
        }
        if (have->arrays[a].dtype != wanted->dtype || have->arrays[a].per_row != wanted->per_row) {
            return LS_FAIL(LS_ERR_INVALID, "table %s: %s is %s%s, in the checkpoint %s%s", table,
                           wanted->name, ls_dtype_name(wanted->dtype),
                           wanted->per_row ? " per row" : "", ls_dtype_name(have->arrays[a].dtype),
                           have->arrays[a].per_row ? " per row" : "");
        }
        *out = a;
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_INVALID,
                   "table %s: the checkpoint has no %s; it was trained by another optimizer, or "
                   "not at all",
                   table, wanted->name);
}

int ls_checkpoint_find(ls_checkpoint_place *out, const ls_checkpoint *checkpoint,
                       const ls_table *table, const ls_optimizer *optimizer) {
    LS_ASSERT(out && checkpoint && table);
    ls_checkpoint_table wanted;
    LS_TRY(find_table(&out->table, checkpoint, table));
    const ls_checkpoint_table *have = &ls_checkpoint_tables(checkpoint)[out->table];
    const char *own = optimizer ? ls_optimizer_about(optimizer->kind)->name : NULL;
    if (own && have->optimizer && strcmp(own, have->optimizer) != 0) {
        return LS_FAIL(LS_ERR_INVALID,
                       "table %s: the optimizer is %s, the checkpoint has the states of %.60s",
                       table->name, own, have->optimizer);
    }
    ls_checkpoint_describe(&wanted, table, optimizer);
    for (int a = 0; a < wanted.array_count; a++) {
        LS_TRY(find_array(&out->arrays[a], &wanted.arrays[a], have, table->name));
    }
    if (optimizer && have->array_count > wanted.array_count) {
        return LS_FAIL(LS_ERR_INVALID,
                       "table %s: the checkpoint has states that this %s does not have",
                       table->name, own);
    }
    return LS_OK;
}
