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

// What was recorded comes back in its order, with its calls and facts.
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
    ls_stage_sink sink = {&s, see};
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

// Publishing replaces an earlier recording whole, and nothing that is not one.
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
        ls_stage_sink sink = {&s, see};
        status = ls_recording_read(recording, &sink);
    }
    ls_recording_free(recording);
    return status;
}

// Each way of breaking a recording's files is an error that names the file.
Test(recording, broken) {
    static const struct {
        const char *command;
        const char *file;
    } cases[] = {
        {"sed -i 's/\"ranks\": 2/\"ranks\": 3/' r/manifest.json", "rank_00002.calls.json"},
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
    shell("rm -rf r && cp -r good r && mkfifo r/pipe && mv r/pipe r/manifest.json");
    cr_expect(open_and_read("r") == LS_ERR_FORMAT, "a pipe does not make us wait");
}
