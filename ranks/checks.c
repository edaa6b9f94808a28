// Calls the checks of a run, in the order of its table.
#include "ranks/internal.h"

#define EACH(check, run)                                                                           \
    for (const ls_rank_check *const *each = (run)->core->checks, *check; (check = *each) != NULL;  \
         each++)

int ls_checks__made(ls_request *request) {
    EACH(check, request->rank->run) {
        LS_TRY(check->made != NULL ? check->made(request) : LS_OK);
    }
    return LS_OK;
}

void ls_checks__posted(ls_request *request) {
    EACH(check, request->rank->run) {
        if (check->posted != NULL) {
            check->posted(request);
        }
    }
}

int ls_checks__agreed(ls_spmd *run, ls_meet *meet) {
    EACH(check, run) {
        LS_TRY(check->agreed != NULL ? check->agreed(run, meet) : LS_OK);
    }
    return LS_OK;
}

void ls_checks__matched(ls_request *request) {
    EACH(check, request->rank->run) {
        if (check->matched != NULL) {
            check->matched(request);
        }
    }
}

void ls_checks__moving(ls_spmd *run, ls_move *move) {
    EACH(check, run) {
        if (check->moving != NULL) {
            check->moving(run, move);
        }
    }
}

void ls_checks__moved(ls_spmd *run, ls_move *move) {
    EACH(check, run) {
        if (check->moved != NULL) {
            check->moved(run, move);
        }
    }
}

void ls_checks__over(ls_spmd *run, ls_move *move) {
    EACH(check, run) {
        if (check->over != NULL) {
            check->over(move);
        }
    }
}

void ls_checks__completed(const ls_request *request) {
    EACH(check, request->rank->run) {
        if (check->completed != NULL) {
            check->completed(request);
        }
    }
}

int ls_checks__asked(ls_spmd *run, ls_shared_comm *shared, ls_request *const *requests) {
    EACH(check, run) {
        LS_TRY(check->asked != NULL ? check->asked(run, shared, requests) : LS_OK);
    }
    return LS_OK;
}

void ls_checks__freed(ls_rank *rank, const ls_allocation *allocation) {
    EACH(check, rank->run) {
        if (check->freed != NULL) {
            check->freed(rank, allocation);
        }
    }
}

bool ls_checks__holds(const ls_rank *rank, const char *start, size_t bytes) {
    EACH(check, rank->run) {
        if (check->holds != NULL && check->holds(rank, start, bytes)) {
            return true;
        }
    }
    return false;
}

int ls_checks__ended(ls_spmd *run) {
    EACH(check, run) {
        LS_TRY(check->ended != NULL && run->status == LS_OK ? check->ended(run) : LS_OK);
    }
    return LS_OK;
}

void ls_checks__closed(ls_spmd *run) {
    EACH(check, run) {
        if (check->closed != NULL) {
            check->closed(run);
        }
    }
}

void ls_checks__closed_comm(ls_spmd *run, ls_shared_comm *shared) {
    EACH(check, run) {
        if (check->closed_comm != NULL) {
            check->closed_comm(shared);
        }
    }
}
