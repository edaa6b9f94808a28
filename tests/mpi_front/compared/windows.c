// Windows, of 4 ranks: their construction, their queries, and accesses in each kind of epoch.
#include "say.h"

#define N 12
static int left, right;

static void say_window(const char *what, MPI_Win window, const void *memory) {
    static const struct {
        int key;
        const char *name;
    } keys[] = {{MPI_WIN_BASE, "base"},
                {MPI_WIN_SIZE, "size"},
                {MPI_WIN_DISP_UNIT, "unit"},
                {MPI_WIN_CREATE_FLAVOR, "flavor"},
                {MPI_WIN_MODEL, "model"}};
    MPI_Group group;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    for (int i = 0; i < 5; i++) {
        void *value = NULL;
        int flag = 0;
        MPI_Win_get_attr(window, keys[i].key, &value, &flag);
        long long number = -1;
        if (flag && i == 1) {
            number = (long long)*(MPI_Aint *)value;
        } else if (flag && i > 0) {
            number = *(int *)value;
        }
        if (i == 0) {
            number = value == memory;
        } else if (i == 3) {
            number = number == MPI_WIN_FLAVOR_CREATE     ? 1
                     : number == MPI_WIN_FLAVOR_ALLOCATE ? 2
                     : number == MPI_WIN_FLAVOR_DYNAMIC  ? 3
                     : number == MPI_WIN_FLAVOR_SHARED   ? 4
                                                         : 0;
        } else if (i == 4) {
            number = number == MPI_WIN_UNIFIED;
        }
        printf("%s %s: %d %lld\n", what, keys[i].name, flag, number);
    }
    MPI_Win_get_group(window, &group);
    say_group(what, group);
    MPI_Group_free(&group);
    MPI_Win_get_name(window, name, &length);
    printf("<%s> %d\n", name, length);
    MPI_Win_set_name(window, what);
    MPI_Win_get_name(window, name, &length);
    printf("<%s> %d\n", name, length);
}

// The result of each kind of operation between two fences, on separate elements or ranks.
static void active(MPI_Win window, int *memory) {
    int from[N], got[N], results[4];
    MPI_Datatype every;
    MPI_Type_vector(3, 1, 2, MPI_INT, &every);
    MPI_Type_commit(&every);
    for (int i = 0; i < N; i++) {
        from[i] = 1000 * (me + 1) + i;
        got[i] = -1;
    }
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Put(from, 2, MPI_INT, right, 0, 2, MPI_INT, window);
    MPI_Put(from + 2, 3, MPI_INT, left, 3, 1, every, window);
    MPI_Put(from, 0, MPI_INT, left, 0, 0, MPI_INT, window);
    MPI_Put(from, 5, MPI_INT, MPI_PROC_NULL, 0, 5, MPI_INT, window);
    MPI_Win_fence(0, window);
    say("put", N, memory);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get(got, 1, every, right, 0, 3, MPI_INT, window);
    MPI_Get(got + 6, 4, MPI_INT, (me + 2) % all, 2, 4, MPI_INT, window);
    MPI_Win_fence(0, window);
    say("got", N, got);
    MPI_Accumulate(from, 3, MPI_INT, 0, 0, 3, MPI_INT, MPI_SUM, window);
    MPI_Accumulate(from + 3, 1, MPI_INT, 1, 3, 1, MPI_INT, MPI_MAX, window);
    MPI_Accumulate(from, 3, MPI_INT, 2, 4, 1, every, MPI_MIN, window);
    MPI_Accumulate(from, 1, every, right, 9, 3, MPI_INT, MPI_REPLACE, window);
    MPI_Win_fence(0, window);
    say("accumulated", N, memory);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get_accumulate(from, 2, MPI_INT, got, 2, MPI_INT, left, 4, 2, MPI_INT, MPI_PROD, window);
    MPI_Get_accumulate(NULL, 0, MPI_INT, got + 4, 3, MPI_INT, right, 9, 3, MPI_INT, MPI_NO_OP,
                       window);
    MPI_Fetch_and_op(&from[1], &results[0], MPI_INT, left, 8, MPI_BXOR, window);
    MPI_Fetch_and_op(NULL, &results[1], MPI_INT, right, 0, MPI_NO_OP, window);
    MPI_Win_fence(0, window);
    int wrong = -5, right_one = results[1];
    MPI_Compare_and_swap(&from[2], &right_one, &results[2], MPI_INT, right, 0, window);
    MPI_Compare_and_swap(&from[2], &wrong, &results[3], MPI_INT, right, 1, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    say("got", N, got);
    say("results", 4, results);
    say("left", N, memory);
    MPI_Type_free(&every);
}

// Ranks 0 and 2 expose their memory to 1 and 3.
static void posted(MPI_Win window, int *memory) {
    MPI_Group world, group;
    int ranks[2] = {me % 2 ? 0 : 1, me % 2 ? 2 : 3}, got[2] = {0}, flag = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, ranks, &group);
    for (int round = 0; round < 2; round++) {
        if (me % 2) {
            int value = 70 + 10 * round + me;
            MPI_Win_start(group, 0, window);
            MPI_Put(&value, 1, MPI_INT, 0, me, 1, MPI_INT, window);
            MPI_Accumulate(&value, 1, MPI_INT, 2, 0, 1, MPI_INT, MPI_SUM, window);
            MPI_Get(&got[0], 1, MPI_INT, 0, 6, 1, MPI_INT, window);
            MPI_Get(&got[1], 1, MPI_INT, 2, 7, 1, MPI_INT, window);
            MPI_Win_complete(window);
            say("started", 2, got);
        } else {
            memory[6] = 500 + me + round;
            memory[7] = 600 + me + round;
            MPI_Win_post(group, 0, window);
            if (round == 0) {
                MPI_Win_wait(window);
            } else {
                while (!flag) {
                    MPI_Win_test(window, &flag);
                }
            }
            say("posted", N, memory);
        }
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

// One after the other, or with operations whose order does not matter.
static void locked(MPI_Win window, int *memory) {
    int got[N], ones[N], value = 1 << me, before;
    MPI_Request requests[4];
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, window);
    memset(memory, 0, N * sizeof(int));
    MPI_Win_unlock(me, window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) {
        got[i] = -1;
        ones[i] = 10 * me + i;
    }
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window);
    MPI_Put(ones, 2, MPI_INT, right, 0, 2, MPI_INT, window);
    MPI_Win_flush(right, window);
    MPI_Get(got, 2, MPI_INT, right, 0, 2, MPI_INT, window);
    MPI_Win_flush_local(right, window);
    say("flushed", 3, got);
    MPI_Rput(ones + 2, 2, MPI_INT, right, 2, 2, MPI_INT, window, &requests[0]);
    MPI_Raccumulate(ones + 4, 1, MPI_INT, right, 4, 1, MPI_INT, MPI_SUM, window, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Win_unlock(right, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    MPI_Rget(got + 4, 2, MPI_INT, left, 3, 2, MPI_INT, window, &requests[2]);
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    MPI_Rget_accumulate(&value, 1, MPI_INT, &before, 1, MPI_INT, left, 6, 1, MPI_INT, MPI_BOR,
                        window, &requests[3]);
    MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
    for (int to = 0; to < all; to++) {
        MPI_Accumulate(&value, 1, MPI_INT, to, 7, 1, MPI_INT, MPI_BOR, window);
        MPI_Win_flush_local_all(window);
    }
    MPI_Win_flush_all(window);
    MPI_Win_sync(window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    say("all", N, got);
    SAY("before", before);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, window);
    say("left", N, memory);
    MPI_Win_unlock(me, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(got, 1, MPI_INT, 0, 8, 1, MPI_INT, window);
    MPI_Win_flush(0, window);
    got[0] += 3;
    MPI_Put(got, 1, MPI_INT, 0, 8, 1, MPI_INT, window);
    MPI_Win_unlock(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(got, 1, MPI_INT, 0, 8, 1, MPI_INT, window);
    MPI_Win_unlock(0, window);
    SAY("in turn", got[0]);
}

// Each rank has another size and another unit: displacements are in the target's.
static void units(void) {
    short memory[16];
    int unit = me % 2 ? 2 : 4;
    MPI_Win window;
    for (int i = 0; i < 16; i++) {
        memory[i] = (short)(100 * me + i);
    }
    MPI_Win_create(memory, (MPI_Aint)sizeof memory - 2 * me, unit, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &window);
    say_window("units", window, memory);
    short out[2] = {(short)(5000 + me), (short)(6000 + me)}, got[3] = {0};
    MPI_Win_fence(0, window);
    MPI_Put(out, 2, MPI_SHORT, right, 2, 2, MPI_SHORT, window);
    MPI_Get(got, 3, MPI_SHORT, left, 5, 3, MPI_SHORT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 16; i++) {
        printf(" %d%s", memory[i], i == 15 ? "\n" : "");
    }
    SAY("got from the last", got[2]);
    MPI_Win_free(&window);
    printf("%s\n", window == MPI_WIN_NULL ? "freed" : "there");
}

// Memory of others, reached by plain reads; rank r has r + 1 elements.
static void shared(void) {
    MPI_Win window;
    int *memory, *other, unit;
    MPI_Aint size;
    MPI_Win_allocate_shared((me + 1) * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL,
                            MPI_COMM_WORLD, &memory, &window);
    say_window("shared", window, memory);
    MPI_Win_fence(0, window);
    for (int i = 0; i <= me; i++) {
        memory[i] = 10 * me + i;
    }
    MPI_Win_fence(0, window);
    for (int rank = 0; rank < all; rank++) {
        MPI_Win_shared_query(window, rank, &size, &unit, &other);
        SAY("query", (int)size, unit, other[0], other[rank], rank == me ? other == memory : -1,
            (int)(other - memory) == rank * (rank + 1) / 2 - me * (me + 1) / 2);
    }
    MPI_Win_shared_query(window, MPI_PROC_NULL, &size, &unit, &other);
    SAY("lowest", (int)size, unit, other[0]);
    MPI_Win_fence(0, window);
    MPI_Put(&me, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    SAY("put", memory[0]);
    MPI_Win_free(&window);
}

static void dynamic(void) {
    MPI_Win window;
    int memory[8], got[2];
    MPI_Aint mine, theirs;
    for (int i = 0; i < 8; i++) {
        memory[i] = 10 * me + i;
    }
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    say_window("dynamic", window, MPI_BOTTOM);
    MPI_Win_attach(window, memory, sizeof memory);
    MPI_Get_address(memory, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Win_fence(0, window);
    MPI_Get(got, 2, MPI_INT, right, MPI_Aint_add(theirs, 3 * sizeof(int)), 2, MPI_INT, window);
    MPI_Accumulate(&me, 1, MPI_INT, right, theirs, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    SAY("dynamic", got[0], got[1], memory[0], (int)MPI_Aint_diff(theirs, theirs - 12));
    MPI_Win_detach(window, memory);
    MPI_Win_free(&window);
}

int main(void) {
    int memory[N], *allocated;
    MPI_Win window;
    start();
    left = (me + all - 1) % all;
    right = (me + 1) % all;
    for (int i = 0; i < N; i++) {
        memory[i] = 100 * me + i;
    }
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    say_window("created", window, memory);
    active(window, memory);
    MPI_Win_free(&window);
    MPI_Win_allocate(sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &allocated,
                     &window);
    say_window("allocated", window, allocated);
    memset(allocated, 0, sizeof memory);
    MPI_Barrier(MPI_COMM_WORLD);
    posted(window, allocated);
    MPI_Barrier(MPI_COMM_WORLD);
    locked(window, allocated);
    MPI_Win_free(&window);
    units();
    shared();
    dynamic();
    MPI_Finalize();
    return 0;
}
