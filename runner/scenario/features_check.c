// Checks of the features' inputs that need only the scenario file.
#include <inttypes.h>

#include "runner/scenario/read.h"

void ls_check__spread(ls_reader *reader, const ls_scenario *scenario, ls_int_list *list,
                      const ls_node *node, const char *what) {
    if (scenario->ranks == 0 || list->count == 0 || !ls_read__going(reader)) {
        return;
    }
    if (list->count == 1 && scenario->ranks > 1) {
        int64_t *each = ls_read__alloc(reader, (size_t)scenario->ranks, sizeof *each);
        ls_mark *marks = ls_read__alloc(reader, (size_t)scenario->ranks, sizeof *marks);
        for (int i = 0; each != NULL && marks != NULL && i < scenario->ranks; i++) {
            each[i] = list->at[0];
            marks[i] = list->marks[0];
        }
        *list = (ls_int_list){.at = each, .marks = marks, .count = scenario->ranks};
    } else if (list->count != scenario->ranks) {
        ls_check__error(reader, ls_node_mark(node, what),
                        "one number for every rank, or one for all", NULL,
                        "%s: %d numbers for %d ranks", what, list->count, scenario->ranks);
    }
}

// Explicit lists must match the batch: `rows` lists, or as many numbers as there are bags.
static void check_values(ls_reader *reader, const ls_scenario *scenario,
                         const ls_generator *generator, const char *what) {
    int lists = generator->row_counts.count, steps = scenario->train.steps;
    if (generator->kind == LS_GENERATOR_VALUES && lists > 0 && lists != scenario->ranks &&
        lists != (int64_t)scenario->ranks * steps && scenario->ranks > 0) {
        ls_check__error(reader, ls_node_mark(&generator->node, "values"),
                        steps > 1 ? "a list for each rank, or for each step and rank" : NULL, NULL,
                        "%s: %d lists for %d ranks", what, lists, scenario->ranks);
    }
}

// Whether an explicit list has a value for each bag, or for each step and bag. own: the bags are
// those of stride_per_rank.
static bool check_count(ls_reader *reader, const ls_scenario *scenario, const ls_generator *list,
                        const ls_int_list *batch, const char *what, bool own) {
    if (list->kind != LS_GENERATOR_VALUES || batch->count != scenario->ranks ||
        list->ints == NULL) {
        return false;
    }
    int64_t bags = ls_check__sum(batch), steps = scenario->train.steps;
    bool stepped = bags <= INT64_MAX / steps && list->value_count == bags * steps;
    if (list->value_count != bags && !stepped) {
        ls_check__error(reader, ls_node_mark(&list->node, "values"), NULL, NULL,
                        own ? "%s: %" PRId64 " for the %" PRId64 " bags of stride_per_rank"
                            : "%s: %" PRId64 " for a batch of %" PRId64 " in all",
                        what, list->value_count, bags);
        return false;
    }
    for (int i = 0; i < list->row_counts.count; i++) {
        int rank = i % batch->count;
        if (list->row_counts.at[i] != batch->at[rank] && ls_read__going(reader)) {
            ls_check__error(reader, ls_check__element(&list->row_counts, i), NULL, NULL,
                            own ? "%s: %" PRId64 " for the %" PRId64 " bags of rank %d"
                                : "%s: %" PRId64 " for the batch of %" PRId64 " of rank %d",
                            what, list->row_counts.at[i], batch->at[rank], rank);
        }
    }
    return true;
}

static void check_lengths(ls_reader *reader, const ls_scenario *scenario,
                          const ls_scenario_feature *feature) {
    const ls_generator *lengths = &feature->lengths;
    bool own = ls_node_has(&feature->node, "stride_per_rank");
    if (!check_count(reader, scenario, lengths, &feature->strides, "lengths", own) ||
        scenario->train.steps > 1) {
        return;  // the check of files determines the steps of the ids
    }
    ls_int_list all = {.at = lengths->ints, .count = (int)lengths->value_count};
    int64_t ids = ls_check__sum(&all);
    if (feature->ids.kind == LS_GENERATOR_VALUES && feature->ids.value_count != ids) {
        ls_check__error(reader, ls_node_mark(&feature->ids.node, "values"), NULL, NULL,
                        "ids: %" PRId64 ", but the lengths add up to %" PRId64,
                        feature->ids.value_count, ids);
    }
    if (feature->weights.kind == LS_GENERATOR_VALUES && feature->weights.value_count != ids) {
        ls_check__error(reader, ls_node_mark(&feature->weights.node, "values"), NULL, NULL,
                        "weights: %" PRId64 ", but the lengths add up to %" PRId64,
                        feature->weights.value_count, ids);
    }
}

// The bags of a feature with its own batch size, which must cover every sample.
static void check_strides(ls_reader *reader, ls_scenario *scenario, ls_scenario_feature *feature) {
    const ls_int_list *batch = &scenario->inputs.batch;
    bool own = ls_node_has(&feature->node, "stride_per_rank");
    bool inverse = ls_node_has(&feature->node, "inverse_indices");
    scenario->inputs.variable = scenario->inputs.variable || own || inverse;
    if (!own) {
        feature->strides = *batch;
    } else if (feature->strides.count == 0 && ls_read__going(reader)) {
        ls_check__error(reader, ls_node_mark(&feature->node, "stride_per_rank"),
                        "one number for every rank, or one for all", NULL, "stride_per_rank: none");
    }
    if (own) {
        ls_check__spread(reader, scenario, &feature->strides, &feature->node, "stride_per_rank");
    }
    for (int r = 0; own && r < scenario->ranks && ls_read__going(reader); r++) {
        if (r < feature->strides.count && r < batch->count && feature->strides.at[r] == 0 &&
            batch->at[r] > 0) {
            ls_check__error(reader, ls_check__element(&feature->strides, r), "at least one bag",
                            NULL, "stride_per_rank: no bag for the %" PRId64 " samples of rank %d",
                            batch->at[r], r);
            return;
        }
    }
}

void ls_check__features(ls_reader *reader, ls_scenario *scenario) {
    for (int i = 0; i < scenario->inputs.feature_count && ls_read__going(reader); i++) {
        ls_scenario_feature *feature = &scenario->inputs.features[i];
        check_strides(reader, scenario, feature);
        check_values(reader, scenario, &feature->lengths, "lengths");
        check_values(reader, scenario, &feature->ids, "ids");
        check_values(reader, scenario, &feature->weights, "weights");
        check_values(reader, scenario, &feature->inverse_indices, "inverse_indices");
        check_lengths(reader, scenario, feature);
        (void)check_count(reader, scenario, &feature->inverse_indices, &scenario->inputs.batch,
                          "inverse_indices", false);
    }
}
