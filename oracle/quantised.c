// The values of quantised rows, by the formulas of kernels/quantise.h, one element at a time.
// Nothing here is shared with the kernels.
#include <math.h>
#include <string.h>

#include "oracle/internal.h"
#include "kernels/element.h"

static bool has_scale(const ls_row_format *format) {
    return format->element == LS_ROW_INT8 || format->element == LS_ROW_INT4 ||
           format->element == LS_ROW_INT2;
}

// values [count], which are f32, become what is read of them again.
static void quantise(const ls_row_format *format, double *values, int64_t count) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    float most = format->element == LS_ROW_INT4 ? 15 : 3;
    if (format->element == LS_ROW_INT8) {
        most = 255;
    }
    float bias = (float)low, scale, inverse;
    if (format->scale_f32) {
        float range = (float)high - bias;
        scale = range / most;
        inverse = most / (range + 1e-8f);
    } else {
        bias = (float)ls_range__rounded(low, LS_F16);
        float wanted = ((float)high - bias) / most;
        scale = (float)ls_range__rounded((double)wanted, LS_F16);
        scale = scale == 0 ? 1 : scale;
        inverse = 1 / scale;
    }
    for (int64_t i = 0; i < count; i++) {
        float off = (float)values[i] - bias;
        float q = rintf(off * inverse);
        q = fminf(fmaxf(q, 0), most);
        values[i] = (double)fmaf(q, scale, bias);
    }
}

bool ls_oracle__own_scales(const ls_oracle *oracle, int t) {
    const ls_table *table = &oracle->options.tables[t];
    return table->row_format && table->quantise_shards && has_scale(table->row_format) &&
           ls_oracle__next_part(oracle, t, 0) < table->dim;
}

int ls_oracle__kept_row(const ls_oracle *oracle, int t, oracle_sense sense, int64_t row,
                        int64_t first, int64_t columns, double *out) {
    const ls_table *table = &oracle->options.tables[t];
    if (!table->row_format) {
        return oracle->options.row(oracle->options.row_arg, t, row, first, columns, out + first);
    }
    LS_TRY(oracle->options.row(oracle->options.row_arg, t, row, 0, table->dim, out));
    if (!has_scale(table->row_format)) {
        for (int64_t c = 0; c < table->dim; c++) {
            out[c] = ls_range__rounded(out[c], ls_row_element_dtype(table->row_format->element));
        }
        return LS_OK;
    }
    bool own = sense == ORACLE_DOCUMENTED && ls_oracle__own_scales(oracle, t);
    for (int64_t c = 0, next = 0; c < table->dim; c = next) {
        next = own ? ls_oracle__next_part(oracle, t, c) : table->dim;
        quantise(table->row_format, out + c, next - c);
    }
    return LS_OK;
}
