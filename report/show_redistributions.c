// Lists redistributions with the collectives and the cost of each path.
#include "report/show_redistributions.h"

#define PLACEMENTS_TEXT 256

static const char *const names[LS_PATH_COUNT] = {"in_order", "dtensor", "cheapest"};

static const char *call_of(const ls_reshard_step *step) {
    return step->collective != NULL ? step->collective : "local";
}

static void write_plan(ls_text *out, const char *name, const ls_reshard_plan *plan, bool runs,
                       const ls_mesh *mesh) {
    ls_text_printf(out, "    %-8s %10.3f us ", name, plan->us);
    for (int i = 0; i < plan->count; i++) {
        const ls_reshard_step *step = &plan->steps[i];
        const char *axis = mesh->name[step->mesh_dim];
        ls_text_printf(out, "%s %s along ", i == 0 ? "" : ",", call_of(step));
        if (axis[0] != '\0') {
            ls_text_puts(out, axis);
        } else {
            ls_text_printf(out, "mesh dimension %d", step->mesh_dim);
        }
    }
    ls_text_printf(out, "%s%s\n", plan->count == 0 ? " nothing to do" : "", runs ? " (runs)" : "");
}

static void write_one(ls_text *out, const ls_redistribution *one, const ls_mesh *mesh) {
    char shape[LS_SHAPE_TEXT_MAX], from[PLACEMENTS_TEXT] = "listed blocks", to[PLACEMENTS_TEXT];
    ls_shape_format(shape, sizeof shape, &one->shape);
    if (one->from.count > 0) {
        ls_placements_format(from, sizeof from, &one->from);
    }
    ls_placements_format(to, sizeof to, &one->to);
    ls_text_printf(out, "  line %d: tensor %s, %s %s, from %s to %s\n", one->line, one->tensor,
                   shape, ls_dtype_name(one->dtype), from, to);
    if (!one->priced) {
        ls_text_puts(out, "    no cost: a layout has listed blocks, sizes, strides or turns\n");
        return;
    }
    for (int path = 0; path < LS_PATH_COUNT; path++) {
        if (one->possible[path]) {
            write_plan(out, names[path], &one->plans[path], path == (int)one->taken, mesh);
        } else {
            ls_text_printf(out, "    %-8s  refused: a shard cannot become partial\n", names[path]);
        }
    }
}

int ls_show_redistributions_text(ls_text *out, const ls_redistributions *all, const char *stopped,
                                 const ls_scenario *scenario) {
    LS_ASSERT(out != NULL && all != NULL && scenario != NULL);
    if (all->count > 0) {
        ls_text_printf(out, "redistributions, by PyTorch's cost model (%d %s a host):\n",
                       scenario->ranks_per_host, scenario->ranks_per_host == 1 ? "rank" : "ranks");
    }
    for (int i = 0; i < all->count; i++) {
        write_one(out, &all->at[i], &scenario->mesh);
    }
    if (stopped != NULL) {
        ls_text_printf(out, "the program ends early, later redistributions are not listed: %s\n",
                       stopped);
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "list of redistributions: out of memory") : LS_OK;
}

static void plan_json(ls_json *json, const char *key, const ls_reshard_plan *plan) {
    ls_json_member_object(json, key);
    ls_json_member_double(json, "us", plan->us);
    ls_json_member_array(json, "steps");
    for (int i = 0; i < plan->count; i++) {
        const ls_reshard_step *step = &plan->steps[i];
        ls_json_object_open(json);
        ls_json_member_string(json, "call", call_of(step));
        ls_json_member_int(json, "mesh_dim", step->mesh_dim);
        ls_json_member_double(json, "us", step->us);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
    ls_json_object_close(json);
}

static void one_json(ls_json *json, const ls_redistribution *one) {
    char text[PLACEMENTS_TEXT];
    ls_json_object_open(json);
    ls_json_member_int(json, "line", one->line);
    ls_json_member_string(json, "tensor", one->tensor);
    if (one->from.count > 0) {
        ls_placements_format(text, sizeof text, &one->from);
        ls_json_member_string(json, "from", text);
    }
    ls_placements_format(text, sizeof text, &one->to);
    ls_json_member_string(json, "to", text);
    ls_json_member_string(json, "path", names[one->taken]);
    for (int path = 0; one->priced && path < LS_PATH_COUNT; path++) {
        if (one->possible[path]) {
            plan_json(json, names[path], &one->plans[path]);
        }
    }
    ls_json_object_close(json);
}

void ls_show_redistributions_json(ls_json *json, const ls_redistributions *all,
                                  const char *stopped) {
    LS_ASSERT(json != NULL && all != NULL);
    ls_json_member_array(json, "redistributions");
    for (int i = 0; i < all->count; i++) {
        one_json(json, &all->at[i]);
    }
    ls_json_array_close(json);
    ls_json_member_given(json, "stopped", stopped);
}
