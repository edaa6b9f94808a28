// See exec_hosts.h.
#include "cli/exec_hosts.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "exec/link.h"

int cli_exec_set_hosts(ls_exec_options *out, cli_exec_hosts *given, const char *alone) {
    const char *which = given->join != NULL ? "join" : "listen", *wrong = NULL;
    if (given->listen == NULL && given->join == NULL) {
        if (given->agents > 0 || given->key != NULL) {
            cli_error("--%s requires --listen or --join", given->key != NULL ? "key" : "agents");
        }
        return given->agents > 0 || given->key != NULL ? LS_EXIT_USAGE : LS_EXIT_OK;
    }
    given->key = given->key != NULL ? given->key : getenv(CLI_KEY_VARIABLE);
    if (given->listen != NULL && given->join != NULL) {
        wrong = "--listen and --join exclude each other";
    } else if (!out->observe) {
        wrong = "--listen and --join require --observe";
    } else if (given->key == NULL) {
        wrong = "--listen and --join need --key FILE, which all hosts share";
    } else if ((given->agents > 0) != (given->listen != NULL)) {
        wrong = "--listen and --agents N require each other";
    }
    if (wrong != NULL || alone != NULL) {
        cli_error("%s%s%s%s", wrong != NULL ? wrong : "--", wrong != NULL ? "" : which,
                  wrong != NULL ? "" : " excludes --", wrong != NULL ? "" : alone);
        return LS_EXIT_USAGE;
    }
    if (!ls_link_available()) {
        cli_error("--%s: this build of lockstep has no OpenSSL", which);
        return LS_EXIT_ENVIRONMENT;
    }
    out->listen = given->listen;
    out->agents = given->agents;
    out->join = given->join;
    out->key = given->key;
    return LS_EXIT_OK;
}

int cli_exec_run_agent(const ls_exec_options *options) {
    ls_exec_result ran = {.failed_rank = -1};
    int status = ls_exec_run(&ran, options), code = LS_EXIT_ENVIRONMENT;
    if (status != LS_OK) {
        code = cli_fail(status);
    } else if (ran.agent_status < 0) {
        cli_error("%s", ran.why);
        code = cli_exit_of(ran.status);
    } else if (ran.quit) {
        cli_note("the coordinator ended the run; the report is there");
        code = LS_EXIT_FINDING;
    } else {
        code = WIFEXITED(ran.agent_status) ? WEXITSTATUS(ran.agent_status)
                                           : 128 + WTERMSIG(ran.agent_status);
    }
    ls_exec_result_free(&ran);
    return code;
}
