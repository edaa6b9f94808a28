// A program that makes random calls, most of them wrong: null, freed and small buffers, counts near
// the largest, invalid roots and peers, groups that do not end, handles of others, requests waited
// for twice or never. The run must end, with a finding or without, and access no foreign memory.
// Buffers are known to the library, or NULL.
#include "bugs.h"

#define BUFFERS  4
#define REQUESTS 6
#define COMMS    3

typedef struct hostile_rank {
    ls_rank *self;
    uint64_t seed;
    uint64_t draws;
    float *buffers[BUFFERS];  // of 1, 2, 4, 8 times the ranks; freed ones stay
    ls_request *requests[REQUESTS];
    int request_count;
    ls_rank_comm *comms[COMMS];
} hostile_rank;

static uint64_t draw(hostile_rank *h, uint64_t below) {
    return ls_random_below(below, h->seed, 7, (uint32_t)ls_rank_id(h->self), h->draws++);
}

// Draws that are equal on all ranks, so that some calls match.
static uint64_t draw_alike(const hostile_rank *h, uint64_t below, uint64_t index) {
    return ls_random_below(below, h->seed, 8, 0, index);
}

static size_t odd_size(hostile_rank *h) {
    static const size_t sizes[] = {0, 1, 2, 3, SIZE_MAX, SIZE_MAX / 4, SIZE_MAX / 4 + 1, 1u << 20};
    return sizes[draw(h, sizeof sizes / sizeof *sizes)];
}

static int odd_rank(hostile_rank *h) {
    static const int ranks[] = {0, 1, 2, -1, 3, 99, INT32_MAX, INT32_MIN};
    return ranks[draw(h, sizeof ranks / sizeof *ranks)];
}

static float *buffer(hostile_rank *h) {
    uint64_t which = draw(h, BUFFERS + 1);
    return which < BUFFERS ? h->buffers[which] : NULL;
}

static ls_rank_comm *comm(hostile_rank *h) {
    return draw(h, 8) == 0 ? NULL : h->comms[draw(h, COMMS)];
}

// One call with arguments of which some are wrong.
static int odd_call(hostile_rank *h, uint64_t index) {
    bool wrong = draw(h, 6) == 0;
    size_t counts[4] = {1, 1, 1, 1};
    counts[draw(h, 4)] = wrong ? odd_size(h) : 1;
    bool uneven = draw_alike(h, 4, 3 * index) == 0;
    ls_call call = {
        .kind = (ls_kind)draw_alike(h, wrong ? LS_KIND_COUNT + 1 : LS_KIND_COUNT, 3 * index + 1),
        .dtype = wrong && draw(h, 4) == 0 ? (ls_dtype)99 : LS_F32,
        .op = wrong && draw(h, 4) == 0 ? (ls_op)-3 : LS_SUM,
        .premul = 1.0,
        .root = wrong ? odd_rank(h) : 0,
        .count = wrong ? odd_size(h) : 1,
        .send = wrong ? buffer(h) : h->buffers[2],
        .recv = wrong ? buffer(h) : h->buffers[3],
        .send_counts = uneven ? counts : NULL,
        .recv_counts = uneven ? counts : NULL,
    };
    bool asynchronous = draw_alike(h, 3, 3 * index + 2) == 0 && h->request_count < REQUESTS;
    ls_rank_comm *on = wrong ? comm(h) : h->comms[0];
    ls_request *request = NULL;
    int status = ls_post_at(__FILE__, __LINE__, &call, on, asynchronous ? &request : NULL);
    if (request != NULL) {
        h->requests[h->request_count++] = request;
    }
    return status;
}

static int odd_handle(hostile_rank *h) {
    const int members[3] = {odd_rank(h), 0, 0};
    ls_rank_comm *made = NULL;
    int status = LS_OK;
    switch (draw(h, 5)) {
    case 0:
        status = ls_comm_split(&made, h->comms[0], odd_rank(h), odd_rank(h));
        break;
    case 1:
        status = ls_comm_subset(&made, h->comms[0], draw(h, 2) == 0 ? members : NULL,
                                (int)draw(h, 5) - 1);
        break;
    case 2:
        return ls_comm_destroy(comm(h));
    case 3:
        return ls_rank_axis(&made, h->self, odd_rank(h));
    default:
        return ls_check_replica(buffer(h), odd_size(h), LS_F32, comm(h));
    }
    h->comms[2] = made != NULL ? made : h->comms[2];
    return status;
}

static int odd_memory(hostile_rank *h) {
    float *data = buffer(h);
    switch (draw(h, 7)) {
    case 0:
        ls_rank_free(h->self, data);
        return LS_OK;
    case 1:
        ls_rank_free(h->self, &h->seed);
        return LS_OK;
    case 2:
        return ls_touch_at(__FILE__, __LINE__, h->self, data, odd_size(h), draw(h, 2) == 0);
    case 3:
        return ls_rank_alloc(h->self, SIZE_MAX - draw(h, 200)) == NULL ? LS_OK : LS_ERR_MEMORY;
    case 4:
        return ls_replica_declare(data, odd_size(h), (ls_dtype)draw(h, 40), comm(h));
    case 5:
        return ls_replica_forget(data, comm(h));
    default:
        return ls_check_replicas(comm(h));
    }
}

static int odd_wait(hostile_rank *h) {
    if (h->request_count == 0 || draw(h, 8) == 0) {
        return ls_wait(NULL);
    }
    uint64_t which = draw(h, (uint64_t)h->request_count);
    return ls_wait(h->requests[which]);  // it stays in the list, so it is waited for again
}

static int step(hostile_rank *h, uint64_t index) {
    switch (draw(h, 24)) {
    case 0:
        return ls_group_start(h->self);
    case 1:
        return ls_group_end(h->self);
    case 2:
        return odd_handle(h);
    case 3:
    case 4:
        return odd_memory(h);
    case 5:
    case 6:
    case 7:
        return odd_wait(h);
    default:
        return odd_call(h, index);
    }
}

int hostile(ls_rank *self, void *arg) {
    const uint64_t *seed = arg;
    hostile_rank h = {.self = self, .seed = *seed};
    for (int i = 0; i < BUFFERS; i++) {
        size_t count = ((size_t)1 << i) * (size_t)ls_rank_count(self);
        h.buffers[i] = ls_rank_alloc(self, count * sizeof(float));
        for (size_t k = 0; h.buffers[i] != NULL && k < count; k++) {
            h.buffers[i][k] = 1;
        }
    }
    for (int i = 0; i < COMMS; i++) {
        h.comms[i] = ls_rank_world(self);
    }
    int status = LS_OK;
    uint64_t steps = 4 + draw_alike(&h, 12, 999);
    bool stubborn = draw(&h, 4) == 0;  // continues after errors
    for (uint64_t i = 0; i < steps && (status == LS_OK || stubborn); i++) {
        status = step(&h, i);
    }
    return draw(&h, 10) == 0 ? 5 : 0;
}
