// Groups, of 6 ranks: construction from others, comparison and translation.
#include "say.h"

typedef enum how { UNION, INTERSECTION, DIFFERENCE, INCL, EXCL, RANGE_INCL, RANGE_EXCL } how;
static const struct {
    how how;
    int a, b;  // numbers of groups: 0 the world's, 1 empty, 2 the world's backwards, 3 a rank's own
    int count, ranks[9];
} makes[] = {
    {INCL, 0, 0, 3, {4, 1, 3}},  // 4
    {INCL, 0, 0, 3, {3, 4, 1}},
    {INCL, 2, 0, 2, {0, 5}},  // 6
    {INCL, 0, 0, 0, {0}},
    {INCL, 4, 0, 3, {2, 0, 1}},  // 8
    {EXCL, 0, 0, 2, {5, 0}},
    {EXCL, 0, 0, 0, {0}},  // 10
    {EXCL, 4, 0, 3, {0, 1, 2}},
    {EXCL, 2, 0, 1, {3}},  // 12
    {RANGE_INCL, 0, 0, 1, {0, 5, 2}},
    {RANGE_INCL, 0, 0, 2, {5, 3, -1, 0, 1, 1}},  // 14
    {RANGE_INCL, 2, 0, 3, {1, 4, 3, 5, 5, 1, 3, 0, -3}},
    {RANGE_INCL, 0, 0, 0, {0}},  // 16
    {RANGE_EXCL, 0, 0, 1, {4, 0, -2}},
    {RANGE_EXCL, 2, 0, 2, {0, 1, 1, 4, 5, 2}},  // 18
    {RANGE_EXCL, 0, 0, 1, {0, 5, 1}},
    {RANGE_EXCL, 0, 0, 0, {0}},  // 20
    {UNION, 4, 13, 0, {0}},
    {UNION, 13, 4, 0, {0}},  // 22
    {UNION, 1, 4, 0, {0}},
    {UNION, 6, 1, 0, {0}},  // 24
    {UNION, 3, 6, 0, {0}},
    {INTERSECTION, 2, 4, 0, {0}},  // 26
    {INTERSECTION, 4, 2, 0, {0}},
    {INTERSECTION, 4, 1, 0, {0}},  // 28
    {INTERSECTION, 6, 4, 0, {0}},
    {DIFFERENCE, 2, 4, 0, {0}},  // 30
    {DIFFERENCE, 4, 2, 0, {0}},
    {DIFFERENCE, 4, 1, 0, {0}},  // 32
    {DIFFERENCE, 1, 4, 0, {0}},
    {DIFFERENCE, 4, 3, 0, {0}},  // 34
};
#define MADE  ((int)(sizeof makes / sizeof makes[0]))
#define COUNT (4 + MADE)

static void make(int i, MPI_Group *groups) {
    MPI_Group a = groups[makes[i].a], b = groups[makes[i].b], *out = &groups[4 + i];
    int count = makes[i].count, ranks[9];
    int ranges[3][3];
    memcpy(ranks, makes[i].ranks, sizeof ranks);
    memcpy(ranges, makes[i].ranks, sizeof ranges);
    switch (makes[i].how) {
    case UNION:
        MPI_Group_union(a, b, out);
        break;
    case INTERSECTION:
        MPI_Group_intersection(a, b, out);
        break;
    case DIFFERENCE:
        MPI_Group_difference(a, b, out);
        break;
    case INCL:
        MPI_Group_incl(a, count, ranks, out);
        break;
    case EXCL:
        MPI_Group_excl(a, count, ranks, out);
        break;
    case RANGE_INCL:
        MPI_Group_range_incl(a, count, ranges, out);
        break;
    case RANGE_EXCL:
        MPI_Group_range_excl(a, count, ranges, out);
        break;
    }
}

int main(void) {
    MPI_Group groups[COUNT];
    MPI_Comm backwards;
    start();
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards);
    MPI_Comm_group(MPI_COMM_WORLD, &groups[0]);
    groups[1] = MPI_GROUP_EMPTY;
    MPI_Comm_group(backwards, &groups[2]);
    MPI_Comm_group(MPI_COMM_SELF, &groups[3]);
    MPI_Comm_free(&backwards);
    for (int i = 0; i < MADE; i++) {
        make(i, groups);
    }
    for (int i = 0; i < COUNT; i++) {
        int size, from[] = {MPI_PROC_NULL, 0, 1, 2, 3, 4, 5}, to[7];
        char what[32];
        (void)snprintf(what, sizeof what, "group %d", i);
        say_group(what, groups[i]);
        if (groups[i] == MPI_GROUP_EMPTY) {
            printf("which is MPI_GROUP_EMPTY\n");
        }
        MPI_Group_size(groups[i], &size);
        for (int k = 0; k < COUNT; k++) {
            int likes;
            MPI_Group_compare(groups[i], groups[k], &likes);
            (void)snprintf(what, sizeof what, "%s to %d", likeness(likes), k);
            // not for MPI_PROC_NULL in an empty group, which MPICH leaves undefined
            int skip = groups[k] == MPI_GROUP_EMPTY;
            MPI_Group_translate_ranks(groups[i], size + 1 - skip, from + skip, groups[k], to);
            say(what, size + 1 - skip, to);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        if (groups[i] != MPI_GROUP_EMPTY) {
            MPI_Group_free(&groups[i]);
            printf("%s\n", groups[i] == MPI_GROUP_NULL ? "gone" : "still there");
        }
    }
    MPI_Finalize();
    return 0;
}
