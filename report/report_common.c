// Shared by the report writers: numbers, and a failure reported in full.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ulps.h"
#include "report/report_internal.h"

#define EXPLAIN_WIDTH 96

void ls_report__number(ls_text *out, uint64_t value) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    for (int i = 0; i < length; i++) {
        if (i != 0 && (length - i) % 3 == 0) {
            ls_text_puts(out, ",");
        }
        ls_text_append(out, digits + i, 1);
    }
}

void ls_report__ranks(ls_text *out, const int *ranks, int count) {
    for (int i = 0; i < count;) {
        int last = i;
        while (last + 1 < count && ranks[last + 1] == ranks[last] + 1) {
            last++;
        }
        ls_text_printf(out, "%s%d", i == 0 ? "" : ", ", ranks[i]);
        if (last > i) {
            ls_text_printf(out, "%s%d", last == i + 1 ? ", " : "-", ranks[last]);
        }
        i = last + 1;
    }
}

const char *ls_report__verdict(const ls_case_result *result) {
    if (result->skipped) {
        return "skip";
    }
    return result->pass ? "pass" : "fail";
}

// Each line of text, indented.
static void put_lines(ls_text *out, const char *text, const char *indent) {
    while (*text != 0) {
        size_t length = strcspn(text, "\n");
        if (length != 0) {
            ls_text_puts(out, indent);
            ls_text_plain(out, text, length);
        }
        ls_text_puts(out, "\n");
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

void ls_report__unjudged(ls_text *out, const ls_stage_result *stage) {
    uint64_t others = stage->unjudged - stage->vacuous;
    if (stage->vacuous > 0) {
        ls_report__number(out, stage->vacuous);
        ls_text_puts(out, " elements within a bound too wide to prove anything");
        ls_text_puts(out, others > 0 ? "; " : "");
    }
    if (stage->vacuous == 0 || others > 0) {
        ls_report__number(out, others);
        ls_text_puts(out, " elements with nothing to compare them with");
    }
}

// "error: sentence", wrapped at spaces, what follows the first line indented by two more.
static void put_wrapped(ls_text *out, const char *head, const char *text, const char *indent) {
    size_t column = strlen(indent) + strlen(head);
    ls_text_printf(out, "%s%s", indent, head);
    while (*text != 0) {
        size_t length = strcspn(text, " \n");
        if (column + 1 + length > EXPLAIN_WIDTH) {
            ls_text_printf(out, "\n%s ", indent);
            column = strlen(indent) + 1;
        }
        ls_text_puts(out, " ");
        ls_text_plain(out, text, length);
        column += 1 + length;
        text += length + (text[length] != 0 ? 1 : 0);
    }
    ls_text_puts(out, "\n");
}

void ls_report__distance(ls_text *out, const ls_stage_result *stage) {
    const char *word = ls_ulps_word(stage->max_ulps);
    if (word != NULL) {
        ls_text_puts(out, word);
    } else if (stage->max_ulps == 0 && stage->max_difference != 0) {
        ls_report__number(out, stage->max_difference);
        ls_text_puts(out, " (int)");
    } else {
        ls_report__number(out, stage->max_ulps);
    }
}

// ", integers by up to 3, floats by up to 7 ulps", as far as it holds.
static void explain_distance(ls_text *out, const ls_stage_result *stage) {
    const char *word = ls_ulps_word(stage->max_ulps);
    bool both = stage->max_difference != 0 && stage->max_ulps != 0;
    if (stage->max_difference != 0) {
        ls_text_puts(out, both ? ", integers by up to " : ", by up to ");
        ls_report__number(out, stage->max_difference);
    }
    if (stage->max_ulps == 0) {
        return;
    }
    ls_text_puts(out, both ? ", floats by up to " : ", by up to ");
    if (word != NULL) {
        ls_text_printf(out, "%s%s", stage->max_ulps == LS_ULPS_SIGN ? "a " : "", word);
    } else {
        ls_report__number(out, stage->max_ulps);
        ls_text_puts(out, " ulps");
    }
}

static void explain_stage(ls_text *out, const ls_stage_result *stage, const char *indent) {
    ls_text_printf(out, "%sstage ", indent);
    ls_text_plain(out, stage->name, strlen(stage->name));
    ls_text_printf(out, " is %s: ", ls_class_name(stage->class_));
    if (stage->class_ == LS_CLASS_UNJUDGED) {
        ls_report__unjudged(out, stage);
        ls_text_puts(out, "\n");
        return;
    }
    ls_report__number(out, stage->differing);
    ls_text_puts(out, " of ");
    ls_report__number(out, stage->elements);
    ls_text_puts(out, " elements differ");
    explain_distance(out, stage);
    if (isfinite(stage->bound_ratio)) {
        ls_text_printf(out, " (%.3g of the bound)", stage->bound_ratio);
    }
    ls_text_puts(out, "\n");
    if (stage->divergence != NULL) {
        char deeper[32];
        (void)snprintf(deeper, sizeof deeper, "%s  ", indent);
        put_lines(out, stage->divergence, deeper);
    }
}

static bool stage_failed(const ls_stage_result *stage) {
    return !ls_class_passes(stage->class_) && stage->class_ != LS_CLASS_UNJUDGED;
}

int ls_report__next_stage(const ls_case_result *result, int stage) {
    bool failed = stage < 0 || stage_failed(&result->stages[stage]);
    for (int s = stage + 1; s < result->stage_count; s++) {
        if (stage_failed(&result->stages[s]) == failed) {
            return s;
        }
    }
    for (int s = 0; s < result->stage_count && failed; s++) {
        if (!stage_failed(&result->stages[s])) {
            return s;
        }
    }
    return -1;
}

bool ls_report__tells_design(const ls_case_result *result, int stage) {
    LS_ASSERT(stage >= 0 && stage < result->stage_count);
    const ls_stage_result *of = &result->stages[stage];
    bool tells = of->class_ == LS_CLASS_BY_DESIGN && of->divergence != NULL;
    for (int s = 0; s < stage && tells && of->design != NULL; s++) {
        const ls_stage_result *earlier = &result->stages[s];
        tells = earlier->class_ != LS_CLASS_BY_DESIGN || earlier->design == NULL ||
                strcmp(earlier->design, of->design) != 0;
    }
    return tells;
}

// The stages that did not make the case fail, behind those that did. A reason for a difference by
// design is explained once.
static void explain_passing(ls_text *out, const ls_case_result *result, const char *indent) {
    int repeated = 0;
    for (int s = 0; s < result->stage_count; s++) {
        const ls_stage_result *stage = &result->stages[s];
        if (stage_failed(stage) || stage->divergence == NULL) {
            continue;
        }
        if (stage->class_ == LS_CLASS_BY_DESIGN && !ls_report__tells_design(result, s)) {
            repeated++;
        } else {
            explain_stage(out, stage, indent);
        }
    }
    if (repeated > 0) {
        ls_text_printf(out, "%s%d more stage%s by_design, for the same reasons\n", indent, repeated,
                       repeated == 1 ? " is" : "s are");
    }
}

// The command that explains each finding, once for those of one name.
static void explain_commands(ls_text *out, const ls_case_result *result, const char *indent) {
    for (int f = 0; f < result->finding_count; f++) {
        ls_finding_id id = result->findings[f].id;
        bool repeated = false;
        for (int e = 0; e < f && !repeated; e++) {
            repeated = result->findings[e].id == id;
        }
        if (!repeated) {
            ls_text_printf(out, "%sexplain: lockstep explain %s\n", indent, ls_finding_name(id));
        }
    }
}

void ls_report__explain(ls_text *out, const ls_case_result *result, const char *indent) {
    char deeper[32];
    (void)snprintf(deeper, sizeof deeper, "%s  ", indent);
    if (result->error != NULL) {
        put_wrapped(out, "error:", result->error, indent);
    }
    if (result->scenario != NULL) {
        ls_text_printf(out, "%sscenario:\n", indent);
        put_lines(out, result->scenario, deeper);
    }
    for (int s = 0; s < result->stage_count; s++) {
        if (stage_failed(&result->stages[s])) {
            explain_stage(out, &result->stages[s], indent);
        }
    }
    for (int f = 0; f < result->finding_count; f++) {
        const ls_finding *finding = &result->findings[f];
        ls_text_printf(out, "%s%s", indent, ls_finding_name(finding->id));
        if (finding->rank_count != 0) {
            ls_text_puts(out, finding->rank_count == 1 ? ", rank " : ", ranks ");
            ls_report__ranks(out, finding->ranks, finding->rank_count);
        }
        if (finding->where != NULL && finding->where[0] != 0) {
            ls_text_puts(out, ", at ");
            ls_text_plain(out, finding->where, strlen(finding->where));
        }
        ls_text_puts(out, "\n");
        put_lines(out, finding->text != NULL ? finding->text : "", deeper);
    }
    explain_passing(out, result, indent);
    explain_commands(out, result, indent);
    if (result->reproduce != NULL) {
        ls_text_printf(out, "%sreproduce: ", indent);
        put_lines(out, result->reproduce, "");
    }
}

void ls_report__norms(ls_text *out, const ls_case_result *result, int step) {
    LS_ASSERT(step >= 0 && step < result->norm_count);
    const ls_step_norms *norms = &result->norms[step];
    ls_text_printf(out, "step %d: norm of the gradients %.6g", step, norms->gradients);
    if (norms->weights > 0) {
        ls_text_printf(out, ", of the weights after it %.6g", norms->weights);
    }
}

#define OMITTED_NAMES_MAX 4  // of a reason, in texts for people

void ls_report__omitted(ls_text *out, const ls_case_result *result, const char *indent) {
    if (result->omitted_count == 0) {
        return;
    }
    ls_text_printf(out, "%snot compared: %zu", indent, result->omitted_count);
    for (size_t i = 0; i < result->omitted_count; i++) {
        const char *why = result->omitted[i].why;
        bool seen = false;
        size_t count = 0;
        for (size_t k = 0; k < i; k++) {
            seen = seen || strcmp(result->omitted[k].why, why) == 0;
        }
        for (size_t k = i; !seen && k < result->omitted_count; k++) {
            if (strcmp(result->omitted[k].why, why) != 0) {
                continue;
            }
            if (count < OMITTED_NAMES_MAX) {
                ls_text_puts(out, count == 0 ? " (" : ", ");
                ls_text_plain(out, result->omitted[k].name, strlen(result->omitted[k].name));
            }
            count++;
        }
        if (!seen) {
            ls_text_puts(out, count > OMITTED_NAMES_MAX ? ", ...: " : ": ");
            ls_text_plain(out, why, strlen(why));
            ls_text_puts(out, ")");
        }
    }
    ls_text_puts(out, "\n");
}
