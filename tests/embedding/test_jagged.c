// Tests of jagged inputs: what is accepted, what is refused and with which words.
#include <criterion/criterion.h>
#include <string.h>

#include "embedding/jagged.h"

static const char *const keys[] = {"user", "product"};

// Two features of two samples: each view shows its own bags, ids and weights.
Test(jagged, views_show_each_feature) {
    static const int64_t lengths[] = {2, 0, 1, 3}, ids[] = {7, 8, 1, 2, 3, 4};
    static const float weights[] = {1, 2, 3, 4, 5, 6};
    ls_keyed_jagged *jagged;
    cr_assert(ls_keyed_jagged_create(&jagged, NULL, 0, keys, 2, 2, lengths, ids, 6, weights) ==
              LS_OK);
    ls_jagged product = ls_keyed_jagged_feature(jagged, 1);
    cr_expect(product.batch == 2 && product.lengths[0] == 1 && product.lengths[1] == 3);
    cr_expect(product.offsets[0] == 2 && product.offsets[2] == 6);
    cr_expect(product.ids[0] == 1 && product.ids[3] == 4 && product.weights[0] == 3);
    int index;
    cr_expect(ls_keyed_jagged_find(&index, jagged, "product") == LS_OK && index == 1);
    cr_expect(ls_keyed_jagged_find(&index, jagged, "prodct") == LS_ERR_NOT_FOUND);
    cr_expect(strstr(ls_error_last()->text, "did you mean product"));
    ls_keyed_jagged_free(jagged);
}

// Lengths that are negative, reach past the ids or leave ids over name rank, feature and sample.
Test(jagged, bad_lengths_are_named) {
    static const int64_t negative[] = {1, 1, 1, -1}, far[] = {1, 1, 9, 0}, few[] = {1, 0, 0, 0};
    static const int64_t ids[] = {1, 2, 3};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_create(&jagged, NULL, 5, keys, 2, 2, negative, ids, 3, NULL) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "rank 5: feature product, sample 1: length -1"));
    cr_expect(ls_error_last()->rank == 5 && jagged == NULL);
    cr_expect(ls_keyed_jagged_create(&jagged, NULL, 5, keys, 2, 2, far, ids, 3, NULL) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "feature product, sample 0: length 9"));
    cr_expect(ls_keyed_jagged_create(&jagged, NULL, 5, keys, 2, 2, few, ids, 3, NULL) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "lengths add up to 1, and there are 3 ids"));
}

// A length near the largest integer must not wrap the running total round to something small.
Test(jagged, huge_lengths_do_not_wrap) {
    static const int64_t lengths[] = {INT64_MAX, INT64_MAX, 2, 0}, ids[] = {0};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_create(&jagged, NULL, 0, keys, 2, 2, lengths, ids, 0, NULL) ==
              LS_ERR_INVALID);
    cr_expect(ls_keyed_jagged_create(&jagged, NULL, 0, keys, 2, INT64_MAX, lengths, ids, 0, NULL) !=
              LS_OK);
}

// Features given twice or without a name are refused.
Test(jagged, keys_must_be_distinct) {
    static const char *const twice[] = {"a", "a"}, *const empty[] = {"a", ""};
    static const int64_t lengths[] = {0, 0};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_create(&jagged, NULL, 0, twice, 2, 1, lengths, NULL, 0, NULL) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "feature a is given twice"));
    cr_expect(ls_keyed_jagged_create(&jagged, NULL, 0, empty, 2, 1, lengths, NULL, 0, NULL) ==
              LS_ERR_INVALID);
}

// torch's offsets, with the last one and without it, give the same bags.
Test(jagged, offsets_with_and_without_the_last) {
    static const int64_t offsets[] = {0, 2, 2, 5}, ids[] = {9, 8, 7, 6, 5};
    for (int include_last = 0; include_last < 2; include_last++) {
        ls_keyed_jagged *jagged;
        cr_assert(ls_keyed_jagged_from_offsets(&jagged, NULL, 0, keys, 1, 3, offsets,
                                               include_last == 1, ids, 5, NULL) == LS_OK);
        cr_expect(jagged->lengths[0] == 2 && jagged->lengths[1] == 0 && jagged->lengths[2] == 3);
        ls_keyed_jagged_free(jagged);
    }
    static const int64_t falling[] = {0, 3, 2}, late[] = {1, 2, 3};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_from_offsets(&jagged, NULL, 2, keys, 1, 3, falling, false, ids, 5,
                                           NULL) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "rank 2: feature user, sample 1"));
    cr_expect(ls_keyed_jagged_from_offsets(&jagged, NULL, 2, keys, 1, 3, late, false, ids, 5,
                                           NULL) == LS_ERR_INVALID);
}
