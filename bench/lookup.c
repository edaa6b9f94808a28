// Pooled lookups on the CPU, beside a bare read of such rows by as many threads: a word of each of
// their cache lines, asked for ahead, which is what rows that lie anywhere cost whatever is done
// with them. Processor time, of all threads together. lookup.py times torch's and FBGEMM's lookups
// beside it.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "bench/bench.h"
#include "kernels/kernels.h"
#include "kernels/quantise.h"

enum {
    SETS = 4,    // of ids, by turns: no run finds its rows in a cache
    BLOCK = 64,  // bags that a thread takes at a time
    LINE = 64,
    AHEAD = 16,  // rows that a bare read asks for ahead
    THREADS_MAX = 64,
};

typedef struct lookup {
    const ls_bench_sizes *sizes;
    const ls_row_format *format;  // of int8 rows, else NULL
    ls_dtype dtype;               // of others
    size_t row_bytes, table_bytes, id_count, out_bytes;
    void *table;       // [rows]
    float *out;        // [bags, dim]
    int64_t *ids;      // [SETS, bags * length]
    int64_t *offsets;  // [bags + 1]
    int turn, threads;
    bool bare, done;  // read rows and sum nothing; no more turns
    _Atomic uint64_t read;
    _Atomic size_t next_bag;
    pthread_barrier_t barrier;
} lookup;

// One word of every cache line of the rows of ids [count].
static uint64_t read_rows(const lookup *l, const int64_t *ids, size_t count) {
    uint64_t sum = 0;
    for (size_t k = 0; k < count; k++) {
        const char *later = (const char *)l->table;
        later += (size_t)ids[k + AHEAD < count ? k + AHEAD : k] * l->row_bytes;
        const char *row = (const char *)l->table + (size_t)ids[k] * l->row_bytes;
        for (size_t byte = 0; byte < l->row_bytes; byte += LINE) {
            __builtin_prefetch(later + byte);
        }
        __builtin_prefetch(later + l->row_bytes - 1);  // rows begin anywhere in a line
        for (size_t byte = 0; byte < l->row_bytes; byte += LINE) {
            uint32_t word;
            memcpy(&word, row + byte, sizeof word);
            sum += word;
        }
        sum += (uint8_t)row[l->row_bytes - 1];
    }
    return sum;
}

static void look_up(lookup *l) {
    const ls_bench_sizes *s = l->sizes;
    const int64_t *ids = l->ids + (size_t)(l->turn % SETS) * l->id_count;
    for (;;) {
        size_t first = atomic_fetch_add(&l->next_bag, (size_t)BLOCK);
        if (first >= (size_t)s->bags) {
            return;
        }
        size_t count = (size_t)s->bags - first < BLOCK ? (size_t)s->bags - first : BLOCK;
        size_t dim = (size_t)s->dim;
        float *out = l->out + first * dim;
        const int64_t *own = ids + l->offsets[first];
        if (l->bare) {
            size_t own_count = (size_t)(l->offsets[first + count] - l->offsets[first]);
            atomic_fetch_add(&l->read, read_rows(l, own, own_count));
        } else if (l->format != NULL) {
            ls_kernel_quantised_lookup(
                out, dim, l->table, l->format, s->rows, dim,
                &(const ls_bags){own, l->offsets + first, NULL, -1, LS_POOL_SUM, count});
        } else {
            ls_kernel_pooled_lookup(
                out, dim, l->table, &(const ls_table_shape){l->dtype, s->rows, dim},
                &(const ls_bags){own, l->offsets + first, NULL, -1, LS_POOL_SUM, count});
        }
    }
}

// A thread beside the first: a lookup between two barriers, until there are no more.
static void *help(void *arg) {
    lookup *l = arg;
    for (;;) {
        (void)pthread_barrier_wait(&l->barrier);
        if (l->done) {
            return NULL;
        }
        look_up(l);
        (void)pthread_barrier_wait(&l->barrier);
    }
}

static int run_once(void *arg) {
    lookup *l = arg;
    l->turn++;  // other rows each time, for a bare read too
    atomic_store(&l->next_bag, (size_t)0);
    (void)pthread_barrier_wait(&l->barrier);
    look_up(l);
    (void)pthread_barrier_wait(&l->barrier);
    return LS_OK;
}

static int read_once(void *arg) {
    lookup *l = arg;
    l->bare = true;
    int status = run_once(l);
    l->bare = false;
    return status;
}

// A figure for speed is worth nothing for a wrong result: the last bag by hand.
static int verify(const lookup *l) {
    size_t dim = (size_t)l->sizes->dim, length = (size_t)l->sizes->length;
    const int64_t *ids = l->ids + (size_t)(l->turn % SETS) * l->id_count + l->id_count - length;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 2 * dim, sizeof(float)));
    float *sum = memory, *row = sum + dim;
    bool right = true;
    for (size_t k = 0; k < length; k++) {
        const char *from = (const char *)l->table + (size_t)ids[k] * l->row_bytes;
        if (l->format != NULL) {
            ls_kernel_dequantise_rows(row, from, l->format, 1, dim);
        } else {
            ls_kernel_convert(row, LS_F32, from, l->dtype, dim);
        }
        for (size_t c = 0; c < dim; c++) {
            sum[c] += row[c];
        }
    }
    right = memcmp(sum, l->out + ((size_t)l->sizes->bags - 1) * dim, dim * sizeof *sum) == 0;
    ls_free(memory, 2 * dim, sizeof(float));
    return right ? LS_OK : LS_FAIL(LS_ERR_FINDING, "bench: the lookup gave another sum");
}

static int fill(lookup *l) {
    const ls_bench_sizes *s = l->sizes;
    void *memory = NULL;
    size_t dim = (size_t)s->dim;
    LS_TRY(ls_alloc(&memory, dim, sizeof(float)));
    float *row = memory;
    int status = LS_OK;
    for (int64_t r = 0; r < s->rows && status == LS_OK; r++) {
        for (size_t c = 0; c < dim; c++) {
            row[c] = (float)(((size_t)r * 31 + c) % 1021) / 1021.0f - 0.5f;
        }
        char *to = (char *)l->table + (size_t)r * l->row_bytes;
        if (l->format != NULL) {
            status = ls_kernel_quantise_rows(to, l->format, row, dim, 1, dim, NULL);
        } else {
            ls_kernel_convert(to, l->dtype, row, LS_F32, dim);
        }
    }
    ls_free(memory, dim, sizeof(float));
    for (uint64_t k = 0; k < SETS * l->id_count; k++) {
        l->ids[k] = (int64_t)(ls_random_uniform(1, 3, 0, k) * (double)s->rows);
    }
    for (int64_t b = 0; b <= s->bags; b++) {
        l->offsets[b] = b * s->length;
    }
    return status;
}

static int measure(ls_bench_row *row, lookup *l) {
    pthread_t others[THREADS_MAX];
    int made = 1;
    if (pthread_barrier_init(&l->barrier, NULL, (unsigned)l->threads) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "no barrier for the benchmark");
    }
    for (; made < l->threads; made++) {
        if (pthread_create(&others[made], NULL, help, l) != 0) {
            // The barrier waits for those that could not be made.
            return LS_FAIL(LS_ERR_RESOURCE, "no thread for the benchmark");
        }
    }
    row->bytes_moved = (l->id_count * (l->row_bytes + sizeof(int64_t)) + l->out_bytes) / 2;
    row->yardstick = "bare read";
    const ls_bench_way way = {.beside = read_once, .processor_time = true, .mean = true};
    int status = ls_bench__measure_way(row, run_once, l, &way);
    row->gb_per_s = 2 * (double)row->bytes_moved / row->time_ms_min / 1e6;
    status = status == LS_OK ? run_once(l) : status;
    status = status == LS_OK ? verify(l) : status;
    l->done = true;
    (void)pthread_barrier_wait(&l->barrier);
    for (int i = 1; i < l->threads; i++) {
        (void)pthread_join(others[i], NULL);
    }
    (void)pthread_barrier_destroy(&l->barrier);
    return status;
}

static int measure_type(ls_bench_row *row, const ls_bench_sizes *s, const char *type, int threads) {
    static const ls_row_format int8 = {
        .element = LS_ROW_INT8, .scale_first = true, .alignment = 16};
    lookup l = {.sizes = s, .threads = threads, .dtype = LS_F32};
    size_t dim = (size_t)s->dim;
    if (strcmp(type, "int8") == 0) {
        l.format = &int8;
        LS_TRY(ls_row_format_bytes(&l.row_bytes, &int8, dim));
    } else {
        LS_TRY(ls_dtype_parse(&l.dtype, type));
        l.row_bytes = dim * ls_dtype_bytes(l.dtype);
    }
    void *memory[4] = {NULL};
    LS_TRY(ls_size_mul(&l.id_count, (size_t)s->bags, (size_t)s->length));
    LS_TRY(ls_size_mul(&l.table_bytes, (size_t)s->rows, l.row_bytes));
    LS_TRY(ls_size_mul(&l.out_bytes, (size_t)s->bags, dim * sizeof(float)));
    const size_t counts[4][2] = {{l.table_bytes, 1},
                                 {l.out_bytes, 1},
                                 {SETS * l.id_count, sizeof(int64_t)},
                                 {(size_t)s->bags + 1, sizeof(int64_t)}};
    int status = LS_OK;
    for (int i = 0; i < 4 && status == LS_OK; i++) {
        status = ls_alloc(&memory[i], counts[i][0], counts[i][1]);
    }
    l.table = memory[0];
    l.out = memory[1];
    l.ids = memory[2];
    l.offsets = memory[3];
    status = status == LS_OK ? fill(&l) : status;
    status = status == LS_OK ? measure(row, &l) : status;
    for (int i = 0; i < 4; i++) {
        ls_free(memory[i], counts[i][0], counts[i][1]);
    }
    return status;
}

int ls_bench_suite_lookup(ls_bench *bench) {
    const ls_bench_sizes *s = &bench->sizes;
    static const char *const types[] = {"f32", "int8"};
    for (int i = 0; i < 4; i++) {
        const char *type = s->row_type != NULL ? s->row_type : types[i / 2];
        int threads = s->threads != 0 ? s->threads : 1 + i % 2;
        if ((s->row_type != NULL && i / 2 != 0) || (s->threads != 0 && i % 2 != 0)) {
            continue;
        }
        char name[LS_BENCH_TEXT_MAX];
        (void)snprintf(name, sizeof name, "%s, %d thread%s", type, threads,
                       threads == 1 ? "" : "s");
        ls_bench_row *row = ls_bench__row(bench, "lookup", name);
        if (row == NULL) {
            continue;
        }
        row->elements = (uint64_t)(s->rows * s->dim);
        if (measure_type(row, s, type, threads) != LS_OK) {
            return ls_error_wrap("bench: lookup of %s", type);
        }
    }
    return LS_OK;
}
