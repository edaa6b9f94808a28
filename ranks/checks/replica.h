// Declared replicas, as replica.c and replica_mark.c share them.
#pragma once

#include "ranks/internal.h"

#define LS_REPLICA_MARKS 4  // rounds in which some members have noted their copy, and others not

typedef struct ls_replica_copy {
    const char *data;
    size_t count;
    ls_dtype dtype;
    const char *file;
    int line;
    bool declared;
    bool freed;  // the memory is kept until all copies are
    const char *freed_file;
    int freed_line;
    char *first;   // [bytes] as it was declared, until all are; NULL: it cannot be compared
    size_t moved;  // bytes of its member's calls since it was noted
} ls_replica_copy;

typedef struct ls_replica_mark {
    uint64_t seq;
    uint64_t *hashes;  // [size]; NULL: the mark is free
    int noted;
} ls_replica_mark;

// The first call after which the copies differ.
typedef struct ls_replica_since {
    bool known;
    char what[256];
    const char *file;
    int line;
} ls_replica_since;

struct ls_replica_set {
    ls_shared_comm *shared;
    ls_replica_copy *copies;  // [size of the communicator]
    uint64_t number;          // among those of its communicator
    int declared;             // of the copies
    bool over;                // has been reported, or cannot be compared any more: to be freed
    ls_replica_mark marks[LS_REPLICA_MARKS];
    ls_replica_since since;
    ls_replica_set *next;
};

// Where replicas were seen to differ.
typedef struct ls_replica_seen {
    const char *when;  // "after all_reduce sum of ... on world", "when they are freed"
    const char *file;  // of the first copy at fault
    int line;
} ls_replica_seen;

// The members that are unlike most: wrong [size]; *right is one of the others. Without a majority
// the first member is right. Returns how many.
int ls_replica__unlike(int *wrong, int *right, const ls_replica_copy *copies, int size,
                       bool (*same)(const ls_replica_copy *a, const ls_replica_copy *b));
bool ls_replica__same_form(const ls_replica_copy *a, const ls_replica_copy *b);
// Whether copies [size of the communicator] are the same; a difference is reported. A member at
// fault has its site in sites [size] (NULL: at.file and line).
bool ls_replica__compare(ls_spmd *run, const ls_shared_comm *shared, const ls_replica_copy *copies,
                         ls_replica_seen at, ls_request *const *sites);
size_t ls_replica__bytes(const ls_replica_copy *c);
// Whether it can be compared: all copies are declared and none is freed.
bool ls_replica__whole(const ls_replica_set *set);
// Whether another call of the rank is in flight on the copy.
bool ls_replica__in_use(const ls_request *now, const ls_replica_copy *c);
// Whether the call reads or writes it.
bool ls_replica__touches(const ls_request *request, const ls_replica_copy *c);
// Members wrong [count] noted other bits than `right` after `request`.
void ls_replica__differ(ls_spmd *run, ls_replica_set *set, const ls_replica_mark *mark,
                        const ls_request *request);
void ls_replica_marks__complete(const ls_request *request);  // its rank knows it
void ls_replica_marks__close(ls_replica_set *set);
