// Ranks with the same part in every step make the same calls: without data, one of them represents
// all. These classes are derived from the program. They run in the same interpreter, on a backend
// that completes the calls of its representatives for all (backends/classes.h).
#include <string.h>

#include "backends/classes.h"
#include "collectives/check.h"
#include "runner/program/program.h"
#include "runner/program/tally.h"
#include "runner/steps/step.h"

// ---- Which programs -----------------------------------------------------------------------------
static bool same_group(const ls_step_call *a, const ls_step_call *b) {
    bool same = a->axis == b->axis && a->ranks.count == b->ranks.count;
    for (int i = 0; same && i < a->ranks.count; i++) {
        same = a->ranks.at[i] == b->ranks.at[i];
    }
    return same;
}

static bool is_waited_for_twice(const ls_scenario *scenario, int wait) {
    for (int i = 0; i < wait; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        if (step->kind == LS_STEP_WAIT &&
            step->earlier.index == scenario->steps[wait].earlier.index) {
            return true;
        }
    }
    return false;
}

// Collectives that all ranks make in program order and wait for once: they can only be wrong in a
// way that the check of a single matched call finds.
bool ls_program__is_plain(const ls_scenario *scenario) {
    bool plain = ls_tally_possible(scenario) && !ls_scenario_injects(scenario);
    const ls_step_call *open = NULL;  // all incomplete calls are of its group
    int open_count = 0;
    for (int i = 0; i < scenario->step_count && plain; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        if (step->kind == LS_STEP_WAIT) {
            plain = step->earlier.ranks.count == 0 && !is_waited_for_twice(scenario, i);
            open_count -= 1;
            continue;
        }
        plain = ls_step_is_collective(step->kind) && !step->call.replica &&
                (open_count == 0 || same_group(open, &step->call));
        open = step->call.asynchronous ? &step->call : open;
        open_count += step->call.asynchronous ? 1 : 0;
    }
    return plain && open_count == 0;
}

// ---- Which ranks --------------------------------------------------------------------------------
// A new class: the ranks of a class with this part in the step.
typedef struct split {
    int64_t part;
    int class_;
    struct split *next;
} split;

typedef struct classes {
    const ls_scenario *scenario;
    int *of;    // [ranks]
    int *held;  // [count] the lowest rank of each, ascending
    int count;
    int *member;    // [ranks] in the step's group; -1: none
    split **parts;  // [LS_PROGRAM_CLASSES_MAX] of a class in the step
    split *splits;  // [split_count] its elements
    int split_count;
} classes;

static void find_members(classes *all, const ls_step_call *call) {
    const ls_scenario *scenario = all->scenario;
    int coordinates[LS_MESH_DIMS_MAX];
    for (int r = 0; r < scenario->ranks; r++) {
        all->member[r] = call->ranks.count > 0 ? -1 : r;
        if (call->ranks.count == 0 && call->axis >= 0) {
            ls_mesh_coordinates(coordinates, &scenario->mesh, r);
            all->member[r] = coordinates[call->axis];
        }
    }
    for (int i = 0; i < call->ranks.count; i++) {
        all->member[call->ranks.at[i]] = i;
    }
}

// Equal for two ranks if their calls in the step are: everything in a call except its rank.
static int64_t part_of(const ls_scenario_step *step, int member) {
    const ls_step_call *call = &step->call;
    if (member < 0 || call->splits.count > 0 || call->factors.count > 0) {
        return member;
    }
    bool has_root = ls_collective_of(ls_step_call_kind(step->kind))->root_word != NULL;
    int64_t block = call->counts.count > 0 ? call->counts.at[member] : 0;
    return 2 * block + (has_root && member == call->root ? 1 : 0);
}

// The class of the ranks of `of` with this part; -1: too many classes.
static int class_of(classes *all, int of, int64_t part) {
    split *at = all->parts[of];
    while (at != NULL && at->part != part) {
        at = at->next;
    }
    if (at == NULL) {
        bool first = all->parts[of] == NULL;  // keeps the class
        if (!first && all->count == LS_PROGRAM_CLASSES_MAX) {
            return -1;
        }
        split *made = &all->splits[all->split_count++];
        *made = (split){.part = part, .class_ = first ? of : all->count++, .next = all->parts[of]};
        all->parts[of] = made;
        at = made;
    }
    return at->class_;
}

// Numbers the classes by their lowest ranks.
static void number(classes *all, int *numbers) {
    memset(numbers, -1, (size_t)all->count * sizeof *numbers);
    int next = 0;
    for (int r = 0; r < all->scenario->ranks; r++) {
        int *number = &numbers[all->of[r]];
        if (*number < 0) {
            *number = next;
            all->held[next++] = r;
        }
        all->of[r] = *number;
    }
}

// Splits the classes by each step in turn. False: too many classes.
static bool divide(classes *all) {
    all->count = 1;
    for (int i = 0; i < all->scenario->step_count; i++) {
        const ls_scenario_step *step = &all->scenario->steps[i];
        if (step->kind == LS_STEP_WAIT) {
            continue;
        }
        find_members(all, &step->call);
        memset((void *)all->parts, 0, (size_t)all->count * sizeof *all->parts);
        all->split_count = 0;
        for (int r = 0; r < all->scenario->ranks; r++) {
            all->of[r] = class_of(all, all->of[r], part_of(step, all->member[r]));
            if (all->of[r] < 0) {
                return false;
            }
        }
    }
    return true;
}

// ---- The run ------------------------------------------------------------------------------------
static int run(const classes *all, ls_world *world, ls_tally *tally) {
    ls_backend *backend = NULL;
    LS_TRY(ls_backend_classes_create(&backend, world, all->of));
    backend->met = ls_tally_met;
    backend->met_arg = tally;
    const ls_execution execution = {
        .scenario = all->scenario, .backend = backend, .shape_only = true};
    ls_arena *arena = NULL;
    int status = ls_arena_create(&arena);
    status = status == LS_OK ? ls_execute__program(&execution, arena) : status;
    ls_arena_free(arena);
    ls_backend_free(backend);
    return status;
}

int ls_program__classes(bool *done, const ls_scenario *scenario, ls_tally *tally, ls_arena *arena) {
    *done = false;
    tally->classes = 0;
    if (!ls_program__is_plain(scenario)) {
        return LS_OK;
    }
    size_t ranks = (size_t)scenario->ranks;
    classes all = {.scenario = scenario,
                   .of = ls_arena_alloc(arena, ranks, sizeof *all.of),
                   .held = ls_arena_alloc(arena, LS_PROGRAM_CLASSES_MAX, sizeof *all.held),
                   .member = ls_arena_alloc(arena, ranks, sizeof *all.member),
                   .parts = ls_arena_alloc(arena, LS_PROGRAM_CLASSES_MAX, sizeof *all.parts),
                   .splits = ls_arena_alloc(arena, LS_PROGRAM_CLASSES_MAX, sizeof *all.splits)};
    LS_TRY_MEMORY(all.of != NULL && all.held != NULL && all.member != NULL && all.parts != NULL &&
                  all.splits != NULL);
    if (!divide(&all)) {
        return LS_OK;
    }
    number(&all, all.member);
    const ls_world_options options = {
        .mesh = scenario->mesh, .seed = scenario->seed, .held = all.held, .held_count = all.count};
    ls_world *world = NULL;
    LS_TRY(ls_world_create(&world, &options));
    ls_tally_restart(tally);
    *done = run(&all, world, tally) == LS_OK;
    tally->classes = *done ? all.count : 0;
    ls_world_free(world);
    ls_check_clear();
    return LS_OK;
}
