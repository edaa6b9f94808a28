// Reports: results as text for people, as JSON and JUnit for machines, as one HTML page. Each
// writer appends to `out`; out of memory shows in out->failed and as LS_ERR_MEMORY.
#ifndef LS_REPORT_REPORT_H
#define LS_REPORT_REPORT_H

#include "base/base.h"
#include "runner/result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_report_style {
    bool color;        // ANSI colours
    bool unicode;      // characters beyond ASCII
    bool quiet;        // only failures and the last line
    bool summed_up;    // passes are reported elsewhere
    bool count_skips;  // one line for all the cases that were skipped for the same reason
} ls_report_style;

// A table with one row per stage, then every failure in full with the command that reproduces it.
LS_API int ls_report_text(ls_text *out, const ls_results *results, const ls_report_style *style);
// "format": 1, as docs/reference.md lists it.
LS_API int ls_report_json(ls_text *out, const ls_results *results);
// One testsuite per file, one testcase per case. Control characters, which XML 1.0 cannot carry,
// become U+FFFD.
LS_API int ls_report_junit(ls_text *out, const ls_results *results);
// One page that needs nothing but itself.
LS_API int ls_report_html(ls_text *out, const ls_results *results);

#ifdef __cplusplus
}
#endif
#endif
