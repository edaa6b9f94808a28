// What the report writers share: escaping, numbers, and a failure told in full.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios/runner/report_internal.h"

#define EXPLAIN_WIDTH 96

// Length of the well-formed UTF-8 sequence at s that XML 1.0 can carry, or 0.
static size_t utf8_length(const unsigned char *s) {
    if (s[0] < 0x80) {
        return s[0] >= 0x20 || s[0] == '\t' || s[0] == '\n' ? (s[0] != 0x7f ? 1 : 0) : 0;
    }
    size_t length = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                    : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                    : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                   : 0;
    for (size_t i = 1; i < length; i++) {
        if (s[i] < 0x80 || s[i] > 0xbf) {
            return 0;
        }
    }
    bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||  // surrogates
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f) ||
               (s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe) ||  // U+FFFE, U+FFFF
               (s[0] == 0xc2 && s[1] < 0xa0);                     // C1 controls
    return bad ? 0 : length;
}

void ls_report__xml(ls_text *out, const char *text) {
    if (text == NULL) {
        return;
    }
    const unsigned char *s = (const unsigned char *)text;
    while (*s != 0) {
        size_t length = utf8_length(s);
        if (length == 0) {
            ls_text_puts(out, "\xef\xbf\xbd");
            length = 1;
        } else if (*s == '<') {
            ls_text_puts(out, "&lt;");
        } else if (*s == '>') {
            ls_text_puts(out, "&gt;");
        } else if (*s == '&') {
            ls_text_puts(out, "&amp;");
        } else if (*s == '"') {
            ls_text_puts(out, "&quot;");
        } else if (*s == '\'') {
            ls_text_puts(out, "&#39;");
        } else {
            ls_text_append(out, (const char *)s, length);
        }
        s += length;
    }
}

void ls_report__plain(ls_text *out, const char *text, size_t bytes) {
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < bytes && s[i] != 0;) {
        size_t length = utf8_length(s + i);
        if (length == 0 || s[i] == '\t') {
            ls_text_puts(out, s[i] == '\t' ? " " : "?");
            length = 1;
        } else {
            ls_text_append(out, text + i, length);
        }
        i += length;
    }
}

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
    return result->skipped ? "skip" : result->pass ? "pass" : "fail";
}

// Each line of text, indented.
static void put_lines(ls_text *out, const char *text, const char *indent) {
    while (*text != 0) {
        size_t length = strcspn(text, "\n");
        if (length != 0) {
            ls_text_puts(out, indent);
            ls_report__plain(out, text, length);
        }
        ls_text_puts(out, "\n");
        text += length + (text[length] == '\n' ? 1 : 0);
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
        ls_report__plain(out, text, length);
        column += 1 + length;
        text += length + (text[length] != 0 ? 1 : 0);
    }
    ls_text_puts(out, "\n");
}

static void explain_stage(ls_text *out, const ls_stage_result *stage, const char *indent) {
    ls_text_printf(out, "%sstage ", indent);
    ls_report__plain(out, stage->name, strlen(stage->name));
    ls_text_printf(out, " is %s: ", ls_class_name(stage->class_));
    ls_report__number(out, stage->differing);
    ls_text_puts(out, " of ");
    ls_report__number(out, stage->elements);
    ls_text_puts(out, " elements differ, by up to ");
    ls_report__number(out, stage->max_ulps);
    ls_text_printf(out, " ulps (%.3g of the bound)\n", stage->bound_ratio);
}

void ls_report__explain(ls_text *out, const ls_case_result *result, const char *indent) {
    char deeper[32];
    (void)snprintf(deeper, sizeof deeper, "%s  ", indent);
    if (result->error != NULL) {
        put_wrapped(out, "error:", result->error, indent);
    }
    for (int s = 0; s < result->stage_count; s++) {
        const ls_stage_result *stage = &result->stages[s];
        if (!ls_class_passes(stage->class_) || stage->divergence != NULL) {
            explain_stage(out, stage, indent);
        }
        if (stage->divergence != NULL) {
            put_lines(out, stage->divergence, deeper);
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
            ls_report__plain(out, finding->where, strlen(finding->where));
        }
        ls_text_puts(out, "\n");
        put_lines(out, finding->text != NULL ? finding->text : "", deeper);
    }
    if (result->reproduce != NULL) {
        ls_text_printf(out, "%sreproduce: ", indent);
        put_lines(out, result->reproduce, "");
    }
}
