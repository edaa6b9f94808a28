// When replicas are compared and when not, the ranks at fault, and the call since which copies
// differ.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/ranks.h"

#define WORLD      ls_rank_world(self)
#define HERE(call) (at->line = __LINE__, (call))
#define ALWAYS     "replica.*,-handle.leak"  // compared after every collective
#define TOUCHED    "-handle.leak"

#define ASYNC_CALL(data, request) ls_all_reduce_async(data, data, 1, LS_F32, LS_SUM, WORLD, request)

typedef struct place {
    unsigned wrong;  // a bit for each rank whose copy differs
    int line;        // the place of the finding
} place;

static bool is_wrong(const ls_rank *self, const place *at) {
    return (at->wrong >> ls_rank_id(self) & 1) != 0;
}

// A call in flight writes the copies, which are equal again after it.
static int filled_meanwhile(ls_rank *self, void *arg) {
    const place *at = arg;
    float w[2] = {1, 1}, loss = 1;
    ls_request *request = NULL;
    LS_TRY(ls_replica_declare(w, 1, LS_F32, WORLD));
    w[0] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(ASYNC_CALL(w, &request));
    LS_TRY(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, WORLD));
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(ls_wait(request));
    LS_TRY(ls_barrier(WORLD));
    return ls_replica_forget(w, WORLD);
}

// The same for a message, which the others do not wait for.
static int received_meanwhile(ls_rank *self, void *arg) {
    const place *at = arg;
    float w[2] = {1, 1}, sent = 1;
    ls_request *request = NULL;
    bool receives = is_wrong(self, at);
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    if (receives) {
        w[0] = 5;
        LS_TRY(ls_recv_async(w, 1, LS_F32, 0, WORLD, &request));
    }
    LS_TRY(ls_barrier(WORLD));
    if (ls_rank_id(self) == 0) {
        LS_TRY(ls_send(&sent, 1, LS_F32, 1, WORLD));
    }
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(receives ? ls_wait(request) : LS_OK);
    LS_TRY(ls_barrier(WORLD));
    return ls_replica_forget(w, WORLD);
}

// A call in flight on other memory hides nothing.
static int other_call_open(ls_rank *self, void *arg) {
    place *at = arg;
    float w[2] = {1, 1}, loss = 1;
    ls_request *request = NULL;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    LS_TRY(ASYNC_CALL(&loss, &request));
    w[1] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(HERE(ls_all_reduce(w, w, 1, LS_F32, LS_SUM, WORLD)));
    LS_TRY(ls_replica_forget(w, WORLD));
    return ls_wait(request);
}

static int differs_after_async(ls_rank *self, void *arg) {
    place *at = arg;
    float w[2] = {1, 1};
    ls_request *request = NULL;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    w[1] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(HERE(ASYNC_CALL(w, &request)));
    LS_TRY(ls_wait(request));
    LS_TRY(ls_barrier(WORLD));
    return ls_replica_forget(w, WORLD);
}

// Of the ranks' calls that of the rank at fault is named.
static int differs_at_its_call(ls_rank *self, void *arg) {
    place *at = arg;
    float w[2] = {1, 1};
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    if (is_wrong(self, at)) {
        w[1] = 5;
        LS_TRY(HERE(ls_all_reduce(w, w, 1, LS_F32, LS_SUM, WORLD)));
    } else {
        LS_TRY(ls_all_reduce(w, w, 1, LS_F32, LS_SUM, WORLD));
    }
    return ls_replica_forget(w, WORLD);
}

// The first call after which the copies differ is named, not the last.
static int differs_since(ls_rank *self, void *arg) {
    place *at = arg;
    float *w = ls_rank_alloc(self, 2 * sizeof *w), loss = 1;
    w[0] = w[1] = 1;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    LS_TRY(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, WORLD));
    w[1] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(HERE(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_MAX, WORLD)));
    LS_TRY(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_MIN, WORLD));
    LS_TRY(ls_barrier(WORLD));
    ls_rank_free(self, w);
    return 0;
}

// Equal again after a call, they differ since a later one.
static int differs_again(ls_rank *self, void *arg) {
    place *at = arg;
    float *w = ls_rank_alloc(self, 2 * sizeof *w), loss = 1;
    w[0] = w[1] = 1;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    w[1] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, WORLD));
    w[1] = 1;
    LS_TRY(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, WORLD));
    w[1] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(HERE(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_MAX, WORLD)));
    ls_rank_free(self, w);
    return 0;
}

// Memory from elsewhere than ls_rank_alloc may be gone at the end.
static int gone_at_the_end(ls_rank *self, void *arg) {
    static float kept[4][2];
    const place *at = arg;
    float *w = kept[ls_rank_id(self)];
    w[0] = w[1] = 1;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    w[1] = is_wrong(self, at) ? 5 : 1;
    return 0;
}

// One copy is freed: the others may change.
static int one_is_freed(ls_rank *self, void *arg) {
    const place *at = arg;
    float *w = ls_rank_alloc(self, 2 * sizeof *w), loss = 1;
    w[0] = w[1] = 1;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    LS_TRY(ls_barrier(WORLD));
    if (is_wrong(self, at)) {
        ls_rank_free(self, w);
    } else {
        w[1] = (float)ls_rank_id(self);
    }
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_SUM, WORLD));
    LS_TRY(ls_check_replicas(WORLD));
    return ls_replica_forget(w, WORLD);
}

// A communicator of one rank has no other copy.
static int alone(ls_rank *self, void *arg) {
    const place *at = arg;
    ls_rank_comm *own = NULL;
    float w[2] = {1, 1};
    LS_TRY(ls_comm_split(&own, WORLD, ls_rank_id(self), 0));
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    w[1] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(ls_broadcast(w, w, 2, LS_F32, 0, own));
    LS_TRY(ls_replica_forget(w, WORLD));
    return ls_comm_destroy(own);
}

// The buffer of a call in flight is not compared when it is declared.
static int declared_in_flight(ls_rank *self, void *arg) {
    const place *at = arg;
    float w[2] = {1, 1};
    ls_request *request = NULL;
    w[0] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(ASYNC_CALL(w, &request));
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(ls_wait(request));
    return ls_replica_forget(w, WORLD);
}

// Nor at the end, if the program never waited for the call.
static int in_flight_at_the_end(ls_rank *self, void *arg) {
    const place *at = arg;
    float *w = ls_rank_alloc(self, 2 * sizeof *w);
    ls_request *request = NULL;
    w[0] = w[1] = 1;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    LS_TRY(ls_barrier(WORLD));
    w[0] = is_wrong(self, at) ? 5 : 1;
    return ASYNC_CALL(w + 1, &request);
}

// Other data in the former memory of a copy is no copy.
static int freed_and_used_again(ls_rank *self, void *arg) {
    const place *at = arg;
    for (int i = 0; i < 3; i++) {
        float *w = ls_rank_alloc(self, 2 * sizeof *w);
        w[0] = 1;
        w[1] = i > 0 && is_wrong(self, at) ? 5 : 1;
        LS_TRY(i == 0 ? ls_replica_declare(w, 2, LS_F32, WORLD) : LS_OK);
        LS_TRY(ls_barrier(WORLD));
        ls_rank_free(self, w);
        LS_TRY(ls_barrier(WORLD));
    }
    return 0;
}

// Of a large copy only some calls are recorded: one after which as many bytes were moved as it has.
static int differs_large(ls_rank *self, place *at, size_t count) {
    float *w = ls_rank_alloc(self, count * sizeof *w), loss = 1;
    for (size_t i = 0; i < count; i++) {
        w[i] = 1;
    }
    LS_TRY(ls_replica_declare(w, count, LS_F32, WORLD));
    w[1] = is_wrong(self, at) ? 5 : 1;
    LS_TRY(HERE(ls_all_reduce(&loss, &loss, 1, LS_F32, LS_MAX, WORLD)));
    at->line = count > 16384 ? 0 : at->line;
    ls_rank_free(self, w);
    return 0;
}

static int differs_since_small(ls_rank *self, void *arg) {
    return differs_large(self, arg, 16384);
}

static int differs_since_large(ls_rank *self, void *arg) {
    return differs_large(self, arg, 16385);
}

// Ranks 0 and 1 of three make a call with the same result on both; meanwhile the copies differ.
typedef enum part_of {
    PART_SUMS,        // a sum into the copies
    PART_SUMS_ASIDE,  // a sum elsewhere
    PART_LATER,       // a sum into the copies, without waiting for it
    PART_IN_USE,      // a sum into the copies, which another call still reads
    PART_SCATTERS,    // a call with a different result on each
    PART_OUTSIDE,     // a sum with a rank that holds no copy
} part_of;

static int part(ls_rank *self, place *at, part_of what) {
    float w[2] = {1, 1}, own[4] = {1, 1, 1, 1};
    int rank = ls_rank_id(self);
    ls_rank_comm *pair = NULL, *copies = NULL;
    ls_request *request = NULL, *other = NULL;
    // Of four ranks the first holds no copy if one is to be outside.
    bool outside = what == PART_OUTSIDE, holds = !outside || rank > 0;
    LS_TRY(ls_comm_split(&copies, WORLD, holds ? 0 : -1, 0));
    LS_TRY(ls_comm_split(&pair, WORLD, rank < 2 ? 0 : -1, 0));
    LS_TRY(holds ? ls_replica_declare(w, 2, LS_F32, copies) : LS_OK);
    w[1] = is_wrong(self, at) ? 5 : 1;
    if (rank < 2 && what == PART_IN_USE) {
        LS_TRY(ls_all_reduce_async(w, own, 2, LS_F32, LS_SUM, copies, &other));
    }
    if (rank < 2 && what == PART_SCATTERS) {
        LS_TRY(ls_reduce_scatter(w, own, 1, LS_F32, LS_SUM, pair));
    } else if (rank < 2 && what == PART_LATER) {
        LS_TRY(ls_all_reduce_async(w, w, 1, LS_F32, LS_MAX, pair, &request));
        LS_TRY(ls_wait(request));
    } else if (rank < 2) {
        float *to = what == PART_SUMS_ASIDE ? own : w;
        LS_TRY(HERE(ls_all_reduce(to, to, 1, LS_F32, LS_MAX, pair)));
    }
    // The last rank joins the other call after the pair's, when the copies are equal again.
    if (what == PART_IN_USE && rank < 2) {
        w[1] = 1;
        LS_TRY(ls_barrier(pair));
    }
    if (what == PART_IN_USE && rank == 0) {
        LS_TRY(ls_send(own + 2, 1, LS_F32, 2, WORLD));
    } else if (what == PART_IN_USE && rank == 2) {
        LS_TRY(ls_recv(own + 2, 1, LS_F32, 0, WORLD));
        LS_TRY(ls_all_reduce_async(w, own, 2, LS_F32, LS_SUM, copies, &other));
    }
    LS_TRY(other != NULL ? ls_wait(other) : LS_OK);
    LS_TRY(holds ? ls_barrier(copies) : LS_OK);
    LS_TRY(holds ? ls_replica_forget(w, copies) : LS_OK);
    LS_TRY(pair != NULL ? ls_comm_destroy(pair) : LS_OK);
    return copies != NULL ? ls_comm_destroy(copies) : LS_OK;
}

static int part_sums(ls_rank *self, void *arg) {
    return part(self, arg, PART_SUMS);
}

static int part_sums_aside(ls_rank *self, void *arg) {
    return part(self, arg, PART_SUMS_ASIDE);
}

static int part_later(ls_rank *self, void *arg) {
    return part(self, arg, PART_LATER);
}

static int part_in_use(ls_rank *self, void *arg) {
    return part(self, arg, PART_IN_USE);
}

static int part_scatters(ls_rank *self, void *arg) {
    return part(self, arg, PART_SCATTERS);
}

static int part_outside(ls_rank *self, void *arg) {
    return part(self, arg, PART_OUTSIDE);
}

static const struct expected {
    const char *name;
    ls_spmd_program program;
    int ranks;
    unsigned wrong;
    const char *checks;
    const char *contains;  // NULL: no finding
    int first, count;      // the ranks at fault
} expected[] = {
    {"filled", filled_meanwhile, 3, 2, ALWAYS, NULL, 0, 0},
    {"filled, unshadowed", filled_meanwhile, 3, 2, ALWAYS ",-buffer.use_before_wait", NULL, 0, 0},
    {"received", received_meanwhile, 3, 2, ALWAYS, NULL, 0, 0},
    {"received, unshadowed", received_meanwhile, 3, 2, ALWAYS ",-buffer.use_before_wait", NULL, 0,
     0},
    {"open", other_call_open, 3, 2, TOUCHED, "after all_reduce sum of 1", 1, 1},
    {"async 0", differs_after_async, 3, 1, TOUCHED, "after all_reduce sum of 1", 0, 1},
    {"async 1", differs_after_async, 3, 2, TOUCHED, "after all_reduce sum of 1", 1, 1},
    {"async 2", differs_after_async, 4, 4, TOUCHED, "after all_reduce sum of 1", 2, 1},
    {"async 3", differs_after_async, 4, 8, TOUCHED, "after all_reduce sum of 1", 3, 1},
    {"two", differs_after_async, 2, 1, TOUCHED, "after all_reduce sum of 1", 1, 1},
    {"halves", differs_after_async, 4, 12, TOUCHED, "after all_reduce sum of 1", 2, 2},
    {"most", differs_after_async, 4, 14, TOUCHED, "after all_reduce sum of 1", 0, 1},
    {"ends", differs_after_async, 5, 17, TOUCHED, "after all_reduce sum of 1", 0, 2},
    {"its call", differs_at_its_call, 3, 4, TOUCHED, "after all_reduce sum of 1", 2, 1},
    {"since", differs_since, 3, 2, TOUCHED, "when they are freed, since all_reduce max", 1, 1},
    {"again", differs_again, 3, 4, TOUCHED, "when they are freed, since all_reduce max", 2, 1},
    {"gone", gone_at_the_end, 3, 2, TOUCHED, NULL, 0, 0},
    {"one freed", one_is_freed, 3, 2, ALWAYS, NULL, 0, 0},
    {"alone", alone, 3, 2, TOUCHED, NULL, 0, 0},
    {"declared in flight", declared_in_flight, 3, 2, TOUCHED ",-buffer.use_before_wait", NULL, 0,
     0},
    {"in flight at the end", in_flight_at_the_end, 3, 2, TOUCHED ",-request.never_waited", NULL, 0,
     0},
    {"used again", freed_and_used_again, 3, 2, TOUCHED, NULL, 0, 0},
    {"64 KiB", differs_since_small, 3, 2, TOUCHED, "since all_reduce max", 1, 1},
    {"more than 64 KiB", differs_since_large, 3, 2, TOUCHED, "when they are freed: rank 1", 1, 1},
    {"part", part_sums, 3, 2, TOUCHED, "after all_reduce max of 1", 1, 1},
    {"part, aside", part_sums_aside, 3, 2, TOUCHED, NULL, 0, 0},
    {"part, later", part_later, 3, 2, TOUCHED ",-buffer.use_before_wait", NULL, 0, 0},
    {"part, in use", part_in_use, 3, 2, TOUCHED ",-buffer.*", NULL, 0, 0},
    {"part, scatters", part_scatters, 3, 2, TOUCHED, NULL, 0, 0},
    {"part, outside", part_outside, 4, 2, TOUCHED, NULL, 0, 0},
};

// ---- Copies that are declared differently -------------------------------------------------------
typedef struct form {
    const char *name;
    size_t count[3];
    ls_dtype dtype[3];
    ls_finding_id id;
    int first, count_wrong;
    const char *contains;
} form;

// The members are ranks 3, 2 and 1 of four, so that no member's number is its rank.
static int declare_form(ls_rank *self, void *arg) {
    const form *f = arg;
    ls_rank_comm *members = NULL;
    int rank = ls_rank_id(self);
    LS_TRY(ls_comm_split(&members, WORLD, rank > 0 ? 0 : -1, -rank));
    if (members == NULL) {
        return LS_OK;
    }
    double w[2] = {1, 1};
    LS_TRY(ls_replica_declare(w, f->count[3 - rank], f->dtype[3 - rank], members));
    LS_TRY(ls_barrier(members));
    LS_TRY(ls_replica_forget(w, members));
    return ls_comm_destroy(members);
}

static int check_form(ls_rank *self, void *arg) {
    const form *f = arg;
    ls_rank_comm *members = NULL;
    int rank = ls_rank_id(self);
    LS_TRY(ls_comm_split(&members, WORLD, rank > 0 ? 0 : -1, -rank));
    if (members == NULL) {
        return LS_OK;
    }
    double w[2] = {1, 1};
    LS_TRY(ls_check_replica(w, f->count[3 - rank], f->dtype[3 - rank], members));
    return ls_comm_destroy(members);
}

Test(replica, copies_of_another_form, .timeout = 120) {
    static const form forms[] = {
        {"alike", {2, 2, 2}, {LS_F32, LS_F32, LS_F32}, LS_FINDING_COUNT, 0, 0, NULL},
        {"first", {1, 2, 2}, {LS_F32, LS_F32, LS_F32}, LS_FINDING_COUNT_MISMATCH, 3, 1, "rank 3"},
        {"second", {2, 1, 2}, {LS_F32, LS_F32, LS_F32}, LS_FINDING_COUNT_MISMATCH, 2, 1, "rank 2"},
        {"third", {2, 2, 1}, {LS_F32, LS_F32, LS_F32}, LS_FINDING_COUNT_MISMATCH, 1, 1, "rank 1"},
        {"type", {2, 2, 2}, {LS_F32, LS_F32, LS_F64}, LS_FINDING_DTYPE_MISMATCH, 1, 1, "2 f64"},
        {"all", {2, 1, 0}, {LS_F32, LS_F32, LS_F32}, LS_FINDING_COUNT_MISMATCH, 1, 2, "rank 3"},
    };
    static const ls_spmd_program programs[] = {declare_form, check_form};
    const ls_spmd_options options = {.ranks = 4, .checks = "-handle.leak"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        for (int p = 0; p < 2; p++) {
            form f = forms[i];
            ls_spmd_result *result = NULL;
            (void)ls_spmd_run(&result, programs[p], &f, &options);
            cr_assert_not_null(result, "%s", ls_error_last()->text);
            cr_assert_eq(ls_spmd_finding_count(result), f.contains != NULL, "%s: %s", f.name,
                         ls_error_last()->text);
            if (f.contains != NULL) {
                const ls_finding *finding = ls_spmd_finding(result, 0);
                cr_expect_eq(finding->id, f.id, "%s: %s", f.name, finding->text);
                cr_expect(finding->rank_count == f.count_wrong && finding->ranks[0] == f.first,
                          "%s: %s", f.name, finding->text);
                cr_expect_not_null(strstr(finding->text, f.contains), "%s: %s", f.name,
                                   finding->text);
            }
            ls_spmd_result_free(result);
        }
    }
}

static void run_one(const struct expected *e, uint64_t seed) {
    place at = {.wrong = e->wrong};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = e->ranks,
                                     .seed = seed,
                                     .schedule =
                                         seed == 0 ? LS_SCHEDULE_ROUND_ROBIN : LS_SCHEDULE_RANDOM,
                                     .checks = e->checks};
    int status = ls_spmd_run(&result, e->program, &at, &options);
    cr_assert_not_null(result, "%s", ls_error_last()->text);
    int count = ls_spmd_finding_count(result);
    cr_assert_eq(count, e->contains != NULL ? 1 : 0, "%s, seed %d: %s", e->name, (int)seed,
                 count > 0 ? ls_spmd_finding(result, 0)->text : ls_error_last()->text);
    cr_assert_eq(status, e->contains != NULL ? LS_ERR_FINDING : LS_OK, "%s: %s", e->name,
                 ls_error_last()->text);
    if (count > 0) {
        const ls_finding *finding = ls_spmd_finding(result, 0);
        const char *colon = strrchr(finding->where, ':');
        cr_expect_eq(finding->id, LS_FINDING_REPLICA_DIVERGED, "%s", finding->text);
        cr_expect(finding->rank_count == e->count && finding->ranks[0] == e->first, "%s: %s",
                  e->name, finding->text);
        cr_expect(at.line == 0 || (colon != NULL && strtol(colon + 1, NULL, 10) == at.line),
                  "%s: %s, not line %d", e->name, finding->where, at.line);
        cr_expect_not_null(strstr(finding->text, e->contains), "%s: %s", e->name, finding->text);
    }
    ls_spmd_result_free(result);
}

Test(replica, each_is_compared_when_it_may_be, .timeout = 120) {
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        for (uint64_t seed = 0; seed < 2; seed++) {
            run_one(&expected[i], seed);
        }
    }
}

// A run that ends with another finding has none about its replicas.
static int ended_by_another(ls_rank *self, void *arg) {
    (void)arg;
    float *w = ls_rank_alloc(self, 2 * sizeof *w), loss = 1;
    int rank = ls_rank_id(self);
    w[0] = w[1] = 1;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    w[1] = rank == 1 ? 5 : 1;
    int status = ls_all_reduce(&loss, &loss, 1, LS_F32, rank == 2 ? LS_MAX : LS_SUM, WORLD);
    ls_rank_free(self, w);
    return status;
}

Test(replica, the_first_finding_ends_the_run, .timeout = 120) {
    for (uint64_t seed = 0; seed < 4; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3,
                                         .seed = seed,
                                         .schedule = seed == 0 ? LS_SCHEDULE_ROUND_ROBIN
                                                               : LS_SCHEDULE_RANDOM,
                                         .checks = TOUCHED};
        cr_expect_eq(ls_spmd_run(&result, ended_by_another, NULL, &options), LS_ERR_FINDING);
        cr_assert_not_null(result, "%s", ls_error_last()->text);
        cr_assert_eq(ls_spmd_finding_count(result), 1, "%s", ls_spmd_finding(result, 1)->text);
        cr_expect_eq(ls_spmd_finding(result, 0)->id, LS_FINDING_OP_MISMATCH);
        ls_spmd_result_free(result);
    }
}
