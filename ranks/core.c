// Functions of upper files that lower files of ranks/ call through the run.
#include "ranks/internal.h"

const ls_core ls_core__run = {.choose = ls_p2p__choose,
                              .explain = ls_stuck__explain,
                              .decide_pair = ls_p2p__decide,
                              .decide_calls = ls_lookahead__end,
                              .wait_direct = ls_direct__wait,
                              .checks = ls_checks__table};
