// Equal calls that match from different lines: another order is found, intended branches are not.
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <stdio.h>
#include <string.h>

#include "sites.h"

static void expect_case(const site_case *c, ls_schedule_kind schedule, uint64_t seed) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = c->ranks, .seed = seed, .schedule = schedule};
    int status = ls_spmd_run(&result, c->program, NULL, &options);
    const ls_finding *finding =
        ls_spmd_finding_count(result) > 0 ? ls_spmd_finding(result, 0) : NULL;
    const char *text = finding != NULL ? finding->text : "no finding";
    if (c->fault < 0) {
        cr_assert_eq(status, LS_OK, "%s, seed %d: %s\n%s", c->name, (int)seed,
                     ls_error_last()->text, text);
        cr_assert_null(finding);
    } else {
        char where[32], order[64];
        (void)snprintf(where, sizeof where, "p.c:%d", c->first);
        (void)snprintf(order, sizeof order, "rank %d: p.c:%d, then p.c:%d", c->fault, c->first,
                       c->then);
        cr_assert_eq(status, LS_ERR_FINDING, "%s, seed %d: status %d", c->name, (int)seed, status);
        cr_assert_eq(ls_spmd_finding_count(result), 1, "%s: %d findings", c->name,
                     ls_spmd_finding_count(result));
        cr_assert_eq(finding->id, LS_FINDING_ORDER_MISMATCH, "%s: %s", c->name, text);
        cr_assert_eq(finding->rank_count, 1, "%s: %s", c->name, text);
        cr_assert_eq(finding->ranks[0], c->fault, "%s: %s", c->name, text);
        cr_assert_str_eq(finding->where, where, "%s: %s", c->name, text);
        cr_assert_not_null(strstr(text, order), "%s: %s", c->name, text);
    }
    ls_spmd_result_free(result);
}

// Another order is found with its rank and both its lines, and legal programs have no finding,
// under every schedule.
Test(sites, every_schedule) {
    for (int i = 0; i < site_case_count; i++) {
        expect_case(&site_cases[i], LS_SCHEDULE_ROUND_ROBIN, 0);
        expect_case(&site_cases[i], LS_SCHEDULE_DELAY, 0);
        expect_case(&site_cases[i], LS_SCHEDULE_PARALLEL, 0);
        for (uint64_t seed = 1; seed <= 200; seed++) {
            expect_case(&site_cases[i], LS_SCHEDULE_RANDOM, seed);
        }
    }
}

static int findings_with(const char *name, const char *checks) {
    for (int i = 0; i < site_case_count; i++) {
        if (strcmp(site_cases[i].name, name) == 0) {
            ls_spmd_result *result = NULL;
            const ls_spmd_options options = {.ranks = site_cases[i].ranks, .checks = checks};
            (void)ls_spmd_run(&result, site_cases[i].program, NULL, &options);
            int count = result != NULL ? ls_spmd_finding_count(result) : -1;
            ls_spmd_result_free(result);
            return count;
        }
    }
    return -2;
}

// The levels of the check: off, the order, or every match from different lines.
Test(sites, strictness) {
    cr_assert_eq(findings_with("swapped", "collective.order_mismatch=off"), 0);
    cr_assert_eq(findings_with("swapped", "-collective.order_mismatch"), 0);
    cr_assert_eq(findings_with("swapped", "-*,collective.order_mismatch"), 1);
    cr_assert_eq(findings_with("swapped", "-*,collective.order_mismatch=crossing"), 1);
    cr_assert_eq(findings_with("branch of rank 0", "collective.order_mismatch=crossing"), 0);
    cr_assert_eq(findings_with("branch of rank 0", "collective.order_mismatch=strict"), 1);
    cr_assert_eq(findings_with("branch of rank 0", "-*,collective.order_mismatch=strict"), 1);
    cr_assert_eq(findings_with("same file name", "collective.order_mismatch=strict"), 0);
    cr_assert_eq(findings_with("swapped", "collective.order_mismatch=often"), -1);
    cr_assert_eq(findings_with("swapped", "value.nan_first=strict"), -1);
}

// If ranks never agree, the first mistakes are reported.
Test(sites, no_more_than_are_read) {
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run(&result, site_twenty, NULL, &(ls_spmd_options){.ranks = 4});
    cr_assert_eq(status, LS_ERR_FINDING);
    cr_assert_eq(ls_spmd_finding_count(result), 16);
    cr_assert_str_eq(ls_spmd_finding(result, 15)->where, "p.c:161");
    ls_spmd_result_free(result);
}

// A repeated mistake is reported once, and leaves room for others.
Test(sites, two_at_once) {
    ls_spmd_result *result = NULL;
    int status = ls_spmd_run(&result, site_two_at_once, NULL, &(ls_spmd_options){.ranks = 4});
    cr_assert_eq(status, LS_ERR_FINDING);
    cr_assert_eq(ls_spmd_finding_count(result), 2);
    cr_assert_str_eq(ls_spmd_finding(result, 0)->where, "p.c:11");
    cr_assert_eq(ls_spmd_finding(result, 0)->ranks[0], 3);
    cr_assert_str_eq(ls_spmd_finding(result, 1)->where, "p.c:21");
    cr_assert_eq(ls_spmd_finding(result, 1)->ranks[0], 1);
    ls_spmd_result_free(result);
}

// 2,000 random legal programs have no finding. With two calls swapped, every one on plain lines is
// found; among branches the others may be the only ones at a line, or change roles, which hides
// some.
Test(sites, random_programs) {
    int found[3] = {0}, swapped[3] = {0};
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        for (int swap = 0; swap < 2; swap++) {
            random_sites run = {.seed = seed, .swap = swap == 1};
            ls_spmd_result *result = NULL;
            const ls_spmd_options options = {
                .ranks = 2 + (int)(seed % 6), .seed = seed, .schedule = LS_SCHEDULE_RANDOM};
            int status = ls_spmd_run(&result, random_sites_program, &run, &options);
            int count = ls_spmd_finding_count(result);
            const char *text = count > 0 ? ls_spmd_finding(result, 0)->text : "";
            cr_assert(status == LS_OK || (run.swapped != RANDOM_SITES_SAME && count > 0),
                      "seed %d: %s\n%s", (int)seed, ls_error_last()->text, text);
            swapped[run.swapped] += 1;
            found[run.swapped] += count > 0 ? 1 : 0;
            ls_spmd_result_free(result);
        }
    }
    cr_log_info("found: %d of %d plain ones, %d of %d others", found[RANDOM_SITES_PLAIN],
                swapped[RANDOM_SITES_PLAIN], found[RANDOM_SITES_SWAPPED],
                swapped[RANDOM_SITES_SWAPPED]);
    cr_assert_geq(swapped[RANDOM_SITES_PLAIN], 100);
    cr_assert_eq(found[RANDOM_SITES_PLAIN], swapped[RANDOM_SITES_PLAIN]);
    cr_assert_geq(3 * found[RANDOM_SITES_SWAPPED], swapped[RANDOM_SITES_SWAPPED]);
}
