// An all-reduce by multimem instructions. The ranks write their parts without a barrier before they
// are added up.
#include "../bugs/common.h"

struct sums {
    float four[4];
    double one;
    unsigned counted, bits;
    unsigned short halves[2];
};

__device__ void add_up(sums *out, const sums *all) {
    float4 four;
    double one;
    unsigned bits, halves;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "l"(all->four)
                 : "memory");
    asm volatile("multimem.ld_reduce.global.add.f64 %0, [%1];" : "=d"(one) : "l"(&all->one));
    asm volatile("multimem.ld_reduce.global.or.b32 %0, [%1];" : "=r"(bits) : "l"(&all->bits));
    asm volatile("multimem.ld_reduce.weak.global.add.acc::f32.bf16x2 %0, [%1];"
                 : "=r"(halves)
                 : "l"(all->halves));
    memcpy(out->four, &four, sizeof four);
    memcpy(out->halves, &halves, sizeof halves);
    out->one = one;
    out->bits = bits;
}

__global__ void all_reduce(ncclWindow_t send, ncclWindow_t recv, ncclDevComm dev, sums *out) {
    ncclCoopCta cta;
    ncclLsaBarrierSession<ncclCoopCta> bar{cta, dev, ncclTeamTagLsa(), blockIdx.x, true};
    sums *own = (sums *)ncclGetLocalPointer(send, 0);
    sums *all = (sums *)ncclGetLsaMultimemPointer(send, 0, dev);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) {
            own->four[i] = (float)(dev.rank + i);  // bug: rma.race
        }
        own->one = dev.rank;
        own->counted = 0;
        own->bits = 1u << dev.rank;
        own->halves[0] = own->halves[1] = 0x3f80;  // 1 in bf16
    }
#ifdef CORRECT
    bar.sync(cta, cuda::memory_order_acq_rel);
#endif
    if (threadIdx.x == 0) {
        add_up(out, all);
        asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(&all->counted),
                     "r"(dev.rank + 1));
        float *there = (float *)ncclGetLsaMultimemPointer(recv, 0, dev) + 2 * dev.rank;
        asm volatile("multimem.st.global.v2.f32 [%0], {%1, %2};" ::"l"(there), "f"(1.5f),
                     "f"((float)dev.rank)
                     : "memory");
    }
    bar.sync(cta, cuda::memory_order_acq_rel);
    if (threadIdx.x == 0) {
        out->counted = own->counted;
    }
}

static void body(setup *s) {
    sums *out, got;
    float stored[8];
    CHECK(cudaMalloc(&out, sizeof *out));
    all_reduce<<<1, 32, 0, s->stream>>>(s->send, s->recv, s->dev, out);
    CHECK(cudaStreamSynchronize(s->stream));
    CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(stored, s->recv_memory, sizeof stored, cudaMemcpyDeviceToHost));
#ifdef CORRECT
    for (int i = 0; i < 4; i++) {
        CHECK(got.four[i] != 6 + 4 * i);
        CHECK(stored[2 * i] != 1.5f || stored[2 * i + 1] != i);
    }
    CHECK(got.one != 6 || got.bits != 15 || got.counted != 10);
    CHECK(got.halves[0] != 0x4080 || got.halves[1] != 0x4080);
#endif
    CHECK(cudaFree(out));
}

int main() {
    return run_ranks(body);
}
