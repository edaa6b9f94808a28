// Communicators, of 6 ranks: their construction and members, and intercommunicators.
#include "say.h"

static void splits(void) {
    const struct {
        const char *what;
        int color, key;
    } how[] = {
        {"backwards", 0, -me},
        {"halves", me / 3, me},
        {"same key", me % 2, 7},
        {"odd ones out", me % 2 != 0 ? MPI_UNDEFINED : 3, (me * 5) % 6},
        {"nobody", MPI_UNDEFINED, 0},
        {"alone", me, 0},
        {"far keys", 0, me % 2 != 0 ? -2000000000 + me : 2000000000 - me},
    };
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        MPI_Comm made;
        MPI_Comm_split(MPI_COMM_WORLD, how[i].color, how[i].key, &made);
        meet(how[i].what, made);
        if (made != MPI_COMM_NULL) {
            MPI_Comm_free(&made);
            say_comm("freed", made);
        }
    }
    MPI_Comm made, again;
    MPI_Comm_split_type(MPI_COMM_WORLD, me == 4 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, me % 3,
                        MPI_INFO_NULL, &made);
    meet("shared", made);
    if (made != MPI_COMM_NULL) {
        MPI_Comm_split(made, me == 0 || me == 5, -me, &again);
        meet("split of it", again);
        MPI_Comm_free(&again);
        MPI_Comm_free(&made);
    }
}

// The same message on both: they do not mix.
static void apart(MPI_Comm a, MPI_Comm b) {
    int sent[] = {100 + me, 200 + me}, got[2], rank, left, right;
    MPI_Request requests[2];
    MPI_Comm_rank(a, &rank);
    left = (rank + all - 1) % all;
    right = (rank + 1) % all;
    MPI_Isend(&sent[0], 1, MPI_INT, right, 5, a, &requests[0]);
    MPI_Isend(&sent[1], 1, MPI_INT, right, 5, b, &requests[1]);
    MPI_Recv(&got[1], 1, MPI_INT, left, 5, b, MPI_STATUS_IGNORE);
    MPI_Recv(&got[0], 1, MPI_INT, left, 5, a, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    SAY("apart", got[0], got[1]);
}

static void dups(void) {
    MPI_Comm from, made[4];
    MPI_Info info;
    MPI_Request request;
    int likes;
    MPI_Comm_split(MPI_COMM_WORLD, 0, me == 2 ? -1 : me, &from);
    MPI_Info_create(&info);
    MPI_Comm_dup(from, &made[0]);
    MPI_Comm_dup_with_info(from, info, &made[1]);
    MPI_Comm_idup(from, &made[2], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_idup_with_info(made[0], info, &made[3], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_set_info(made[0], info);
    MPI_Info_free(&info);
    MPI_Comm_get_info(made[0], &info);
    printf("info %s\n", info == MPI_INFO_NULL ? "none" : "some");
    MPI_Info_free(&info);
    for (int i = 0; i < 4; i++) {
        meet("dup", made[i]);
        for (int k = 0; k < 4; k++) {
            MPI_Comm_compare(made[i], made[k], &likes);
            printf(" %s%s", likeness(likes), k == 3 ? "\n" : "");
        }
        MPI_Comm_compare(from, made[i], &likes);
        printf("%s\n", likeness(likes));
        apart(i > 0 ? made[i - 1] : from, made[i]);
    }
    for (int i = 0; i < 4; i++) {
        MPI_Comm_disconnect(&made[i]);
    }
    MPI_Comm_free(&from);
    MPI_Comm_dup(MPI_COMM_SELF, &from);
    meet("self", from);
    MPI_Comm_compare(from, MPI_COMM_SELF, &likes);
    printf("%s\n", likeness(likes));
    MPI_Comm_free(&from);
}

static void creates(void) {
    const int lists[][4] = {{3, 4, 1, 2}, {2, 5, 0, 0}, {3, 2, 0, 5}};
    MPI_Group world, group;
    MPI_Comm made;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int round = 0; round < 4; round++) {
        // all pass the same group, but in round 1 each passes its own
        const int *list = lists[round == 1 ? (me == 5 || me == 0 ? 1 : 0) : round % 3];
        MPI_Group_incl(world, round == 3 ? 0 : list[0], list + 1, &group);
        MPI_Comm_create(MPI_COMM_WORLD, group, &made);
        meet("created", made);
        if (made != MPI_COMM_NULL) {
            MPI_Comm_free(&made);
        }
        int rank;
        MPI_Group_rank(group, &rank);
        if (rank != MPI_UNDEFINED) {
            MPI_Comm_create_group(MPI_COMM_WORLD, group, 10 + list[1], &made);
            meet("of the group", made);
            MPI_Comm_free(&made);
        }
        if (group != MPI_GROUP_EMPTY) {
            MPI_Group_free(&group);
        }
    }
    MPI_Group_free(&world);
}

static void names(void) {
    const MPI_Comm own[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    for (int i = 0; i < 2; i++) {
        MPI_Comm made;
        MPI_Comm_get_name(own[i], name, &length);
        printf("%s %d\n", name, length);
        MPI_Comm_dup(own[i], &made);
        MPI_Comm_set_name(made, i == 0 ? "a dup of it" : "");
        MPI_Comm_get_name(made, name, &length);
        printf("<%s> %d\n", name, length);
        MPI_Comm_set_name(own[i], "another");
        MPI_Comm_get_name(own[i], name, &length);
        printf("<%s> %d\n", name, length);
        MPI_Comm_free(&made);
    }
}

// The data of an intercommunicator's collectives and messages.
static void between(MPI_Comm inter, int low) {
    int rank, others, value = 1000 + me, sum = -1, from[6] = {0};
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &others);
    MPI_Bcast(&value, 1, MPI_INT, low ? (rank == 1 ? MPI_ROOT : MPI_PROC_NULL) : 1, inter);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, inter);
    MPI_Gather(&me, 1, MPI_INT, from, 1, MPI_INT,
               low         ? 0
               : rank == 0 ? MPI_ROOT
                           : MPI_PROC_NULL,
               inter);
    SAY("between", value, sum, from[0], from[1], from[2], from[3]);
    if (rank < others) {
        MPI_Status status;
        MPI_Sendrecv(&me, 1, MPI_INT, rank, 3, &value, 1, MPI_INT, rank, 3, inter, &status);
        SAY("from the other", value, status.MPI_SOURCE);
    }
}

// Groups of `split` and 6 - `split` ranks; their leaders; the higher one.
static void inters(int split, int lead, int remote_lead, int high) {
    MPI_Comm half, inter, other, made;
    int low = me < split, likes;
    MPI_Comm_split(MPI_COMM_WORLD, low, split == 2 ? me : -me, &half);
    int leads[] = {split == 2 ? lead : split - 1 - lead,
                   split == 2 ? split + remote_lead : all - 1 - remote_lead};
    MPI_Intercomm_create(half, low ? lead : remote_lead, MPI_COMM_WORLD, leads[low], 9, &inter);
    meet("inter", inter);
    between(inter, low);
    MPI_Intercomm_merge(inter, low ? high : !high, &made);
    meet("merged", made);
    MPI_Comm_free(&made);
    MPI_Comm_dup(inter, &other);
    MPI_Comm_compare(inter, other, &likes);
    meet(likeness(likes), other);
    between(other, low);
    MPI_Comm_compare(inter, half, &likes);
    printf("%s to the half\n", likeness(likes));
    MPI_Comm_split(inter, me % 2, -me, &made);
    meet("split", made);
    if (made != MPI_COMM_NULL) {
        MPI_Comm_compare(inter, made, &likes);
        printf("%s\n", likeness(likes));
        MPI_Comm_free(&made);
    }
    MPI_Comm_split(inter, me == 0 || me == 1 ? MPI_UNDEFINED : 4, me == 5 ? 0 : me + 1, &made);
    meet("split", made);
    if (made != MPI_COMM_NULL) {
        MPI_Comm_compare(inter, made, &likes);
        printf("%s\n", likeness(likes));
        MPI_Comm_free(&made);
    }
    MPI_Comm_free(&other);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

// Neither group's ranks are all below the other's, and one goes downwards.
static void interleaved(void) {
    MPI_Comm own, inter;
    int first = me % 3 == 0;
    MPI_Comm_split(MPI_COMM_WORLD, first, first ? -me : me, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, first ? 1 : 3, 9, &inter);
    meet("interleaved", inter);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&own);
}

int main(void) {
    start();
    splits();
    dups();
    creates();
    inters(2, 1, 3, 1);
    inters(3, 2, 1, 0);
    interleaved();
    names();
    MPI_Finalize();
    return 0;
}
