// Bytes that other hosts send to the coordinator of a job on many hosts. Bit 0 of the first byte:
// the other side has the key. Without it, the bytes arrive as they are. With it they are a sequence
// of parts, whose heads have 4 bytes: the part (bits 0-1): a message, a message of a process, bytes
// without a head, or bytes that TLS does not protect; the process (2-3); the type; and the length.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/hosts.h"
#include "fuzzers.h"

#define TURNS 8  // of both sides, in which a handshake ends

enum { MESSAGE, OF_PROCESS, HEADLESS, BARE };

static const ls_link_key key = {.bytes = "the key of all hosts"};

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *bytes,
                   SSL_SESSION **out) {
    static const unsigned char suite[] = {0x13, 0x01};
    (void)digest;
    *id = (const unsigned char *)"lockstep";
    *bytes = strlen("lockstep");
    *out = SSL_SESSION_new();
    LS_ASSERT(SSL_SESSION_set1_master_key(*out, key.bytes, sizeof key.bytes) == 1 &&
              SSL_SESSION_set_cipher(*out, SSL_CIPHER_find(ssl, suite)) == 1 &&
              SSL_SESSION_set_protocol_version(*out, TLS1_3_VERSION) == 1);
    return 1;
}

// A connection of the other side; *listening: the coordinator's.
static int connect_pair(int *listening) {
    struct sockaddr address = {.sa_family = AF_UNIX};
    socklen_t bytes = sizeof address;
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    LS_ASSERT(made >= 0 && *listening >= 0 &&
              bind(*listening, &address, sizeof address.sa_family) == 0 &&  // any name
              listen(*listening, 1) == 0 && getsockname(*listening, &address, &bytes) == 0 &&
              connect(made, &address, bytes) == 0);
    return made;
}

static void turn(ls_exec *exec) {
    ls_exec__hosts_work(exec);
    (void)ls_exec__advance(exec);
    for (ls_exec_process *p = exec->processes; p != NULL && exec->run != NULL; p = p->next) {
        if (ls_exec__waits(p) && !p->gone) {
            ls_exec__wait(exec, p);
        }
    }
    ls_exec__judge(exec, 0);
}

// The other side's next part; returns its length.
static size_t send_part(SSL *ssl, int to, const uint8_t *data, size_t bytes) {
    static _Alignas(16) char message[sizeof(ls_wire_parcel) + sizeof(ls_wire_head) + UINT16_MAX];
    const int part = data[0] & 3;
    size_t length = data[2] + 256u * data[3], head = 0;
    length = length < bytes - 4 ? length : bytes - 4;
    if (part == OF_PROCESS) {
        const ls_wire_parcel parcel = {
            .head = {LS_WIRE_PARCEL, (uint32_t)(sizeof parcel + sizeof(ls_wire_head) + length)},
            .process = data[0] >> 2 & 3};
        memcpy(message, &parcel, sizeof parcel);
        head = sizeof parcel;
    }
    if (part == MESSAGE || part == OF_PROCESS) {
        const ls_wire_head own = {data[1], (uint32_t)(sizeof own + length)};
        memcpy(message + head, &own, sizeof own);
        head += sizeof own;
    }
    memcpy(message + head, data + 4, length);
    if (part == BARE) {
        (void)send(to, message, length, MSG_NOSIGNAL);
    } else if (head + length > 0) {
        (void)SSL_write(ssl, message, (int)(head + length));
    }
    return 4 + length;
}

static bool has_joined(const ls_exec *exec) {
    return exec->hosts->joined > 0;
}

static void play_with_key(ls_exec *exec, int to, const uint8_t *data, size_t bytes) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    (void)signal(SIGPIPE, SIG_IGN);  // the coordinator may hang up
    LS_ASSERT(ssl != NULL && SSL_set_fd(ssl, to) == 1 &&
              SSL_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") == 1);
    SSL_set_psk_use_session_callback(ssl, use_key);
    SSL_set_connect_state(ssl);
    for (int i = 0; i < TURNS && SSL_do_handshake(ssl) != 1; i++) {
        ls_exec__hosts_work(exec);
    }
    LS_ASSERT(SSL_is_init_finished(ssl));
    while (bytes >= 4 && !exec->lost) {
        size_t used = send_part(ssl, to, data, bytes);
        data += used;
        bytes -= used;
        turn(exec);
        char answer[4096];
        while (SSL_read(ssl, answer, sizeof answer) > 0) {
        }
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
}

static void play_without(ls_exec *exec, int to, const uint8_t *data, size_t bytes) {
    const size_t half = bytes / 2;
    (void)send(to, data, half, MSG_NOSIGNAL);
    turn(exec);
    (void)send(to, data + half, bytes - half, MSG_NOSIGNAL);
    turn(exec);
    LS_ASSERT(!has_joined(exec) && exec->processes == NULL && !exec->lost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const argv[] = {"fuzzed", NULL};
    if (bytes < 1) {
        return 0;
    }
    ls_exec_options options = {.argv = argv, .observe = true, .agents = 1, .deadline_seconds = 1};
    ls_exec *exec = calloc(1, sizeof *exec);
    LS_ASSERT(exec != NULL && ls_arena_create(&exec->arena) == LS_OK &&
              ls_exec_memory__create(&exec->memory) == LS_OK);
    exec->options = &options;
    exec->listening = exec->port_lock = -1;
    exec->failed_rank = -1;
    exec->hosts = calloc(1, sizeof *exec->hosts);
    LS_ASSERT(exec->hosts != NULL);
    exec->hosts->key = key;
    exec->hosts->began = ls_time_now();
    const int to = connect_pair(&exec->hosts->listening);
    if ((data[0] & 1) != 0) {
        play_with_key(exec, to, data + 1, bytes - 1);
    } else {
        play_without(exec, to, data + 1, bytes - 1);
    }
    (void)close(to);
    ls_exec__hosts_work(exec);
    ls_exec__hosts_close(exec, LS_OK);
    ls_exec_result result = {.failed_rank = -1};
    ls_exec__close(exec, &result, LS_OK);
    ls_exec_result_free(&result);
    free(exec);
    return 0;
}
