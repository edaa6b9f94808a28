// Every collective against its plain reference and against hand-computed values.
#include <criterion/criterion.h>
#include <string.h>

#include "collectives/collectives.h"
#include "collectives/finding.h"
#include "kernels/kernels.h"
#include "tests/collectives/cases.h"
#include "tests/collectives/world.h"

#define MEMBERS_MAX 130

static void run_case(fixture *f, const ls_comm *comm, const coll_case *c) {
    char text[160];
    coll_case_format(text, sizeof text, c, comm->size);
    coll_set ours, plain;
    coll_set_create(&ours, comm, c, 11);
    coll_set_create(&plain, comm, c, 11);
    const ls_call *calls[MEMBERS_MAX];
    cr_assert(comm->size <= MEMBERS_MAX);
    for (int i = 0; i < comm->size; i++) {
        calls[i] = &plain.calls[i];
    }
    cr_assert(ls_collective_of(c->kind)->reference(calls, comm->size) == LS_OK, "%s", text);
    int status = ls_backend_run(f->backend, ours.calls, ours.size);
    cr_assert(status == LS_OK, "%s: %s", text, ls_error_last()->text);
    int member = coll_set_differs(&ours, &plain, 0, comm->size);
    cr_assert(member < 0, "%s: member %d", text, member);
    coll_set_free(&ours);
    coll_set_free(&plain);
}

static void run_forms(fixture *f, const ls_comm *comm, coll_case c) {
    // The last one exceeds several of the ranges into which reductions are split.
    size_t counts[] = {0, 1, 5, comm->size == 3 ? 4099 : 67};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        for (int form = 0; form < 4; form++) {
            c.count = counts[k];
            c.uneven = (form & 1) != 0;
            c.in_place = (form & 2) != 0;
            c.root = (int)(k % (size_t)comm->size);
            if (coll_case_valid(&c)) {
                run_case(f, comm, &c);
            }
        }
    }
}

// Every kind, dtype and op, even, uneven, empty, in place and not, gives the reference's bits.
Test(collectives, match_their_references) {
    static const int sizes[] = {1, 2, 3, 8};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        fixture f = open_world(sizes[s]);
        for (int kind = 0; kind < LS_KIND_COUNT; kind++) {
            if (ls_kind_is_message(kind)) {
                continue;
            }
            bool reduces = ls_collective_of((ls_kind)kind)->reduces;
            for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
                for (int op = 0; op < (reduces ? (int)LS_OP_COUNT : 1); op++) {
                    run_forms(&f, f.comm,
                              (coll_case){.kind = (ls_kind)kind,
                                          .dtype = (ls_dtype)dtype,
                                          .op = (ls_op)op});
                }
            }
        }
        close_world(&f);
    }
}

// all_to_all moves the blocks of 64 receivers at a time: 130 are two tiles and a part of one.
Test(collectives, all_to_all_of_many_members) {
    fixture f = open_world(MEMBERS_MAX);
    for (int uneven = 0; uneven < 2; uneven++) {
        coll_case c = {.kind = LS_ALL_TO_ALL, .dtype = LS_F32, .count = 3, .uneven = uneven != 0};
        run_case(&f, f.comm, &c);
    }
    close_world(&f);
}

// A communicator over some ranks in its own order moves data only between those members.
Test(collectives, work_on_sub_groups) {
    fixture f = open_world(7);
    ls_comm *some = NULL;
    cr_assert(ls_comm_create(&some, f.backend, (int[]){5, 0, 3}, 3, "some") == LS_OK);
    cr_expect(ls_comm_member(some, 5) == 0 && ls_comm_member(some, 0) == 1);
    cr_expect(ls_comm_member(some, 3) == 2 && ls_comm_member(some, 4) == -1);
    for (int kind = 0; kind < LS_KIND_COUNT; kind++) {
        if (!ls_kind_is_message(kind)) {
            run_forms(&f, some, (coll_case){.kind = (ls_kind)kind, .dtype = LS_F32});
        }
    }
    ls_comm_free(some);
    close_world(&f);
}

static int run_all(fixture *f, ls_call proto, void *send, size_t send_stride, void *recv,
                   size_t recv_stride) {
    ls_call calls[8];
    for (int i = 0; i < f->comm->size; i++) {
        calls[i] = proto;
        calls[i].comm = f->comm;
        calls[i].rank = i;
        calls[i].send = send != NULL ? (char *)send + (size_t)i * send_stride : NULL;
        calls[i].recv = recv != NULL ? (char *)recv + (size_t)i * recv_stride : NULL;
    }
    return ls_backend_run(f->backend, calls, f->comm->size);
}

// all_reduce of three ranks' vectors, worked by hand for sum, max, avg and premul_sum.
Test(collectives, all_reduce_by_hand) {
    fixture f = open_world(3);
    int32_t in[3][2] = {{1, -4}, {10, 5}, {100, 2}}, out[3][2];
    ls_call call = {.kind = LS_ALL_REDUCE, .dtype = LS_I32, .op = LS_SUM, .count = 2, LS_HERE};
    cr_assert(run_all(&f, call, in, sizeof in[0], out, sizeof out[0]) == LS_OK);
    for (int r = 0; r < 3; r++) {
        cr_expect(out[r][0] == 111 && out[r][1] == 3);
    }
    call.op = LS_MAX;
    cr_assert(run_all(&f, call, in, sizeof in[0], out, sizeof out[0]) == LS_OK);
    cr_expect(out[2][0] == 100 && out[2][1] == 5);
    float fin[3][1] = {{1}, {2}, {4}}, fout[3][1];
    call = (ls_call){.kind = LS_ALL_REDUCE, .dtype = LS_F32, .op = LS_AVG, .count = 1, LS_HERE};
    cr_assert(run_all(&f, call, fin, sizeof fin[0], fout, sizeof fout[0]) == LS_OK);
    cr_expect(fout[1][0] == 7.0f / 3.0f);
    call.op = LS_PREMUL_SUM;
    call.premul = 0.5;
    cr_assert(run_all(&f, call, fin, sizeof fin[0], fout, sizeof fout[0]) == LS_OK);
    cr_expect(fout[0][0] == 3.5f);
    close_world(&f);
}

// Members may share one result buffer if all of them declare it. A differing or undeclared shared
// buffer is an overlap.
Test(collectives, results_may_be_shared) {
    fixture f = open_world(3);
    float in[3] = {1, 20, 300}, out[6];
    ls_call calls[3];
    for (int r = 0; r < 3; r++) {
        calls[r] = (ls_call){.kind = LS_ALL_GATHER,
                             .comm = f.comm,
                             .rank = r,
                             .dtype = LS_F32,
                             .count = 1,
                             .send = &in[r],
                             .recv = out,
                             .recv_shared = true,
                             LS_HERE};
    }
    cr_assert(ls_backend_run(f.backend, calls, 3) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(out[0] == 1.0f && out[1] == 20.0f && out[2] == 300.0f);
    for (int r = 0; r < 3; r++) {
        calls[r].kind = LS_ALL_REDUCE;
        calls[r].op = LS_SUM;
    }
    cr_assert(ls_backend_run(f.backend, calls, 3) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(out[0] == 321.0f);
    calls[2].recv = out + 3;
    cr_assert(ls_backend_run(f.backend, calls, 3) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(out[3] == 321.0f);
    calls[2].recv = out;
    calls[2].recv_shared = false;
    cr_expect(ls_backend_run(f.backend, calls, 3) == LS_ERR_INVALID);
    calls[2].recv_shared = true;
    calls[0].kind = calls[1].kind = calls[2].kind = LS_SCAN;
    cr_expect(ls_backend_run(f.backend, calls, 3) == LS_ERR_INVALID);
    close_world(&f);
}

// reduce_scatter and all_gather with counts 1, 0, 2, worked by hand.
Test(collectives, uneven_by_hand) {
    fixture f = open_world(3);
    size_t counts[3] = {1, 0, 2};
    int32_t in[3][3] = {{1, 2, 3}, {10, 20, 30}, {100, 200, 300}}, out[3][3] = {{0}};
    ls_call calls[3];
    for (int i = 0; i < 3; i++) {
        calls[i] = (ls_call){.kind = LS_REDUCE_SCATTER,
                             .comm = f.comm,
                             .rank = i,
                             .dtype = LS_I32,
                             .op = LS_SUM,
                             .count = counts[i],
                             .send_counts = counts,
                             .send = in[i],
                             .recv = i == 1 ? NULL : out[i],
                             LS_HERE};
    }
    cr_assert(ls_backend_run(f.backend, calls, 3) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(out[0][0] == 111 && out[0][1] == 0 && out[2][0] == 222 && out[2][1] == 333);
    int32_t all[3][3];
    for (int i = 0; i < 3; i++) {
        calls[i] = (ls_call){.kind = LS_ALL_GATHER,
                             .comm = f.comm,
                             .rank = i,
                             .dtype = LS_I32,
                             .count = counts[i],
                             .recv_counts = counts,
                             .send = out[i],
                             .recv = all[i],
                             LS_HERE};
    }
    cr_assert(ls_backend_run(f.backend, calls, 3) == LS_OK);
    for (int i = 0; i < 3; i++) {
        cr_expect(all[i][0] == 111 && all[i][1] == 222 && all[i][2] == 333);
    }
    close_world(&f);
}

// all_to_all with splits of its own on each rank, worked by hand.
Test(collectives, all_to_all_by_hand) {
    fixture f = open_world(2);
    size_t sends[2][2] = {{1, 2}, {0, 1}}, recvs[2][2] = {{1, 0}, {2, 1}};
    uint8_t in[2][3] = {{1, 2, 3}, {4}}, out[2][3] = {{0}};
    ls_call calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = (ls_call){.kind = LS_ALL_TO_ALL,
                             .comm = f.comm,
                             .rank = i,
                             .dtype = LS_U8,
                             .send_counts = sends[i],
                             .recv_counts = recvs[i],
                             .send = in[i],
                             .recv = out[i],
                             LS_HERE};
    }
    cr_assert(ls_backend_run(f.backend, calls, 2) == LS_OK);
    cr_expect(out[0][0] == 1 && out[0][1] == 0);
    cr_expect(out[1][0] == 2 && out[1][1] == 3 && out[1][2] == 4);
    recvs[1][0] = 1;
    cr_assert(ls_backend_run(f.backend, calls, 2) == LS_ERR_MISMATCH);
    cr_expect(ls_check_last()->id == LS_FINDING_SPLIT_MISMATCH && ls_check_last()->found);
    cr_expect(strstr(ls_error_last()->text, "rank 0 sends 2 elements to rank 1") != NULL, "%s",
              ls_error_last()->text);
    cr_expect(calls[0].seq == 1 && f.comm->seq[0] == 1, "a failed group uses up no number");
    close_world(&f);
}

static ls_call message(ls_kind kind, const fixture *f, int rank, int peer, size_t count,
                       int32_t *values) {
    return (ls_call){.kind = kind,
                     .comm = f->comm,
                     .rank = rank,
                     .dtype = LS_I32,
                     .root = peer,
                     .count = count,
                     .send = kind == LS_SEND ? values : NULL,
                     .recv = kind == LS_RECV ? values : NULL,
                     LS_HERE};
}

// Sends match receives by pair and order, in a group with a collective, and from a rank to itself.
Test(collectives, p2p_meets_in_order) {
    fixture f = open_world(3);
    int32_t a = 1, b = 2, c = 3, ra = 0, rb = 0, rc = 0;
    ls_call calls[] = {
        message(LS_RECV, &f, 2, 0, 1, &ra),
        message(LS_RECV, &f, 2, 0, 1, &rb),
        message(LS_SEND, &f, 0, 2, 1, &a),
        message(LS_SEND, &f, 0, 2, 1, &b),
        message(LS_SEND, &f, 1, 1, 1, &c),
        message(LS_RECV, &f, 1, 1, 1, &rc),
        {.kind = LS_BARRIER, .comm = f.comm, .rank = 0},
        {.kind = LS_BARRIER, .comm = f.comm, .rank = 1},
        {.kind = LS_BARRIER, .comm = f.comm, .rank = 2},
    };
    cr_assert(ls_backend_run(f.backend, calls, 9) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(ra == 1 && rb == 2 && rc == 3);
    cr_expect(calls[0].seq == 0 && calls[1].seq == 1 && calls[8].seq == 2);
    close_world(&f);
}

static void expect_finding(fixture *f, ls_call *calls, int count, int status, ls_finding_id id,
                           int rank) {
    int got = ls_backend_run(f->backend, calls, count);
    const ls_check_failure *failure = ls_check_last();
    cr_expect(got == status, "%s: got %d: %s", ls_finding_name(id), got, ls_error_last()->text);
    cr_expect(failure->found && failure->id == id, "%s: %s", ls_finding_name(id),
              ls_error_last()->text);
    cr_expect(failure->rank_count >= 1 && failure->ranks[0] == rank, "%s: %s", ls_finding_name(id),
              ls_error_last()->text);
    char name[32];
    (void)snprintf(name, sizeof name, "rank %d", rank);
    cr_expect(strstr(ls_error_last()->text, name) != NULL ||
                  strstr(ls_error_last()->text, "made no such call") != NULL,
              "%s", ls_error_last()->text);
}

// Each disagreement is found under its name, names the odd rank, and moves no data.
Test(collectives, disagreements_are_named) {
    fixture f = open_world(4);
    float in[4][8], out[4][8];
    memset(in, 0, sizeof in);
    memset(out, 1, sizeof out);
    ls_call good[4], calls[5];
    for (int i = 0; i < 4; i++) {
        good[i] = (ls_call){.kind = LS_REDUCE,
                            .comm = f.comm,
                            .rank = i,
                            .dtype = LS_F32,
                            .op = LS_SUM,
                            .root = 1,
                            .count = 8,
                            .send = in[i],
                            .recv = out[i],
                            LS_HERE};
    }
#define BAD(change, status, finding, rank)                                                         \
    memcpy(calls, good, sizeof good);                                                              \
    change;                                                                                        \
    expect_finding(&f, calls, 4, status, finding, rank)
    BAD(calls[2].dtype = LS_I32, LS_ERR_MISMATCH, LS_FINDING_DTYPE_MISMATCH, 2);
    BAD(calls[3].op = LS_MAX, LS_ERR_MISMATCH, LS_FINDING_OP_MISMATCH, 3);
    BAD(calls[0].count = 7, LS_ERR_MISMATCH, LS_FINDING_COUNT_MISMATCH, 0);
    BAD(calls[1].root = 0, LS_ERR_MISMATCH, LS_FINDING_ROOT_MISMATCH, 1);
    BAD(calls[1].kind = LS_BROADCAST, LS_ERR_MISMATCH, LS_FINDING_KIND_MISMATCH, 1);
    BAD(calls[1].recv = NULL, LS_ERR_INVALID, LS_FINDING_BUFFER_TOO_SMALL, 1);
    BAD(calls[1].recv = &in[1][1], LS_ERR_INVALID, LS_FINDING_BUFFER_OVERLAP, 1);
    BAD(calls[1].recv = &in[2][1], LS_ERR_INVALID, LS_FINDING_BUFFER_OVERLAP, 1);
#undef BAD
    memcpy(calls, good, sizeof good);
    expect_finding(&f, calls, 3, LS_ERR_MISMATCH, LS_FINDING_MISSING_RANK, 3);
    memcpy(calls, good, sizeof good);
    calls[4] = good[2];
    expect_finding(&f, calls, 5, LS_ERR_MISMATCH, LS_FINDING_EXTRA_CALL, 2);
    for (size_t i = 0; i < sizeof out; i++) {
        cr_assert(((unsigned char *)out)[i] == 1);
    }
    cr_expect(ls_backend_run(f.backend, good, 4) == LS_OK, "%s", ls_error_last()->text);
    close_world(&f);
}

// The majority's value is right, the first such value on a tie; without a majority the first value.
Test(collectives, the_odd_member_is_blamed) {
    const struct {
        size_t counts[5];
        int members, wrong, wrongs;
    } cases[] = {{{3, 2, 2}, 3, 0, 1},       {{3, 3, 2, 2, 2}, 5, 0, 2}, {{2, 3, 2, 4, 2}, 5, 1, 2},
                 {{4, 2, 3, 2, 2}, 5, 0, 2}, {{2, 3}, 2, 1, 1},          {{2, 2, 3, 3}, 4, 2, 2},
                 {{4, 2, 2, 3, 3}, 5, 1, 4}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fixture f = open_world(cases[k].members);
        float values[5][4];
        ls_call calls[5];
        for (int i = 0; i < cases[k].members; i++) {
            calls[i] = (ls_call){.kind = LS_ALL_REDUCE,
                                 .comm = f.comm,
                                 .rank = i,
                                 .dtype = LS_F32,
                                 .count = cases[k].counts[i],
                                 .send = values[i],
                                 .recv = values[i]};
        }
        expect_finding(&f, calls, cases[k].members, LS_ERR_MISMATCH, LS_FINDING_COUNT_MISMATCH,
                       cases[k].wrong);
        cr_expect(ls_check_last()->rank_count == cases[k].wrongs, "%zu", k);
        close_world(&f);
    }
}

// Unmatched sends and receives are named: missing, wrong size, wrong type, wrong order.
Test(collectives, p2p_disagreements_are_named) {
    fixture f = open_world(2);
    int32_t data[4] = {0}, got[4] = {0};
    ls_call lone_send[] = {message(LS_SEND, &f, 0, 1, 1, data)},
            lone_recv[] = {message(LS_RECV, &f, 1, 0, 1, got)};
    expect_finding(&f, lone_send, 1, LS_ERR_MISMATCH, LS_FINDING_P2P_UNMATCHED_SEND, 0);
    expect_finding(&f, lone_recv, 1, LS_ERR_MISMATCH, LS_FINDING_P2P_UNMATCHED_RECV, 1);
    ls_call sizes[] = {message(LS_SEND, &f, 0, 1, 1, data), message(LS_RECV, &f, 1, 0, 2, got)};
    expect_finding(&f, sizes, 2, LS_ERR_MISMATCH, LS_FINDING_P2P_COUNT_MISMATCH, 0);
    ls_call types[] = {message(LS_SEND, &f, 0, 1, 1, data), message(LS_RECV, &f, 1, 0, 1, got)};
    types[1].dtype = LS_F32;
    expect_finding(&f, types, 2, LS_ERR_MISMATCH, LS_FINDING_P2P_DTYPE_MISMATCH, 0);
    ls_call order[] = {message(LS_SEND, &f, 0, 1, 1, data), message(LS_SEND, &f, 0, 1, 2, data),
                       message(LS_RECV, &f, 1, 0, 2, got), message(LS_RECV, &f, 1, 0, 1, &got[2])};
    expect_finding(&f, order, 4, LS_ERR_MISMATCH, LS_FINDING_P2P_ORDER_MISMATCH, 0);
    close_world(&f);
}

// Calls that are invalid by themselves: bad root, op on a float, counts that overflow.
Test(collectives, single_calls_are_checked) {
    fixture f = open_world(2);
    float data[4];
    ls_call call = {.kind = LS_ALL_REDUCE,
                    .comm = f.comm,
                    .rank = 1,
                    .dtype = LS_F32,
                    .count = 4,
                    .send = data,
                    .recv = data,
                    LS_HERE};
    ls_call_extent extent;
    cr_expect(ls_call_check(&extent, &call) == LS_OK && extent.in_place);
    call.op = LS_BXOR;
    cr_expect(ls_call_check(NULL, &call) == LS_ERR_INVALID);
    cr_expect(ls_error_last()->rank == 1);
    call.op = LS_SUM;
    call.count = SIZE_MAX / 2;
    cr_expect(ls_call_check(NULL, &call) == LS_ERR_OVERFLOW);
    call.kind = LS_ALL_GATHER;
    call.count = SIZE_MAX / 2 + 1;
    cr_expect(ls_call_check(NULL, &call) == LS_ERR_OVERFLOW);
    call.kind = LS_BROADCAST;
    call.count = 4;
    call.root = 2;
    cr_expect(ls_call_check(NULL, &call) == LS_ERR_INVALID);
    call.rank = 5;
    cr_expect(ls_call_check(NULL, &call) == LS_ERR_INVALID);
    close_world(&f);
}

// The text of a call identifies it completely.
Test(collectives, calls_have_a_text) {
    fixture f = open_world(4);
    ls_call call = {.kind = LS_ALL_REDUCE,
                    .comm = f.comm,
                    .rank = 3,
                    .seq = 7,
                    .dtype = LS_F32,
                    .count = 1024,
                    .file = "train.c",
                    .line = 41};
    char text[128];
    ls_call_format(text, sizeof text, &call);
    cr_expect_str_eq(text, "all_reduce sum of 1024 f32 on world (rank 3, call 7, train.c:41)");
    call.purpose = "gradients (rank 0)";  // a program's words may look like lockstep's: reported in
                                          // full
    ls_call_describe(text, sizeof text, &call);
    cr_expect_str_eq(text, "all_reduce sum of 1024 f32 for gradients (rank 0) on world");
    ls_kind kind;
    cr_expect(ls_kind_parse(&kind, "reduce_scatter") == LS_OK && kind == LS_REDUCE_SCATTER);
    cr_expect(ls_kind_parse(&kind, "reduce_scater") == LS_ERR_NOT_FOUND);
    ls_finding_id id;
    cr_expect(!ls_finding_parse(&id, "p2p.unmatched_recv") && id == LS_FINDING_P2P_UNMATCHED_RECV);
    close_world(&f);
}

// Bytes and bus factors of an all_to_all and an all_reduce, worked by hand.
Test(collectives, bytes_and_bus_factors) {
    fixture f = open_world(4);
    ls_call call = {.kind = LS_ALL_TO_ALL, .comm = f.comm, .dtype = LS_F32, .count = 3};
    const ls_call *calls[4] = {&call, &call, &call, &call};
    cr_expect(ls_collective_bytes(calls, 0, 2) == 12);
    cr_expect(ls_collective_bus_factor(ls_collective_of(LS_ALL_REDUCE), 4) == 1.5);
    cr_expect(ls_collective_bus_factor(ls_collective_of(LS_ALL_GATHER), 4) == 0.75);
    close_world(&f);
}

// Communicators refuse ranks that are outside of the world or named twice.
Test(collectives, communicators_are_checked) {
    fixture f = open_world(4);
    ls_comm *comm = NULL;
    cr_expect(ls_comm_create(&comm, f.backend, (int[]){0, 4}, 2, "x") == LS_ERR_INVALID);
    // Wherever the duplicates are: the first two, the last two, the lowest and the highest rank.
    cr_expect(ls_comm_create(&comm, f.backend, (int[]){0, 0}, 2, "x") == LS_ERR_INVALID);
    cr_expect(ls_comm_create(&comm, f.backend, (int[]){1, 1, 2}, 3, "x") == LS_ERR_INVALID);
    cr_expect(ls_comm_create(&comm, f.backend, (int[]){0, 3, 3}, 3, "x") == LS_ERR_INVALID);
    cr_expect(ls_comm_create(&comm, f.backend, (int[]){2, 1, 2}, 3, "x") == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "rank 2") != NULL);
    cr_expect(comm == NULL);
    close_world(&f);
}

// The fibers of a 2 x 3 mesh along each axis.
Test(collectives, axes_have_a_communicator_per_fiber) {
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_axis *rows = NULL, *columns = NULL;
    ls_world_options options = {.mesh = LS_MESH(2, 3)};
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
    cr_assert(ls_axis_create(&rows, backend, 0) == LS_OK);
    cr_assert(ls_axis_create(&columns, backend, 1) == LS_OK);
    cr_expect(rows->comm_count == 3 && columns->comm_count == 2);
    cr_expect(rows->comms[rows->comm_of_rank[4]]->ranks[0] == 1);
    cr_expect(rows->comms[rows->comm_of_rank[4]]->ranks[1] == 4);
    cr_expect(columns->comms[columns->comm_of_rank[4]]->ranks[2] == 5);
    ls_axis *none = NULL;
    cr_expect(ls_axis_create(&none, backend, 2) == LS_ERR_INVALID);
    ls_axis_free(rows);
    ls_axis_free(columns);
    ls_backend_free(backend);
    ls_world_free(world);
}
