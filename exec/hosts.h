// A job on many hosts: the coordinator's side, and that of an agent. On one host all of these do
// nothing.
#pragma once

#include "exec/internal.h"
#include "exec/link.h"

struct ls_exec_host {
    ls_exec_host *next;
    ls_link *link;  // NULL: it is closed
    char name[LS_WIRE_NAME_BYTES];
    double since;
    bool joined, ended;
    uint32_t looked;              // the last look that it has answered
    bool works;                   // as it said then
    ls_exec_process **processes;  // [process_count]
    uint32_t process_count;
};

typedef struct ls_exec_hosts {
    int listening;
    ls_link_key key;
    ls_exec_host *first;
    int joined;
    double began;
    uint32_t look;  // the last one
    bool asked;     // since nothing moves any more
    bool seen;      // and all have answered once
} ls_exec_hosts;

struct ls_exec_agent {
    ls_link *link;
    bool joined;
};

// ---- hosts_say.c --------------------------------------------------------------------------------
// To a process of another host.
void ls_exec__host_answer(const ls_exec_process *process, uint32_t slot);
void ls_exec__host_state(const ls_exec_process *process, uint32_t failed, const char *why);
void ls_exec__host_ask(const ls_exec_process *process);
// Since nothing moves any more: whether all have answered a look, and what they have seen; and
// looks again.
void ls_exec__hosts_forget_looks(const ls_exec *exec);
bool ls_exec__hosts_looked(const ls_exec *exec);
bool ls_exec__hosts_seen(const ls_exec *exec);  // they have, to any look since
bool ls_exec__hosts_have_work(const ls_exec *exec);
void ls_exec__hosts_look(const ls_exec *exec);
void ls_exec__host_hang_up(ls_exec_host *host);
void ls_exec__hosts_drop(const ls_exec *exec);  // all

// ---- relay.c ------------------------------------------------------------------------------------
// Reports from an agent to the coordinator: a message, the end of a process, its ended threads.
int ls_exec__relay(ls_exec *exec, ls_exec_process *process, const ls_wire_head *message);
void ls_exec__relay_end(ls_exec *exec, ls_exec_process *process, bool known, int status);
void ls_exec__relay_threads(const ls_exec *exec, ls_exec_process *process);

// ---- hosts.c ------------------------------------------------------------------------------------
int ls_exec__hosts_open(ls_exec *exec);
// Ends what the program is on other hosts, and waits until their agents have gone.
void ls_exec__hosts_close(ls_exec *exec, int status);
size_t ls_exec__hosts_count(const ls_exec *exec);  // of descriptors to poll
void ls_exec__hosts_poll(const ls_exec *exec, struct pollfd *fds);
void ls_exec__hosts_work(ls_exec *exec);         // whatever was polled
bool ls_exec__hosts_live(const ls_exec *exec);   // the program goes on on another one
bool ls_exec__hosts_ready(const ls_exec *exec);  // all have joined

// ---- agent.c ------------------------------------------------------------------------------------
int ls_exec__agent_open(ls_exec *exec);
void ls_exec__agent_close(ls_exec *exec);
void ls_exec__agent_poll(const ls_exec *exec, struct pollfd *fd);
void ls_exec__agent_work(ls_exec *exec);
bool ls_exec__agent_reads(const ls_exec *exec);  // it may hear its processes
