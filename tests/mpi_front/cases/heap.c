// The program's own allocations: writes beyond them, and uses and frees of freed memory.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>

#include "cases.h"

static int sum, *volatile hidden;

static void store_behind(void) {
    int *values = malloc(4 * sizeof *values);
    for (int i = 0; i < 4 + (wrong && rank == 1 ? 1 : 0); i++) {
        values[i] = i;  // wrong: buffer.too_small, up to 4 bytes past the 16 bytes
    }
    MPI_Bcast(values, 4, MPI_INT, 0, WORLD);
    free(values);
}

// A byte behind an allocation of odd size.
static void string_without_its_end(void) {
    const char *text = "thirteen char";
    char *copy = malloc(strlen(text) + (wrong ? 0 : 1));
    (void)snprintf(copy, strlen(text) + 1, "%s", text);
    // wrong: buffer.too_small, the program wrote up to 1 bytes past the end of the 13 bytes
    free(copy);
}

static void copied_behind(void) {
    char from[64] = {0}, *to = calloc(8, 4);
    size_t bytes = wrong ? 64 : 32;
    memcpy(to, from, bytes);  // wrong: buffer.too_small, the program writes 64 bytes
    free(to);
}

static void cleared_behind(void) {
    double *values = realloc(malloc(2), 100 * sizeof *values);
    // wrong: buffer.too_small, up to 800 bytes past the 800 bytes
    memset(values, 0, (wrong ? 200 : 100) * sizeof *values);
    free(values);
}

// Functions of the C library write uninstrumented: detected at the next call.
static void printed_behind(void) {
    char *text = malloc(8);
    (void)snprintf(text, 20, wrong ? "%08d.%03d" : "%d.%d", 1234, 89);
    MPI_Barrier(WORLD);  // wrong: buffer.too_small, seen at
    free(text);
}

static void printed_behind_to_the_end(void) {
    char *text = malloc(8);
    MPI_Barrier(WORLD);
    (void)snprintf(text, 20, wrong ? "%08d.%03d" : "%d.%d", 1234, 89);
    hidden = (int *)(void *)text;
    MPI_Barrier(WORLD);  // wrong: buffer.too_small, allocated at
}

static void freed_twice(void) {
    int *values = malloc(4 * sizeof *values);
    free(values);
    hidden = wrong && rank == 2 ? values : NULL;
    free(hidden);  // wrong: handle.use_after_free, the program frees memory
}

static void freed_from_its_middle(void) {
    int *values = malloc(4 * sizeof *values);
    hidden = wrong ? values + 2 : values;
    free(hidden);  // wrong: handle.use_after_free, 8 bytes after the start of the 16 bytes
}

static void freed_variable(void) {
    int here[4] = {0};
    sum += here[1];
    hidden = wrong ? here : NULL;
    free(hidden);  // wrong: handle.use_after_free, that was not allocated: it is in here
}

static void freed_global(void) {
    hidden = wrong ? &sum : NULL;
    free(hidden);  // wrong: handle.use_after_free, that was not allocated: it is in sum
}

static void read_after_free(void) {
    int *values = calloc(4, sizeof *values);
    hidden = values;
    if (!wrong) {
        sum += hidden[3];
    }
    free(values);
    if (wrong) {
        sum += hidden[3];  // wrong: handle.use_after_free, the program reads memory
    }
}

static void written_after_realloc(void) {
    int *values = malloc(1000);
    hidden = values;
    free(malloc(100));
    values = realloc(values, 4000);
    if (!wrong) {
        hidden = values;
    }
    free(values);
    hidden = wrong ? values : &sum;
    *hidden = 1;  // wrong: handle.use_after_free, the program writes memory
}

static void sent_after_free(void) {
    int *values = calloc(4, sizeof *values);
    hidden = values;
    if (wrong) {
        free(values);
    }
    MPI_Bcast(hidden, 4, MPI_INT, 0, WORLD);  // wrong: handle.use_after_free, MPI_Bcast uses memory
    if (!wrong) {
        free(values);
    }
}

static void from_the_middle_of_a_block(void) {
    int *values = calloc(8, sizeof *values);
    // wrong: buffer.too_small, a buffer of 16 bytes, but it was allocated with 32
    MPI_Bcast(values + 5, wrong ? 4 : 3, MPI_INT, 0, WORLD);
    free(values);
}

static void memory_of_mpi(void) {
    int *values;
    MPI_Alloc_mem(16, MPI_INFO_NULL, &values);
    // wrong: buffer.too_small, a buffer of 20 bytes, but it was allocated with 16
    MPI_Bcast(values, wrong ? 5 : 4, MPI_INT, 0, WORLD);
    MPI_Free_mem(values);
}

// Every correct way to allocate and free.
static void all_that_allocates(void) {
    size_t room = 10, made = 0;
    char *line = malloc(room), *copy = strdup("text"), *part = strndup("text", 2), *print = NULL;
    char text[] = "a line that is long\nand another that is longer\n";
    FILE *file = fmemopen(text, sizeof text - 1, "r");
    while (getline(&line, &room, file) > 0) {
        made += strlen(line);
    }
    (void)fclose(file);
    free(line);
    made += (size_t)asprintf(&print, "%s %s", copy, part);
    free(print);
    free(copy);
    free(part);
    void *aligned = aligned_alloc(64, 128), *other = NULL;
    made += (size_t)posix_memalign(&other, 4096, 100);
    memset(aligned, 0xa7, 128);
    memset(other, 0xa7, 100);
    free(aligned);
    free(other);
    char *usable = malloc(100);
    memset(usable, 1, malloc_usable_size(usable));
    free(usable);
    int *grown = NULL;
    for (size_t i = 1; i < 3000; i++) {
        grown = reallocarray(grown, i, sizeof *grown);
        grown[i - 1] = (int)0xa7a7a7a7;
    }
    MPI_Bcast(grown, 2999, MPI_INT, 0, WORLD);
    free(grown);
    free(malloc(0));
    free(calloc(0, 4));
    char *large = calloc(3, 1 << 20);
    memset(large, 0xa7, 3 << 20);
    MPI_Bcast(large, 3 << 20, MPI_CHAR, 0, WORLD);
    large = realloc(large, 5 << 20);
    // wrong: buffer.too_small, the program writes 1 bytes
    large[(5 << 20) - 1 + (wrong ? 1 : 0)] = 1;
    free(large);
}

static void sent_from_before(void) {
    MPI_Datatype ends;
    const int lengths[] = {1, 1}, places[] = {wrong ? -2 : -1, 1};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &ends);
    MPI_Type_commit(&ends);
    int *values = calloc(8, sizeof *values);
    // wrong: buffer.too_small, its buffer begins 4 bytes before the 32 bytes that were allocated
    MPI_Bcast(values + 1, 1, ends, 0, WORLD);
    free(values);
    MPI_Type_free(&ends);
}

static void memory_of_mpi_freed(void) {
    int *values;
    MPI_Alloc_mem(4 * sizeof *values, MPI_INFO_NULL, &values);
    values[0] = 3;
    if (wrong) {
        free(values);  // wrong: handle.use_after_free, that is for MPI_Free_mem
    } else {
        MPI_Free_mem(values);
    }
}

static void window_memory_freed(void) {
    int *values;
    MPI_Win window;
    MPI_Win_allocate(4 * sizeof *values, sizeof *values, MPI_INFO_NULL, WORLD, &values, &window);
    if (wrong) {
        free(values);  // wrong: handle.use_after_free, that is for MPI_Win_free
    }
    MPI_Win_free(&window);
}

static void own_memory_freed_by_mpi(void) {
    int *values = malloc(4 * sizeof *values), *others;
    MPI_Alloc_mem(4 * sizeof *others, MPI_INFO_NULL, &others);
    // wrong: handle.use_after_free, that is for free
    MPI_Free_mem(wrong ? values : others);
    free(wrong ? others : values);
}

static void window_memory_after_its_window(void) {
    int *values;
    MPI_Win window;
    MPI_Win_allocate(4 * sizeof *values, sizeof *values, MPI_INFO_NULL, WORLD, &values, &window);
    values[3] = rank;
    sum = wrong ? 0 : values[3];
    MPI_Win_free(&window);
    if (wrong) {
        sum = values[3];  // wrong: handle.use_after_free
    }
}

static void behind_window_memory(void) {
    int *values;
    MPI_Win window;
    MPI_Win_allocate(4 * sizeof *values, sizeof *values, MPI_INFO_NULL, WORLD, &values, &window);
    values[wrong ? 4 : 3] = rank;  // wrong: buffer.too_small
    MPI_Win_free(&window);
}

CASES({"memory_of_mpi_freed", memory_of_mpi_freed}, {"window_memory_freed", window_memory_freed},
      {"own_memory_freed_by_mpi", own_memory_freed_by_mpi},
      {"window_memory_after_its_window", window_memory_after_its_window},
      {"behind_window_memory", behind_window_memory}, {"sent_from_before", sent_from_before},
      {"store_behind", store_behind}, {"string_without_its_end", string_without_its_end},
      {"copied_behind", copied_behind}, {"cleared_behind", cleared_behind},
      {"printed_behind", printed_behind}, {"printed_behind_to_the_end", printed_behind_to_the_end},
      {"freed_twice", freed_twice}, {"freed_from_its_middle", freed_from_its_middle},
      {"freed_variable", freed_variable}, {"freed_global", freed_global},
      {"read_after_free", read_after_free}, {"written_after_realloc", written_after_realloc},
      {"sent_after_free", sent_after_free},
      {"from_the_middle_of_a_block", from_the_middle_of_a_block}, {"memory_of_mpi", memory_of_mpi},
      {"all_that_allocates", all_that_allocates})
