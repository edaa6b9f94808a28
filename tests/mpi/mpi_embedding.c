// The embedding stages on real processes against the simulator, which every process also runs:
// every output of every stage of this process's rank must have the same bits. Then one rank gets an
// id out of range, and all processes must stop.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../embedding/train.h"
#include "backends/mpi/mpi.h"

#define OUTPUTS_MAX 256
#define CASES       40

// The simulator's output for one rank.
typedef struct kept {
    int rank;
    int count, matched;
    char keys[OUTPUTS_MAX][LS_STAGE_KEY_MAX];
    void *data[OUTPUTS_MAX];
    size_t bytes[OUTPUTS_MAX];
    bool failed;
} kept;

static size_t bytes_of(const ls_stage_output *output) {
    size_t count = 0;
    (void)ls_shape_count(&count, &output->shape);
    return count * ls_dtype_bytes(output->dtype);
}

static int keep(void *arg, const ls_stage_output *output) {
    kept *k = arg;
    if (output->rank != k->rank) {
        return LS_OK;
    }
    LS_ASSERT(k->count < OUTPUTS_MAX);
    LS_TRY(ls_stage_key(k->keys[k->count], LS_STAGE_KEY_MAX, output));
    k->bytes[k->count] = bytes_of(output);
    k->data[k->count] = malloc(k->bytes[k->count] + 1);
    LS_ASSERT(k->data[k->count]);
    memcpy(k->data[k->count], output->data, k->bytes[k->count]);
    k->count++;
    return LS_OK;
}

static int match(void *arg, const ls_stage_output *output) {
    kept *k = arg;
    char key[LS_STAGE_KEY_MAX];
    LS_TRY(ls_stage_key(key, sizeof(key), output));
    for (int i = 0; i < k->count; i++) {
        if (strcmp(key, k->keys[i]) == 0) {
            // MPI has its own summation order: sums over ranks are left to the oracle.
            bool same = bytes_of(output) == k->bytes[i] &&
                        (output->reduces || memcmp(output->data, k->data[i], k->bytes[i]) == 0);
            if (!same) {
                fprintf(stderr, "rank %d: %s differs\n", k->rank, key);
                k->failed = true;
            }
            k->matched++;
        }
    }
    return LS_OK;
}

static int run_random(ls_backend *backend, int rank, int size, uint64_t seed) {
    static kept k;
    embedding_case c;
    case_outcome simulated, real;
    k = (kept){.rank = rank};
    LS_TRY(case_random(&c, seed, size));
    c.sink = (ls_stage_sink){.arg = &k, .emit = keep};
    int status = case_run(&c, &simulated);
    if (!status) {
        c.sink = (ls_stage_sink){.arg = &k, .emit = match};
        status = case_run_on(&c, backend, &real);
        if (status || real.wrong > 0) {
            fprintf(stderr, "rank %d, seed %d: %s\n", rank, (int)seed, real.text);
            k.failed = true;
        }
        case_outcome_free(&real);
    }
    bool right =
        !status && !k.failed && k.count > 0 && k.matched == k.count && simulated.wrong == 0;
    for (int i = 0; i < k.count; i++) {
        free(k.data[i]);
    }
    case_outcome_free(&simulated);
    case_free(&c);
    return right ? LS_OK : LS_ERR_MISMATCH;
}

// Training likewise: every output of a step, and three steps against only the oracle.
static int train_random_case(ls_backend *backend, int rank, int size, uint64_t seed) {
    static kept k;
    embedding_case c;
    train_case t;
    train_outcome simulated, real;
    k = (kept){.rank = rank};
    LS_TRY(train_random(&t, &c, seed, size));
    t.steps = 1;
    t.sink = (ls_stage_sink){.arg = &k, .emit = keep};
    int status = train_run(&t, &simulated);
    for (int steps = 1; steps <= 3 && !status; steps += 2) {
        t.steps = steps;
        t.sink =
            steps == 1 ? (ls_stage_sink){.arg = &k, .emit = match} : (ls_stage_sink){.emit = NULL};
        status = train_run_on(&t, backend, &real);
        if (status || real.wrong > 0) {
            fprintf(stderr, "rank %d, training, seed %d: %s\n", rank, (int)seed, real.text);
            k.failed = true;
        }
        train_outcome_free(&real);
    }
    bool right =
        !status && !k.failed && k.count > 0 && k.matched == k.count && simulated.wrong == 0;
    for (int i = 0; i < k.count; i++) {
        free(k.data[i]);
    }
    train_outcome_free(&simulated);
    case_free(&c);
    return right ? LS_OK : LS_ERR_MISMATCH;
}

// The last rank's only id is out of range: its process says which, the others that it stopped.
static int run_bad_id(ls_backend *backend, int rank, int size) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {1};
    embedding_case c;
    case_outcome out;
    case_init(&c, size, size, 1);
    case_table(&c, "t", 5, 2, LS_POOL_SUM, false, "a");
    case_place(&c, 0, LS_ROW_WISE, 0);
    for (int r = 0; r < size; r++) {
        int64_t id = r == size - 1 ? 5 : 0;
        LS_TRY(ls_keyed_jagged_create(&c.inputs[r], r, keys, 1, 1, lengths, &id, 1, NULL));
    }
    int status = case_run_on(&c, backend, &out);
    const char *words = rank == size - 1 ? "id 5 is not in [0, 5)" : "stopped because of its input";
    bool right = status == LS_ERR_FINDING && strstr(out.text, words) != NULL &&
                 out.has_bad_id == (rank == size - 1);
    if (!right) {
        fprintf(stderr, "rank %d: %d %s\n", rank, status, out.text);
    }
    case_outcome_free(&out);
    case_free(&c);
    return right ? LS_OK : LS_ERR_MISMATCH;
}

int main(void) {
    int rank, size;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    int status = ls_mpi_init(&rank, &size);
    if (!status) {
        status = ls_world_create(
            &world, &(ls_world_options){.mesh = LS_MESH(size), .held = &rank, .held_count = 1});
    }
    if (!status) {
        status = ls_backend_mpi_create(&backend, world);
    }
    for (uint64_t seed = 1; seed <= CASES && !status; seed++) {
        status = run_random(backend, rank, size, seed);
        if (!status && seed % 4 == 0) {
            status = train_random_case(backend, rank, size, seed);
        }
    }
    if (!status) {
        status = run_bad_id(backend, rank, size);
    }
    if (status) {
        fprintf(stderr, "rank %d: %s: %s\n", rank, ls_status_text(status), ls_error_last()->text);
        ls_mpi_abort(1);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    ls_mpi_finalize();
    return 0;
}
