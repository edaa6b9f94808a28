// Writes the JUnit or HTML report of the example results to stdout, for check_xml.py.
#include <stdio.h>
#include <string.h>

#include "tests/scenarios/runner/example_results.h"

int main(int argc, char **argv) {
    ls_results *results = NULL;
    ls_text text = {0};
    int status = example_results(&results);
    if (status == LS_OK && argc == 2) {
        status = strcmp(argv[1], "junit") == 0 ? ls_report_junit(&text, results)
                                               : ls_report_html(&text, results);
    }
    (void)fputs(ls_text_string(&text), stdout);
    ls_text_free(&text);
    ls_results_free(results);
    return status == LS_OK && argc == 2 ? 0 : 1;
}
