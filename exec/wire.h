// Messages between processes and the coordinator of `lockstep exec`. Messages go from a process to
// the coordinator, over a Unix socket of packets (SOCK_SEQPACKET) whose abstract name is in the
// environment; answers, and all data, are in memory that all map (memfd). Both are of one build and
// one machine: numbers are as the machine has them. On other hosts an agent takes the coordinator's
// place, and relays messages and answers. docs/exec.md tells the life of a call.
#pragma once

#include <stdint.h>

#define LS_WIRE_VERSION      4u
#define LS_WIRE_SOCKET       "LOCKSTEP_EXEC"            // of the environment: the socket's name
#define LS_WIRE_SIMULATED    "LOCKSTEP_EXEC_SIMULATED"  // "1": no real library moves the data
#define LS_WIRE_PAYLOAD      "LOCKSTEP_EXEC_PAYLOAD"    // "1": observed calls tell what they move
#define LS_WIRE_DEVICE       "LOCKSTEP_EXEC_DEVICE"     // calls of so many bytes: in GPU memory
#define LS_WIRE_REAL         "LOCKSTEP_EXEC_REAL"       // backend of data in host memory: "gloo"
#define LS_WIRE_STAYS        "LOCKSTEP_EXEC_STAYS"      // "1": without a coordinator it goes on
#define LS_WIRE_WATCH        "LOCKSTEP_EXEC_WATCH"      // "off", "default", "all"
#define LS_WIRE_DEBUGGER     "LOCKSTEP_DEBUGGER"        // socket of the debugger that holds the run
#define LS_WIRE_GATE         "LOCKSTEP_EXEC_GATE"       // socket at which ranks in gdb wait
#define LS_WIRE_RANK         "LOCKSTEP_EXEC_RANK"       // of a process that the coordinator starts
#define LS_WIRE_RANKS        "LOCKSTEP_EXEC_RANKS"      //
#define LS_WIRE_STARTER      "LOCKSTEP_EXEC_STARTER"    // of a rank that may fork others
#define LS_WIRE_MODULES      "LOCKSTEP_EXEC_MODULES"    // that it imports before
#define LS_WIRE_FORKED       "LOCKSTEP_EXEC_FORKED"  // children that become ranks, "PID:SOCKET,..."
#define LS_WIRE_FORKS        "forks"                 // its answer
#define LS_WIRE_MESSAGE_MAX  ((uint32_t)128 << 10)   // bytes, the head with them
#define LS_WIRE_RANKS_MAX    4096                    // of a run, and members of a communicator
#define LS_WIRE_SLOTS        16384u                  // of a process
#define LS_WIRE_NONE         UINT32_MAX              // no slot, no memory, no site
#define LS_WIRE_SHARED       0u  // in the memory of the job (memory.h); from 1 on in a staging
#define LS_WIRE_NO_STREAM    UINT64_MAX  // of a call that goes on at once
#define LS_WIRE_ID_BYTES     128         // of a communicator: NCCL's unique id
#define LS_WIRE_NAME_BYTES   64
#define LS_WIRE_HANDLE_BYTES 64  // of a GPU's memory
#define LS_WIRE_WHY_BYTES    2048

// ---- Shared memory ------------------------------------------------------------------------------
// A place where a call, or the making of a communicator, is answered. A GPU's stream may write
// `arrived` and `released` and wait for `done`; hosts wait for `done` by futex.
typedef struct ls_wire_slot {
    uint32_t arrived;   // 1: the call's data is where the message said
    uint32_t done;      // 1: its result is; 2: it will never be
    uint32_t released;  // 1: nobody reads that memory any more
    int32_t status;     // an ls_status, before done
    int32_t value[4];  // communicators: own member, members, rank of the world, ranks of the world;
                       // a receive: the member that sent
} ls_wire_slot;

typedef struct ls_wire_control {
    uint32_t version;
    uint32_t failed;  // 1: the process's run is over, and no next one has begun; then `why` is a
                      // sentence, which calls of that run have from then on.
                      // 2: nobody observes the process any more, and its calls are not reported
    char why[LS_WIRE_WHY_BYTES];
    ls_wire_slot slots[LS_WIRE_SLOTS];
} ls_wire_control;

// ---- Messages -----------------------------------------------------------------------------------
typedef enum ls_wire_type {
    LS_WIRE_HELLO = 1,     // first; with the descriptor of its ls_wire_control. The answer, a byte
                           // LS_WIRE_WELCOME, comes with that of the job's memory
    LS_WIRE_SITE,          // a place of the program that calls name
    LS_WIRE_COMM_INIT,     // a member joins the communicator of an id
    LS_WIRE_COMM_SPLIT,    // answered in its slot, as COMM_INIT is
    LS_WIRE_COMM_SUBSET,   // joins a communicator of some members of another, by their list
    LS_WIRE_COMM_DESTROY,  //
    LS_WIRE_CALL,          //
    LS_WIRE_WAIT,          // a thread that makes calls waits for some that it has made
    LS_WIRE_RESUME,        // and goes on
    LS_WIRE_BYE,           // the process is about to end, by itself
    LS_WIRE_PLACE,         // where its first thread is, when it is asked
    LS_WIRE_STAGING,       // memory of a GPU that calls may name
    LS_WIRE_NOTE,          // values that other ranks must have, too; or a finding of this rank's
    // Between an agent and the coordinator. A PARCEL comes before each message of a process, and
    // before ENDED, GONE, ANSWER and STATE, and PLACE as a question: all its head.
    LS_WIRE_HOST,    // first, of both
    LS_WIRE_PARCEL,  //
    LS_WIRE_ENDED,   // the process has ended
    LS_WIRE_GONE,    // one of its threads has
    LS_WIRE_ANSWER,  // to the process: a slot
    LS_WIRE_STATE,   // the head of its ls_wire_control
    LS_WIRE_LOOK,    // whether any thread of the host's processes has work: question and answer
    LS_WIRE_END,     // of the agent's program; the coordinator's: the program is to be ended
    LS_WIRE_TYPES
} ls_wire_type;

typedef struct ls_wire_head {
    uint32_t type;
    uint32_t bytes;  // of the whole message
} ls_wire_head;

typedef struct ls_wire_hello {
    ls_wire_head head;
    uint32_t version;
    int32_t pid;
    int32_t rank, ranks;   // as the launcher says; -1: there is none
    uint32_t session;      // 1: of tests, which go on after one that fails
    int32_t attempt;       // of an elastic launcher, from 0
    int32_t last_attempt;  // that it makes at most
    uint32_t unused;
} ls_wire_hello;

// A site is reported before the first call from it. Python: the file, the line and the stack in
// lines. Else file is empty, and the stack has a line "OFFSET MODULE" for each address of code. The
// purpose says what its calls move, in the program's words; empty: nobody knows.
typedef struct ls_wire_site {
    ls_wire_head head;
    uint32_t site;  // its number, from 0 in order
    int32_t line;
    uint32_t file_bytes, stack_bytes, purpose_bytes;  // with their 0; all follow, in this order
    uint32_t unused;
} ls_wire_site;

typedef struct ls_wire_comm_init {
    ls_wire_head head;
    uint32_t comm;  // the process's number for it
    int32_t ranks, rank;
    int32_t device;
    uint32_t slot, site;
    uint32_t later;  // 1: the process knows that its run is over
    uint32_t unused;
    unsigned char id[LS_WIRE_ID_BYTES];
    char name[LS_WIRE_NAME_BYTES];
} ls_wire_comm_init;

typedef struct ls_wire_comm_split {
    ls_wire_head head;
    uint32_t parent, comm;
    int32_t color, key;  // color < 0: no communicator for this member
    uint32_t slot, site;
    char name[LS_WIRE_NAME_BYTES];
} ls_wire_comm_split;

typedef struct ls_wire_comm_subset {
    ls_wire_head head;
    uint32_t parent, comm;
    uint32_t slot, site;
    uint32_t count;  // members of parent, which follow as int32_t, ascending
    char name[LS_WIRE_NAME_BYTES];
} ls_wire_comm_subset;

typedef struct ls_wire_comm_destroy {
    ls_wire_head head;
    uint32_t comm, site;
    uint32_t aborted;  // 1: whatever is in flight on it
    uint32_t unused;
} ls_wire_comm_destroy;

#define LS_WIRE_GROUPED     1u   // one of a group
#define LS_WIRE_GROUP_ENDS  2u   // and its last: then none of another process's group is between
#define LS_WIRE_SEND_COUNTS 4u   // uint64_t [members] follow
#define LS_WIRE_RECV_COUNTS 8u   // behind those
#define LS_WIRE_COLLECTS    16u  // recv is a list of ls_wire_piece [members], to be filled in
#define LS_WIRE_OVERLAPS    32u  // two blocks of the program's lists of tensors share memory
#define LS_WIRE_OVERLAPS_IN 64u  // one of them is sent, and not received

// A part of what a member receives, which it copies for itself: the parts follow one another.
typedef struct ls_wire_piece {
    uint64_t offset, bytes;  // of the job's memory
    uint64_t stretch;        // block whose readers (memory.h) decrease by one
} ls_wire_piece;

typedef struct ls_wire_call {
    ls_wire_head head;
    uint32_t comm;
    uint32_t kind, dtype, op;  // an ls_kind, ls_dtype, ls_op
    int32_t root;              // -1 of a receive: the one that sends first
    uint32_t flags;
    uint32_t slot, site;
    double premul;
    int32_t tag;         // of a message
    uint32_t thread;     // that issues it
    uint16_t shared[2];  // the numbers of those blocks: any, and one that is received
    uint32_t unused;
    uint64_t count;
    uint64_t stream;                      // calls of one stream go on one after another; or none
    uint64_t send_address, recv_address;  // the program's own
    uint32_t send_memory, recv_memory;    // where the data is; LS_WIRE_NONE: nowhere
    uint64_t send_offset, recv_offset;
} ls_wire_call;

typedef struct ls_wire_wait {
    ls_wire_head head;
    uint32_t slot;    // for this call; LS_WIRE_NONE: for
    int32_t device;   // those of this device; -1: of any
    uint64_t stream;  // of this stream
    uint32_t all;     // 1: of all streams
    uint32_t thread;  // that waits
} ls_wire_wait;

typedef struct ls_wire_resume {
    ls_wire_head head;
    uint32_t thread;
    uint32_t unused;
} ls_wire_resume;

// The coordinator's messages, a byte each: the answer to the greeting; and where is the program?,
// asked when nothing moves.
#define LS_WIRE_WELCOME 'W'
#define LS_WIRE_ASK     'P'

typedef enum ls_wire_waits {
    LS_WIRE_WAITS_NOT,       // as far as is known
    LS_WIRE_WAITS_RANKS,     // inside of torch.distributed, for other ranks
    LS_WIRE_WAITS_A_THREAD,  // on a lock, without a time-out: for another thread of its process
    LS_WIRE_WAITS_STORE,     // where torch.distributed opens its store: it may continue by itself
} ls_wire_waits;

typedef struct ls_wire_place {
    ls_wire_head head;
    uint32_t waits;  // an ls_wire_waits
    int32_t line;
    char file[1024];
    char raised[256];  // not empty: an exception that nobody caught, and that was raised there
} ls_wire_place;

typedef struct ls_wire_staging {
    ls_wire_head head;
    uint32_t memory;  // its number, from 1 in order
    uint32_t slot;    // where it is answered whether the coordinator reaches it
    uint64_t bytes;
    unsigned char handle[LS_WIRE_HANDLE_BYTES];  // as CUDA gives it out
} ls_wire_staging;

#define LS_WIRE_SAMPLES 8  // elements of a tensor that a note has

#define LS_WIRE_NOTE_EXCUSED 1u   // a difference may be meant: it counts unless it goes away again
#define LS_WIRE_NOTE_STALE   2u   // this rank changed the values since: a difference does not count
#define LS_WIRE_NOTE_HINT    4u   // a difference fails a strict run alone
#define LS_WIRE_NOTE_APART   8u   // members must have other values: the same ones are a defect
#define LS_WIRE_NOTE_NEAR    16u  // an f32, and the part of it by which another may differ

// Values of a rank that are compared with those of the same key, step and part of each member. Of
// no members: a finding of this rank's alone, whose text is the key. Behind it follow members
// (int32_t, ascending), the key, what the rank did before, and the items.
typedef struct ls_wire_note {
    ls_wire_head head;
    uint32_t finding;  // an ls_finding_id
    uint32_t site, flags;
    uint32_t members, part, items;
    uint32_t key_bytes, about_bytes;  // with their 0
    uint64_t step;
} ls_wire_note;

// A value by its name: a text, or a tensor by its hash and some of its elements.
typedef struct ls_wire_item {
    uint64_t hash, count;
    uint32_t dtype;                    // LS_WIRE_NONE: a text
    uint32_t name_bytes, shown_bytes;  // with their 0; both follow. Shown: the text, or the shape
    uint32_t unused;
    unsigned char samples[LS_WIRE_SAMPLES][16];  // of elements 0 to count - 1, evenly
} ls_wire_item;

typedef struct ls_wire_bye {
    ls_wire_head head;
    int32_t status;
    uint32_t unused;
} ls_wire_bye;

// ---- Between hosts ------------------------------------------------------------------------------
typedef struct ls_wire_host {
    ls_wire_head head;
    uint32_t version;
    uint32_t unused;
    char name[LS_WIRE_NAME_BYTES];
} ls_wire_host;

typedef struct ls_wire_parcel {
    ls_wire_head head;
    uint32_t process;  // the agent's number for it, from 0 in order
    uint32_t unused;
} ls_wire_parcel;

typedef struct ls_wire_ended {
    ls_wire_head head;
    int32_t status;  // as waitpid has it, if it is
    uint32_t known;
} ls_wire_ended;

typedef struct ls_wire_gone {
    ls_wire_head head;
    uint32_t thread;
    uint32_t unused;
} ls_wire_gone;

typedef struct ls_wire_answer {
    ls_wire_head head;
    uint32_t slot;
    uint32_t unused;
    ls_wire_slot answer;
} ls_wire_answer;

typedef struct ls_wire_state {
    ls_wire_head head;
    uint32_t failed;
    uint32_t unused;
    char why[LS_WIRE_WHY_BYTES];
} ls_wire_state;

typedef struct ls_wire_look {
    ls_wire_head head;
    uint32_t number;  // of the question
    uint32_t works;
} ls_wire_look;

typedef struct ls_wire_end {
    ls_wire_head head;
    int32_t status;  // as waitpid has it
    uint32_t unused;
} ls_wire_end;
