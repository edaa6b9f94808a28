// A thread of rank 0 gets into its window's memory, or puts from it, and another thread uses that
// memory. Argument 1 selects the synchronisation; argument 2 omits it. Findings are at the lines
// that end with "wrong:" and "call" or the name. OUTSIDE: the origin's memory is in no window.
#include <semaphore.h>
#include <stdatomic.h>

#include "hybrid.h"

static MPI_Win win;
static int *memory, wrong;
static volatile int used, was_used;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static omp_lock_t lock;
static sem_t done;
static atomic_int flag;
static int is_done;

static void call(void) {
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    MPI_Get(&memory[0], 1, MPI_INT, 1, 1, 1, MPI_INT, win);  // wrong: call
    MPI_Win_unlock(1, win);
}

static void barrier(void) {
#pragma omp parallel num_threads(2)
    {
#pragma omp master
        call();
        if (!wrong) {
#pragma omp barrier
        }
        used = memory[0];  // wrong: barrier
    }
}

static void single(void) {
#pragma omp parallel num_threads(2)
    {
        if (wrong) {
#pragma omp single nowait
            call();
        } else {
#pragma omp single
            call();
        }
        used = memory[0];  // wrong: single
    }
}

static void ordered_loop(void) {
#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
    for (int i = 0; i < 2; i++) {
#pragma omp ordered
        {
            if (i == 0) {
                call();
            } else {
                used = memory[0];
            }
        }
    }
}

static void plain_loop(void) {
#pragma omp parallel for schedule(static, 1) num_threads(2)
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            call();
        } else {
            used = memory[0];  // wrong: loop
        }
    }
}

static void loop(void) {
    if (wrong) {
        plain_loop();
    } else {
        ordered_loop();
    }
}

static void regions(void) {
    for (int i = 0; i < 4; i++) {
#pragma omp parallel num_threads(3)
        {
            if (omp_get_thread_num() == (wrong ? 0 : i % 3)) {
                call();
            }
            if (wrong && omp_get_thread_num() == 1) {
                used = memory[0];  // wrong: regions
            }
        }
        used = memory[0];
    }
}

static void task(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        {
            atomic_store(&flag, 1);
            call();
        }
        while (wrong && atomic_load(&flag) == 0) {  // another thread has the task then
            usleep(100);
        }
        if (!wrong) {
#pragma omp taskwait
        }
        used = memory[0];  // wrong: task
    }
}

static void tasks(void) {
    int order = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task depend(out : order)
        call();
#pragma omp task depend(in : order)
        used = memory[0];
        (void)order;
    }
}

static void turns(void) {
    omp_init_lock(&lock);
#pragma omp parallel num_threads(2)
    {
        omp_set_lock(&lock);
        if (is_done++ == 0) {
            call();
        }
        used = memory[0];
        omp_unset_lock(&lock);
#pragma omp critical
        used = memory[0];
    }
    omp_destroy_lock(&lock);
}

// ---- Threads of pthread_create ------------------------------------------------------------------
static void *calls(void *arg) {
    const char *way = arg;
    if (strcmp(way, "late_call") == 0) {
        sem_wait(&done);
    }
    call();
    pthread_mutex_lock(&mutex);
    is_done = 1;
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&mutex);
    atomic_store(&flag, 1);
    if (strcmp(way, "semaphore") == 0) {
        sem_post(&done);
    } else if (strcmp(way, "pthread_barrier") == 0) {
        pthread_barrier_wait(&both);
    }
    return NULL;
}

static void wait_for(const char *way) {
    if (strcmp(way, "condition") == 0) {
        pthread_mutex_lock(&mutex);
        while (!is_done) {
            pthread_cond_wait(&came, &mutex);
        }
        pthread_mutex_unlock(&mutex);
    } else if (strcmp(way, "semaphore") == 0) {
        sem_wait(&done);
    } else if (strcmp(way, "flag") == 0) {
        while (atomic_load(&flag) == 0) {
            usleep(100);
        }
    } else if (strcmp(way, "pthread_barrier") == 0) {
        pthread_barrier_wait(&both);
    }
}

static void helper(const char *way) {
    pthread_t thread;
    sem_init(&done, 0, 0);
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, calls, (void *)(uintptr_t)way);
    if (strcmp(way, "join") == 0 && !wrong) {
        pthread_join(thread, NULL);
        used = memory[0];
        return;
    }
    if (!wrong) {
        wait_for(way);
    }
    used = memory[0];  // wrong: helper
    if (wrong) {
        wait_for(way);
    }
    sem_post(&done);
    pthread_join(thread, NULL);
}

// The memory is used before the call. The flag orders nothing.
static void *uses(void *arg) {
    used = memory[0];  // wrong: early
    was_used = 1;
    return arg;
}

static void early(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, uses, NULL);
    if (!wrong) {
        pthread_join(thread, NULL);
        call();
        return;
    }
    while (!was_used) {
        usleep(100);
    }
    call();
    pthread_join(thread, NULL);
}

// The memory of another thread's allocation may be that of an earlier one.
static void *fetches(void *arg) {
    int *own = malloc(sizeof(int));
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    MPI_Get(own, 1, MPI_INT, 1, 1, 1, MPI_INT, win);
    MPI_Win_unlock(1, win);
    used = *own;
    free(own);
    was_used += 1;
    return arg;
}

static void allocations(void) {
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        int before = was_used;
        pthread_create(&thread, NULL, fetches, NULL);
        pthread_detach(thread);
        while (was_used == before) {
            sched_yield();
        }
    }
}

// The other rank uses a thread's put after a message that another thread of this rank sends.
static void *puts_one(void *arg) {
    static int one = 1;
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    MPI_Put(&one, 1, MPI_INT, 1, 2, 1, MPI_INT, win);  // wrong: put
    MPI_Win_unlock(1, win);
    return arg;
}

static void message(void) {
    if (rank == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, puts_one, NULL);
        if (!wrong) {
            pthread_join(thread, NULL);
        }
        MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
        if (wrong) {
            pthread_join(thread, NULL);
        }
    } else if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        used = memory[2];  // wrong: message
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"barrier", barrier}, {"single", single}, {"loop", loop},
                {"regions", regions}, {"task", task},     {"tasks", tasks},
                {"turns", turns},     {"early", early},   {"allocations", allocations},
                {"message", message}};
    const char *way = argv[1];
    int found = 0;
    wrong = argc > 2;
    begin(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, 4 * sizeof(int));
#ifdef OUTSIDE
    static int origin[4];
    memory = origin;
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(way, ways[i].name) == 0) {
            found = 1;
            if (rank == 0 || ways[i].run == message) {
                ways[i].run();
            }
        }
    }
    if (!found && rank == 0) {
        helper(way);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
