// Random small planning problems: the exact search against an independent solver (glpsol or cbc) on
// the program of ls_planner_write_lp. Exit 0: all equal; 77: no solver on this machine.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/planner/small.h"

#define INSTANCES 200

// The solver's optimum in ms; INFINITY: infeasible; NAN: none reported.
static double solve(const char *lp, bool cbc) {
    char command[256];
    if (cbc) {
        snprintf(command, sizeof(command),
                 "cbc %s ratio 0 allow 0 increment 1e-12 sec 30 solve solu %s.sol", lp, lp);
    } else {
        snprintf(command, sizeof(command), "glpsol --lp %s --tmlim 30 -w %s.sol", lp, lp);
    }
    strncat(command, " > /dev/null 2>&1", sizeof(command) - strlen(command) - 1);
    char name[80];
    snprintf(name, sizeof(name), "%s.sol", lp);
    (void)remove(name);
    if (system(command) != 0) {
        return NAN;
    }
    FILE *file = fopen(name, "r");
    char line[512];
    double value = NAN;
    while (file && fgets(line, sizeof(line), file)) {
        if (cbc && strstr(line, "nfeasible")) {
            value = INFINITY;
        } else if (cbc && strncmp(line, "Optimal - objective value", 25) == 0) {
            value = strtod(line + 25, NULL);
        } else if (!cbc && strncmp(line, "s mip", 5) == 0) {
            char status = '?';
            double objective = NAN;
            if (sscanf(line, "s mip %*d %*d %c %lf", &status, &objective) == 2) {
                value = status == 'o' ? objective : status == 'n' ? INFINITY : NAN;
            }
        }
        if (!isnan(value)) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

static int compare(uint64_t seed, const char *lp, bool cbc, int *infeasible, int *unsure,
                   int *fixed) {
    static instance in;
    make_instance(&in, seed);
    for (int i = 0; i < in.count; i++) {
        *fixed += in.tables[i].layout != NULL;
    }
    ls_planner_problem *problem;
    int status =
        ls_planner_problem_create(&problem, &in.topology, in.tables, in.count, &in.options);
    if (status != LS_OK) {
        printf("seed %" PRIu64 ": %s\n", seed, ls_error_last()->text);
        return 1;
    }
    ls_text text = {0};
    ls_planner_result result;
    int bad = 1;
    FILE *file = fopen(lp, "w");
    if (file && ls_planner_write_lp(&text, problem) == LS_OK &&
        fputs(ls_text_string(&text), file) >= 0 && fclose(file) == 0 &&
        ls_planner_solve(&result, problem) == LS_OK) {
        double want = solve(lp, cbc);
        double got = result.found ? result.ms : INFINITY;
        // cbc prints eight decimals, and either solver stops within its tolerance.
        bool equal = got == want || fabs(got - want) <= 1e-6 * want + 6e-9;
        *infeasible += isinf(want);
        *unsure += isnan(want);
        bad = !result.proven || (!equal && !isnan(want));
        if (bad) {
            printf("seed %" PRIu64 " (%s): we say %.12g (proven %d, bound %.12g), it says %.12g\n",
                   seed, cbc ? "cbc" : "glpsol", got, result.proven, result.lower_bound_ms, want);
        }
    }
    ls_text_free(&text);
    ls_planner_problem_free(problem);
    return bad;
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : INSTANCES;
    bool glpsol = system("glpsol --version > /dev/null 2>&1") == 0;
    bool cbc = system("cbc exit > /dev/null 2>&1") == 0;
    if (!glpsol && !cbc) {
        printf("neither glpsol nor cbc is installed: skipped\n");
        return 77;
    }
    char folder[] = "/tmp/lockstep_oracle_XXXXXX";
    if (!mkdtemp(folder)) {
        return 1;
    }
    char lp[64];
    char solution[80];
    snprintf(lp, sizeof(lp), "%s/plan.lp", folder);
    snprintf(solution, sizeof(solution), "%s.sol", lp);
    int bad = 0;
    int infeasible = 0;
    int unsure = 0;
    int fixed = 0;  // tables with given blocks
    for (uint64_t seed = first; seed < first + count; seed++) {
        bad += compare(seed, lp, cbc && (!glpsol || seed % 2), &infeasible, &unsure, &fixed);
    }
    (void)remove(lp);
    (void)remove(solution);
    (void)rmdir(folder);
    printf("%" PRIu64
           " problems (%d tables with given blocks), %d without a plan, %d that the solver "
           "did not finish, %d wrong\n",
           count, fixed, infeasible, unsure, bad);
    return bad || unsure > (int)(count / 20);
}
