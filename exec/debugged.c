// A run that a debugger holds (python/lockstep/debugger): while ranks are stopped no time passes
// for the run, and a finding is reported to the debugger before any rank hears of it. Both sides
// write lines: the debugger a word, the coordinator a JSON object.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "exec/internal.h"
#include "formats/json.h"
#include "process/core.h"

// ---- Lines -------------------------------------------------------------------------------------
static void hang_up(ls_exec *exec) {
    (void)close(exec->debugger);
    exec->debugger = -1;
    exec->quit = true;  // a run without its debugger has no owner
}

static void say(ls_exec *exec, ls_text *line) {
    const char *at = ls_text_string(line);
    ls_text_puts(line, "\n");
    at = ls_text_string(line);
    for (size_t left = strlen(at); left > 0 && exec->debugger >= 0;) {
        ssize_t sent = send(exec->debugger, at, left, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            hang_up(exec);
        }
        at += sent > 0 ? sent : 0;
        left -= sent > 0 ? (size_t)sent : 0;
    }
    ls_text_free(line);
}

static void begin(ls_json *json, ls_text *line, const char *key) {
    ls_json_begin(json, line, 0);
    ls_json_object_open(json);
    ls_json_key(json, key);
}

int ls_exec__debug_open(ls_exec *exec) {
    const char *name = getenv(LS_WIRE_DEBUGGER);
    exec->debugger = -1;
    if (name == NULL) {
        return LS_OK;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length + 1 > sizeof address.sun_path) {
        return LS_FAIL(LS_ERR_INVALID, LS_WIRE_DEBUGGER " is not the name of a socket");
    }
    memcpy(address.sun_path + 1, name, length);  // an abstract name begins with a 0
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    exec->debugger = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (exec->debugger < 0 ||
        connect(exec->debugger, (const struct sockaddr *)&address, bytes) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "the debugger does not answer: %s", strerror(errno));
    }
    ls_json json;
    ls_text line = {0};
    begin(&json, &line, "coordinator");
    ls_json_int(&json, exec->options->processes);
    ls_json_object_close(&json);
    say(exec, &line);
    return LS_OK;
}

void ls_exec__debug_close(ls_exec *exec) {
    if (exec->kept.pid > 0) {
        ls_reaper_remove(&exec->kept);
    }
    if (exec->debugger >= 0) {
        (void)close(exec->debugger);
        exec->debugger = -1;
    }
}

// ---- Ranks -------------------------------------------------------------------------------------
static const ls_exec_process *process_of(const ls_exec *exec, int rank) {
    const ls_exec_process *at = exec->processes;
    while (at != NULL && at != exec->ranks[rank].process) {
        at = at->next;
    }
    return at;
}

// The rank's oldest call that waits for others; NULL: none.
static const ls_call *waiting_call(const ls_exec_rank *rank) {
    for (const ls_exec_op *op = rank->open; op != NULL; op = op->next) {
        if (op->request != NULL && ls_remote_posted(op->request)) {
            return ls_remote_call_of(op->request);
        }
    }
    return rank->first != NULL ? &rank->first->call.call : NULL;
}

static void tell_ranks(ls_exec *exec) {
    ls_json json;
    ls_text line = {0};
    begin(&json, &line, "ranks");
    ls_json_array_open(&json);
    for (int r = 0; r < exec->rank_count; r++) {
        const ls_exec_process *process = process_of(exec, r);
        const ls_call *call = waiting_call(&exec->ranks[r]);
        bool outside = process != NULL && ls_exec__waits_outside(exec, process);
        // Behind a finding, or a call that is not posted, it waits for what never comes.
        bool behind = exec->found || exec->ranks[r].first != NULL;
        bool queued = behind && process != NULL && ls_exec__waits(process);
        ls_json_object_open(&json);
        ls_json_member_int(&json, "rank", r);
        ls_json_member_bool(&json, "waits",
                            outside || queued || !ls_remote_runs(exec->ranks[r].rank));
        if (call != NULL) {
            char what[256];
            ls_call_describe(what, sizeof what, call);
            ls_json_member_string(&json, "call", what);
            ls_json_member_uint(&json, "seq", call->seq);
        }
        ls_json_object_close(&json);
    }
    for (const ls_exec_joining *at = exec->joining; at != NULL; at = at->next) {
        if (at->process->rank >= exec->rank_count) {
            ls_json_object_open(&json);
            ls_json_member_int(&json, "rank", at->process->rank);
            ls_json_member_bool(&json, "waits", true);
            ls_json_object_close(&json);
        }
    }
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    say(exec, &line);
}

// ---- Core files --------------------------------------------------------------------------------
// Makes a folder beside `beside`, which goes with this process unless the debugger renames it.
static void make_folder(ls_exec *exec, const char *beside) {
    ls_json json;
    ls_text line = {0};
    int status = ls_reaper_make(&exec->kept, beside);
    begin(&json, &line, "folder");
    ls_json_string(&json, status == LS_OK ? exec->kept.dir : "");
    ls_json_member_string(&json, "error", status == LS_OK ? "" : ls_error_last()->text);
    ls_json_object_close(&json);
    say(exec, &line);
}

static void add_core(ls_json *json, int rank, pid_t process, const char *folder) {
    char path[PATH_MAX + 32], program[PATH_MAX] = "";
    (void)snprintf(path, sizeof path, "/proc/%ld/exe", (long)process);
    (void)!readlink(path, program, sizeof program - 1);
    (void)snprintf(path, sizeof path, "%s/rank%d.core", folder, rank);
    ls_core_written wrote;
    int status = ls_core_write(&wrote, path, process, process);
    ls_json_object_open(json);
    ls_json_member_int(json, "rank", rank);
    ls_json_member_string(json, "program", program);
    ls_json_member_uint(json, "left_out", wrote.left_out);
    ls_json_member_string(json, "error", status == LS_OK ? "" : ls_error_last()->text);
    ls_json_object_close(json);
}

// Writes the core files of this host's ranks into the folder.
static void write_cores(ls_exec *exec) {
    ls_json json;
    ls_text line = {0};
    begin(&json, &line, "cores");
    ls_json_array_open(&json);
    for (int r = 0; r < exec->rank_count; r++) {
        const ls_exec_process *process = process_of(exec, r);
        if (process != NULL && process->host == NULL && !process->gone) {
            add_core(&json, r, process->pid, exec->kept.dir);
        }
    }
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    say(exec, &line);
}

// ---- The debugger's words ----------------------------------------------------------------------
static void obey(ls_exec *exec, const char *word) {
    if (strcmp(word, "hold") == 0) {
        exec->held = true;
    } else if (strcmp(word, "go") == 0) {
        exec->held = false;
        exec->released = exec->found;
    } else if (strcmp(word, "ranks") == 0) {
        tell_ranks(exec);
    } else if (strncmp(word, "folder ", 7) == 0 && exec->kept.pid == 0) {
        make_folder(exec, word + 7);
    } else if (strcmp(word, "cores") == 0 && exec->kept.pid > 0) {
        write_cores(exec);
    } else if (strcmp(word, "quit") == 0) {
        exec->quit = true;
    }
}

void ls_exec__debug_read(ls_exec *exec) {
    while (exec->debugger >= 0) {
        size_t room = sizeof exec->words - 1 - exec->words_length;
        ssize_t got = recv(exec->debugger, exec->words + exec->words_length, room, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (got <= 0) {
            hang_up(exec);
            return;
        }
        exec->words_length += (size_t)got;
        exec->words[exec->words_length] = 0;
        char *end = NULL, *at = exec->words;
        for (; (end = strchr(at, '\n')) != NULL; at = end + 1) {
            *end = 0;
            obey(exec, at);
        }
        exec->words_length = strlen(at);
        memmove(exec->words, at, exec->words_length + 1);
    }
}

// Sends the finding that ends the run, or its other failure.
static void tell_found(ls_exec *exec, const char *why) {
    ls_json json;
    ls_text line = {0};
    const ls_finding *found = ls_remote_found(exec->run);
    begin(&json, &line, "found");
    ls_json_object_open(&json);
    ls_json_member_string(&json, "id", found != NULL ? ls_finding_name(found->id) : why);
    ls_json_member_string(&json, "text", found != NULL ? found->text : why);
    ls_json_member_string(&json, "where", found != NULL ? found->where : "");
    ls_json_member_array(&json, "ranks");
    for (int i = 0; found != NULL && i < found->rank_count; i++) {
        ls_json_int(&json, found->ranks[i]);
    }
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    ls_json_object_close(&json);
    say(exec, &line);
}

bool ls_exec__debug_holds(ls_exec *exec) {
    const char *why = "";
    if (exec->debugger < 0 || exec->over) {
        return false;
    }
    const bool failed = exec->run != NULL && ls_remote_status(exec->run, &why) != LS_OK;
    if (failed && !exec->found) {
        exec->found = exec->held = true;
        tell_found(exec, why);
    }
    return exec->held;
}
