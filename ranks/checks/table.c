// The table of checks. A check is a file here that defines ls_rank_check__NAME, and a row.
#include "ranks/internal.h"

#define CHECK_MAP(X)                                                                               \
    X(arguments)                                                                                   \
    X(in_use)                                                                                      \
    X(values)                                                                                      \
    X(in_flight)                                                                                   \
    X(order)                                                                                       \
    X(sites)                                                                                       \
    X(redundant)                                                                                   \
    X(replica)                                                                                     \
    X(leaks)

#define DECLARE(name) extern const ls_rank_check ls_rank_check__##name;
#define ROW(name)     &ls_rank_check__##name,
CHECK_MAP(DECLARE)

const ls_rank_check *const ls_checks__table[] = {CHECK_MAP(ROW) NULL};
