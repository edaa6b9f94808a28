// Training on a device whose memory the host cannot access, against the host: every array of every
// stage, bit for bit; and with too little memory at any point.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/cuda/fake_device.h"
#include "train.h"

#define OUTPUTS_MAX 4096

// A sum of all bytes of each output, in the order of the run.
typedef struct trail {
    uint64_t sums[OUTPUTS_MAX];
    size_t count;
} trail;

static int note(void *arg, const ls_stage_output *output) {
    trail *kept = arg;
    size_t count = 0;
    (void)ls_shape_count(&count, &output->shape);
    uint64_t sum = 1469598103934665603u;
    for (size_t i = 0; i < count * ls_dtype_bytes(output->dtype); i++) {
        sum = (sum ^ ((const unsigned char *)output->data)[i]) * 1099511628211u;
    }
    LS_ASSERT(kept->count < OUTPUTS_MAX);
    kept->sums[kept->count++] = sum;
    return LS_OK;
}

Test(training_device, gives_the_hosts_bits) {
    static trail host, device;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        embedding_case c;
        train_case t;
        train_outcome out;
        size_t used = fake_device_used();
        cr_assert(train_random(&t, &c, seed, 0) == LS_OK);
        host.count = device.count = 0;
        t.steps = 2;
        t.sink = (ls_stage_sink){.arg = &host, .emit = note};
        cr_assert(train_run(&t, &out) == LS_OK, "seed %d: %s", (int)seed, out.text);
        train_outcome_free(&out);
        t.sink = (ls_stage_sink){.arg = &device, .emit = note};
        t.device = fake_device();
        cr_assert(train_run(&t, &out) == LS_OK, "seed %d: %s", (int)seed, out.text);
        cr_assert(out.wrong == 0, "seed %d: %s", (int)seed, out.text);
        train_outcome_free(&out);
        cr_assert(host.count == device.count && host.count > 0);
        for (size_t i = 0; i < host.count; i++) {
            cr_assert(host.sums[i] == device.sums[i], "seed %d: output %zu", (int)seed, i);
        }
        cr_assert(fake_device_used() > used && fake_device_live() == 0);
        case_free(&c);
    }
}

// Every allocation fails once; nothing is left behind.
Test(training_device, survives_a_lack_of_memory) {
    embedding_case c;
    train_case t;
    train_outcome out;
    int status = LS_ERR_MEMORY;
    cr_assert(train_random(&t, &c, 4, 3) == LS_OK);
    t.steps = 1;
    t.device = fake_device();
    long count = 0;
    for (; status && count < 4000; count++) {
        fake_device_fail_after(count);
        status = train_run(&t, &out);
        cr_assert(status == LS_OK || status == LS_ERR_MEMORY, "%s", out.text);
        cr_assert(fake_device_live() == 0, "after %ld", count);
        train_outcome_free(&out);
    }
    cr_assert(status == LS_OK && count > 100);
    fake_device_fail_after(-1);
    case_free(&c);
}
