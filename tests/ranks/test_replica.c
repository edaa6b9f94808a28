// When replicas are compared and when not, which ranks are at fault, and since when copies differ.
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
    int line;        // where the finding must point
} place;

static bool is_wrong(const ls_rank *self, const place *at) {
    return (at->wrong >> ls_rank_id(self) & 1) != 0;
}

// A call that is on its way writes the copies, which are the same again after it.
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

// The same of a message, which the others do not wait for.
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

// A call that is on its way elsewhere hides nothing.
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

// Memory that ls_rank_alloc did not give may be gone at the end.
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

// A communicator of one rank has nobody to differ from.
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

static const struct expected {
    const char *name;
    ls_spmd_program program;
    int ranks;
    unsigned wrong;
    const char *checks;
    const char *contains;  // NULL: nothing is found
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
    {"since", differs_since, 3, 2, TOUCHED, "when they are freed, and do since all_reduce max", 1,
     1},
    {"again", differs_again, 3, 4, TOUCHED, "when they are freed, and do since all_reduce max", 2,
     1},
    {"gone", gone_at_the_end, 3, 2, TOUCHED, NULL, 0, 0},
    {"one freed", one_is_freed, 3, 2, ALWAYS, NULL, 0, 0},
    {"alone", alone, 3, 2, TOUCHED, NULL, 0, 0},
};

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
        cr_expect(colon != NULL && strtol(colon + 1, NULL, 10) == at.line, "%s: %s, not line %d",
                  e->name, finding->where, at.line);
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
