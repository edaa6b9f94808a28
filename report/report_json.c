// Results as JSON, format 1.
#include "report/report.h"
#include "formats/json.h"
#include "kernels/ulps.h"

// Readers of JSON hold integers in 64 signed bits; a distance beyond that is reported as the
// largest.
static uint64_t readable(uint64_t value) {
    return value < INT64_MAX ? value : INT64_MAX;
}

static void write_stage(ls_json *json, const ls_stage_result *stage) {
    ls_json_object_open(json);
    ls_json_member_string(json, "name", stage->name);
    ls_json_member_string(json, "class", ls_class_name(stage->class_));
    ls_json_member_string(json, "against", ls_judge_name(stage->judge));
    ls_json_member_uint(json, "elements", readable(stage->elements));
    ls_json_member_uint(json, "unjudged", readable(stage->unjudged));
    ls_json_member_uint(json, "differing", readable(stage->differing));
    const char *word = ls_ulps_word(stage->max_ulps);
    if (word != NULL) {
        ls_json_member_string(json, "max_ulps", word);
    } else {
        ls_json_member_uint(json, "max_ulps", readable(stage->max_ulps));
    }
    if (stage->max_difference != 0) {
        ls_json_member_uint(json, "max_difference", readable(stage->max_difference));
    }
    ls_json_member_double(json, "bound_ratio", stage->bound_ratio);
    ls_json_member_string(json, "order", stage->order);
    ls_json_member_given(json, "divergence", stage->divergence);
    ls_json_object_close(json);
}

static void write_finding(ls_json *json, const ls_finding *finding) {
    ls_json_object_open(json);
    ls_json_member_string(json, "id", ls_finding_name(finding->id));
    ls_json_member_array(json, "ranks");
    for (int r = 0; r < finding->rank_count; r++) {
        ls_json_int(json, finding->ranks[r]);
    }
    ls_json_array_close(json);
    ls_json_member_string(json, "where", finding->where);
    ls_json_member_string(json, "text", finding->text);
    ls_text explain = {0};
    ls_text_printf(&explain, "lockstep explain %s", ls_finding_name(finding->id));
    ls_json_member_string(json, "explain", ls_text_string(&explain));
    json->out->failed = json->out->failed || explain.failed;
    ls_text_free(&explain);
    ls_json_object_close(json);
}

static void write_omitted(ls_json *json, const ls_case_result *result) {
    if (result->omitted_count == 0) {
        return;
    }
    ls_json_member_array(json, "not_compared");
    for (size_t i = 0; i < result->omitted_count; i++) {
        ls_json_object_open(json);
        ls_json_member_string(json, "name", result->omitted[i].name);
        ls_json_member_string(json, "why", result->omitted[i].why);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

static void write_norms(ls_json *json, const ls_case_result *result) {
    if (result->norm_count == 0) {
        return;
    }
    ls_json_member_array(json, "steps");
    for (int s = 0; s < result->norm_count; s++) {
        ls_json_object_open(json);
        ls_json_member_int(json, "step", s);
        ls_json_member_double(json, "gradient_norm", result->norms[s].gradients);
        ls_json_member_double(json, "weight_norm", result->norms[s].weights);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

static void write_calls(ls_json *json, const ls_case_result *result) {
    if (result->call_count == 0) {
        return;
    }
    ls_json_member_array(json, "calls");
    for (int i = 0; i < result->call_count; i++) {
        const ls_call_row *row = &result->calls[i];
        ls_json_object_open(json);
        ls_json_member_string(json, "call", row->call);
        ls_json_member_string(json, "communicator", row->communicator);
        ls_json_member_string(json, "purpose", row->purpose);
        ls_json_member_string(json, "where", row->where);
        ls_json_member_uint(json, "calls", readable(row->calls));
        ls_json_member_uint(json, "bytes", readable(row->bytes));
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

static void write_case(ls_json *json, const ls_case_result *result) {
    ls_json_object_open(json);
    ls_json_member_string(json, "name", result->name);
    ls_json_member_string(json, "file", result->file);
    ls_json_member_string(json, "backend", result->backend);
    ls_json_member_string(json, "real", result->real);
    ls_json_member_string(json, "verdict", result->pass ? "pass" : "fail");
    ls_json_member_string(json, "class", ls_class_name(result->class_));
    ls_json_member_given(json, "checked", result->checked);
    ls_json_member_given(json, "start", result->start);
    ls_json_member_given(json, "note", result->note);
    ls_json_member_given(json, "not_judged", result->unproven);
    ls_json_member_given(json, "error", result->error);
    ls_json_member_given(json, "noticed_by", result->noticed_by);
    ls_json_member_given(json, "scenario", result->scenario);
    ls_json_member_uint(json, "judged", readable(ls_case_result_judged(result)));
    ls_json_member_array(json, "stages");
    for (int s = 0; s < result->stage_count; s++) {
        write_stage(json, &result->stages[s]);
    }
    ls_json_array_close(json);
    write_norms(json, result);
    write_calls(json, result);
    write_omitted(json, result);
    ls_json_member_array(json, "findings");
    for (int f = 0; f < result->finding_count; f++) {
        write_finding(json, &result->findings[f]);
    }
    ls_json_array_close(json);
    ls_json_member_string(json, "reproduce", result->reproduce);
    ls_json_object_close(json);
}

// A skipped case has no verdict, so it is in a separate list.
static void write_skip(ls_json *json, const ls_case_result *result) {
    ls_json_object_open(json);
    ls_json_member_string(json, "name", result->name);
    ls_json_member_string(json, "file", result->file);
    ls_json_member_string(json, "reason", result->skip_reason);
    write_calls(json, result);
    write_omitted(json, result);
    ls_json_object_close(json);
}

int ls_report_json(ls_text *out, const ls_results *results) {
    LS_ASSERT(out != NULL);
    LS_ASSERT(results != NULL);
    ls_json json;
    ls_json_report_begin(&json, out, 2, results->command);
    ls_json_member_string(&json, "verdict", ls_results_pass(results) ? "pass" : "fail");
    ls_json_member_int(&json, "passed", results->passed);
    ls_json_member_int(&json, "failed", results->failed);
    ls_json_member_int(&json, "skipped", results->skipped);
    ls_json_member_array(&json, "cases");
    for (int c = 0; c < results->case_count; c++) {
        if (!results->cases[c].skipped) {
            write_case(&json, &results->cases[c]);
        }
    }
    ls_json_array_close(&json);
    ls_json_member_array(&json, "skips");
    for (int c = 0; c < results->case_count; c++) {
        if (results->cases[c].skipped) {
            write_skip(&json, &results->cases[c]);
        }
    }
    ls_json_array_close(&json);
    ls_json_report_end(&json);
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "JSON report: out of memory") : LS_OK;
}
