// Matches sends and receives: of each pair of members of a communicator, and of each tag if there
// are tags, the i-th send with the i-th receive. A send completes when its receive arrives
// (rendezvous), so a program that relies on buffering is detected.
//
// An unmatched message is in two lists, each in order of posting. One has all sends or all receives
// of its receiver. The other has the sends or the receives of one key (receiver, sender, tag), or
// the receives without a sender or a tag: a message examines only possible matches. The result is
// as with only the first list.
#include "ranks/internal.h"

// A receive from any member in a frontend that explores: its send is chosen when no rank can
// continue. Others match the first to arrive.
static bool is_held(const ls_request *request) {
    return request->any_source && request->front != NULL;
}

static bool is_send(const ls_request *request) {
    return request->call.kind == LS_SEND;
}

static int receiver_of(const ls_request *request) {
    return is_send(request) ? request->call.root : request->comm->member;
}

static int sender_of(const ls_request *request) {
    return is_send(request) ? request->comm->member : request->call.root;
}

static bool names_any(const ls_request *request) {
    return !is_send(request) && (request->any_source || request->tag == LS_TAG_ANY);
}

// ---- The lists ----------------------------------------------------------------------------------
// The list for the key of a send, or of a receive with a sender and a tag: with `own` the request's
// own list, else that of its possible matches.
static ls_request **keyed_at(const ls_request *key, bool own) {
    const ls_shared_comm *shared = key->comm->shared;
    LS_ASSERT(shared->keyed_room > 0);
    uint64_t hash = ((uint64_t)(uint32_t)receiver_of(key) << 32 | (uint32_t)sender_of(key)) *
                    UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29 ^ (uint32_t)key->tag) * UINT64_C(0xbf58476d1ce4e5b9);
    hash ^= is_send(key) == own ? 1 : 0;
    return &shared->keyed[(hash ^ hash >> 32) & (shared->keyed_room - 1)];
}

static ls_request **list_of(const ls_request *request, int which) {
    ls_shared_comm *shared = request->comm->shared;
    int receiver = receiver_of(request);
    if (which == LS_P2P_ALL) {
        return is_send(request) ? &shared->sends[receiver] : &shared->recvs[receiver];
    }
    return names_any(request) ? &shared->any[receiver] : keyed_at(request, true);
}

static void append_to(ls_request *request, int which) {
    ls_request **list = list_of(request, which), *first = *list;
    request->next_p2p[which] = NULL;
    request->before_p2p[which] = first != NULL ? first->before_p2p[which] : request;
    *(first != NULL ? &first->before_p2p[which]->next_p2p[which] : list) = request;
    (*list)->before_p2p[which] = request;
}

static void take_from(ls_request *request, int which) {
    ls_request **list = list_of(request, which);
    ls_request *next = request->next_p2p[which], *before = request->before_p2p[which];
    bool first = *list == request;
    LS_ASSERT(first || before->next_p2p[which] == request);
    *(first ? list : &before->next_p2p[which]) = next;
    if (next != NULL) {
        next->before_p2p[which] = before;
    } else if (!first) {
        (*list)->before_p2p[which] = before;
    }
}

// At most as many messages as lists, on average.
static int reserve(ls_shared_comm *shared) {
    if (shared->keyed_count < shared->keyed_room) {
        return LS_OK;
    }
    void *memory = NULL;
    uint64_t room = shared->keyed_room > 0 ? 2 * shared->keyed_room : 16;
    LS_TRY(ls_alloc(&memory, room, sizeof(ls_request *)));
    ls_free((void *)shared->keyed, shared->keyed_room, sizeof(ls_request *));
    shared->keyed = memory;
    shared->keyed_room = room;
    for (int m = 0; m < shared->comm->size; m++) {
        for (int sends = 0; sends < 2; sends++) {
            ls_request *at = sends != 0 ? shared->sends[m] : shared->recvs[m];
            for (; at != NULL; at = at->next_p2p[LS_P2P_ALL]) {
                if (!names_any(at)) {
                    append_to(at, LS_P2P_KEY);
                }
            }
        }
    }
    return LS_OK;
}

static int append(ls_request *request) {
    ls_shared_comm *shared = request->comm->shared;
    LS_TRY(reserve(shared));
    request->number_p2p = ++shared->numbers_p2p;
    append_to(request, LS_P2P_ALL);
    append_to(request, LS_P2P_KEY);
    shared->keyed_count += names_any(request) ? 0 : 1;
    request->rank->run->held += is_held(request) ? 1 : 0;
    request->rank->run->observed += request->any_source && !is_held(request) ? 1 : 0;
    return LS_OK;
}

static void take(ls_request *request) {
    take_from(request, LS_P2P_ALL);
    take_from(request, LS_P2P_KEY);
    request->comm->shared->keyed_count -= names_any(request) ? 0 : 1;
    request->rank->run->held -= is_held(request) ? 1 : 0;
}

// ---- Matching -----------------------------------------------------------------------------------
static bool meets(const ls_request *send, const ls_request *recv) {
    return receiver_of(send) == receiver_of(recv) &&
           (recv->any_source || recv->call.root == send->comm->member) &&
           (recv->tag == send->tag || (recv->tag == LS_TAG_ANY && send->tag > LS_TAG_ANY));
}

// The receives that a send would match, oldest first.
typedef struct recv_walk {
    const ls_request *send;
    ls_request *at[2];  // the next of its key, of those that name no sender or no tag
} recv_walk;

static recv_walk walk_recvs(const ls_request *send) {
    const ls_shared_comm *shared = send->comm->shared;
    return (recv_walk){.send = send,
                       .at = {*keyed_at(send, false), shared->any[receiver_of(send)]}};
}

static ls_request *next_recv(recv_walk *walk) {
    for (int i = 0; i < 2; i++) {
        while (walk->at[i] != NULL && (is_send(walk->at[i]) || !meets(walk->send, walk->at[i]))) {
            walk->at[i] = walk->at[i]->next_p2p[LS_P2P_KEY];
        }
    }
    bool second = walk->at[0] == NULL ||
                  (walk->at[1] != NULL && walk->at[1]->number_p2p < walk->at[0]->number_p2p);
    ls_request *found = walk->at[second ? 1 : 0];
    walk->at[second ? 1 : 0] = found != NULL ? found->next_p2p[LS_P2P_KEY] : NULL;
    return found;
}

// Whether a receive that was posted before `recv` may still get the send. While one from any member
// is held, so may those behind it be that wait for what it leaves.
static bool claimed(const ls_request *send, const ls_request *recv) {
    if (recv->rank->run->held == 0) {
        return false;
    }
    recv_walk walk = walk_recvs(send);
    bool posted = recv->number_p2p > 0;
    for (const ls_request *at; (at = next_recv(&walk)) != NULL;) {
        if (posted && at->number_p2p >= recv->number_p2p) {
            return false;
        }
        if (!at->probe) {
            return true;
        }
    }
    return false;
}

// The oldest send of `member` (-1: of any) that the receive would match; NULL: none yet.
static ls_request *find_send(const ls_request *recv, int member) {
    const ls_shared_comm *shared = recv->comm->shared;
    ls_request *at = shared->sends[recv->comm->member];
    int which = names_any(recv) ? LS_P2P_ALL : LS_P2P_KEY;
    if (at != NULL && which == LS_P2P_KEY) {
        at = *keyed_at(recv, false);
    }
    for (; at != NULL; at = at->next_p2p[which]) {
        if (is_send(at) && meets(at, recv) && (member < 0 || at->comm->member == member)) {
            return claimed(at, recv) ? NULL : at;
        }
    }
    return NULL;
}

ls_request *ls_p2p__waiting(const ls_request *like) {
    return find_send(like, -1);
}

void ls_p2p__withdraw(ls_request *request) {
    take(request);
}

static bool fits(const ls_request *a, const ls_request *b) {
    return a->call.count == b->call.count && a->call.dtype == b->call.dtype;
}

// Whether the rank of `request` has another open call to the same peer that would fit `other`.
static bool posts_later(const ls_request *request, const ls_request *other) {
    for (const ls_request *at = request->rank->open; at != NULL; at = at->next) {
        if (at != request && at->comm == request->comm && at->state <= LS_REQUEST_POSTED &&
            at->call.kind == request->call.kind && at->call.root == request->call.root &&
            fits(at, other)) {
            return true;
        }
    }
    return false;
}

// A message that does not fit its receive, but a later one of the same two ranks, was most likely
// posted in another order. Later posts are known when no rank can continue.
void ls_p2p__decide(ls_spmd *run) {
    ls_request *pair[2] = {run->suspects[0], run->suspects[1]};
    const ls_call *calls[2] = {&pair[0]->call, &pair[1]->call};
    run->suspects[0] = run->suspects[1] = NULL;
    int status = ls_calls_check(calls, 2);
    LS_ASSERT(status != LS_OK);
    ls_finding_id id = ls_check_last()->id;
    bool mismatch = ls_check_last()->found &&
                    (id == LS_FINDING_P2P_COUNT_MISMATCH || id == LS_FINDING_P2P_DTYPE_MISMATCH);
    if (mismatch && (posts_later(pair[1], pair[0]) || posts_later(pair[0], pair[1]))) {
        (void)ls_error_wrap("the two ranks post their messages in different orders");
        ls_check__note(LS_FINDING_P2P_ORDER_MISMATCH, calls[0]);
        if (calls[1]->rank != calls[0]->rank) {
            ls_check__note_rank(calls[1]);
        }
    }
    status = ls_findings__add_check(run, pair, 2);
    ls_spmd__fail(run, status,
                  ls_check_last()->found ? ls_finding_name(ls_check_last()->id)
                                         : ls_error_last()->text);
}

static int meet_front(ls_spmd *run, ls_request *send, ls_request *recv) {
    const ls_call *const calls[2] = {&send->call, &recv->call};
    ls_hooks__matched(run->backend, calls, 2);
    int status = send->front->message(run, send, recv);
    ls_request__done(recv, status);
    ls_request__done(send, status);
    if (status != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    return status;
}

// Two messages of one group whose peer makes them one after the other: NCCL promises nothing then,
// as calls of a group may wait for each other. Asynchronous calls in a row are a group, too.
static void check_groups(ls_spmd *run, const ls_request *own, const ls_request *peer) {
    ls_rank_comm *comm = own->comm;
    if (own->group == 0) {
        return;
    }
    if (comm->met_groups == NULL) {
        comm->met_groups =
            ls_arena_alloc(run->arena, (size_t)comm->shared->comm->size, sizeof *comm->met_groups);
    }
    if (comm->met_groups == NULL) {
        return;
    }
    ls_met_groups *met = &comm->met_groups[peer->comm->member];
    bool apart = met->own == own->group && (peer->group == 0 || met->peer != peer->group) &&
                 !(peer->group == 0 && peer->asynchronous);
    if (apart && !met->told) {
        const int ranks[2] = {own->call.rank, peer->call.rank};
        char where[LS_CALL_WHERE_MAX], where_peer[LS_CALL_WHERE_MAX];
        ls_text text = {0};
        ls_text_printf(
            &text,
            "rank %d groups its messages with rank %d, but rank %d makes them one after the other. "
            "NCCL does not define this: calls of a group may block each other. Group them on both "
            "ranks\n"
            "  rank %d: in a group, %s\n  rank %d: in no group or in another group, %s\n",
            ranks[0], ranks[1], ranks[1], ranks[0], ls_call__where(where, &own->call), ranks[1],
            ls_call__where(where_peer, &peer->call));
        met->told = true;
        (void)ls_findings__add(run, LS_FINDING_CALL_INVALID, ranks, 2, peer->call.file,
                               peer->call.line, ls_findings__string(run, &text));
        ls_text_free(&text);
    }
    met->own = own->group;
    met->peer = peer->group;
}

static int meet(ls_spmd *run, ls_request *send, ls_request *recv) {
    if (send->front != NULL) {
        return meet_front(run, send, recv);
    }
    recv->call.root = send->comm->member;  // which a receive from any member did not know
    const ls_call *calls[2] = {&send->call, &recv->call};
    if (ls_calls_check(calls, 2) != LS_OK) {
        run->suspects[0] = send;
        run->suspects[1] = recv;
        return LS_OK;  // until no rank can continue
    }
    check_groups(run, send, recv);
    check_groups(run, recv, send);
    send->state = LS_REQUEST_MATCHED;
    recv->state = LS_REQUEST_MATCHED;
    ls_checks__matched(send);
    ls_checks__matched(recv);
    ls_hooks__met(run->backend, calls, 2);
    ls_request *pair[2] = {send, recv};
    return run->remote != NULL ? run->remote_met(run, pair, 2) : ls_p2p__move(run, pair);
}

int ls_p2p__move(ls_spmd *run, ls_request *const pair[2]) {
    const ls_call *calls[2] = {ls_flight__call(pair[0]), ls_flight__call(pair[1])};
    ls_move move = {.shared = pair[0]->comm->shared, .requests = pair, .size = 2};
    ls_checks__moving(run, &move);
    int status = pair[0]->collected ? LS_OK : ls_spmd__complete(run, calls, 2);
    if (status == LS_OK) {
        ls_checks__moved(run, &move);
    }
    ls_checks__over(run, &move);
    ls_request__done(pair[0], status);
    ls_request__done(pair[1], status);
    if (status != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    return status;
}

static void found(ls_request *probe, ls_request *send) {
    take(probe);
    probe->front->found(probe, send);
    ls_request__done(probe, LS_OK);
}

// Equal probes from any member, which threads of one rank made, all find the same message.
static void found_by_all(const ls_request *probe, ls_request *send) {
    int tag = probe->tag;
    ls_request *at = probe->comm->shared->any[probe->comm->member], *next;
    for (; at != NULL; at = next) {
        next = at->next_p2p[LS_P2P_KEY];
        if (at->probe && is_held(at) && at->tag == tag && !claimed(send, at)) {
            found(at, send);
        }
    }
}

// After a receive from any member has matched its send, later ones may match theirs.
static int settle(ls_spmd *run, ls_shared_comm *shared, int member) {
    for (ls_request *at = shared->recvs[member], *next; at != NULL; at = next) {
        next = at->next_p2p[LS_P2P_ALL];
        ls_request *send = is_held(at) ? NULL : find_send(at, -1);
        if (send == NULL) {
            continue;
        }
        if (at->probe) {
            found(at, send);
            continue;
        }
        take(at);
        take(send);
        LS_TRY(meet(run, send, at));
        next = shared->recvs[member];
    }
    return LS_OK;
}

static int submit_send(ls_spmd *run, ls_request *send) {
    LS_TRY(append(send));
    recv_walk walk = walk_recvs(send);
    for (ls_request *at; (at = next_recv(&walk)) != NULL;) {
        if (is_held(at) && !at->probe) {
            return LS_OK;
        }
        if (is_held(at) || find_send(at, -1) != send) {
            continue;
        }
        if (at->probe) {
            found(at, send);
            continue;
        }
        take(at);
        take(send);
        return meet(run, send, at);
    }
    return LS_OK;
}

int ls_p2p__submit(ls_request *request) {
    ls_spmd *run = request->rank->run;
    if (request->front == NULL) {
        ls_checks__posted(request);
    }
    if (request->call.kind == LS_SEND) {
        return submit_send(run, request);
    }
    LS_TRY(append(request));
    ls_request *send = is_held(request) ? NULL : find_send(request, -1);
    if (send == NULL) {
        return LS_OK;
    }
    if (request->probe) {
        found(request, send);
        return LS_OK;
    }
    take(request);
    take(send);
    return meet(run, send, request);
}

// ---- Receives from any member -------------------------------------------------------------------
// They are held until no rank can continue without them: then every send that could come first has
// arrived (POE: Vakkalanka, Gopalakrishnan, Kirby, "Dynamic verification of MPI programs with
// reductions in presence of split operations and relaxed orderings", CAV 2008).
static int choices_at(ls_match_choice *out, int most, const ls_shared_comm *shared, int member) {
    int count = 0;
    for (ls_request *at = shared->any[member]; at != NULL; at = at->next_p2p[LS_P2P_KEY]) {
        if (!is_held(at)) {
            continue;
        }
        uint64_t seen[4] = {0};  // senders below 256 once each, in the order of their sends
        for (ls_request *send = shared->sends[member]; send != NULL;
             send = send->next_p2p[LS_P2P_ALL]) {
            int from = send->comm->member;
            bool first = from >= 256 || (seen[from / 64] >> (from % 64) & 1) == 0;
            if (!first || !meets(send, at) || claimed(send, at)) {
                continue;
            }
            if (from < 256) {
                seen[from / 64] |= UINT64_C(1) << (from % 64);
            } else if (find_send(at, from) != send) {
                continue;
            }
            if (count == most) {
                return count;
            }
            out[count++] = (ls_match_choice){at, send};
        }
    }
    return count;
}

bool ls_p2p__choose(ls_spmd *run) {
    ls_match_choice choices[LS_MATCH_CHOICES_MAX];
    int count = 0;
    if (run->held == 0) {
        return false;
    }
    for (ls_shared_comm *shared = run->comms; shared != NULL; shared = shared->next) {
        for (int m = 0; m < shared->comm->size && count < LS_MATCH_CHOICES_MAX; m++) {
            if (shared->any[m] != NULL && shared->sends[m] != NULL) {
                count += choices_at(choices + count, LS_MATCH_CHOICES_MAX - count, shared, m);
            }
        }
    }
    if (count == 0) {
        return false;
    }
    int chosen = run->front->choose(run, choices, count);
    if (chosen < 0) {
        ls_spmd__fail(run, LS_ERR_UNSUPPORTED, "all choices of this run have been tried");
        return true;
    }
    LS_ASSERT(chosen < count);
    ls_request *recv = choices[chosen].recv, *send = choices[chosen].send;
    if (recv->probe) {
        found_by_all(recv, send);
        return true;
    }
    take(recv);
    take(send);
    (void)meet(run, send, recv);
    (void)settle(run, recv->comm->shared, recv->comm->member);
    return true;
}
