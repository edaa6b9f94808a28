// Tests of base/: errors, memory, dtypes, Philox, text and JSON.
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <Random123/philox.h>

#include "base/base.h"
#include "formats/json.h"

// An error keeps its first sentence and gains context in front on the way up.
Test(status, wrap_puts_context_in_front) {
    cr_expect(LS_FAIL_RANK(LS_ERR_MISMATCH, 3, "counts differ: %d", 7) == LS_ERR_MISMATCH);
    cr_expect(ls_error_wrap("plan: table %s", "user") == LS_ERR_MISMATCH);
    cr_expect_str_eq(ls_error_last()->text, "plan: table user: counts differ: 7");
    cr_expect(ls_error_last()->rank == 3);
    ls_error_clear();
    cr_expect(ls_error_last()->code == LS_OK);
}

// Sizes that wrap are errors, and the largest that fit are not.
Test(memory, size_arithmetic_reports_overflow) {
    size_t out = 0;
    cr_expect(ls_size_mul(&out, SIZE_MAX / 2, 2) == LS_OK);
    cr_expect(ls_size_mul(&out, SIZE_MAX / 2 + 1, 2) == LS_ERR_OVERFLOW);
    cr_expect(ls_size_add(&out, SIZE_MAX, 1) == LS_ERR_OVERFLOW);
}

// Arena memory is zeroed, aligned and does not overlap, whatever the sizes.
Test(memory, arena_blocks_do_not_overlap) {
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    unsigned char *previous = NULL;
    size_t previous_size = 0;
    for (size_t size = 1; size < 200000; size = size * 3 + 1) {
        unsigned char *block = ls_arena_alloc(arena, size, 1);
        cr_assert(block != NULL && (uintptr_t)block % 64 == 0);
        for (size_t i = 0; i < size; i++) {
            cr_assert(block[i] == 0);
        }
        memset(block, 0xAB, size);
        if (previous != NULL) {
            cr_expect(previous[0] == 0xAB && previous[previous_size - 1] == 0xAB);
        }
        previous = block;
        previous_size = size;
    }
    cr_expect(ls_arena_alloc(arena, SIZE_MAX, 2) == NULL);
    cr_expect(ls_error_last()->code == LS_ERR_OVERFLOW);
    ls_arena_free(arena);
}

// An arena of many large arrays, half of them copies that say which pages are zero. All bytes keep
// their values, and new memory is zeroed, whether or not it was declared as filled.
Test(memory, large_arenas_hold_what_was_copied) {
    enum { COPIES = 200, BYTES = 300001, PAGE = 4096 };
    static unsigned char source[BYTES];
    for (int full = 0; full < 2; full++) {
        ls_arena *arena = NULL;
        cr_assert(ls_arena_create(&arena) == LS_OK);
        for (int i = 0; i < COPIES; i++) {
            memset(source, 0, sizeof source);
            source[i * 1009 % BYTES] = 1;                // one page
            memset(source + (i % 50) * PAGE, 7, PAGE);   // a whole page
            source[BYTES - 1] = (unsigned char)(i % 2);  // the last, partial page
            const unsigned char *copy = ls_arena_copy(arena, source, BYTES);
            unsigned char *zeroed = ls_arena_alloc(arena, BYTES, 1);
            cr_assert(copy != NULL && zeroed != NULL);
            cr_assert(memcmp(copy, source, BYTES) == 0, "copy %d", i);
            for (int k = 0; k < BYTES; k++) {
                cr_assert(zeroed[k] == 0, "array %d, byte %d", i, k);
            }
            memset(zeroed, 0xff, BYTES);
            if (full == 1) {
                ls_arena_will_be_full(arena);
            }
        }
        ls_arena_free(arena);
    }
}

// Addresses without memory do not overlap, and end before they would wrap.
Test(memory, addresses_lie_apart) {
    uintptr_t next = 0;
    void *a = NULL, *b = NULL;
    cr_assert(ls_addresses_take(&a, &next, 100) == LS_OK);
    cr_assert(ls_addresses_take(&b, &next, 0) == LS_OK);
    cr_expect((uintptr_t)b > (uintptr_t)a + 100 && (uintptr_t)b % 64 == 0);
    cr_assert(ls_addresses_take(&a, &next, (size_t)1 << 61) == LS_OK);
    cr_expect(ls_addresses_take(&b, &next, (size_t)1 << 61) == LS_ERR_MEMORY);
}

// Unzeroed memory does not overlap other memory and leaves it zeroed, also in adopted memory.
Test(memory, arena_blocks_that_are_not_zeroed_are_apart) {
    for (int turn = 0; turn < 2; turn++) {
        ls_arena *arena = NULL;
        cr_assert(ls_arena_create(&arena) == LS_OK);
        unsigned char *raw[40], *zeroed[40];
        for (size_t i = 0; i < 40; i++) {
            size_t size = 3000 * i + 1;
            raw[i] = ls_arena_alloc_raw(arena, size, 1);
            cr_assert(raw[i] != NULL && (uintptr_t)raw[i] % 64 == 0);
            memset(raw[i], (int)i + 1, size);
            zeroed[i] = ls_arena_alloc(arena, size, 1);
            for (size_t k = 0; k < size; k++) {
                cr_assert(zeroed[i][k] == 0);
            }
            memset(zeroed[i], 0xAB, size);
        }
        for (size_t i = 0; i < 40; i++) {
            cr_expect(raw[i][0] == i + 1 && raw[i][3000 * i] == i + 1);
        }
        cr_expect(ls_arena_alloc_raw(arena, SIZE_MAX, 2) == NULL);
        cr_expect(ls_error_last()->code == LS_ERR_OVERFLOW);
        ls_arena_free(arena);
    }
}

// An arena uses adopted memory first, zeroed where required. The arena that it came from continues
// without it.
Test(memory, arenas_hand_out_what_they_adopted) {
    enum { ARRAYS = 50, BYTES = 100000 };
    ls_arena *arena = NULL, *from = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK && ls_arena_create(&from) == LS_OK);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < ARRAYS; i++) {
            unsigned char *array = ls_arena_alloc_raw(from, BYTES, 1);
            cr_assert(array != NULL);
            memset(array, 0xEE, BYTES);
        }
        size_t adopted = ls_arena_bytes(from), before = ls_arena_bytes(arena);
        ls_arena_adopt(arena, from);
        cr_expect(ls_arena_bytes(from) == 0 && ls_arena_bytes(arena) == before + adopted);
        unsigned char *first = NULL;
        for (int i = 0; i < 2 * ARRAYS; i++) {
            unsigned char *array =
                (i % 4 == 1 ? ls_arena_alloc_raw : ls_arena_alloc)(arena, BYTES / 3, 1);
            cr_assert(array != NULL && (uintptr_t)array % 64 == 0);
            for (int k = 0; k < BYTES / 3 && i % 4 != 1; k++) {
                cr_assert(array[k] == 0, "array %d, byte %d", i, k);
            }
            memset(array, i + 1, BYTES / 3);
            first = i == 0 ? array : first;
        }
        cr_expect(first[0] == 1 && first[BYTES / 3 - 1] == 1);
        cr_expect(ls_arena_bytes(arena) == before + adopted, "it took more than it had");
        cr_expect(ls_arena_alloc(arena, 3 * BYTES, 1) != NULL);
        cr_expect(ls_arena_bytes(arena) > before + adopted);
    }
    ls_arena_adopt(arena, from);  // it has none left
    // An allocation that exceeds the adopted block is placed elsewhere.
    ls_arena *other = NULL;
    cr_assert(ls_arena_create(&other) == LS_OK && ls_arena_alloc_raw(from, BYTES, 1) != NULL);
    ls_arena_adopt(other, from);
    size_t adopted = ls_arena_bytes(other);
    cr_expect(ls_arena_alloc(other, BYTES + 64, 1) != NULL && ls_arena_bytes(other) > adopted);
    ls_arena_free(other);
    ls_arena_free(from);
    ls_arena_free(arena);
}

// Philox agrees with Random123 on many counters and keys.
Test(random, philox_matches_random123) {
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t counter[4] = {i, i * 2654435761u, ~i, i ^ 0x12345678u};
        uint32_t key[2] = {i * 7919u, i + 1u};
        uint32_t out[4];
        ls_philox4x32(out, counter, key);
        philox4x32_ctr_t c = {{counter[0], counter[1], counter[2], counter[3]}};
        philox4x32_key_t k = {{key[0], key[1]}};
        philox4x32_ctr_t want = philox4x32(c, k);
        for (int j = 0; j < 4; j++) {
            cr_assert(out[j] == want.v[j]);
        }
    }
}

// The draws have the moments they claim, and stay in range.
Test(random, draws_have_the_right_moments) {
    double sum = 0;
    double square = 0;
    double uniform = 0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        double x = ls_random_normal(7, 1, 2, (uint64_t)i);
        double u = ls_random_uniform(7, 1, 2, (uint64_t)i);
        cr_assert(u >= 0 && u < 1);
        cr_assert(ls_random_below(3, 7, 1, 2, (uint64_t)i) < 3);
        sum += x;
        square += x * x;
        uniform += u;
    }
    cr_expect(fabs(sum / n) < 0.02);
    cr_expect(fabs(square / n - 1) < 0.02);
    cr_expect(fabs(uniform / n - 0.5) < 0.01);
}

// Draws equal those of a Python program that follows the rule in random.h; FNV-1a equals its
// published hashes.
Test(random, draws_and_streams_are_the_rules) {
    static const struct {
        uint64_t seed, index;
        uint32_t stream, rank;
        double normal;
    } rows[] = {
        {7, 0, 1, 2, 0.26244467384833436},
        {7, 1, 1, 2, -0.16260406741084088},
        {0x123456789abcdef0, UINT64_C(5) << 32 | 3, 2166136261, 65535, 1.686243001186869},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double drawn = ls_random_normal(rows[i].seed, rows[i].stream, rows[i].rank, rows[i].index);
        cr_expect(fabs(drawn - rows[i].normal) < 1e-14, "%.17g", drawn);
    }
    cr_expect(ls_random_stream("") == 0x811c9dc5 && ls_random_stream("a") == 0xe40c292c);
    cr_expect(ls_random_stream("foobar") == 0xbf9cf968);
}

// The neutral value of every type and operation, in the type's bits: 1 for products.
Test(dtype, products_begin_with_one) {
    static const struct {
        ls_dtype dtype;
        uint64_t one;
    } rows[] = {
        {LS_F64, 0x3ff0000000000000},
        {LS_F32, 0x3f800000},
        {LS_F16, 0x3c00},
        {LS_BF16, 0x3f80},
        {LS_F8E4M3, 0x38},
        {LS_F8E5M2, 0x3c},
        {LS_I64, 1},
        {LS_U8, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t bits = 0;
        ls_op_neutral(&bits, LS_PROD, rows[i].dtype);
        cr_expect(bits == rows[i].one, "%s: %" PRIx64, ls_dtype_name(rows[i].dtype), bits);
    }
}

// Names read back to their values; unknown names are an error.
Test(dtype, names_round_trip) {
    for (int i = 0; i < (int)LS_DTYPE_COUNT; i++) {
        ls_dtype dtype = LS_I8;
        cr_expect(ls_dtype_parse(&dtype, ls_dtype_name((ls_dtype)i)) == LS_OK);
        cr_expect((int)dtype == i);
    }
    ls_op op = LS_SUM;
    cr_expect(ls_op_parse(&op, "premul_sum") == LS_OK);
    cr_expect(op == LS_PREMUL_SUM);
    cr_expect(ls_op_parse(&op, "summ") == LS_ERR_NOT_FOUND);
    cr_expect(!ls_op_supports(LS_BXOR, LS_F32));
    cr_expect(ls_op_supports(LS_BXOR, LS_U8));
}

// "did you mean" offers only similar names. Printed text is one line of UTF-8 without terminal
// controls; a shell word stays one word.
Test(text, hostile_names_are_harmless) {
    static const struct {
        const char *word, *plain, *shell;
    } rows[] = {
        {"a-1.yaml", "a-1.yaml", "a-1.yaml"},
        {"", "", "''"},
        {"two words", "two words", "'two words'"},
        {"$(id)", "$(id)", "'$(id)'"},
        {"it's", "it's", "'it'\\''s'"},
        {"a\\b", "a\\b", "'a\\b'"},
        {"caf\u00e9", "caf\u00e9", "'caf\u00e9'"},
        {"tab\t\n", "tab ?", "$'tab\\x09\\x0a'"},
        {"\033[31m'\\", "?[31m'\\", "$'\\x1b[31m\\'\\\\'"},
        {"\xff\xc2\x9b", "???", "$'\\xff\\xc2\\x9b'"},
        {"\u202e", "???", "$'\\xe2\\x80\\xae'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_text plain = {0}, shell = {0};
        ls_text_plain(&plain, rows[i].word, strlen(rows[i].word));
        ls_text_shell(&shell, rows[i].word);
        cr_expect(strcmp(ls_text_string(&plain), rows[i].plain) == 0, "%s", rows[i].shell);
        cr_expect(strcmp(ls_text_string(&shell), rows[i].shell) == 0, "%s, not %s", rows[i].shell,
                  ls_text_string(&shell));
        ls_text_free(&plain);
        ls_text_free(&shell);
    }
}

// Lines end with or without a newline; markup is escaped, and XML has no control characters.
Test(text, lines_and_markup) {
    static const char hostile[] = "a\033\n\n\x9b<b>\tit's \"\n&c";
    ls_text plain = {0}, xml = {0};
    ls_text_plain_lines(&plain, hostile, strlen(hostile));
    ls_text_plain_lines(&plain, "\n", 1);
    cr_expect_str_eq(ls_text_string(&plain), "a?\n\n?<b> it's \"\n&c\n");
    ls_text_xml(&xml, hostile);
    ls_text_xml(&xml, NULL);
    cr_expect_str_eq(ls_text_string(&xml), "a\ufffd\n\n\ufffd&lt;b&gt;\tit&#39;s &quot;\n&amp;c");
    ls_text_free(&plain);
    ls_text_free(&xml);
}

// Characters that are not printed: controls, marks and overrides of direction, line separators,
// surrogates and undefined ones. Bytes that are no UTF-8 are no character.
Test(text, printable_characters) {
    static const uint32_t never[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0x200e, 0x200f},
                                        {0x2028, 0x202e}, {0x2066, 0x2069}, {0xd800, 0xdfff},
                                        {0xfffe, 0xffff}};
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
        size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, want = length;
        char text[4];
        for (size_t i = 0; i < length; i++) {
            uint32_t bits = c >> (6 * (length - 1 - i));
            text[i] = (char)(i == 0 ? lead[length - 1] | bits : 0x80 | (bits & 0x3f));
        }
        for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
            want = c >= never[i][0] && c <= never[i][1] ? 0 : want;
        }
        cr_assert(ls_text_printable(text, length) == want, "U+%04X", (unsigned)c);
        cr_assert(length == 1 || ls_text_printable(text, length - 1) == 0, "U+%04X", (unsigned)c);
    }
    const char *const broken[] = {"\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",
                                  "\xc3(",        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                                  "\xe2\x82\xc0", "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        cr_expect(ls_text_printable(broken[i], strlen(broken[i])) == 0, "%zu", i);
    }
}

// A full disk is an error of the environment, a missing folder one of the caller.
Test(status, errno_tells_whose_doing_it_is) {
    cr_expect(ls_status_of_errno(ENOSPC) == LS_ERR_RESOURCE);
    cr_expect(ls_status_of_errno(EMFILE) == LS_ERR_RESOURCE);
    cr_expect(ls_status_of_errno(ENOMEM) == LS_ERR_MEMORY);
    cr_expect(ls_status_of_errno(ENOENT) == LS_ERR_IO && ls_status_of_errno(EACCES) == LS_ERR_IO);
    cr_expect(ls_status_is_environment(LS_ERR_RESOURCE));
    cr_expect(!ls_status_is_environment(LS_ERR_IO) && !ls_status_is_environment(LS_ERR_INVALID));
}

Test(text, nearest_suggests_only_near_names) {
    const char *const names[] = {"table_wise", "row_wise", "column_wise"};
    cr_expect_str_eq(ls_nearest("row_wize", names, 3), "row_wise");
    cr_expect(ls_nearest("banana", names, 3) == NULL);
    const char *const keys[] = {"stride", "stride_per_rank", "clip-norm-at-most", "rank"};
    cr_expect_str_eq(ls_nearest("stride_per_key_per_rank", keys, 4), "stride_per_rank");
    cr_expect_str_eq(ls_nearest("clip-at-most", keys, 4), "clip-norm-at-most");
    cr_expect(ls_nearest("stride_per_ranks_and_keys", keys, 4) == NULL);
    cr_expect(ls_nearest("rank_of_features", keys, 4) == NULL);
    cr_expect(ls_nearest("rank_per_stride", keys, 4) == NULL);
}

// An independent parser reads the writer's output back, for any strings and numbers.
Test(json, written_text_parses_back) {
    ls_text text = {0};
    ls_json json;
    ls_json_begin(&json, &text, 2);
    ls_json_object_open(&json);
    ls_json_member_string(&json, "s", "quote \" slash \\ tab \t bell \a bad \xff ok \xc3\xa9");
    ls_json_member_double(&json, "third", 1.0 / 3.0);
    ls_json_member_double(&json, "nan", NAN);
    ls_json_member_int(&json, "least", INT64_MIN);
    ls_json_key(&json, "list");
    ls_json_array_open(&json);
    ls_json_bool(&json, true);
    ls_json_null(&json);
    ls_json_array_open(&json);
    ls_json_array_close(&json);
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    json_error_t error;
    json_t *root = json_loads(ls_text_string(&text), JSON_REJECT_DUPLICATES, &error);
    cr_assert(root != NULL, "%s in %s", error.text, ls_text_string(&text));
    cr_expect_str_eq(json_string_value(json_object_get(root, "s")),
                     "quote \" slash \\ tab \t bell \a bad \xef\xbf\xbd ok \xc3\xa9");
    cr_expect(json_real_value(json_object_get(root, "third")) == 1.0 / 3.0);
    cr_expect_str_eq(json_string_value(json_object_get(root, "nan")), "NaN");
    cr_expect(json_integer_value(json_object_get(root, "least")) == INT64_MIN);
    cr_expect(json_array_size(json_object_get(root, "list")) == 3);
    json_decref(root);
    ls_text_free(&text);
}

// An allocation above the limit fails as out of memory, in a block and in an arena.
Test(memory, no_piece_is_larger_than_the_limit) {
    void *block = NULL;
    ls_arena *arena = NULL;
    cr_assert(ls_arena_create(&arena) == LS_OK);
    ls_alloc_limit((uint64_t)8 << 20);
    cr_expect(ls_alloc(&block, 9, (size_t)1 << 20) == LS_ERR_MEMORY && block == NULL);
    cr_expect_str_eq(ls_error_last()->text, "cannot allocate 9437184 bytes");
    cr_expect(ls_arena_alloc(arena, 9, (size_t)1 << 20) == NULL);
    cr_expect(ls_alloc(&block, 7, (size_t)1 << 20) == LS_OK);
    ls_free(block, 7, (size_t)1 << 20);
    cr_expect(ls_arena_alloc(arena, 7, (size_t)1 << 20) != NULL);
    ls_alloc_limit(UINT64_MAX);
    cr_expect(ls_alloc(&block, 9, (size_t)1 << 20) == LS_OK);
    ls_free(block, 9, (size_t)1 << 20);
    ls_arena_free(arena);
}
