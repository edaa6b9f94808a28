// A C++ program whose operator new uses its own pool, which its operator delete expects.
#ifndef LS_TESTS_MPI_FRONT_LINKING_POOL_H
#define LS_TESTS_MPI_FRONT_LINKING_POOL_H

#include <mpi.h>

#include <cstdlib>
#include <iostream>
#include <new>
#include <sstream>
#include <string>

alignas(16) static char pool[1 << 21];
static std::size_t used;

void *operator new(std::size_t bytes) {
    void *made = pool + used;
    used += (bytes + 31) & ~static_cast<std::size_t>(15);
    return used <= sizeof pool ? made : throw std::bad_alloc();
}

void operator delete(void *at) noexcept {
    if (at != nullptr && (at < pool || at >= pool + sizeof pool)) {
        std::abort();
    }
}

void operator delete(void *at, std::size_t) noexcept {
    operator delete(at);
}

int main(int argc, char **argv) {
    int rank, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::ostringstream out;
    out << "rank " << rank << " has a text that the C++ library allocates";
    std::istringstream in(out.str());
    for (std::string word; in >> word;) {
        sum += static_cast<int>((word + " and more than a string has in itself").size());
    }
    out.str("");
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    std::cout << "sum " << sum << std::endl;
    MPI_Finalize();
    return 0;
}

#endif
