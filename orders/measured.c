// Measured orders: a JSON file with the summation tree of each element, by call. The file may be
// hostile: everything in it is checked, and no allocation exceeds its size's need. docs/orders.md
// has the format.
#include <string.h>

#include "formats/json_read.h"
#include "orders/internal.h"

#define FILE_BYTES_MAX ((size_t)64 << 20)

static int malformed(const char *path, size_t entry, const char *what) {
    return LS_FAIL(LS_ERR_FORMAT, "measured order %s: orders[%zu]: %s", path, entry, what);
}

static bool read_size(size_t *out, const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (size_t)json_integer_value(value);
    return true;
}

static int read_class(ls_measured_class *out, const json_t *value, const json_t *range, int ranks,
                      const char *path, size_t entry) {
    const char *tree = json_string_value(json_object_get(value, "tree"));
    if (tree == NULL) {
        return malformed(path, entry, "a class needs a tree, as in \"0(1(2))\"");
    }
    *out = (ls_measured_class){.target = -1, .end = SIZE_MAX};
    const json_t *target = json_object_get(value, "target");
    if (target != NULL) {
        size_t number = 0;
        if (!read_size(&number, target) || number >= (size_t)ranks) {
            return malformed(path, entry, "target is not a rank");
        }
        out->target = (int)number;
    }
    if (range != NULL) {
        if (json_array_size(range) != 2 || !read_size(&out->first, json_array_get(range, 0)) ||
            !read_size(&out->end, json_array_get(range, 1)) || out->first >= out->end) {
            return malformed(path, entry, "a range is [first, end], first below end");
        }
    }
    if (ls_fold__parse(&out->fold, tree, strlen(tree), ranks) != LS_OK) {
        char why[128];
        (void)snprintf(why, sizeof why, "%.120s", ls_error_last()->text);
        return ls_error_last()->code == LS_ERR_INVALID ? malformed(path, entry, why)
                                                       : ls_error_last()->code;
    }
    return LS_OK;
}

static size_t classes_in(const json_t *classes) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(classes); i++) {
        const json_t *ranges = json_object_get(json_array_get(classes, i), "ranges");
        count += ranges == NULL ? 1 : json_array_size(ranges);
    }
    return count;
}

static int read_classes(ls_measured_call *out, const json_t *value, int ranks, const char *path,
                        size_t entry) {
    const json_t *classes = json_object_get(value, "classes");
    size_t count = classes_in(classes);
    if (count == 0 || count > INT32_MAX) {
        return malformed(path, entry, "classes must be a list with at least one class");
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, count, sizeof(ls_measured_class)));
    out->classes = memory;
    out->class_count = (int)count;
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(classes); i++) {
        const json_t *one = json_array_get(classes, i);
        const json_t *ranges = json_object_get(one, "ranges");
        size_t n = ranges == NULL ? 1 : json_array_size(ranges);
        for (size_t k = 0; k < n; k++) {
            const json_t *range = ranges == NULL ? NULL : json_array_get(ranges, k);
            LS_TRY(read_class(&out->classes[at++], one, range, ranks, path, entry));
        }
    }
    return LS_OK;
}

static int choose(const char *text, const char *const *names, int count) {
    for (int i = 0; text != NULL && i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int read_entry(ls_measured_call *out, const json_t *value, int ranks, const char *path,
                      size_t entry) {
    static const char *const calls[] = {"none", "all_reduce", "reduce", "reduce_scatter"};
    static const char *const fmas[] = {"never", "always", "ll128"};
    static const char *const accumulators[] = {"element", "f32"};
    int call = choose(json_string_value(json_object_get(value, "collective")), calls, 4);
    if (call <= 0) {
        return malformed(path, entry, "collective must be all_reduce, reduce or reduce_scatter");
    }
    out->call = (ls_order_call)call;
    out->dtype = -1;
    const json_t *dtype = json_object_get(value, "dtype");
    if (dtype != NULL) {
        ls_dtype parsed = LS_F32;
        const char *name = json_string_value(dtype);
        if (name == NULL || ls_dtype_parse(&parsed, name) != LS_OK) {
            return malformed(path, entry, "dtype is not known");
        }
        out->dtype = (int)parsed;
    }
    const json_t *count = json_object_get(value, "count");
    out->counted = count != NULL;
    if (out->counted && !read_size(&out->count, count)) {
        return malformed(path, entry, "count must be a number of elements");
    }
    const json_t *fma = json_object_get(value, "fma");
    int form = fma == NULL ? 0 : choose(json_string_value(fma), fmas, 3);
    const json_t *accumulator = json_object_get(value, "accumulator");
    int width = accumulator == NULL ? 0 : choose(json_string_value(accumulator), accumulators, 2);
    if (form < 0 || width < 0) {
        return malformed(path, entry,
                         "fma is never, always or ll128; accumulator is element or f32");
    }
    out->fma = form == 1 ? LS_FMA_ALWAYS : LS_FMA_LANES;
    if (form == 0) {
        out->fma = LS_FMA_NEVER;
    }
    out->accumulate_f32 = width == 1;
    return read_classes(out, value, ranks, path, entry);
}

static int read_root(ls_order *order, const json_t *root, const char *path) {
    size_t format = 0;
    size_t ranks = 0;
    if (!read_size(&format, json_object_get(root, "lockstep_order")) || format != 1) {
        return LS_FAIL(LS_ERR_FORMAT, "measured order %s: \"lockstep_order\": 1 is missing", path);
    }
    if (!read_size(&ranks, json_object_get(root, "ranks")) || ranks < 1 ||
        ranks > LS_ORDER_RANKS_MAX) {
        return LS_FAIL(LS_ERR_FORMAT, "measured order %s: \"ranks\" must be 1 to %d", path,
                       LS_ORDER_RANKS_MAX);
    }
    const json_t *entries = json_object_get(root, "orders");
    size_t count = json_array_size(entries);
    if (count == 0 || count > INT32_MAX) {
        return LS_FAIL(LS_ERR_FORMAT, "measured order %s: \"orders\" must be a list with entries",
                       path);
    }
    order->measured_ranks = (int)ranks;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, count, sizeof(ls_measured_call)));
    order->measured = memory;
    order->measured_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        LS_TRY(read_entry(&order->measured[i], json_array_get(entries, i), (int)ranks, path, i));
    }
    return LS_OK;
}

int ls_order__measured_read(ls_order *order, const char *path) {
    json_t *root = NULL;
    int status = ls_json_read(&root, path, FILE_BYTES_MAX);
    status = status == LS_OK ? read_root(order, root, path) : ls_error_wrap("measured order");
    json_decref(root);
    return status;
}

void ls_order__measured_free(ls_order *order) {
    for (int i = 0; i < order->measured_count; i++) {
        ls_measured_call *call = &order->measured[i];
        for (int k = 0; k < call->class_count; k++) {
            ls_fold__free(call->classes[k].fold);
        }
        ls_free(call->classes, (size_t)call->class_count, sizeof(ls_measured_class));
    }
    ls_free(order->measured, (size_t)order->measured_count, sizeof(ls_measured_call));
}

int ls_order__measured_find(const ls_measured_call **out, const ls_order *order,
                            const ls_order_range *range) {
    *out = NULL;
    if (range->ranks != order->measured_ranks) {
        return LS_FAIL(LS_ERR_INVALID, "order \"%.200s\" is for %d ranks, the group has %d",
                       order->text, order->measured_ranks, range->ranks);
    }
    for (int i = 0; i < order->measured_count; i++) {
        const ls_measured_call *call = &order->measured[i];
        if (call->call == range->call && (call->dtype < 0 || call->dtype == (int)range->dtype) &&
            (!call->counted || call->count == range->count)) {
            *out = call;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_NOT_FOUND, "order \"%.200s\" has no entry for this call of %zu %s",
                   order->text, range->count, ls_dtype_name(range->dtype));
}

int ls_order__measured_runs(const ls_order *order, const ls_order_range *range,
                            ls_order_visit visit, void *arg) {
    const ls_measured_call *call = NULL;
    LS_TRY(ls_order__measured_find(&call, order, range));
    size_t at = range->first;
    size_t end = range->first + range->length;
    while (at < end) {
        // The first class that holds this element, as far as it reaches and no earlier one begins.
        const ls_measured_class *found = NULL;
        size_t stop = end;
        for (int i = 0; i < call->class_count && found == NULL; i++) {
            const ls_measured_class *class_ = &call->classes[i];
            if (class_->target >= 0 && class_->target != range->target) {
                continue;
            }
            if (class_->first <= at && at < class_->end) {
                found = class_;
                stop = class_->end < stop ? class_->end : stop;
            } else if (class_->first > at && class_->first < stop) {
                stop = class_->first;
            }
        }
        if (found == NULL) {
            return LS_FAIL(LS_ERR_NOT_FOUND, "order \"%.200s\" has no tree for element %zu",
                           order->text, at);
        }
        ls_order_run run = {at, stop - at, found->first, -1, 0, -1, found->fold};
        LS_TRY(visit(arg, &run));
        at = stop;
    }
    return LS_OK;
}
