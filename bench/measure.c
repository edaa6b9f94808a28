// Measures a way of doing something: time, memory, rows of a table.
#define _GNU_SOURCE

#include "bench/bench.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "base/time.h"

ls_bench_row *ls_bench__row_of(ls_bench *bench, const char *suite, const char *kind,
                               const char *name) {
    LS_ASSERT(bench->row_count < LS_BENCH_ROWS_MAX);
    if (bench->only != NULL && strcmp(bench->only, suite) != 0 && strcmp(bench->only, kind) != 0 &&
        strcmp(bench->only, name) != 0) {
        return NULL;
    }
    ls_bench_row *row = &bench->rows[bench->row_count++];
    *row = (ls_bench_row){.suite = suite, .repetitions = bench->repetitions};
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

ls_bench_row *ls_bench__row(ls_bench *bench, const char *suite, const char *name) {
    return ls_bench__row_of(bench, suite, name, name);
}

double ls_bench__now_ms(void) {
    return ls_time_now() * 1e3;
}

double ls_bench__cpu_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double ls_bench__median(double *samples, int count) {
    LS_ASSERT(count >= 1);
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    return count % 2 == 1 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
}

int ls_bench__draw_zipf(int64_t *ids, size_t count, size_t rows) {
    double *sums;
    LS_TRY(ls_alloc((void **)&sums, rows, sizeof *sums));
    double total = 0;
    for (size_t r = 0; r < rows; r++) {
        total += pow((double)(r + 1), -1.05);
        sums[r] = total;
    }
    for (uint64_t k = 0; k < count; k++) {
        double wanted = total * ls_random_uniform(1, 2, 0, k);
        size_t low = 0;
        size_t high = rows - 1;
        while (low < high) {
            size_t middle = (low + high) / 2;
            low = sums[middle] < wanted ? middle + 1 : low;
            high = sums[middle] < wanted ? high : middle;
        }
        ids[k] = (int64_t)(low * 7919 % rows);
    }
    ls_free(sums, rows, sizeof *sums);
    return LS_OK;
}

typedef struct yardstick {
    void *from, *to;  // [bytes]
    size_t bytes;
    double *times, *copy_times;  // [repetitions]
    size_t repetitions;
} yardstick;

static int yardstick_open(yardstick *y, uint64_t bytes, int repetitions) {
    *y = (yardstick){.bytes = bytes, .repetitions = (size_t)repetitions};
    LS_TRY(ls_alloc(&y->from, y->bytes, 1));
    LS_TRY(ls_alloc(&y->to, y->bytes, 1));
    LS_TRY(ls_alloc((void **)&y->times, y->repetitions, sizeof(double)));
    LS_TRY(ls_alloc((void **)&y->copy_times, y->repetitions, sizeof(double)));
    memset(y->from, 1, y->bytes);
    memset(y->to, 2, y->bytes);
    return LS_OK;
}

static void yardstick_close(yardstick *y) {
    ls_free(y->copy_times, y->repetitions, sizeof(double));
    ls_free(y->times, y->repetitions, sizeof(double));
    ls_free(y->to, y->bytes, 1);
    ls_free(y->from, y->bytes, 1);
}

void ls_bench__copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
}

// Whole pages alone: a neighbour may lie in the first and in the last.
static void give_back(void *memory, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)memory + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory + bytes) & ~(page - 1);
    if (end > start) {
        (void)madvise((void *)start, end - start, MADV_DONTNEED);
    }
}

static void use_mean(double *times, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += times[i];
    }
    for (int i = 0; i < count; i++) {
        times[i] = sum / count;
    }
}

int ls_bench__measure(ls_bench_row *row, int (*once)(void *arg), void *arg) {
    return ls_bench__measure_way(row, once, arg, &(ls_bench_way){.fresh = NULL});
}

int ls_bench__measure_way(ls_bench_row *row, int (*once)(void *arg), void *arg,
                          const ls_bench_way *way) {
    double (*now)(void) = way->processor_time ? ls_bench__cpu_ms : ls_bench__now_ms;
    LS_ASSERT(row->bytes_moved >= 1);
    LS_ASSERT(row->repetitions >= 1);
    yardstick y;
    int status = yardstick_open(&y, row->bytes_moved, row->repetitions);
    for (int i = -1; i < row->repetitions && status == LS_OK; i++) {  // the first turn warms up
        if (way->fresh != NULL) {
            give_back(way->fresh, way->fresh_bytes);
            give_back(y.to, y.bytes);
        }
        double start = now();
        status = once(arg);
        double middle = now();
        if (way->beside == NULL) {
            ls_bench__copy(y.to, y.from, y.bytes);
        } else if (status == LS_OK) {
            status = way->beside(arg);
        }
        double end = now();
        if (i >= 0) {
            y.times[i] = middle - start;
            y.copy_times[i] = end - middle;
        }
    }
    if (way->mean) {
        use_mean(y.times, row->repetitions);
        use_mean(y.copy_times, row->repetitions);
    }
    if (status == LS_OK) {
        row->time_ms = ls_bench__median(y.times, row->repetitions);
        row->time_ms_min = y.times[0];
        row->yardstick_ms = ls_bench__median(y.copy_times, row->repetitions);
        // Of the least times: a slice of time given to another process does not count.
        row->ratio = y.copy_times[0] > 0 ? row->time_ms_min / y.copy_times[0] : 0;
    }
    yardstick_close(&y);
    return status;
}

static uint64_t status_bytes(const char *key) {
    FILE *stream = fopen("/proc/self/status", "r");
    uint64_t bytes = 0;
    char line[256];
    while (stream != NULL && fgets(line, sizeof line, stream) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            bytes = strtoull(line + strlen(key), NULL, 10) * 1024;
        }
    }
    if (stream != NULL) {
        (void)fclose(stream);
    }
    return bytes;
}

uint64_t ls_bench__memory_now(void) {
    (void)malloc_trim(0);  // malloc may keep freed memory, which does not count
    return status_bytes("VmRSS:");
}

void ls_bench__memory_reset(void) {
    FILE *stream = fopen("/proc/self/clear_refs", "w");
    if (stream != NULL) {
        (void)fputs("5\n", stream);  // proc(5): the peak becomes the present value
        (void)fclose(stream);
    }
}

uint64_t ls_bench__memory_peak(void) {
    return status_bytes("VmHWM:");
}
