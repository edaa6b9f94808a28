// Messages between unlike types of one signature, whole and partial, and their statuses: counts and
// elements.
#include <stddef.h>

#include "compared.h"

#define FORMS 6

// A count of each type that gives six ints.
typedef struct form6 {
    MPI_Datatype type;
    int count;
} form6;

static int in[ROOM], out[ROOM], rank, size, next, before;

static void make_forms(form6 forms[FORMS]) {
    const int lengths[3] = {1, 3, 2}, displs[3] = {9, 0, 5};
    const MPI_Aint starts[2] = {12, 0};
    const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Datatype pair;
    forms[0] = (form6){MPI_INT, 6};
    forms[1] = (form6){.count = 1};
    MPI_Type_indexed(3, lengths, displs, MPI_INT, &forms[1].type);
    forms[2] = (form6){.count = 3};
    MPI_Type_vector(2, 1, 2, MPI_INT, &forms[2].type);
    forms[3] = (form6){.count = 2};
    MPI_Type_create_struct(2, (int[]){1, 2}, starts, types, &forms[3].type);
    forms[4] = (form6){.count = 2};
    MPI_Type_create_hvector(3, 1, -8, MPI_INT, &forms[4].type);
    forms[5] = (form6){.count = 1};
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_vector(3, 1, 2, pair, &forms[5].type);
    MPI_Type_free(&pair);
    for (int f = 1; f < FORMS; f++) {
        MPI_Type_commit(&forms[f].type);
    }
}

static void say(const char *what, const MPI_Status *status, MPI_Datatype type) {
    int count, elements;
    MPI_Count wide;
    MPI_Get_count(status, type, &count);
    MPI_Get_elements(status, type, &elements);
    MPI_Get_elements_x(status, type, &wide);
    const long said[3] = {count, elements, (long)wide};
    printf(" %s", what);
    for (int i = 0; i < 3; i++) {
        said[i] == MPI_UNDEFINED ? printf(" undefined") : printf(" %ld", said[i]);
    }
}

static void ready(void) {
    fill(in, 100 * (rank + 1));
    fill(out, -1);
}

// Each way of sending and receiving, one after another.
static void in_whole(const form6 *send, const form6 *recv, int way) {
    int *from = in + 20, *to = out + 20, flag = 0;
    MPI_Request requests[2];
    MPI_Message message;
    MPI_Status status;
    ready();
    switch (way % 4) {
    case 0:
        MPI_Sendrecv(from, send->count, send->type, next, 3, to, recv->count, recv->type, before, 3,
                     WORLD, &status);
        break;
    case 1:
        MPI_Irecv(to, recv->count, recv->type, before, 3, WORLD, &requests[0]);
        MPI_Isend(from, send->count, send->type, next, 3, WORLD, &requests[1]);
        MPI_Wait(&requests[0], &status);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Recv_init(to, recv->count, recv->type, before, 3, WORLD, &requests[0]);
        MPI_Send_init(from, send->count, send->type, next, 3, WORLD, &requests[1]);
        MPI_Startall(2, requests);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], &status);
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        break;
    default:
        MPI_Isend(from, send->count, send->type, next, 3, WORLD, &requests[1]);
        while (!flag) {
            MPI_Improbe(before, 3, WORLD, &flag, &message, &status);
        }
        say("probed", &status, recv->type);
        MPI_Mrecv(to, recv->count, recv->type, &message, &status);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        break;
    }
    say("got", &status, recv->type);
    show("", out, ROOM);
}

// A receive of three that gets fewer ints.
static void in_part(const form6 *recv) {
    MPI_Status status;
    for (int count = 0; count < 8; count++) {
        ready();
        MPI_Sendrecv(in, count, MPI_INT, next, 4, out + 20, recv->count + 1, recv->type, before, 4,
                     WORLD, &status);
        say("ints", &status, MPI_INT);
        say("of it", &status, recv->type);
        show("", out, ROOM);
        MPI_Sendrecv(in + 20, 1, recv->type, next, 4, out, count + 6, MPI_INT, before, 4, WORLD,
                     &status);
        say("ints", &status, MPI_INT);
        show("", out, ROOM);
    }
}

// Of records: a prefix of two of them ends somewhere in the second.
static void records(void) {
    typedef struct record {
        char letters[3];
        double number;
        short two[2];
    } record;
    const MPI_Aint starts[3] = {offsetof(record, letters), offsetof(record, number),
                                offsetof(record, two)};
    const MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    const int lengths[3] = {3, 1, 2};
    MPI_Datatype whole;
    MPI_Status status;
    record own[2], got[2];
    MPI_Type_create_struct(3, lengths, starts, types, &whole);
    MPI_Type_commit(&whole);
    for (int n = 0; n <= 6; n++) {
        const int rest[3] = {n < 3 ? n : 3, n > 3, n > 4 ? n - 4 : 0};
        MPI_Datatype part, prefix;
        memset(got, 0, sizeof got);
        for (int i = 0; i < 2; i++) {
            own[i] = (record){{'a', (char)('b' + rank), (char)('e' + i)}, rank + 0.5 * i, {7, 9}};
        }
        MPI_Type_create_struct(3, rest, starts, types, &part);
        MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, sizeof(record)},
                               (MPI_Datatype[]){whole, part}, &prefix);
        MPI_Type_commit(&prefix);
        MPI_Type_free(&part);
        MPI_Sendrecv(own, 1, prefix, next, 5, got, 2, whole, before, 5, WORLD, &status);
        MPI_Type_free(&prefix);
        say("records", &status, whole);
        for (int i = 0; i < 2; i++) {
            printf(" %d %d %d %g %d %d", got[i].letters[0], got[i].letters[1], got[i].letters[2],
                   got[i].number, got[i].two[0], got[i].two[1]);
        }
        printf("\n");
    }
    MPI_Sendrecv_replace(own, 2, whole, next, 6, before, 6, WORLD, &status);
    say("replaced", &status, whole);
    printf(" %c %g %d\n", own[1].letters[1], own[1].number, own[1].two[1]);
    MPI_Type_free(&whole);
}

// A send buffer may be read.
static void in_flight(const form6 *form) {
    static char packed[64];
    static int all[ROOM];
    int *from = in + 20, at = 0, sum[2] = {-1, -1};
    MPI_Aint end = 0;
    MPI_Request requests[3];
    ready();
    MPI_Irecv(out + 20, 6, MPI_INT, before, 8, WORLD, &requests[0]);
    MPI_Isend(from, form->count, form->type, next, 8, WORLD, &requests[1]);
    MPI_Iallgather(from, form->count, form->type, all, 6, MPI_INT, WORLD, &requests[2]);
    MPI_Pack(from, form->count, form->type, packed, sizeof packed, &at, WORLD);
    MPI_Pack_external("external32", from, form->count, form->type, packed, sizeof packed, &end);
    MPI_Allreduce(from, sum, 2, MPI_INT, MPI_SUM, WORLD);
    MPI_Reduce(from, sum, 2, MPI_INT, MPI_SUM, 1, WORLD);
    MPI_Bcast(rank == 2 ? from : sum, 2, MPI_INT, 2, WORLD);
    for (int i = 0; i < 3; i++) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    show("sent", out, ROOM);
    show("gathered", all, 6 * size);
    printf("%d %ld %d %d\n", at, (long)end, sum[0], sum[1]);
}

// The receive buffer may surround the send buffer.
static void around(const form6 *pairs) {
    MPI_Status status;
    MPI_Request requests[2];
    ready();
    MPI_Sendrecv(in + 21, 1, MPI_INT, next, 9, in + 20, 1, pairs->type, before, 9, WORLD, &status);
    say("around", &status, pairs->type);
    MPI_Irecv(in + 40, 1, pairs->type, before, 9, WORLD, &requests[0]);
    MPI_Isend(in + 41, 1, pairs->type, next, 9, WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    show("", in, ROOM);
}

static void told(const form6 *pairs) {
    MPI_Status status;
    int cancelled;
    memset(&status, 0, sizeof status);
    MPI_Status_set_elements(&status, MPI_DOUBLE, 5);
    say("set", &status, MPI_DOUBLE);
    MPI_Status_set_elements_x(&status, MPI_SHORT, 7);
    say("set", &status, MPI_SHORT);
    MPI_Status_set_elements(&status, pairs->type, 0);
    say("set", &status, pairs->type);
#ifdef MPICH_VERSION  // 4.0.2 confuses elements with whole types
    printf(" set undefined 3 3 set 2 4 4 set undefined 1 1");
#else
    for (int elements = 3; elements > 0; elements = elements == 3 ? 4 : elements == 4 ? 1 : 0) {
        MPI_Status_set_elements(&status, pairs->type, elements);
        say("set", &status, pairs->type);
    }
#endif
    for (int flag = 1; flag >= 0; flag--) {
        MPI_Status_set_cancelled(&status, flag);
        MPI_Test_cancelled(&status, &cancelled);
        printf(" %d", cancelled != 0);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    static const struct {
        int kind, bytes;
    } sizes[] = {{MPI_TYPECLASS_INTEGER, 1}, {MPI_TYPECLASS_INTEGER, 2}, {MPI_TYPECLASS_INTEGER, 4},
                 {MPI_TYPECLASS_INTEGER, 8}, {MPI_TYPECLASS_REAL, 4},    {MPI_TYPECLASS_REAL, 8},
                 {MPI_TYPECLASS_COMPLEX, 8}, {MPI_TYPECLASS_COMPLEX, 16}};
    form6 forms[FORMS];
    MPI_Aint first, last;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    make_forms(forms);
    for (int i = 0; i < FORMS * FORMS; i++) {
        printf("%d to %d:", i / FORMS, i % FORMS);
        in_whole(&forms[i / FORMS], &forms[i % FORMS], i + i / FORMS);
    }
    for (int f = 0; f < FORMS; f++) {
        printf("into %d:\n", f);
        in_part(&forms[f]);
        in_flight(&forms[f]);
    }
    records();
    around(&forms[2]);
    told(&forms[2]);
    for (int i = 0; i < LAST(sizes); i++) {
        MPI_Datatype type;
        int bytes;
        MPI_Type_match_size(sizes[i].kind, sizes[i].bytes, &type);
        MPI_Type_size(type, &bytes);
        printf("%d ", bytes);
    }
    MPI_Get_address(in, &first);
    MPI_Get_address(in + 5, &last);
    printf("%ld %d\n", (long)MPI_Aint_diff(last, first), MPI_Aint_add(first, 20) == last);
    for (int f = 1; f < FORMS; f++) {
        MPI_Type_free(&forms[f].type);
    }
    MPI_Finalize();
    return 0;
}
