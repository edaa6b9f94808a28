// The occurrences of each row that a batch touches: what updating a table in one pass begins with.
// Private to this folder.
#ifndef LS_KERNELS_CUDA_ROW_LISTS_CUH
#define LS_KERNELS_CUDA_ROW_LISTS_CUH

#include "kernels/cuda/device.cuh"

namespace ls {

// A short row's positions are in its entry, those of a middling one beside each other, both in no
// order; those of a long row, which has several runs, are bits of a map of all positions.
constexpr unsigned short_row = 4, middling_row = LS_GRADIENT_RUN;

// A row: 32 bytes, four rows for the lanes of a warp.
struct row_entry {
    unsigned id, count, unused[2];
    unsigned positions[short_row];  // of a short row
};

struct middling_entry {
    unsigned id, count;
};

// Several runs of LS_GRADIENT_RUN occurrences of a long row, or what is left.
constexpr unsigned span_runs = 4;
struct span_entry {
    unsigned id, count;  // of the row
    unsigned map;        // of the row
    unsigned span;       // its number in the row, whose spans are beside each other
};

// Where a row of the table is listed, if it is.
struct row_places {
    unsigned row, middling, map, unused;
};

struct row_counts {
    unsigned rows, middling, maps, spans;
    unsigned arrived;  // blocks, at the barrier
    unsigned done;     // blocks of the update
};

// The layout in the caller's memory. Counts, occurrences, maps and `arrived` are zeros between
// calls.
struct row_lists {
    row_counts *counts;
    unsigned *occurrences;     // [table_rows]
    row_places *places;        // [table_rows]
    row_entry *rows;           // [room + 3], in no order
    middling_entry *middling;  // [room / (short_row + 1)]
    unsigned *positions;       // [room / (short_row + 1), middling_row]
    span_entry *spans;         // [room / 32 + 1]
    float *partials;           // [room / 32 + 1, span_runs, dim]: the sums of runs
    unsigned *maps;            // [room / (middling_row + 1), map_words]
    unsigned *arrived;         // of a map's row: its runs that are done
    unsigned map_words;        // a multiple of 4
};

// bytes: of the memory. room <= LS_ROW_LISTS_MAX.
row_lists lay_out_lists(void *memory, size_t room, size_t table_rows, size_t dim, size_t *bytes);

}  // namespace ls

#endif
