// Tests of jagged inputs: accepted ones, and refused ones with their messages.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedding/jagged.h"

static const char *const keys[] = {"user", "product"};

// Two features of two samples: each view shows its own bags, ids and weights.
Test(jagged, views_show_each_feature) {
    static const int64_t lengths[] = {2, 0, 1, 3}, ids[] = {7, 8, 1, 2, 3, 4};
    static const float weights[] = {1, 2, 3, 4, 5, 6};
    ls_keyed_jagged *jagged;
    cr_assert(ls_keyed_jagged_create(&jagged, 0, keys, 2, 2, lengths, ids, 6, weights) == LS_OK);
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

static void expect_print(const ls_keyed_jagged *jagged, int64_t ids_max, const char *want) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    cr_assert(stream && ls_keyed_jagged_print(stream, jagged, ids_max) == LS_OK);
    (void)fclose(stream);
    cr_expect_str_eq(text, want);
    free(text);
}

// The introduction's two features, whole and split; weights; a batch size for each feature.
Test(jagged, text) {
    static const int64_t lengths[] = {2, 2, 3, 1}, ids[] = {2, 3, 4, 1, 1, 2, 1, 5};
    static const float weights[] = {1, 2, 0.5f, 4, 5, 6, 7, 8};
    static const int64_t strides[] = {1, 3}, sizes[] = {2, 0, 1, 1}, takes[] = {0, 0, 2, 1};
    ls_keyed_jagged *jagged;
    cr_assert(ls_keyed_jagged_create(&jagged, 3, keys, 2, 2, lengths, ids, 8, NULL) == LS_OK);
    expect_print(jagged, 9, "rank 3, 2 samples\n  user: [2 3] [4 1]\n  product: [1 2 1] [5]\n");
    expect_print(jagged, 2, "rank 3, 2 samples\n  user: [2 3] [...]\n  product: [1 2 ...]\n");
    ls_keyed_jagged_free(jagged);
    cr_assert(ls_keyed_jagged_create(&jagged, 0, keys, 2, 2, lengths, ids, 8, weights) == LS_OK);
    expect_print(jagged, 8,
                 "rank 0, 2 samples\n  user: [2@1 3@2] [4@0.5 1@4]\n"
                 "  product: [1@5 2@6 1@7] [5@8]\n");
    ls_keyed_jagged_free(jagged);
    cr_assert(ls_keyed_jagged_create_variable(&jagged, 0, keys, 2, strides, 2, takes, sizes, ids, 4,
                                              NULL) == LS_OK);
    expect_print(jagged, 8,
                 "rank 0, 2 samples\n  user: [2 3]; samples take bags 0 0\n"
                 "  product: [] [4] [1]; samples take bags 2 1\n");
    ls_keyed_jagged_free(jagged);
}

// Lengths that are negative, exceed the ids or leave ids over name rank, feature and sample.
Test(jagged, bad_lengths_are_named) {
    static const int64_t negative[] = {1, 1, 1, -1}, far[] = {1, 1, 9, 0}, few[] = {1, 0, 0, 0};
    static const int64_t ids[] = {1, 2, 3};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_create(&jagged, 5, keys, 2, 2, negative, ids, 3, NULL) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "rank 5: feature product, sample 1: length -1"));
    cr_expect(ls_error_last()->rank == 5 && jagged == NULL);
    cr_expect(ls_keyed_jagged_create(&jagged, 5, keys, 2, 2, far, ids, 3, NULL) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "feature product, sample 0: length 9"));
    cr_expect(ls_keyed_jagged_create(&jagged, 5, keys, 2, 2, few, ids, 3, NULL) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "lengths add up to 1, and there are 3 ids"));
}

// A length near the largest integer must not wrap the running total to a small number.
Test(jagged, huge_lengths_do_not_wrap) {
    static const int64_t lengths[] = {INT64_MAX, INT64_MAX, 2, 0}, ids[] = {0};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_create(&jagged, 0, keys, 2, 2, lengths, ids, 0, NULL) ==
              LS_ERR_INVALID);
    cr_expect(ls_keyed_jagged_create(&jagged, 0, keys, 2, INT64_MAX, lengths, ids, 0, NULL) !=
              LS_OK);
}

// Features given twice or without a name are refused.
Test(jagged, keys_must_be_distinct) {
    static const char *const twice[] = {"a", "a"}, *const empty[] = {"a", ""};
    static const int64_t lengths[] = {0, 0};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_create(&jagged, 0, twice, 2, 1, lengths, NULL, 0, NULL) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "feature a is given twice"));
    cr_expect(ls_keyed_jagged_create(&jagged, 0, empty, 2, 1, lengths, NULL, 0, NULL) ==
              LS_ERR_INVALID);
}

// torch's offsets, with the last one and without it, give the same bags.
Test(jagged, offsets_with_and_without_the_last) {
    // Without the last offset the memory after the others is not read.
    static const int64_t offsets[2][4] = {{0, 2, 2, 4}, {0, 2, 2, 5}}, ids[] = {9, 8, 7, 6, 5};
    for (int include_last = 0; include_last < 2; include_last++) {
        ls_keyed_jagged *jagged;
        cr_assert(ls_keyed_jagged_from_offsets(&jagged, 0, keys, 1, 3, offsets[include_last],
                                               include_last == 1, ids, 5, NULL) == LS_OK);
        cr_expect(jagged->lengths[0] == 2 && jagged->lengths[1] == 0 && jagged->lengths[2] == 3);
        ls_keyed_jagged_free(jagged);
    }
    static const int64_t falling[] = {0, 3, 2}, late[] = {1, 2, 3};
    ls_keyed_jagged *jagged;
    cr_expect(ls_keyed_jagged_from_offsets(&jagged, 2, keys, 1, 3, falling, false, ids, 5, NULL) ==
              LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "rank 2: feature user, sample 1"));
    cr_expect(ls_keyed_jagged_from_offsets(&jagged, 2, keys, 1, 3, late, false, ids, 5, NULL) ==
              LS_ERR_INVALID);
}

// ---- Made of others -----------------------------------------------------------------------------
static const char *const three[] = {"user", "item", "shop"};
static const int64_t three_lengths[] = {2, 0, 1, 1, 0, 3};  // two samples
static const int64_t three_ids[] = {10, 11, 20, 21, 30, 31, 32};
static const float three_weights[] = {1, 2, 3, 4, 5, 6, 7};

static ls_keyed_jagged *make_three(const float *weights) {
    ls_keyed_jagged *jagged;
    cr_assert(ls_keyed_jagged_create(&jagged, 4, three, 3, 2, three_lengths, three_ids, 7,
                                     weights) == LS_OK);
    return jagged;
}

static bool same(const ls_keyed_jagged *a, const ls_keyed_jagged *b) {
    size_t bags = (size_t)(a->key_count * a->batch), ids = (size_t)a->value_count;
    bool equal = a->key_count == b->key_count && a->batch == b->batch && a->rank == b->rank &&
                 a->value_count == b->value_count && !a->weights == !b->weights;
    for (int k = 0; equal && k < a->key_count; k++) {
        equal = strcmp(a->keys[k], b->keys[k]) == 0;
    }
    return equal && memcmp(a->lengths, b->lengths, bags * sizeof(int64_t)) == 0 &&
           memcmp(a->offsets, b->offsets, (bags + 1) * sizeof(int64_t)) == 0 &&
           memcmp(a->values, b->values, ids * sizeof(int64_t)) == 0 &&
           (!a->weights || memcmp(a->weights, b->weights, ids * sizeof(float)) == 0);
}

// Lists for each bag, and padded bags, equal lengths and ids.
Test(jagged, lists_and_padded_bags_give_the_same_input) {
    ls_keyed_jagged *want = make_three(three_weights), *lists, *padded;
    const ls_jagged_bag bags[6] = {{three_ids, three_weights, 2},
                                   {NULL, NULL, 0},
                                   {three_ids + 2, three_weights + 2, 1},
                                   {three_ids + 3, three_weights + 3, 1},
                                   {NULL, NULL, 0},
                                   {three_ids + 4, three_weights + 4, 3}};
    cr_assert(ls_keyed_jagged_from_lists(&lists, 4, three, 3, 2, bags, true) == LS_OK);
    cr_expect(same(lists, want));
    const int64_t ids[18] = {10, 11, -7, -7, -7, -7, 20, -7, -7,
                             21, -7, -7, -7, -7, -7, 30, 31, 32};
    const float weights[18] = {1, 2, 0, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 0, 5, 6, 7};
    cr_assert(ls_keyed_jagged_from_padded(&padded, 4, three, 3, 2, 3, three_lengths, ids,
                                          weights) == LS_OK);
    cr_expect(same(padded, want));
    ls_keyed_jagged_free(lists);
    ls_keyed_jagged_free(padded);
    ls_keyed_jagged_free(want);
}

// Hostile lists and widths are refused at their feature and sample.
Test(jagged, bad_lists_are_named) {
    ls_keyed_jagged *jagged;
    ls_jagged_bag bags[6] = {{NULL, NULL, 0}};
    bags[3] = (ls_jagged_bag){three_ids, NULL, -1};
    cr_expect(ls_keyed_jagged_from_lists(&jagged, 4, three, 3, 2, bags, false) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "rank 4: feature item, sample 1: a bag of -1 ids"));
    bags[3].count = 2;
    cr_expect(ls_keyed_jagged_from_lists(&jagged, 4, three, 3, 2, bags, true) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "has no weights"));
    bags[3].weights = three_weights;
    cr_expect(ls_keyed_jagged_from_lists(&jagged, 4, three, 3, 2, bags, false) == LS_ERR_INVALID);
    bags[3].count = INT64_MAX;
    bags[4] = (ls_jagged_bag){three_ids, three_weights, INT64_MAX};
    cr_expect(ls_keyed_jagged_from_lists(&jagged, 4, three, 3, 2, bags, true) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "beyond the limit") && jagged == NULL);
    cr_expect(ls_keyed_jagged_from_padded(&jagged, 4, three, 3, 2, 2, three_lengths, three_ids,
                                          NULL) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "feature shop, sample 1: length 3 of bags"));
}

// Bags shorter than the width are padded, longer ones truncated, for a feature that is not the
// first.
Test(jagged, padding_fills_and_cuts) {
    ls_keyed_jagged *jagged = make_three(three_weights), *plain = make_three(NULL);
    ls_jagged shop = ls_keyed_jagged_feature(jagged, 2), none = ls_keyed_jagged_feature(plain, 2);
    int64_t ids[8];
    float weights[8];
    cr_expect(ls_jagged_ids_to_padded(ids, &shop, 2, -1) == LS_OK);
    cr_expect(memcmp(ids, (const int64_t[]){-1, -1, 30, 31}, 4 * sizeof *ids) == 0);
    cr_expect(ls_jagged_weights_to_padded(weights, &shop, 4, 9) == LS_OK);
    cr_expect(memcmp(weights, (const float[]){9, 9, 9, 9, 5, 6, 7, 9}, sizeof weights) == 0);
    cr_expect(ls_jagged_ids_to_padded(ids, &shop, 0, -1) == LS_OK);
    cr_expect(ls_jagged_ids_to_padded(ids, &shop, -1, -1) == LS_ERR_INVALID);
    cr_expect(ls_jagged_weights_to_padded(weights, &none, 4, 9) == LS_ERR_INVALID);
    ls_keyed_jagged_free(jagged);
    ls_keyed_jagged_free(plain);
}

// Features in another order, and subsets, keep their bags, ids and weights.
Test(jagged, permute) {
    ls_keyed_jagged *jagged = make_three(three_weights), *out;
    cr_assert(ls_keyed_jagged_permute(&out, jagged, (const int[]){2, 0}, 2) == LS_OK);
    cr_expect(out->key_count == 2 && strcmp(out->keys[0], "shop") == 0 && out->rank == 4);
    cr_expect(memcmp(out->lengths, (const int64_t[]){0, 3, 2, 0}, 4 * sizeof(int64_t)) == 0);
    cr_expect(memcmp(out->offsets, (const int64_t[]){0, 0, 3, 5, 5}, 5 * sizeof(int64_t)) == 0);
    cr_expect(memcmp(out->values, (const int64_t[]){30, 31, 32, 10, 11}, 5 * sizeof(int64_t)) == 0);
    cr_expect(memcmp(out->weights, (const float[]){5, 6, 7, 1, 2}, 5 * sizeof(float)) == 0);
    ls_keyed_jagged_free(out);
    cr_expect(ls_keyed_jagged_permute(&out, jagged, (const int[]){1, 1}, 2) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "feature item is given twice"));
    cr_expect(ls_keyed_jagged_permute(&out, jagged, (const int[]){3}, 1) == LS_ERR_INVALID);
    cr_expect(ls_keyed_jagged_permute(&out, jagged, (const int[]){-1}, 1) == LS_ERR_INVALID);
    cr_expect(ls_keyed_jagged_permute(&out, jagged, NULL, 4) == LS_ERR_INVALID && !out);
    ls_keyed_jagged_free(jagged);
}

// Splitting and joining gives the original; a part may have no features.
Test(jagged, split_and_concat) {
    ls_keyed_jagged *jagged = make_three(three_weights), *parts[3], *whole, *other;
    cr_assert(ls_keyed_jagged_split(parts, jagged, (const int[]){1, 0, 2}, 3) == LS_OK);
    cr_expect(parts[0]->value_count == 2 && parts[1]->key_count == 0 && parts[1]->batch == 2);
    cr_expect(parts[2]->offsets[0] == 0 && parts[2]->values[0] == 20);
    cr_assert(ls_keyed_jagged_concat(&whole, (const ls_keyed_jagged *const *)parts, 3) == LS_OK);
    cr_expect(same(whole, jagged));
    ls_keyed_jagged_free(whole);
    const ls_keyed_jagged *twice[] = {parts[0], jagged};
    cr_expect(ls_keyed_jagged_concat(&whole, twice, 2) == LS_ERR_INVALID && !whole);
    cr_expect(strstr(ls_error_last()->text, "feature user is given twice"));
    other = make_three(NULL);
    const ls_keyed_jagged *mixed[] = {parts[0], other};
    cr_expect(ls_keyed_jagged_concat(&whole, mixed, 2) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "number 1 has rank 4, batch 2, without weights"));
    cr_expect(ls_keyed_jagged_concat(&whole, mixed, 0) == LS_ERR_INVALID);
    for (int i = 0; i < 3; i++) {
        ls_keyed_jagged_free(parts[i]);
    }
    static const int bad[][3] = {{1, 1, 0}, {1, 3, 0}, {4, -1, 0}, {INT32_MAX, INT32_MAX, 5}};
    for (int i = 0; i < 4; i++) {
        cr_expect(ls_keyed_jagged_split(parts, jagged, bad[i], 3) == LS_ERR_INVALID, "%d", i);
        cr_expect(!parts[0] && !parts[1] && !parts[2]);
    }
    ls_keyed_jagged_free(other);
    ls_keyed_jagged_free(jagged);
}

// ---- Keyed tensors ------------------------------------------------------------------------------
static ls_keyed_tensor *make_tensor(const char *const *names, const int64_t *dims, int count,
                                    float first) {
    float values[32];
    ls_keyed_tensor *tensor;
    for (int i = 0; i < 32; i++) {
        values[i] = first + (float)i;
    }
    cr_assert(ls_keyed_tensor_create(&tensor, names, dims, count, 2, values) == LS_OK);
    return tensor;
}

// Columns of two tensors in new groups: one with both, one with a key that another group has too.
Test(keyed_tensor, regroup) {
    static const char *const a_keys[] = {"f1", "f2"}, *const b_keys[] = {"f3"};
    static const int64_t a_dims[] = {2, 1}, b_dims[] = {2};
    ls_keyed_tensor *a = make_tensor(a_keys, a_dims, 2, 0),
                    *b = make_tensor(b_keys, b_dims, 1, 100);
    const ls_keyed_tensor *both[] = {a, b};
    static const char *const first[] = {"f3", "f1"}, *const second[] = {"f2"},
                             *const third[] = {"f1"};
    const ls_key_group groups[] = {{first, 2}, {second, 1}, {third, 1}, {NULL, 0}};
    ls_keyed_tensor *outs[4];
    cr_assert(ls_keyed_tensor_regroup(outs, both, 2, groups, 4) == LS_OK);
    cr_expect(outs[0]->starts[2] == 4 && outs[0]->batch == 2);
    cr_expect(memcmp(outs[0]->values, (const float[]){100, 101, 0, 1, 102, 103, 3, 4},
                     8 * sizeof(float)) == 0);
    cr_expect(memcmp(outs[1]->values, (const float[]){2, 5}, 2 * sizeof(float)) == 0);
    cr_expect(memcmp(outs[2]->values, (const float[]){0, 1, 3, 4}, 4 * sizeof(float)) == 0);
    cr_expect(outs[3]->key_count == 0 && outs[3]->batch == 2);
    for (int i = 0; i < 4; i++) {
        ls_keyed_tensor_free(outs[i]);
    }
    ls_keyed_tensor_free(a);
    ls_keyed_tensor_free(b);
}

// Tensors without a key, with two, with another batch or without a shape are refused by name, and
// nothing remains.
Test(keyed_tensor, what_is_wrong_is_named) {
    static const char *const names[] = {"f1", "f2"}, *const twice[] = {"f1", "f1"};
    static const char *const unknown[] = {"f9"};
    static const int64_t dims[] = {2, 1}, negative[] = {2, -1}, huge[] = {INT64_MAX, INT64_MAX};
    ls_keyed_tensor *a = make_tensor(names, dims, 2, 0), *c, *outs[2];
    const ls_keyed_tensor *tensors[] = {a, a};
    ls_key_group groups[] = {{names, 2}, {unknown, 1}};
    cr_expect(ls_keyed_tensor_regroup(outs, tensors, 1, groups, 2) == LS_ERR_NOT_FOUND);
    cr_expect(strstr(ls_error_last()->text, "group 1") && strstr(ls_error_last()->text, "f9"));
    cr_expect(!outs[0] && !outs[1]);
    cr_expect(ls_keyed_tensor_regroup(outs, tensors, 2, groups, 1) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "two keyed tensors have key f1"));
    groups[0].keys = twice;
    cr_expect(ls_keyed_tensor_regroup(outs, tensors, 1, groups, 1) == LS_ERR_INVALID);
    const float value = 1;
    cr_assert(ls_keyed_tensor_create(&c, unknown, dims + 1, 1, 1, &value) == LS_OK);
    tensors[1] = c;
    cr_expect(ls_keyed_tensor_regroup(outs, tensors, 2, groups, 1) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "batch 2 and 1"));
    ls_keyed_tensor_free(c);
    cr_expect(ls_keyed_tensor_create(&c, names, negative, 2, 1, &value) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "key f2 has -1 columns"));
    cr_expect(ls_keyed_tensor_create(&c, names, huge, 2, 1, &value) == LS_ERR_OVERFLOW);
    cr_expect(ls_keyed_tensor_create(&c, names, dims, 2, INT64_MAX, &value) != LS_OK && !c);
    cr_expect(ls_keyed_tensor_create(&c, names, dims, 2, -1, &value) == LS_ERR_INVALID);
    ls_keyed_tensor_free(a);
}
