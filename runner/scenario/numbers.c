// Generators of numbers: any element by its index. See numbers.h.
#include "runner/scenario/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/field.h"
#include "kernels/kernels.h"

#define STREAM_NAME_MAX 320

int ls_numbers__place(const ls_scenario *scenario, const ls_generator *generator,
                      const char *what) {
    ls_mark mark = generator->node.record == NULL ? (ls_mark){0} : generator->node.mark;
    if (generator->kind == LS_GENERATOR_FILE) {
        mark = ls_node_mark(&generator->node, "file");
    } else if (generator->kind == LS_GENERATOR_VALUES) {
        mark = ls_node_mark(&generator->node, "values");
    }
    return mark.line == 0
               ? ls_error_wrap("%s", what)
               : ls_error_wrap("%s:%d:%d: %s", scenario->file, mark.line, mark.column, what);
}

uint32_t ls_numbers__stream(const char *what, const char *name) {
    char text[STREAM_NAME_MAX];
    (void)snprintf(text, sizeof text, "%s/%s", what, name);
    return ls_random_stream(text);
}

uint32_t ls_numbers__stream_of_step(const ls_scenario *scenario, const char *what, const char *name,
                                    int step) {
    char text[STREAM_NAME_MAX];
    step += scenario->first_step;
    if (step == 0) {
        return ls_numbers__stream(what, name);
    }
    (void)snprintf(text, sizeof text, "%s/%s/step%d", what, name, step);
    return ls_random_stream(text);
}

void ls_numbers__init(ls_numbers *out, const ls_scenario *scenario, const ls_generator *generator,
                      ls_generator_kind standard, ls_dtype dtype) {
    *out =
        (ls_numbers){.generator = generator,
                     .kind = generator->kind == LS_GENERATOR_DEFAULT ? standard : generator->kind,
                     .high = 1,
                     .integers = !ls_dtype_is_float(dtype),
                     .is_signed = ls_dtype_is_signed(dtype),
                     .seed = scenario->seed,
                     .draw = scenario->draw};
    if (out->integers) {
        out->low = out->is_signed ? -100 : 0;
        out->high = 101;
    }
    if (generator->kind == LS_GENERATOR_UNIFORM && generator->has_range) {
        out->low = generator->a;
        out->high = generator->b;
    }
}

// Multiples of 1/8 from -1 to 1 (integers: 17 whole numbers), so that sums are exact: n terms need
// 3 + log2(n) bits of a significand, and f32 has 24.
static double exact_at(const ls_numbers *numbers, uint64_t index) {
    double step = (double)ls_random_below(17, numbers->seed, numbers->stream, numbers->rank, index);
    if (numbers->integers) {
        return numbers->is_signed ? step - 8 : step;
    }
    return (step - 8) / 8;
}

static double number_at(const ls_numbers *numbers, uint64_t index) {
    const ls_generator *generator = numbers->generator;
    double value = 0;
    switch (numbers->kind) {
    case LS_GENERATOR_NORMAL:
        value = generator->a + generator->b * ls_random_normal(numbers->seed, numbers->stream,
                                                               numbers->rank, index);
        return numbers->integers ? nearbyint(value) : value;
    case LS_GENERATOR_UNIFORM:
        value = numbers->low +
                (numbers->high - numbers->low) *
                    ls_random_uniform(numbers->seed, numbers->stream, numbers->rank, index);
        return numbers->integers ? floor(value) : value;
    case LS_GENERATOR_ARANGE:
        // the default: 0, 1, 2, ...
        return generator->kind == LS_GENERATOR_DEFAULT
                   ? (double)index
                   : generator->a + generator->b * (double)index;
    case LS_GENERATOR_CONSTANT:
        return generator->a;
    case LS_GENERATOR_EXACT:
        return exact_at(numbers, index);
    case LS_GENERATOR_VALUES:
        return generator->reals[index];
    default:
        LS_ASSERT(!"a generator of numbers");
        return 0;
    }
}

static uint32_t draw_at(const ls_numbers *numbers, uint64_t index) {
    uint64_t seed = numbers->seed ^ ((uint64_t)numbers->draw << 32), bits = 0;
    bool is_given = numbers->kind == LS_GENERATOR_ARANGE || numbers->kind == LS_GENERATOR_VALUES ||
                    numbers->kind == LS_GENERATOR_FILE;
    if (numbers->by_value && numbers->kind == LS_GENERATOR_CONSTANT) {
        return ls_field_of(numbers->generator->a);
    }
    if (!numbers->by_value || !is_given) {
        return (uint32_t)ls_random_below(LS_FIELD_PRIME, seed, numbers->stream, numbers->rank,
                                         index);
    }
    double value = 0;
    if (numbers->kind == LS_GENERATOR_FILE) {
        const ls_input_array *array = numbers->array;
        value = ls_element_to_f64((const char *)array->data + index * ls_dtype_bytes(array->dtype),
                                  array->dtype);
    } else {
        value = number_at(numbers, index);
    }
    memcpy(&bits, &value, sizeof bits);
    return (uint32_t)ls_random_below(LS_FIELD_PRIME, seed, 0, 0, bits);
}

void ls_numbers__fill(void *out, ls_dtype dtype, const ls_numbers *numbers, uint64_t first,
                      size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    if (dtype == LS_FIELD) {
        for (size_t i = 0; i < count; i++) {
            uint32_t value = draw_at(numbers, first + i);
            memcpy((char *)out + i * bytes, &value, sizeof value);
        }
        return;
    }
    if (numbers->kind == LS_GENERATOR_FILE) {
        const ls_input_array *array = numbers->array;
        LS_ASSERT(first + count <= array->count);
        const char *from = (const char *)array->data + first * ls_dtype_bytes(array->dtype);
        if (array->dtype == dtype) {
            memcpy(out, from, count * bytes);
        } else {
            ls_kernel_convert(out, dtype, from, array->dtype, count);
        }
        return;
    }
    if (numbers->kind == LS_GENERATOR_SPLITMIX) {
        ls_numbers__splitmix(out, dtype, numbers->seed, numbers->rank, first, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ls_element_from_f64((char *)out + i * bytes, dtype, number_at(numbers, first + i));
    }
}

int ls_numbers__open(ls_numbers *numbers, const ls_scenario *scenario, size_t count) {
    const ls_generator *generator = numbers->generator;
    if (numbers->kind == LS_GENERATOR_FILE) {
        LS_TRY(ls_input_file_get(&numbers->array, scenario, generator->file, generator->tensor));
        if (numbers->array->count != count) {
            return LS_FAIL(LS_ERR_FORMAT, "%s: %zu elements, expected %zu", generator->file,
                           numbers->array->count, count);
        }
    }
    if (numbers->kind == LS_GENERATOR_VALUES && (size_t)generator->value_count != count) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " values, expected %zu", generator->value_count,
                       count);
    }
    return LS_OK;
}
