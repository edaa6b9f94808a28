// lockstep reshard: a checkpoint of sharded embedding tables under another plan or world size.
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/scenarios.h"
#include "embedding/checkpoint.h"
#include "formats/json.h"

static const char *plan_file;

static const cli_option options[] = {
    {CLI_STRING, "plan", &plan_file, "PLAN",
     .help = "Plan file of the new shards (lockstep plan --out writes one); required"},
    {.long_name = NULL},
};

static void write_text(ls_text *out, const ls_checkpoint *from, const ls_plan *plan,
                       const char *to) {
    const ls_plan *before = ls_checkpoint_plan(from);
    for (int t = 0; t < plan->table_count; t++) {
        const ls_plan_table *table = &plan->tables[t];
        int of = 0;
        while (strcmp(before->tables[of].name, table->name) != 0) {
            of++;
        }
        const ls_checkpoint_table *arrays = &ls_checkpoint_tables(from)[of];
        ls_text_printf(
            out, "%s  %" PRId64 " x %" PRId64 "  %s, %d shards -> %s, %d shards ", table->name,
            table->rows, table->columns, ls_sharding_name(before->tables[of].sharding),
            before->tables[of].shard_count, ls_sharding_name(table->sharding), table->shard_count);
        for (int a = 0; a < arrays->array_count; a++) {
            ls_text_printf(out, "%s%s", a == 0 ? " (" : ", ", arrays->arrays[a].name);
        }
        ls_text_puts(out, ")\n");
    }
    ls_text_printf(out, "reshard: %d tables after step %" PRId64 ", %d -> %d ranks: %s\n",
                   plan->table_count, ls_checkpoint_step(from), before->ranks, plan->ranks, to);
}

static void write_json(ls_text *out, const ls_checkpoint *from, const ls_plan *plan,
                       const char *to) {
    ls_json json;
    ls_json_report_begin(&json, out, 2, "reshard");
    ls_json_member_string(&json, "verdict", "pass");
    ls_json_member_string(&json, "written", to);
    ls_json_member_int(&json, "step", ls_checkpoint_step(from));
    ls_json_member_int(&json, "tables", plan->table_count);
    ls_json_member_int(&json, "ranks_before", ls_checkpoint_plan(from)->ranks);
    ls_json_member_int(&json, "ranks", plan->ranks);
    ls_json_report_end(&json);
}

static int report(const ls_checkpoint *from, const ls_plan *plan, const char *to) {
    int code = LS_EXIT_OK;
    ls_text text = {0}, json = {0};
    if (!cli_stdout_taken() && !cli_options_common.quiet) {
        write_text(&text, from, plan, to);
        code = cli_print(&text);
    }
    if (code == LS_EXIT_OK && cli_options_common.json != NULL) {
        write_json(&json, from, plan, to);
        code = cli_output(cli_options_common.json, &json);
    }
    ls_text_free(&text);
    ls_text_free(&json);
    ls_results *results = NULL;
    int status = ls_results_create(&results, "reshard");
    if (status == LS_OK) {
        status = ls_results_add(results, &(ls_case_result){.name = to, .file = to, .pass = true});
    }
    if (code == LS_EXIT_OK) {
        code = status == LS_OK ? cli_report_pages(results) : cli_fail(status);
    }
    ls_results_free(results);
    return code;
}

static int run(const cli_args *args) {
    const char *from = args->values[0], *to = args->values[1];
    if (plan_file == NULL) {
        cli_error("reshard needs --plan PLAN, the plan of the new shards");
        return LS_EXIT_USAGE;
    }
    ls_arena *arena = NULL;
    ls_checkpoint *checkpoint = NULL;
    ls_plan plan;
    int status = ls_arena_create(&arena);
    int code = status == LS_OK ? cli_plan_load(&plan, arena, plan_file) : cli_fail(status);
    if (code == LS_EXIT_OK) {
        status = ls_checkpoint_open(&checkpoint, from);
        status = status == LS_OK ? ls_checkpoint_reshard(to, checkpoint, &plan) : status;
        code = status == LS_OK ? report(checkpoint, &plan, to) : cli_fail(status);
    }
    ls_checkpoint_free(checkpoint);
    ls_arena_free(arena);
    return code;
}

const cli_command cli_cmd_reshard = {
    .name = "reshard",
    .arguments = "FROM TO",
    .arguments_min = 2,
    .arguments_max = 2,
    .output_argument = 2,
    .summary = "Reshard an embedding checkpoint to a new plan",
    .details = "FROM is a checkpoint of run --checkpoint: weights and optimizer states of sharded "
               "tables. TO must not exist; it gets the same tables in the shards of the plan. "
               "Elements are copied bit for bit. A state of one number per row is copied for "
               "narrower blocks and averaged by width for joined ones.",
    .example = "lockstep reshard before after --plan eight.plan",
    .common = CLI_COMMON_REPORTS,
    .options = options,
    .run = run,
};
