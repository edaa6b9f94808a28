// ordered.c with the classes of C++ (compiled as C++).
#ifndef LS_TESTS_MPI_FRONT_HYBRID_ORDERED_CLASSES_H
#define LS_TESTS_MPI_FRONT_HYBRID_ORDERED_CLASSES_H

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

static MPI_Win win;
static int *memory;

static void call() {
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    MPI_Get(&memory[0], 1, MPI_INT, 1, 1, 1, MPI_INT, win);
    MPI_Win_unlock(1, win);
}

static int ways() {
    int used = 0;
    std::thread first(call);
    first.join();
    used += memory[0];
    used += std::async(std::launch::async, [] { return call(), memory[0]; }).get();
    used += memory[0];
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    std::thread second([&] {
        call();
        std::lock_guard<std::mutex> guard(mutex);
        done = true;
        came.notify_one();
    });
    std::unique_lock<std::mutex> lock(mutex);
    came.wait(lock, [&] { return done; });
    used += memory[0];
    lock.unlock();
    second.join();
    return used;
}

// A generalized request, which one thread completes while another one waits for it.
static int query(void *, MPI_Status *status) {
    MPI_Status_set_elements(status, MPI_INT, 0);
    return MPI_Status_set_cancelled(status, 0);
}

static int release(void *) {
    return MPI_SUCCESS;
}

static int cancel(void *, int) {
    return MPI_SUCCESS;
}

static void completed_late() {
    MPI_Request request;
    MPI_Grequest_start(query, release, cancel, nullptr, &request);
    std::thread thread([handle = request] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        MPI_Grequest_complete(handle);
    });
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    thread.join();
}

int main(int argc, char **argv) {
    int rank, size, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memory[0] = memory[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    int used = rank == 0 && size > 1 ? ways() : 0;
    completed_late();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    MPI_Finalize();
    return used;
}

#endif
