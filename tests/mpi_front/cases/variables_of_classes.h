// Buffers in objects of C++: members, static members, arrays of the library, temporaries.
#ifndef LS_VARIABLES_OF_CLASSES_H
#define LS_VARIABLES_OF_CLASSES_H

#include "cases.h"

#include <algorithm>
#include <array>
#include <vector>

namespace inside {
static double numbers[4];
}

class Holder {
  public:
    int first[4], second[4];
    static int shared[4];
    void broadcast(int count) {
        // wrong: buffer.too_small, it is in holder (
        MPI_Bcast(second, count, MPI_INT, 0, WORLD);
    }
};
int Holder::shared[4];

static void member(void) {
    Holder holder;
    MPI_Bcast(holder.first, 8, MPI_INT, 0, WORLD);
    holder.broadcast(wrong ? 5 : 4);
}

static void static_member(void) {
    // wrong: buffer.too_small, it is in shared (
    MPI_Bcast(Holder::shared, wrong ? 5 : 4, MPI_INT, 0, WORLD);
}

static void of_a_namespace(void) {
    // wrong: buffer.too_small, it is in numbers (
    MPI_Bcast(inside::numbers, wrong ? 5 : 4, MPI_DOUBLE, 0, WORLD);
}

static void by_reference(std::array<int, 4> &of, int count) {
    // wrong: buffer.too_small, it is in array (
    MPI_Bcast(of.data(), count, MPI_INT, 0, WORLD);
}

static void array(void) {
    MPI_Bcast(std::array<int, 8>().data(), 8, MPI_INT, 0, WORLD);
    std::array<int, 4> array;
    auto call = [&array](int count) { by_reference(array, count); };
    call(wrong ? 5 : 4);
}

static void of_a_lambda(void) {
    auto call = [](int count) {
        int of[4] = {0};
        MPI_Bcast(of, count, MPI_INT, 0, WORLD);  // wrong: buffer.too_small, it is in of (
    };
    call(wrong ? 5 : 4);
}

// Inlined library code counts as the program's line.
static void filled(void) {
    std::vector<int> all(100);
    MPI_Request request;
    MPI_Ibcast(all.data(), 100, MPI_INT, 0, WORLD, &request);
    if (!wrong) {
        MPI_Wait(&request, STATUS);
    }
    std::fill(all.begin(), all.end(), 7);  // wrong: buffer.use_before_wait, the program writes
    if (wrong) {
        MPI_Wait(&request, STATUS);
    }
}

static void released(void) {
    auto all = new std::vector<int>(100);
    MPI_Request request;
    MPI_Ibcast(all->data(), 100, MPI_INT, 0, WORLD, &request);
    if (!wrong) {
        MPI_Wait(&request, STATUS);
    }
    delete all;  // wrong: buffer.use_before_wait, the program frees
    if (wrong) {
        MPI_Wait(&request, STATUS);
    }
}

CASES({"filled", filled}, {"released", released}, {"member", member}, {"broadcast", member},
      {"static_member", static_member}, {"of_a_namespace", of_a_namespace}, {"array", array},
      {"by_reference", array}, {"of_a_lambda", of_a_lambda})

#endif
