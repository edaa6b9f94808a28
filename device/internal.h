// Shared by the files of device/: the state of a run.
#ifndef LS_DEVICE_INTERNAL_H
#define LS_DEVICE_INTERNAL_H

#include "base/text.h"
#include "device/include/lockstep_device.h"
#include "ranks/front.h"

#define LANES         32
#define RANKS_MAX     64
#define UNITS_MAX     (1 << 14)
#define PUTS_MAX      (1 << 16)
#define BARRIERS_MAX  16
#define BARRIER_KINDS 6     // LS_CUDA_BARRIER_*
#define UNITS_APART   512   // beyond it a unit may take the place of one that ended
#define RESIDENT_MAX  4096  // threads of a device that begin while others can run

// ---- clock.c: vector clocks ---------------------------------------------------------------------
// A clock has a tick for each unit and two sets of puts: those whose data has arrived, and those
// whose source has been read.
typedef struct device_clock {
    uint32_t *ticks;
    uint64_t *landed, *taken;
    uint32_t units, words;
} device_clock;

void ls_device__clock_free(device_clock *clock);
void ls_device__clock_join(device_clock *into, const device_clock *from);
void ls_device__clock_keep_ticks(device_clock *clock);
void ls_device__clock_copy(device_clock *into, const device_clock *from);
void ls_device__clock_tick(device_clock *clock, int unit, uint32_t tick);
uint32_t ls_device__clock_at(const device_clock *clock, int unit);
void ls_device__clock_put(device_clock *clock, uint32_t put, bool landed);
bool ls_device__clock_has(const device_clock *clock, uint32_t put, bool landed);
// Whether an access of this __ATOMIC_ order releases or acquires.
static inline bool ls_device__releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static inline bool ls_device__acquires(int order) {
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}

// ---- Units of clocks: warps, host threads, streams ----------------------------------------------
typedef struct device_unit {
    int id, rank, block, warp;  // block -1: host; -2: a stream
    const char *kernel;
    device_clock known;
    device_clock order;         // all that ran before, visible or not
    device_clock pending;       // relaxed loads have seen it: known after a fence
    device_clock released[2];   // known at the last fence, of the device and of the system
    bool fenced;                // it has made a fence
    uint64_t start;             // how often it was taken
    uint32_t since;             // its tick then
    int past_block, past_warp;  // before that, since past_since
    uint32_t past_since;
    struct device_unit *next_free;
} device_unit;

typedef struct device_thread device_thread;
typedef struct device_group device_group;

// ---- Queues of waiting threads ------------------------------------------------------------------
typedef struct device_queue {
    device_thread *first, *last;
} device_queue;

// Threads that run one after the other: a block, a host thread.
struct device_group {
    device_queue ready;
    uint64_t priority;
    int rank;
    int at;  // in the list of groups with ready threads; -1: in none
};

typedef void (*device_describe)(ls_text *text, const device_thread *thread);

struct device_thread {
    ls_cuda_thread seen;
    void *stack_pointer;
    char *stack;
    size_t stack_bytes;
    device_group *group;
    device_unit *unit;
    struct device_block *block;  // NULL: host
    void (*main)(device_thread *self);
    void *arg;
    device_thread *next;  // in a queue
    device_thread *all;   // of its rank and of the host
    bool ended, waits;
    // Why it waits, for what, where.
    device_describe why;
    const void *on;
    uint64_t least;
    ls_cuda_site at;
    // The atomic load that it made last, to see that it spins.
    const volatile void *spin_at;
    uint64_t spin_value;
    int spin_line;
    struct device_put *puts;  // issued and not flushed
    uint64_t fence;           // puts issued before its last nvshmem_fence
    void *result;
    int rank;  // current device of a host thread
    device_queue joiners;
    int grouped;  // of ncclGroupStart
};

typedef struct device_barrier {
    unsigned arrived;
    uint64_t generation;
    ls_cuda_site at;  // of the first that arrived
    device_clock known, order, pending, released[2];
    bool fenced;
    device_queue waiting;
} device_barrier;

typedef struct device_exchange {
    unsigned mask, arrived;
    uint64_t generation;
    uint64_t values[2][LANES];
    device_queue waiting;
    struct device_exchange *next;
} device_exchange;

typedef struct device_warp {
    device_unit *unit;
    unsigned live;
    device_exchange *exchanges;
} device_warp;

typedef struct device_variable {
    const void *key;
    void *at;
    struct device_variable *next;
} device_variable;

typedef struct device_block {
    device_group group;
    struct device_kernel *kernel;
    int index;
    unsigned live;
    device_warp *warps;
    device_thread *threads;
    device_barrier barriers[BARRIERS_MAX];
    device_variable *variables;
    void *dynamic;
} device_block;

typedef struct device_kernel {
    ls_cuda_launch launch;
    struct device_stream *stream;
    void (*ended)(struct device_stream *stream);
    int rank, block_count, warp_count, left;
    int opened;            // blocks that have begun, in order
    device_block *blocks;  // threads NULL: not begun, or ended
    device_barrier grid;
    device_clock start, end;
    struct device_kernel *next;
} device_kernel;

typedef struct device_event {
    bool recorded;  // by a call; done: by its stream
    uint64_t wanted, done;
    device_clock known;
    device_queue waiting;
} device_event;

typedef enum device_work_kind {
    WORK_KERNEL,
    WORK_COPY,
    WORK_SET,
    WORK_RECORD,
    WORK_AWAIT,
    WORK_HOST,
    WORK_CALLS,
} device_work_kind;

typedef struct device_work {
    device_work_kind kind;
    device_clock known;
    device_kernel *kernel;
    void *to;
    const void *from;
    size_t bytes;
    int value;
    device_event *event;
    uint64_t number;
    struct device_batch *batch;
    void (*call)(void *arg);
    void *arg;
    ls_cuda_site at;
    uint64_t given;  // in which order
    struct device_work *next;
} device_work;

typedef struct device_stream {
    int rank;
    bool plain;  // the default stream, which waits for others and they for it
    bool apart;  // cudaStreamNonBlocking
    device_work *first, *last;
    device_kernel *running;
    struct device_batch *calls;  // that wait for other members'
    uint64_t running_given;
    device_unit *unit;
    device_queue waiting;
    struct device_stream *next;
} device_stream;

// ---- memory.c -----------------------------------------------------------------------------------
typedef struct device_allocation {
    char *start;
    size_t bytes;
    int rank;
    bool freed;
    const char *name;  // "cudaMalloc", "window 0", "shared memory"
    ls_cuda_site at;
} device_allocation;

void ls_device__memory_open(void);
void ls_device__memory_close(void);
// NULL: none left. shared: of a block, never reused in the run.
void *ls_device__allocate(int rank, size_t bytes, const char *name, ls_cuda_site at);
bool ls_device__release(void *at);
device_allocation *ls_device__allocation(const void *at);  // NULL: none of a device
bool ls_device__is_device(const void *at);
void *ls_device__multimem_of(void *at);      // its address for multimem instructions
char *ls_device__single_of(const void *at);  // the other way round; NULL: it is none
// An access by the running thread.
enum { ACCESS_PLAIN, ACCESS_BLOCK, ACCESS_DEVICE, ACCESS_SYSTEM };
void ls_device__access(const volatile void *at, size_t bytes, bool writes, int kind,
                       const void *code, const ls_cuda_site *site);
// The same for a put, and for a stream's work.
void ls_device__access_by(device_unit *unit, uint32_t put, const void *at, size_t bytes,
                          bool writes, const ls_cuda_site *site);

// ---- access.c -----------------------------------------------------------------------------------
void ls_device__syncs_close(void);
// A put's arrival at a word, for those that wait for it.
void ls_device__release_at(const void *at, int rank, const device_clock *known);
void ls_device__acquire_at(const void *at);

// ---- site.c -------------------------------------------------------------------------------------
uint32_t ls_device__site(const void *code, const ls_cuda_site *site);
ls_cuda_site ls_device__site_at(uint32_t number);

// ---- fiber.c ------------------------------------------------------------------------------------
bool ls_device__stack_take(device_thread *thread, bool host);
void ls_device__stack_give(device_thread *thread);
void ls_device__resume(device_thread *thread);  // from the scheduler
void ls_device__suspend(void);                  // back to it
// Calls it where there is more stack than a kernel's thread has.
void ls_device__with_stack(void (*call)(void *arg), void *arg);

// ---- schedule.c ---------------------------------------------------------------------------------
uint64_t ls_device__draw(uint64_t bound);
void ls_device__group_open(device_group *group, int rank);
void ls_device__ready(device_thread *thread);
void ls_device__yield(void);
// The running thread waits in the queue until it is woken; `why` describes it.
void ls_device__wait(device_queue *queue, device_describe why, const void *on, uint64_t least,
                     ls_cuda_site at);
void ls_device__wake(device_queue *queue);
void ls_device__changed(void);  // memory on which threads may spin
void ls_device__spin(ls_cuda_site at);
void ls_device__run(void);

// ---- finding.c, explain.c ----------------------------------------------------------------------
void ls_device__explain(void);
void ls_device__fail(int status, const char *why);                          // ends the run
bool ls_device__waits_in_block(const device_thread *thread);                // kernel.c
bool ls_device__waits_for_ranks(const device_thread *thread, bool *ranks);  // barrier.c
bool ls_device__waits_in_call(const device_thread *thread);                 // comm.c
// tick: of the unit when it did what the text is about.
void ls_device__who(ls_text *text, const device_unit *unit, uint32_t tick);
// Records a finding of these ranks; frees the text.
void ls_device__find(ls_finding_id id, const int *ranks, int count, ls_cuda_site at, ls_text *text);
void ls_device__race(const int ranks[2], ls_cuda_site at, ls_text *text);
void ls_device__invalid(int rank, ls_cuda_site at, const char *format, ...) LS_PRINTF(3, 4);

// ---- kernel.c -----------------------------------------------------------------------------------
void ls_device__kernel_start(device_kernel *kernel);
bool ls_device__kernels_widen(void);  // a block of each kernel begins; false: all have
void ls_device__block_close(device_block *block);
void ls_device__kernel_free(device_kernel *kernel);
void ls_device__thread_end(device_thread *thread);
device_unit *ls_device__unit_make(int rank, int block, int warp, const device_clock *known);
void ls_device__unit_free(device_unit *unit);
void ls_device__unit_step(device_unit *unit);
void ls_device__acquire(device_unit *unit);  // all that relaxed loads have seen

// ---- stream.c -----------------------------------------------------------------------------------
void ls_device__streams_open(void);
void ls_device__streams_close(void);
bool ls_device__stream_due(const device_stream *stream);
void ls_device__stream_step(device_stream *stream);
void ls_device__stream_done(device_stream *stream);
void ls_device__describe_host(ls_text *text, const device_thread *thread);
typedef struct device_batch device_batch;
device_stream *ls_device__stream_of(void *handle, int device);
void ls_device__stream_calls(device_stream *stream, device_batch *batch, ls_cuda_site at);

// ---- collective.c -------------------------------------------------------------------------------
void ls_device__calls_launch(void);  // those of the group that the running thread has ended
void ls_device__calls_arrive(device_batch *batch);
bool ls_device__calls_explain(void);  // nobody can continue; false: no stream waits at a call
void ls_device__calls_close(void);

// ---- network.c, signal.c -----------------------------------------------------------------------
typedef struct device_cell {
    uint64_t value, offset;
    uint64_t *memory;  // of a signal in a window; NULL: value
    device_clock known, order;
    device_queue waiting;
    struct device_change *changes;  // since the last reset
    struct device_baseline *baselines;
    struct device_cell *next;
} device_cell;

typedef struct device_window device_window;
typedef struct device_put {
    ls_cuda_put what;
    uint32_t number;  // from 1; 0: beyond PUTS_MAX
    int rank;         // which issued it
    device_unit *unit;
    uint32_t tick;              // of the unit at its issue
    device_clock known, order;  // at its issue; once it has arrived, ticks of order alone
    uint64_t order_of_issue;
    uint64_t after;  // it arrives after those of its rank that were issued until then
    bool taken, landed;
    struct device_resources *comm;
    device_cell *signal;
    void *data;
    device_queue waiting;
    struct device_put *next_of_thread, *all;
} device_put;

device_cell *ls_device__window_cell(device_window *window, uint64_t offset);
uint64_t ls_device__cell_value(const device_cell *cell);
void ls_device__cell_set(device_cell *cell, uint64_t value);
void ls_device__cell_change(device_cell *cell, device_put *put);  // which raises it
void ls_device__describe_cell(ls_text *text, const device_thread *thread);
int ls_device__raiser(const device_cell *cell);  // the rank that changed it last; -1: none
void ls_device__cell_forget(device_cell *cell);
bool ls_device__put_due(const device_put *put);
void ls_device__put_step(device_put *put);
void ls_device__network_close(void);

// ---- comm.c -------------------------------------------------------------------------------------
struct device_window {
    struct device_comm *comm;
    struct device_shared *shared;
    int rank, number;
    void *base;
    size_t bytes;
    int flags;
    device_window *members[RANKS_MAX];
    bool closed;
    device_cell *cells;  // signals in it, by offset
    device_window *next;
};

typedef struct device_meeting {
    uint64_t arrived[RANKS_MAX], generation;
    device_clock known[RANKS_MAX], order[RANKS_MAX];
    uint64_t puts[RANKS_MAX];  // issued before it arrived
    device_queue waiting;
} device_meeting;

// A device communicator: one for all ranks.
typedef struct device_resources {
    struct device_shared *shared;
    int number;  // among those of its communicator
    int signals, counters;
    int barriers[BARRIER_KINDS];
    device_cell *cells[2][RANKS_MAX];
    uint64_t *shadows[RANKS_MAX];
    device_meeting *meetings[BARRIER_KINDS];
    device_clock *channels;  // by rank, peer and context: puts that have arrived
    struct device_resources *next;
} device_resources;

// A call that all members of a communicator make.
typedef struct device_call {
    const char *kinds[RANKS_MAX];  // NULL: not yet
    ls_cuda_site sites[RANKS_MAX];
    uint64_t values[RANKS_MAX];
    int arrived, size;
    device_clock known;
    device_queue waiting;
    struct device_call *next;
} device_call;

// Shared by all members of a communicator.
typedef struct device_shared {
    char id[128];
    int size;
    struct device_comm *members[RANKS_MAX];
    ls_comm *comm;  // of its collectives; NULL: none yet
    device_call *calls;
    struct device_shared *next;
} device_shared;

typedef struct device_comm {
    device_shared *shared;
    int rank, device;
    int windows, dev_comms, calls;  // made so far
    uint64_t collectives;
} device_comm;

#define CONTEXTS 4  // of a device communicator

device_window *ls_device__member(void *window, int peer);  // NULL: not registered there
device_clock *ls_device__channel(const device_resources *comm, int rank, int peer, int context);
void ls_device__nvshmem_close(void);
void ls_device__comms_close(void);
void ls_device__meet(void *comm, const char *call, ls_cuda_site at);  // a barrier of the host

// Functions that schedule.c calls of files that call it.
typedef struct device_core {
    bool (*put_due)(const device_put *put);
    void (*put_step)(device_put *put);
    bool (*stream_due)(const device_stream *stream);
    void (*stream_step)(device_stream *stream);
    bool (*kernels_widen)(void);
    void (*block_close)(device_block *block);
    void (*calls_arrive)(struct device_batch *batch);
    void (*explain)(void);
} device_core;

// ---- state.c, host.c: the run ------------------------------------------------------------------
typedef struct device_state {
    const device_core *core;
    ls_rank *rank;
    ls_spmd *run;
    int rank_count;
    uint64_t seed, draws;
    bool random;
    int eager;    // how often the network comes before threads
    bool bursts;  // blocks run by priority
    device_thread *running;
    device_thread *threads;  // of the host
    device_unit *units[UNITS_MAX];
    int unit_count;
    device_unit *free_units[RANKS_MAX];
    unsigned resident[RANKS_MAX];  // threads of blocks that have begun and not ended
    device_group **groups;         // with ready threads
    int group_count, group_room;
    device_put **flying;
    int flying_count, flying_room;
    device_put *puts_by_number[PUTS_MAX];
    uint32_t put_count;
    uint64_t puts_issued;
    device_put *puts;
    device_stream *streams;
    device_kernel *kernels;
    device_queue spinning;
    bool changed, over, diverged, overflowed;
    int status;  // of the program
    uint64_t calls, given;
    device_shared *shared;
    device_resources *resources;
    device_window *windows;
    // Copies of the program, one for each rank, where each is a process.
    const char *images[RANKS_MAX];
    size_t image_bytes;
} device_state;

extern device_state ls_device__state;
extern const ls_cuda_thread ls_device__no_thread;  // of the host
void ls_device__no_self(void);

// ---- images.c -----------------------------------------------------------------------------------
int ls_device__images_open(int (*main)(int argc, char **argv, char **environment), int count);
int (*ls_device__image_main(int rank))(int argc, char **argv, char **environment);
void ls_device__images_name(void);  // in the run's state

void *ls_device__alloc(size_t bytes);  // zeroed
device_thread *ls_device__host_thread(void (*main)(device_thread *), void *arg, int rank);
void ls_device__stop(int status);  // of the whole program; does not return

#endif
