// Placements as text: "S(0), R, P(sum)".
#include "local_tensor/internal.h"

#include <stdlib.h>
#include <string.h>

void ls_placements_format(char *out, size_t out_bytes, const ls_placements *placements) {
    LS_ASSERT(out_bytes >= 1);
    LS_ASSERT(placements->count >= 0 && placements->count <= LS_MESH_DIMS_MAX);
    size_t length = 0;
    out[0] = 0;
    for (int d = 0; d < placements->count && length < out_bytes; d++) {
        const ls_placement *at = &placements->at[d];
        const char *comma = d > 0 ? ", " : "";
        int n = 0;
        if (at->kind == LS_PLACE_SHARD) {
            char split[24] = "", turn[24] = "";
            if (at->split > 1) {
                (void)snprintf(split, sizeof split, ", %d", at->split);
            }
            if (at->turn > 0) {
                (void)snprintf(turn, sizeof turn, "[%d]", at->turn);
            }
            n = snprintf(out + length, out_bytes - length, "%s%sS(%d%s%s)%s", comma,
                         at->split > 1 ? "_" : "", at->dim, split,
                         at->sizes != NULL ? ", sizes" : "", turn);
        } else if (at->kind == LS_PLACE_PARTIAL) {
            n = snprintf(out + length, out_bytes - length, "%sP(%s)", comma, ls_op_name(at->op));
        } else {
            n = snprintf(out + length, out_bytes - length, "%sR", comma);
        }
        LS_ASSERT(n > 0);
        length += (size_t)n;
    }
}

static const char *skip_spaces(const char *text) {
    while (*text == ' ' || *text == '\t') {
        text += 1;
    }
    return text;
}

// The argument of "S(...)" or "P(...)": copies it without spaces around it, moves *text past ")".
static bool parse_argument(char *out, size_t out_bytes, const char **text) {
    if (**text != '(') {
        return false;
    }
    const char *start = skip_spaces(*text + 1);
    const char *close = strchr(start, ')');
    if (close == NULL) {
        return false;
    }
    size_t length = (size_t)(close - start);
    while (length > 0 && (start[length - 1] == ' ' || start[length - 1] == '\t')) {
        length -= 1;
    }
    if (length == 0 || length >= out_bytes) {
        return false;
    }
    memcpy(out, start, length);
    out[length] = 0;
    *text = close + 1;
    return true;
}

// A whole number at *text, at most `most`; moves *text behind it.
static bool parse_number(int *out, const char **text, int least, int most) {
    char *end = NULL;
    long number = strtol(*text, &end, 10);
    *out = (int)number;
    bool fits = end != *text && number >= least && number <= most;
    *text = end;
    return fits;
}

// "dimension" or, of a strided shard, "dimension, split", then perhaps "[turn]" at *text.
static bool parse_shard(ls_placement *out, const char *argument, bool strided, const char **text) {
    *out = LS_SHARD(0);
    bool fits = parse_number(&out->dim, &argument, -LS_DIMS_MAX, LS_DIMS_MAX - 1);
    if (strided) {
        argument = skip_spaces(argument);
        fits = fits && *argument == ',';
        argument += fits ? 1 : 0;
        fits = fits && parse_number(&out->split, &argument, 1, LS_SPLIT_MAX);
    }
    fits = fits && *argument == 0;
    if (fits && **text == '[') {
        *text += 1;
        fits = parse_number(&out->turn, text, 0, LS_MESH_DIMS_MAX - 1) && **text == ']';
        *text += fits ? 1 : 0;
    }
    return fits;
}

// One placement at *text; moves it behind.
static bool parse_one(ls_placement *out, const char **text) {
    char argument[32];
    char kind = **text;
    if (kind == 0) {
        return false;
    }
    bool strided = kind == '_' && (*text)[1] == 'S';
    kind = strided ? 'S' : kind;
    *text += strided ? 2 : 1;
    if (kind == 'R') {
        *out = LS_REPLICATE;
        return true;
    }
    if ((kind != 'S' && kind != 'P') || !parse_argument(argument, sizeof argument, text)) {
        return false;
    }
    if (kind == 'P') {
        *out = LS_PARTIAL(LS_SUM);
        return ls_op_parse(&out->op, argument) == LS_OK;
    }
    return parse_shard(out, argument, strided, text);
}

int ls_placements_parse(ls_placements *out, const char *text) {
    ls_placements parsed = {0};
    const char *at = skip_spaces(text);
    for (;;) {
        const char *start = at;
        if (parsed.count == LS_MESH_DIMS_MAX) {
            return LS_FAIL(LS_ERR_INVALID, "placements \"%.80s\": more than %d of them", text,
                           LS_MESH_DIMS_MAX);
        }
        if (!parse_one(&parsed.at[parsed.count], &at)) {
            return LS_FAIL(LS_ERR_INVALID,
                           "placements \"%.80s\": \"%.20s\" is not S(dimension), "
                           "_S(dimension, split), R or P(operation)",
                           text, start);
        }
        parsed.count += 1;
        at = skip_spaces(at);
        if (*at == 0) {
            break;
        }
        if (*at != ',') {
            return LS_FAIL(LS_ERR_INVALID, "placements \"%.80s\": \",\" expected at \"%.20s\"",
                           text, at);
        }
        at = skip_spaces(at + 1);
    }
    *out = parsed;
    return LS_OK;
}
