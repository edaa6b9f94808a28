// Option structs of programs with older and newer headers than the library.
#include <criterion/criterion.h>
#include <string.h>

#include "base/options.h"
#include "local_tensor/local_tensor.h"

typedef struct older {
    size_t size;
    int ranks;
} older;

typedef struct own {
    size_t size;
    int ranks;
    double deadline;
} own;

typedef struct newer {
    own known;
    const char *added;
} newer;

Test(options, of_this_header_are_copied) {
    const own given = LS_OPTIONS(own, .ranks = 3, .deadline = 2);
    own taken;
    cr_assert_eq(ls_options_take(&taken, sizeof taken, &given), LS_OK);
    cr_assert_eq(taken.size, sizeof taken);
    cr_assert_eq(taken.ranks, 3);
    cr_assert_eq(taken.deadline, 2);
}

Test(options, without_a_size_are_of_this_header) {
    const own given = {.ranks = 3, .deadline = 2};
    own taken;
    cr_assert_eq(ls_options_take(&taken, sizeof taken, &given), LS_OK);
    cr_assert_eq(taken.size, sizeof taken);
    cr_assert_eq(taken.deadline, 2);
}

Test(options, of_an_older_header_lack_members) {
    const struct {
        older given;
        double beyond;  // offset of `own`'s deadline
    } memory = {.given = LS_OPTIONS(older, .ranks = 3), .beyond = 7};
    own taken;
    memset(&taken, 0xff, sizeof taken);
    cr_assert_eq(ls_options_take(&taken, sizeof taken, &memory.given), LS_OK);
    cr_assert_eq(taken.ranks, 3);
    cr_assert_eq(taken.deadline, 0);
}

Test(options, of_a_newer_header_are_taken_unless_they_say_more) {
    newer given = {.known = LS_OPTIONS(own, .ranks = 3)};
    given.known.size = sizeof given;
    own taken;
    cr_assert_eq(ls_options_take(&taken, sizeof taken, &given), LS_OK);
    cr_assert_eq(taken.ranks, 3);
    given.added = "more";
    cr_assert_eq(ls_options_take(&taken, sizeof taken, &given), LS_ERR_UNSUPPORTED);
}

Test(options, of_an_impossible_size_are_refused) {
    const own given = {.size = 1};
    own taken;
    cr_assert_eq(ls_options_take(&taken, sizeof taken, &given), LS_ERR_INVALID);
}

// Through the library: an unknown member is an error.
Test(options, reach_the_world) {
    struct {
        ls_world_options known;
        int added;
    } given = {.known = {.mesh = {.ndim = 1, .dim = {2}}}, .added = 1};
    ls_world *world = NULL;
    given.known.size = sizeof given;
    cr_assert_eq(ls_world_create(&world, &given.known), LS_ERR_UNSUPPORTED);
    given.added = 0;
    cr_assert_eq(ls_world_create(&world, &given.known), LS_OK);
    ls_world_free(world);
}
