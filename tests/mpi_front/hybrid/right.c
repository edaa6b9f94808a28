// Correct programs with several threads on each rank; argument 1 selects one.
#include "hybrid.h"

static MPI_Comm comms[THREADS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile int flag;

static void make_comms(void) {
    for (int t = 0; t < THREADS; t++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    }
}

static void free_comms(void) {
    for (int t = 0; t < THREADS; t++) {
        MPI_Comm_free(&comms[t]);
    }
}

// Each thread exchanges with the thread of its number on the neighbors.
static void *ring(void *arg) {
    int t = (int)(intptr_t)arg, left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < 4; i++) {
        int mine = 1000 * t + 10 * rank + i, got = -1;
        if (rank % 2 == 0) {
            MPI_Send(&mine, 1, MPI_INT, right, t, MPI_COMM_WORLD);
            MPI_Recv(&got, 1, MPI_INT, left, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&got, 1, MPI_INT, left, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&mine, 1, MPI_INT, right, t, MPI_COMM_WORLD);
        }
        CHECK(got == 1000 * t + 10 * left + i);
    }
    return NULL;
}

// Each thread has a communicator; the order of collectives between threads is open.
static void *collectives(void *arg) {
    int t = (int)(intptr_t)arg;
    for (int i = 0; i < 3; i++) {
        int sum = 0, value = rank == 0 ? t + i : -1;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comms[t]);
        CHECK(sum == size * (size - 1) / 2);
        MPI_Bcast(&value, 1, MPI_INT, 0, comms[t]);
        CHECK(value == t + i);
        MPI_Barrier(comms[t]);
    }
    return NULL;
}

// Two threads of a rank send to each other.
static void *own_rank(void *arg) {
    int t = (int)(intptr_t)arg, got = -1;
    for (int i = 0; i < 3; i++) {
        if (t == 0) {
            MPI_Ssend(&i, 1, MPI_INT, 0, 7, MPI_COMM_SELF);
            MPI_Recv(&got, 1, MPI_INT, 0, 8, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&got, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
            MPI_Ssend(&i, 1, MPI_INT, 0, 8, MPI_COMM_SELF);
        }
        CHECK(got == i);
    }
    return NULL;
}

// A thread answers requests of all ranks until its own rank ends it.
static void *serve(void *arg) {
    while (1) {
        int value;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        if (value < 0) {
            return arg;
        }
        value *= 2;
        MPI_Send(&value, 1, MPI_INT, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
    }
}

static void server(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    for (int peer = 0; peer < size; peer++) {
        int value = 10 * rank + peer, answer, asked = value;
        MPI_Send(&asked, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
        MPI_Recv(&answer, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(answer == 2 * value);
    }
    int end = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&end, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
}

static void loop_of_requests(void) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
    for (int i = 0; i < 9; i++) {
        int got = -1, mine = 100 * rank + i;
        MPI_Request requests[2];
        MPI_Irecv(&got, 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&mine, 1, MPI_INT, right, i, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(got == 100 * left + i);
    }
}

// Threads take messages out of one queue.
static void *take(void *arg) {
    MPI_Message message;
    MPI_Status status;
    int got = -1;
    MPI_Mprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(got == status.MPI_SOURCE);
    return arg;
}

static void queue(void) {
    MPI_Request requests[THREADS];
    for (int t = 0; t < THREADS; t++) {
        MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &requests[t]);
    }
    on_threads(take, THREADS);
    MPI_Waitall(THREADS, requests, MPI_STATUSES_IGNORE);
}

// Another thread waits for a request that one thread has posted.
static MPI_Request handed;
static int handed_value;

static void *wait_for_handed(void *arg) {
    pthread_mutex_lock(&mutex);
    while (flag == 0) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    MPI_Wait(&handed, MPI_STATUS_IGNORE);
    return arg;
}

static void handing(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_handed, NULL);
    MPI_Irecv(&handed_value, 1, MPI_INT, (rank + 1) % size, 4, MPI_COMM_WORLD, &handed);
    pthread_mutex_lock(&mutex);
    flag = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 4, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    CHECK(handed_value == (rank + 1) % size);
}

// Threads create and free separate communicators.
static void *splits(void *arg) {
    int t = (int)(intptr_t)arg;
    for (int i = 0; i < 2; i++) {
        MPI_Comm made;
        int members, sum;
        MPI_Comm_split(comms[t], (rank + t) % 2, rank, &made);
        MPI_Comm_size(made, &members);
        int one = 1;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made);
        CHECK(sum == members);
        MPI_Comm_free(&made);
    }
    return NULL;
}

// An event that all wait for is late: this is no deadlock.
static void *late(void *arg) {
    int t = (int)(intptr_t)arg, got;
    if (t == 0) {
        usleep(30000);
        MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD);
    } else if (t == THREADS - 1) {
        MPI_Recv(&got, 1, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return NULL;
}

// A thread spins until another one has received.
static void *spin(void *arg) {
    int t = (int)(intptr_t)arg, got;
    if (t == 0) {
        while (__atomic_load_n(&flag, __ATOMIC_SEQ_CST) == 0) {
            sched_yield();
        }
    } else if (t == THREADS - 1) {
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 6, &got, 1, MPI_INT, MPI_ANY_SOURCE, 6,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        __atomic_store_n(&flag, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

// One thread tests while another one is in progress.
static void *poll(void *arg) {
    int t = (int)(intptr_t)arg, got, done = 0;
    if (t == 0) {
        MPI_Request request;
        MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD, &request);
        while (done == 0) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
    } else if (t == THREADS - 1) {
        usleep(5000);
        MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 9, MPI_COMM_WORLD);
    }
    return NULL;
}

// A window for each thread.
static void *windows(void *arg) {
    int t = (int)(intptr_t)arg, value = 10 * rank + t;
    int *memory;
    MPI_Win win;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comms[t], &memory, &win);
    *memory = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(*memory == 10 * ((rank + size - 1) % size) + t);
    MPI_Win_free(&win);
    return NULL;
}

// Windows of one communicator: each thread fences its own, another one calls on the communicator.
static MPI_Win wins[THREADS];
static int *win_memory[THREADS];

static void *fences(void *arg) {
    int t = (int)(intptr_t)arg, sum = 0;
    for (int i = 0; i < 3 && t < THREADS - 1; i++) {
        int value = 100 * i + 10 * rank + t;
        MPI_Win_fence(0, wins[t]);
        MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, wins[t]);
        MPI_Win_fence(0, wins[t]);
        CHECK(*win_memory[t] == 100 * i + 10 * ((rank + size - 1) % size) + t);
    }
    for (int i = 0; i < 3 && t == THREADS - 1; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size * (size - 1) / 2);
    }
    return NULL;
}

static void windows_of_one(void) {
    for (int t = 0; t < THREADS; t++) {
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win_memory[t],
                         &wins[t]);
    }
    on_threads(fences, THREADS);
    for (int t = 0; t < THREADS; t++) {
        MPI_Win_free(&wins[t]);
    }
}

// OpenMP under the lower levels.
static void serialized(void) {
    int next = 0;
#pragma omp parallel num_threads(THREADS)
    {
        int got;
#pragma omp critical
        {
            int tag = next++;
            MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, tag, &got, 1, MPI_INT,
                         (rank + size - 1) % size, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
#pragma omp barrier
#pragma omp single
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void funneled(void) {
    long total = 0;
#pragma omp parallel num_threads(THREADS) reduction(+ : total)
    {
        for (int i = 0; i < 1000; i++) {
            total += i;
        }
#pragma omp barrier
#pragma omp master
        MPI_Barrier(MPI_COMM_WORLD);
#pragma omp barrier
    }
    CHECK(total == THREADS * 499500L);
}

// The schedule determines the order of the threads' messages: printed, so that a seed repeats it.
static void *send_number(void *arg) {
    int t = (int)(intptr_t)arg;
    MPI_Send(&t, 1, MPI_INT, 0, 11, MPI_COMM_WORLD);
    return NULL;
}

static void order(void) {
    if (rank != 0) {
        on_threads(send_number, THREADS);
    } else {
        for (int i = 0; i < THREADS * (size - 1); i++) {
            int got;
            MPI_Status status;
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &status);
            printf("[%d.%d]", status.MPI_SOURCE, got);
        }
        printf("\n");
    }
}

// A generalized request, which a thread completes after it has slept.
static void *completes(void *arg) {
    usleep(50000);
    MPI_Grequest_complete(*(MPI_Request *)arg);
    return NULL;
}

static void general(void) {
    pthread_t thread;
    MPI_Request request, handle;
    MPI_Grequest_start(query, release, cancel, NULL, &request);
    handle = request;
    pthread_create(&thread, NULL, completes, &handle);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
}

// The rank polls in a call while another thread is outside of MPI for long, and then makes the call
// that ends the poll.
static void *completes_late(void *arg) {
    usleep(300000);
    MPI_Grequest_complete(*(MPI_Request *)arg);
    return NULL;
}

static void *completes_when_told(void *arg) {
    pthread_mutex_lock(&mutex);
    while (flag == 0) {
        pthread_cond_wait(&changed, &mutex);
    }
    flag = 0;
    pthread_mutex_unlock(&mutex);
    MPI_Grequest_complete(*(MPI_Request *)arg);
    return NULL;
}

static void *tells_late(void *arg) {
    usleep(300000);
    pthread_mutex_lock(&mutex);
    flag = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    return arg;
}

static void wait_late(int way, void *(*first)(void *), void *(*second)(void *)) {
    pthread_t threads[2];
    int index, done = 0, count;
    MPI_Request request, handle;
    MPI_Grequest_start(query, release, cancel, NULL, &request);
    handle = request;
    pthread_create(&threads[0], NULL, first, &handle);
    pthread_create(&threads[1], NULL, second, &handle);
    switch (way) {
    case 0:
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Waitsome(1, &request, &count, &index, MPI_STATUSES_IGNORE);
        break;
    default:
        while (done == 0) {
            MPI_Testall(1, &request, &done, MPI_STATUSES_IGNORE);
        }
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void *nothing(void *arg) {
    return arg;
}

static void general_late(void) {
    for (int way = 0; way < 4; way++) {
        wait_late(way, completes_late, nothing);
    }
    wait_late(0, completes_when_told, tells_late);
}

static void general_sections(void) {
    MPI_Request request, handle;
    MPI_Grequest_start(query, release, cancel, NULL, &request);
    handle = request;
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            completes_late(&handle);
        }
    }
}

// A thread without calls ends the rank's polls: it sleeps, or it computes.
static void *sets_flag(void *arg) {
    if (arg == NULL) {
        usleep(300000);
    } else {
        for (clock_t from = clock(); clock() - from < CLOCKS_PER_SEC / 2;) {
        }
    }
    flag = 1;
    return NULL;
}

static void flag_late(void) {
    for (int way = 0; way < 2; way++) {
        pthread_t thread;
        int there;
        flag = 0;
        pthread_create(&thread, NULL, sets_flag, way == 0 ? NULL : &there);
        while (flag == 0) {
            MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        }
        pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    int level = strcmp(way, "serialized") == 0 ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    begin(&argc, &argv, strcmp(way, "funneled") == 0 ? MPI_THREAD_FUNNELED : level);
    static const struct {
        const char *name;
        void *(*on_each)(void *);
        void (*once)(void);
        int comms;
    } ways[] = {
        {"ring", ring, NULL, 0},
        {"collectives", collectives, NULL, 1},
        {"own_rank", NULL, NULL, 0},
        {"server", NULL, server, 0},
        {"requests", NULL, loop_of_requests, 0},
        {"queue", NULL, queue, 0},
        {"handing", NULL, handing, 0},
        {"splits", splits, NULL, 1},
        {"late", late, NULL, 0},
        {"spin", spin, NULL, 0},
        {"poll", poll, NULL, 0},
        {"windows", windows, NULL, 1},
        {"windows_of_one", NULL, windows_of_one, 0},
        {"serialized", NULL, serialized, 0},
        {"funneled", NULL, funneled, 0},
        {"order", NULL, order, 0},
        {"general", NULL, general, 0},
        {"general_late", NULL, general_late, 0},
        {"general_sections", NULL, general_sections, 0},
        {"flag_late", NULL, flag_late, 0},
    };
    int found = 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(way, ways[i].name) != 0) {
            continue;
        }
        found = 1;
        if (ways[i].comms) {
            make_comms();
        }
        if (ways[i].on_each != NULL) {
            on_threads(ways[i].on_each, THREADS);
        } else if (ways[i].once != NULL) {
            ways[i].once();
        } else {
            on_threads(own_rank, 2);
        }
        if (ways[i].comms) {
            free_comms();
        }
    }
    CHECK(found);
    MPI_Finalize();
    return 0;
}
