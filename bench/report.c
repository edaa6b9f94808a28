// The rows of a benchmark, for people and as JSON.
#include <inttypes.h>

#include "bench/bench.h"
#include "formats/json.h"

static void put_limited(ls_text *out, double value, double limit, const char *unit) {
    if (value == 0) {
        ls_text_printf(out, "%11s%9s", "", "");
    } else if (limit == 0) {
        ls_text_printf(out, "%10.4g%s%9s", value, unit, "");
    } else {
        ls_text_printf(out, "%10.4g%s (<%5.4g)", value, unit, limit);
    }
}

static const char *yardstick_of(const ls_bench_row *row) {
    return row->yardstick != NULL ? row->yardstick : "memcpy";
}

void ls_bench_write_text(ls_text *out, const ls_bench *bench) {
    ls_text_printf(out, "%-12s %-25s %6s %9s %9s %9s  %-21s %19s %20s\n", "suite", "what", "ranks",
                   "elements", "median ms", "limit ms", "yardstick, ms", "of yardstick ",
                   "memory of shards");
    for (int i = 0; i < bench->row_count; i++) {
        const ls_bench_row *row = &bench->rows[i];
        ls_text_printf(out, "%-12s %-25s %6d %9" PRIu64 " %9.3f", row->suite, row->name, row->ranks,
                       row->elements, row->time_ms);
        if (row->time_ms_limit != 0) {
            ls_text_printf(out, " %9.4g", row->time_ms_limit);
        } else {
            ls_text_printf(out, " %9s", "");
        }
        ls_text_printf(out, "  %-10s %10.3f", yardstick_of(row), row->yardstick_ms);
        put_limited(out, row->ratio, row->ratio_limit, "x");
        if (row->memory_bytes != 0) {
            put_limited(out, (double)row->memory_bytes / 1e6, (double)row->memory_bytes_limit / 1e6,
                        "M");
        } else {
            put_limited(out, row->memory_ratio, row->memory_ratio_limit, "x");
        }
        if (row->gb_per_s != 0) {
            ls_text_printf(out, "  %.1f GB/s", row->gb_per_s);
        }
        ls_text_printf(out, "%s\n", ls_bench_row_holds(row) ? "" : "  over the limit");
    }
}

void ls_bench_write_json(ls_text *out, const ls_bench *bench) {
    ls_json json;
    ls_json_report_begin(&json, out, 2, "bench");
    bool holds = true;
    for (int i = 0; i < bench->row_count; i++) {
        holds = holds && ls_bench_row_holds(&bench->rows[i]);
    }
    ls_json_member_string(&json, "verdict", holds ? "pass" : "fail");
    ls_json_member_array(&json, "rows");
    for (int i = 0; i < bench->row_count; i++) {
        const ls_bench_row *row = &bench->rows[i];
        ls_json_object_open(&json);
        ls_json_member_string(&json, "suite", row->suite);
        ls_json_member_string(&json, "name", row->name);
        ls_json_member_int(&json, "ranks", row->ranks);
        ls_json_member_uint(&json, "elements", row->elements);
        ls_json_member_uint(&json, "bytes_moved", row->bytes_moved);
        ls_json_member_int(&json, "repetitions", row->repetitions);
        ls_json_member_double(&json, "time_ms", row->time_ms);
        ls_json_member_double(&json, "time_ms_min", row->time_ms_min);
        ls_json_member_double(&json, "time_ms_limit", row->time_ms_limit);
        ls_json_member_string(&json, "yardstick", yardstick_of(row));
        ls_json_member_double(&json, "yardstick_ms", row->yardstick_ms);
        ls_json_member_double(&json, "gb_per_s", row->gb_per_s);
        ls_json_member_double(&json, "ratio", row->ratio);
        ls_json_member_double(&json, "ratio_limit", row->ratio_limit);
        ls_json_member_double(&json, "memory_ratio", row->memory_ratio);
        ls_json_member_double(&json, "memory_ratio_limit", row->memory_ratio_limit);
        ls_json_member_uint(&json, "memory_bytes", row->memory_bytes);
        ls_json_member_uint(&json, "memory_bytes_limit", row->memory_bytes_limit);
        ls_json_member_bool(&json, "holds", ls_bench_row_holds(row));
        ls_json_object_close(&json);
    }
    ls_json_array_close(&json);
    ls_json_report_end(&json);
}
