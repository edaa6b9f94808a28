// Recordings: written, published, read back, and broken.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "collectives/recording.h"

static char folder[64];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/ls_recording_XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
}

static void shell(const char *command) {
    char line[256];
    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    cr_assert(system(line) == 0, "%s", line);
}

static void remove_folder(void) {
    char line[128];
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    (void)!system(line);
}

static const char *at(const char *name) {
    static char path[4][160];
    static int next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

TestSuite(recording, .init = make_folder, .fini = remove_folder);

// A recording of two ranks with an all_reduce and three outputs each, in folder/NAME.
static void write_recording(const char *name) {
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    ls_recording_writer *writer = NULL;
    ls_world_options options = {.mesh = LS_MESH(2), .seed = UINT64_MAX};
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
    cr_assert(ls_comm_create(&comm, backend, NULL, 0, "world") == LS_OK);
    cr_assert(mkdir(at(name), 0755) == 0);
    ls_recording_info info = {.name = "two ranks",
                              .scenario = "lockstep: 1\n",
                              .backend = "sim",
                              .ranks = 2,
                              .seed = UINT64_MAX,
                              .versions = "none"};
    cr_assert(ls_recording_writer_create(&writer, at(name), world, &info) == LS_OK);
    backend->observer = ls_recording_writer_observe;
    backend->observer_arg = writer;
    ls_stage_sink sink = ls_recording_writer_sink(writer);
    float data[2][2] = {{1, 2}, {3, 4}};
    ls_call calls[2];
    for (int r = 0; r < 2; r++) {
        ls_stage_output output = {.stage = "lookup",
                                  .table = "t",
                                  .feature = "f",
                                  .field = "values",
                                  .rank = r,
                                  .dtype = LS_F32,
                                  .shape = LS_SHAPE(1, 2),
                                  .data = data[r]};
        cr_assert(sink.emit(sink.arg, &output) == LS_OK);
        output = (ls_stage_output){
            .stage = "empty", .rank = r, .dtype = LS_I64, .shape = LS_SHAPE(0, 3), .field = "ids"};
        cr_assert(sink.emit(sink.arg, &output) == LS_OK);
        calls[r] = (ls_call){.kind = LS_ALL_REDUCE,
                             .comm = comm,
                             .rank = r,
                             .dtype = LS_F32,
                             .op = LS_PREMUL_SUM,
                             .premul = 0.1,
                             .count = 2,
                             .send = data[r],
                             .recv = data[r],
                             .file = "train.c",
                             .line = 12};
    }
    cr_assert(ls_backend_run(backend, calls, 2) == LS_OK);
    for (int r = 0; r < 2; r++) {
        ls_stage_output output = {.stage = "sum",
                                  .field = "values",
                                  .rank = r,
                                  .dtype = LS_F32,
                                  .shape = LS_SHAPE(2),
                                  .data = data[r],
                                  .reduces = true};
        cr_assert(sink.emit(sink.arg, &output) == LS_OK);
        output.stage = "a/b";
        cr_expect(sink.emit(sink.arg, &output) == LS_ERR_INVALID);
    }
    cr_assert(ls_recording_writer_finish(writer) == LS_OK, "%s", ls_error_last()->text);
    ls_recording_writer_free(writer);
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
}

typedef struct seen {
    int count;
    char text[512];
    float last[2];
} seen;

static int see(void *arg, const ls_stage_output *output) {
    seen *s = arg;
    char key[LS_STAGE_KEY_MAX];
    cr_assert(ls_stage_key(key, sizeof key, output) == LS_OK);
    size_t length = strlen(s->text);
    snprintf(s->text + length, sizeof s->text - length, "%d:%s%s ", output->rank, key,
             output->reduces ? "+" : "");
    if (output->reduces) {
        memcpy(s->last, output->data, sizeof s->last);
    }
    s->count += 1;
    return LS_OK;
}

// A recording is read back in its order, with its calls and facts.
Test(recording, round_trip) {
    write_recording("made");
    cr_assert(ls_recording_publish(at("made"), at("rec")) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(access(at("made"), F_OK) != 0);
    ls_recording *recording = NULL;
    cr_assert(ls_recording_open(&recording, at("rec")) == LS_OK, "%s", ls_error_last()->text);
    const ls_recording_info *info = ls_recording_about(recording);
    cr_expect(info->ranks == 2 && info->seed == UINT64_MAX && strcmp(info->backend, "sim") == 0);
    cr_expect(strcmp(info->scenario, "lockstep: 1\n") == 0 && strcmp(info->name, "two ranks") == 0);
    seen s = {0};
    ls_stage_sink sink = {.arg = &s, .emit = see};
    cr_assert(ls_recording_read(recording, &sink) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(strcmp(s.text, "0:lookup/t/f/values 0:empty/-/-/ids 0:sum/-/-/values+ "
                             "1:lookup/t/f/values 1:empty/-/-/ids 1:sum/-/-/values+ ") == 0,
              "%s", s.text);
    cr_expect(s.last[0] == 1 * 0.1f + 3 * 0.1f);
    cr_assert(ls_recording_call_count(recording, 1) == 1);
    const ls_recorded_call *call = ls_recording_call(recording, 1, 0);
    cr_expect(call->call.kind == LS_ALL_REDUCE && call->call.count == 2 && call->call.line == 12);
    cr_expect(call->call.premul == 0.1 && call->comm_size == 2 && strcmp(call->comm, "world") == 0);
    ls_recording_free(recording);
}

// Publishing replaces an earlier recording completely, and nothing else.
Test(recording, publish_replaces_recordings_alone) {
    write_recording("one");
    write_recording("two");
    cr_assert(ls_recording_publish(at("one"), at("rec")) == LS_OK);
    cr_assert(ls_recording_publish(at("two"), at("rec")) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(access(at("two"), F_OK) != 0 && access(at("rec/manifest.json"), F_OK) == 0);
    write_recording("inputs");
    shell("mkdir -p inputs/inputs/deep && touch inputs/inputs/deep/w.npy");
    cr_assert(ls_recording_publish(at("inputs"), at("rec")) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(access(at("rec/inputs/deep/w.npy"), F_OK) == 0);
    write_recording("plain");
    cr_assert(ls_recording_publish(at("plain"), at("rec")) == LS_OK, "%s", ls_error_last()->text);
    cr_expect(access(at("rec/inputs"), F_OK) != 0 && access(at("plain"), F_OK) != 0);
    write_recording("three");
    shell("mkdir elsewhere && touch elsewhere/kept && ln -s ../elsewhere rec/inputs");
    cr_expect(ls_recording_publish(at("three"), at("rec")) == LS_ERR_INVALID, "a link to inputs");
    cr_expect(access(at("elsewhere/kept"), F_OK) == 0);
    shell("rm rec/inputs && touch rec/notes.txt");
    cr_expect(ls_recording_publish(at("three"), at("rec")) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "notes.txt") != NULL);
    cr_expect(access(at("rec/notes.txt"), F_OK) == 0 &&
              access(at("three/manifest.json"), F_OK) == 0);
    shell("touch file");
    cr_expect(ls_recording_publish(at("three"), at("file")) == LS_ERR_INVALID);
    shell("mkdir empty");
    cr_expect(ls_recording_publish(at("three"), at("empty")) == LS_OK, "%s", ls_error_last()->text);
}

static int open_and_read(const char *name) {
    ls_recording *recording = NULL;
    int status = ls_recording_open(&recording, at(name));
    if (status == LS_OK) {
        seen s = {0};
        ls_stage_sink sink = {.arg = &s, .emit = see};
        status = ls_recording_read(recording, &sink);
    }
    ls_recording_free(recording);
    return status;
}

// Each damaged file of a recording is an error that names the file.
Test(recording, broken) {
    static const struct {
        const char *command;
        const char *file;
    } cases[] = {
        {"sed -i 's/\"ranks\": 2/\"ranks\": 3/' r/manifest.json", "manifest.json"},
        {"sed -i 's/\"ranks\": 2/\"ranks\": 2000000000/' r/manifest.json", "manifest.json"},
        {"sed -i 's/recording\": 1/recording\": 2/' r/manifest.json", "manifest.json"},
        {"sed -i 's/\"18446744073709551615\"/-1/' r/manifest.json", "manifest.json"},
        {"echo '{' > r/manifest.json", "manifest.json"},
        {"rm r/scenario.yaml && ln -s /etc/passwd r/scenario.yaml", "scenario.yaml"},
        {"rm r/rank_00001.safetensors", "rank_00001.safetensors"},
        {"truncate -s -1 r/rank_00001.safetensors", "rank_00001.safetensors"},
        {"rm r/rank_00001.safetensors && ln -s rank_00000.safetensors r/rank_00001.safetensors",
         "rank_00001.safetensors"},
        {"sed -i 's/all_reduce/all_redoce/' r/rank_00000.calls.json", "rank_00000.calls.json"},
        {"sed -i 's/\"count\": 2/\"count\": -2/' r/rank_00000.calls.json", "rank_00000.calls.json"},
        {"sed -i 's/\"comm_size\": 2/\"comm_size\": 0/' r/rank_00000.calls.json",
         "rank_00000.calls.json"},
        {"sed -i 's/sum/sxm/' r/rank_00000.calls.json", "rank_00000.calls.json"},
        {"sed -i 's/\"comm_id\": 0/\"comm_id\": -3/' r/rank_00000.calls.json",
         "rank_00000.calls.json"},
        {"sed -i 's/\"member\": 1/\"member\": 2/' r/rank_00001.calls.json",
         "rank_00001.calls.json"},
        {"sed -i 's/\"line\"/\"order\": \"ring:proto=l\", \"line\"/' r/rank_00001.calls.json",
         "rank_00001.calls.json"},
        {"sed -i 's/rank_00001.safetensors/rank_00000.safetensors/' r/manifest.json",
         "manifest.json"},
        {"sed -i 's/\"rank_00001.calls.json\"/\"..\\/x\"/' r/manifest.json", "manifest.json"},
        {"cp r/rank_00001.calls.json r/rank_00002.calls.json", "rank_00002.calls.json"},
        // Outputs are stage/table/feature/field, of which two may be absent.
        {"sed -i 's|sum/-/-/values\"|-/-/-/-/values\"|' r/rank_00001.safetensors",
         "-/-/-/-/values"},
        {"sed -i 's|sum/-/-/values\"|-/aaaaa/-/vals\"|' r/rank_00001.safetensors",
         "-/aaaaa/-/vals"},
        {"sed -i 's|sum/-/-/values\"|summmmmm/-/-/-\"|' r/rank_00001.safetensors",
         "summmmmm/-/-/-"},
        {"sed -i 's|sum/-/-/values\"|/aaaa/-/values\"|' r/rank_00001.safetensors",
         "/aaaa/-/values"},
        {"sed -i 's|sum/-/-/values\"|sum/-/-values/\"|' r/rank_00001.safetensors",
         "sum/-/-values/"},
        {"sed -i 's|sum/-/-/values\"|sum/-/-_values\"|' r/rank_00001.safetensors",
         "sum/-/-_values"},
    };
    write_recording("good");
    cr_assert(open_and_read("good") == LS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shell("rm -rf r && cp -r good r");
        shell(cases[i].command);
        int status = open_and_read("r");
        cr_expect(status == LS_ERR_FORMAT || status == LS_ERR_UNSUPPORTED || status == LS_ERR_IO,
                  "%s: %d", cases[i].command, status);
        cr_expect(status != LS_OK && strstr(ls_error_last()->text, cases[i].file) != NULL, "%s: %s",
                  cases[i].command, ls_error_last()->text);
    }
    // An order may be complete in its text; no file is opened for it, whether or not it exists.
    shell("rm -rf r && cp -r good r && touch r/o.json && sed -i "
          "'s/\"line\"/\"order\": \"measured:r\\/o.json\", \"line\"/' r/rank_00001.calls.json");
    cr_expect(open_and_read("r") == LS_ERR_FORMAT);
    cr_expect(strstr(ls_error_last()->text, "names a file") != NULL, "%s", ls_error_last()->text);
    shell("rm -rf r && cp -r good r && mkfifo r/pipe && mv r/pipe r/manifest.json");
    cr_expect(open_and_read("r") == LS_ERR_FORMAT, "a pipe does not make us wait");
}

// ---- Comparing calls ----------------------------------------------------------------------------
static ls_call_difference compare(ls_text *text, const char *simulated, const char *recorded) {
    ls_recording *a = NULL, *b = NULL;
    ls_call_difference difference;
    cr_assert(ls_recording_open(&a, at(simulated)) == LS_OK);
    cr_assert(ls_recording_open(&b, at(recorded)) == LS_OK, "%s", ls_error_last()->text);
    ls_recording_compare_calls(&difference, text, a, b);
    ls_recording_free(a);
    ls_recording_free(b);
    return difference;
}

// Recorded calls equal the simulated ones in kind, type, count, op, factor, communicator, place and
// number; their source lines and their algorithms may differ.
Test(recording, calls_are_compared) {
    static const struct {
        const char *change;
        size_t differing;
        const char *told;
    } cases[] = {
        {"true", 0, ""},
        {"sed -i 's/\"line\": 12/\"line\": 13, \"channels\": 2, \"order\": \"ring\"/'", 0, ""},
        {"sed -i 's/\"comm_id\": 0, //'", 0, ""},
        {"sed -i 's/all_reduce/all_gather/'", 1, "recorded: all_gather of 2 f32"},
        {"sed -i 's/premul_sum/sum/'", 1, "recorded: all_reduce sum of 2 f32"},
        {"sed -i 's/0.1/0.2/'", 1, "recorded: all_reduce premul_sum by 0.2"},
        {"sed -i 's/\"count\": 2/\"count\": 3/'", 1, "of 3 f32"},
        {"sed -i 's/\"dtype\": \"f32\"/\"dtype\": \"i32\"/'", 1, "of 2 i32"},
        {"sed -i 's/\"seq\": 0/\"seq\": 1/'", 1, "its call 1 there"},
        {"sed -i 's/\"comm\": \"world\"/\"comm\": \"row\"/'", 1, "of row"},
        {"sed -i 's/\"comm_id\": 0/\"comm_id\": 4/'", 1, "rank 1, call 0"},
        {"sed -i 's/\"member\": 1/\"member\": 0/'", 1, "as member 0 of 2"},
        {"printf '[]' | tee", 1, "recorded: no such call"},
        {"sed -i 's/^\\[\\(.*\\)\\]$/[\\1,\\1]/'", 1, "simulated: no such call"},
    };
    write_recording("good");
    shell("tr -d '\\n' < good/rank_00001.calls.json | sed 's/  */ /g' > one && "
          "mv one good/rank_00001.calls.json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[192];
        snprintf(line, sizeof line,
                 "rm -rf r && cp -r good r && %s r/rank_00001.calls.json >/dev/null",
                 cases[i].change);
        shell(line);
        ls_text text = {0};
        ls_call_difference difference = compare(&text, "good", "r");
        cr_expect(difference.differing == cases[i].differing, "%s: %zu", cases[i].change,
                  difference.differing);
        cr_expect(strstr(ls_text_string(&text), cases[i].told) != NULL, "%s: %s", cases[i].change,
                  ls_text_string(&text));
        cr_expect((text.length == 0) == (cases[i].differing == 0));
        ls_text_free(&text);
    }
}

// ---- Calls that complete later ------------------------------------------------------------------
static int polls;

static int start(ls_backend *backend, ls_call *call, void **pending) {
    (void)backend;
    *pending = call;
    return LS_OK;
}

static int test(ls_backend *backend, void *pending, bool *done) {
    (void)backend;
    (void)pending;
    *done = ++polls == 3;
    return LS_OK;
}

// A started call is recorded once, when it completes.
Test(recording, calls_that_complete_later_are_recorded) {
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    ls_recording_writer *writer = NULL;
    ls_recording *recording = NULL;
    const ls_world_options options = {.mesh = LS_MESH(1)};
    const ls_recording_info info = {.ranks = 1};
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
    cr_assert(ls_comm_create(&comm, backend, NULL, 0, "world") == LS_OK);
    cr_assert(ls_recording_writer_create(&writer, "", world, &info) == LS_OK);
    const ls_backend_ops *simulator = backend->ops;
    ls_backend_ops later = *simulator;
    later.start = start;
    later.test = test;
    backend->ops = &later;
    backend->observer = ls_recording_writer_observe;
    backend->observer_arg = writer;
    ls_call call = {.kind = LS_BARRIER, .comm = comm};
    void *pending = NULL;
    bool done = false;
    cr_assert(ls_backend_start(&pending, backend, &call) == LS_OK);
    cr_assert(ls_backend_test(&done, backend, pending, &call) == LS_OK && !done);
    cr_assert(ls_backend_test(&done, backend, pending, &call) == LS_OK && !done);
    cr_assert(ls_backend_test(&done, backend, pending, &call) == LS_OK && done);
    backend->ops = simulator;
    cr_assert(ls_recording_writer_calls(&recording, writer) == LS_OK);
    cr_assert(ls_recording_call_count(recording, 0) == 1);
    cr_expect(ls_recording_call(recording, 0, 0)->call.kind == LS_BARRIER);
    ls_recording_free(recording);
    ls_recording_writer_free(writer);
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
}
