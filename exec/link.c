// Connections between hosts: OpenSSL's TLS 1.3 with a pre-shared key, over sockets that it does not
// touch: this file moves the bytes, so that nothing blocks and no signal is raised.
#define _GNU_SOURCE
#include "exec/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "exec/silence.h"

#define KEY_BYTES_MIN 16
#define KEY_BYTES_MAX 4096
#define PAUSE_SECONDS 0.2  // between two tries to connect
#define CHUNK_BYTES   ((size_t)64 << 10)
#define IDENTITY      "lockstep"
#define MESSAGE_BYTES (LS_WIRE_MESSAGE_MAX + 64)  // of one with its address

// Bytes from `first` to `last` of a buffer that grows.
typedef struct ls_link_bytes {
    char *at;
    size_t first, last, room;
} ls_link_bytes;

struct ls_link {
    int socket;
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;  // bytes of the network, both in memory
    ls_link_key key;
    bool open, refused;
    ls_silence silence;
    ls_link_bytes plain;   // messages that are not encrypted yet
    ls_link_bytes unsent;  // and that are
    ls_link_bytes got;     // received messages
    _Alignas(16) char message[MESSAGE_BYTES];
    char peer[LS_LINK_NAME_BYTES];
};

bool ls_link_available(void) {
    return true;
}

// ---- The key ------------------------------------------------------------------------------------
int ls_link_read_key(ls_link_key *out, const char *file) {
    char text[KEY_BYTES_MAX];
    struct stat about;
    int from = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t got = from >= 0 && fstat(from, &about) == 0 ? read(from, text, sizeof text) : -1;
    if (from >= 0) {
        (void)close(from);
    }
    if (got < 0) {
        return LS_FAIL(LS_ERR_IO, "cannot read the key \"%s\": %s", file, strerror(errno));
    }
    if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return LS_FAIL(LS_ERR_INVALID, "others may read the key \"%s\"; chmod 600 it", file);
    }
    while (got > 0 && (text[got - 1] == '\n' || text[got - 1] == '\r')) {
        got -= 1;
    }
    if (got < KEY_BYTES_MIN || got == KEY_BYTES_MAX) {
        return LS_FAIL(LS_ERR_INVALID,
                       "the key \"%s\" has %s bytes; openssl rand -hex 32 makes a good one", file,
                       got < KEY_BYTES_MIN ? "less than 16" : "4096 or more");
    }
    unsigned int bytes = 0;
    return EVP_Digest(text, (size_t)got, out->bytes, &bytes, EVP_sha256(), NULL) == 1
               ? LS_OK
               : LS_FAIL(LS_ERR_BACKEND, "OpenSSL has no SHA-256");
}

// The TLS session of a key.
static SSL_SESSION *session_of(SSL *ssl, const ls_link_key *key) {
    static const unsigned char suite[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
    SSL_SESSION *made = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    if (made == NULL || cipher == NULL ||
        SSL_SESSION_set1_master_key(made, key->bytes, sizeof key->bytes) != 1 ||
        SSL_SESSION_set_cipher(made, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(made);
        return NULL;
    }
    return made;
}

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *bytes,
                   SSL_SESSION **out) {
    const ls_link *link = SSL_get_app_data(ssl);
    (void)digest;
    *id = (const unsigned char *)IDENTITY;
    *bytes = strlen(IDENTITY);
    *out = session_of(ssl, &link->key);
    return *out != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t bytes, SSL_SESSION **out) {
    const ls_link *link = SSL_get_app_data(ssl);
    bool known = bytes == strlen(IDENTITY) && memcmp(id, IDENTITY, bytes) == 0;
    *out = known ? session_of(ssl, &link->key) : NULL;
    return 1;
}

// ---- Opening and closing ------------------------------------------------------------------------
void ls_link_close(ls_link *link) {
    if (link == NULL) {
        return;
    }
    if (link->socket >= 0) {
        (void)close(link->socket);
    }
    SSL_free(link->ssl);  // with both BIOs
    SSL_CTX_free(link->context);
    free(link->plain.at);
    free(link->unsent.at);
    free(link->got.at);
    free(link);
}

// Takes the socket.
static int open_link(ls_link **out, int made, const ls_link_key *key, bool accepts) {
    const int on = 1;
    ls_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        (void)close(made);
        return LS_FAIL(LS_ERR_MEMORY, "no memory for a connection");
    }
    link->socket = made;
    link->key = *key;
    (void)fcntl(made, F_SETFL, O_NONBLOCK);
    (void)setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ls_silence_watch(&link->silence, made);
    link->context = SSL_CTX_new(accepts ? TLS_server_method() : TLS_client_method());
    link->ssl = link->context != NULL ? SSL_new(link->context) : NULL;
    link->in = BIO_new(BIO_s_mem());
    link->out = BIO_new(BIO_s_mem());
    if (link->ssl == NULL || link->in == NULL || link->out == NULL ||
        SSL_set_min_proto_version(link->ssl, TLS1_3_VERSION) != 1 ||
        SSL_set_ciphersuites(link->ssl, "TLS_AES_128_GCM_SHA256") != 1) {
        BIO_free(link->in);
        BIO_free(link->out);
        ls_link_close(link);
        return LS_FAIL(LS_ERR_MEMORY, "OpenSSL cannot create a connection");
    }
    SSL_set_bio(link->ssl, link->in, link->out);
    SSL_set_app_data(link->ssl, link);
    (void)SSL_set_num_tickets(link->ssl, 0);
    if (accepts) {
        SSL_set_psk_find_session_callback(link->ssl, find_key);
        SSL_set_accept_state(link->ssl);
    } else {
        SSL_set_psk_use_session_callback(link->ssl, use_key);
        SSL_set_connect_state(link->ssl);
    }
    *out = link;
    return LS_OK;
}

static void name_peer(ls_link *link) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (getpeername(link->socket, (struct sockaddr *)&address, &bytes) != 0 ||
        getnameinfo((const struct sockaddr *)&address, bytes, link->peer, sizeof link->peer, NULL,
                    0, NI_NUMERICHOST) != 0) {
        (void)snprintf(link->peer, sizeof link->peer, "?");
    }
}

int ls_link_accept(ls_link **out, int listening, const ls_link_key *key) {
    *out = NULL;
    int made = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made < 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "no connection: %s", strerror(errno));
    }
    LS_TRY(open_link(out, made, key, true));
    name_peer(*out);
    return LS_OK;
}

// HOST and PORT of "HOST:PORT", "[HOST]:PORT" or "PORT".
static int find_address(struct addrinfo **out, const char *address, bool passive) {
    char host[256];
    const char *colon = strrchr(address, ':'), *port = colon != NULL ? colon + 1 : address;
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    bool bracketed = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    (void)snprintf(host, sizeof host, "%.*s", (int)(bracketed ? length - 2 : length),
                   address + (bracketed ? 1 : 0));
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = passive ? AI_PASSIVE : 0,
                                   .ai_family = passive && host[0] == 0 ? AF_INET : AF_UNSPEC};
    if (port[0] == 0 || port[strspn(port, "0123456789")] != 0 || (host[0] == 0 && !passive)) {
        return LS_FAIL(LS_ERR_INVALID, "\"%s\" is not %s", address,
                       passive ? "[HOST:]PORT" : "HOST:PORT");
    }
    int failed = getaddrinfo(host[0] != 0 ? host : NULL, port, &hints, out);
    return failed == 0 ? LS_OK : LS_FAIL(LS_ERR_RESOURCE, "%s: %s", address, gai_strerror(failed));
}

int ls_link_listen(int *out, int *port, const char *address) {
    struct addrinfo *at = NULL;
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    const int on = 1;
    LS_TRY(find_address(&at, address, true));
    int made = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool listens = made >= 0 && bind(made, at->ai_addr, at->ai_addrlen) == 0 &&
                   listen(made, 1024) == 0 &&
                   getsockname(made, (struct sockaddr *)&own, &bytes) == 0;
    int error = errno;
    freeaddrinfo(at);
    if (!listens) {
        if (made >= 0) {
            (void)close(made);
        }
        return LS_FAIL(LS_ERR_RESOURCE, "cannot listen at %s: %s", address, strerror(error));
    }
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&own)->sin6_port
                                            : ((struct sockaddr_in *)(void *)&own)->sin_port);
    *out = made;
    return LS_OK;
}

// One try; *refused: the other side does not have the key.
static int try_once(ls_link **out, const struct addrinfo *to, const ls_link_key *key, double until,
                    bool *refused) {
    int made = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0 || (connect(made, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)) {
        int error = errno;
        if (made >= 0) {
            (void)close(made);
        }
        return LS_FAIL(LS_ERR_RESOURCE, "%s", strerror(error));
    }
    struct pollfd at = {.fd = made, .events = POLLOUT};
    int error = 0;
    socklen_t bytes = sizeof error;
    double left = until - ls_time_now();
    if (poll(&at, 1, left > 0 ? (int)(left * 1000) : 0) != 1 ||
        getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0) {
        (void)close(made);
        return LS_FAIL(LS_ERR_RESOURCE, "%s", strerror(error != 0 ? error : ETIMEDOUT));
    }
    ls_link *link = NULL;
    LS_TRY(open_link(&link, made, key, false));
    while (ls_link_work(link) && !link->open && ls_time_now() < until) {
        at = (struct pollfd){.fd = made, .events = ls_link_events(link)};
        (void)poll(&at, 1, 100);
    }
    if (!link->open) {
        *refused = link->refused;
        ls_link_close(link);
        return LS_FAIL(LS_ERR_RESOURCE, "%s",
                       *refused ? "it does not accept the key" : "it does not answer");
    }
    name_peer(link);
    *out = link;
    return LS_OK;
}

int ls_link_connect(ls_link **out, const char *address, const ls_link_key *key, double seconds) {
    const double until = ls_time_now() + seconds;
    bool refused = false;
    int status = LS_ERR_RESOURCE;
    *out = NULL;
    for (bool again = true; again && !refused; again = ls_time_now() + PAUSE_SECONDS < until) {
        struct addrinfo *found = NULL;
        status = find_address(&found, address, false);
        if (status == LS_ERR_INVALID) {
            return status;
        }
        for (const struct addrinfo *at = found; at != NULL && !refused; at = at->ai_next) {
            status = try_once(out, at, key, until, &refused);
            if (status == LS_OK) {
                freeaddrinfo(found);
                return LS_OK;
            }
        }
        if (found != NULL) {
            freeaddrinfo(found);
        }
        ls_time_sleep(refused ? 0 : PAUSE_SECONDS);
    }
    return LS_FAIL(status, "%s: %s", address, ls_error_last()->text);
}

// ---- Bytes --------------------------------------------------------------------------------------
int ls_link_descriptor(const ls_link *link) {
    return link->socket;
}

const char *ls_link_peer(const ls_link *link) {
    return link->peer;
}

bool ls_link_open(const ls_link *link) {
    return link->open;
}

static size_t length_of(const ls_link_bytes *bytes) {
    return bytes->last - bytes->first;
}

// Room for so many bytes behind the last; NULL: no memory.
static char *reserve(ls_link_bytes *bytes, size_t more) {
    if (bytes->first == bytes->last) {
        bytes->first = bytes->last = 0;
    }
    if (bytes->room - bytes->last < more && bytes->first > 0) {
        memmove(bytes->at, bytes->at + bytes->first, length_of(bytes));
        bytes->last -= bytes->first;
        bytes->first = 0;
    }
    if (bytes->room - bytes->last < more) {
        size_t room = 2 * bytes->room > bytes->last + more ? 2 * bytes->room : bytes->last + more;
        char *made = realloc(bytes->at, room);
        if (made == NULL) {
            return NULL;
        }
        bytes->at = made;
        bytes->room = room;
    }
    return bytes->at + bytes->last;
}

size_t ls_link_queued(const ls_link *link) {
    return length_of(&link->plain) + length_of(&link->unsent) + BIO_ctrl_pending(link->out);
}

short ls_link_events(const ls_link *link) {
    return (short)(POLLIN | (ls_link_queued(link) > 0 ? POLLOUT : 0));
}

static bool ended(const char *why) {
    (void)LS_FAIL(LS_ERR_BACKEND, "%s", why);
    return false;
}

// The next bytes for the network; false: there are none.
static bool encrypt(ls_link *link) {
    size_t part = length_of(&link->plain);
    part = part < CHUNK_BYTES ? part : CHUNK_BYTES;
    if (length_of(&link->unsent) > 0) {
        return true;
    }
    if (link->open && part > 0 && BIO_ctrl_pending(link->out) == 0) {
        ERR_clear_error();
        (void)SSL_write(link->ssl, link->plain.at + link->plain.first, (int)part);
        link->plain.first += part;
    }
    char *room = reserve(&link->unsent, CHUNK_BYTES);
    int got = room != NULL ? BIO_read(link->out, room, (int)CHUNK_BYTES) : 0;
    link->unsent.last += got > 0 ? (size_t)got : 0;
    return got > 0;
}

bool ls_link_flush(ls_link *link) {
    while (encrypt(link)) {
        ssize_t sent = send(link->socket, link->unsent.at + link->unsent.first,
                            length_of(&link->unsent), MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        if (sent < 0) {
            return ended(strerror(errno));
        }
        link->unsent.first += (size_t)sent;
    }
    return true;
}

// Gives OpenSSL all that the network has. False: nothing more will come.
static bool fill(ls_link *link) {
    char chunk[1 << 14];
    for (int i = 0; i < 64; i++) {  // others have something to say, too
        ssize_t got = recv(link->socket, chunk, sizeof chunk, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        if (got <= 0) {
            return ended(got == 0 ? "the other side closed the connection" : strerror(errno));
        }
        if (BIO_write(link->in, chunk, (int)got) != got) {
            return ended("no memory");
        }
    }
    return true;
}

static bool shake_hands(ls_link *link) {
    ERR_clear_error();
    int done = SSL_do_handshake(link->ssl), why = SSL_get_error(link->ssl, done);
    link->open = done == 1;
    link->refused = !link->open && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
    return link->refused ? ended("the other side does not have the key") : true;
}

static bool decrypt(ls_link *link) {
    if (!link->open && !shake_hands(link)) {
        return false;
    }
    while (link->open) {
        char *room = reserve(&link->got, CHUNK_BYTES);
        if (room == NULL) {
            return ended("no memory");
        }
        ERR_clear_error();
        int got = SSL_read(link->ssl, room, (int)CHUNK_BYTES);
        if (got <= 0) {
            return SSL_get_error(link->ssl, got) == SSL_ERROR_WANT_READ
                       ? true
                       : ended("the connection breaks TLS");
        }
        link->got.last += (size_t)got;
    }
    return true;
}

bool ls_link_work(ls_link *link) {
    bool more = fill(link), well = decrypt(link);
    return ls_link_flush(link) && well && more &&
           (!ls_silence_lasts(&link->silence, link->socket) || ended("its host does not answer"));
}

bool ls_link_finish(ls_link *link, double seconds) {
    double until = ls_time_now() + seconds;
    int64_t least = INT64_MAX;
    char byte;
    bool live = true, shut = false;
    while (live && ls_time_now() < until) {
        live = ls_link_flush(link);
        int64_t left = (int64_t)ls_link_queued(link) + ls_silence_unacknowledged(link->socket);
        until = left < least ? ls_time_now() + seconds : until;
        least = left < least ? left : least;
        if (live && !shut && ls_link_queued(link) == 0) {
            shut = shutdown(link->socket, SHUT_WR) == 0;
        }
        struct pollfd at = {.fd = link->socket, .events = ls_link_events(link)};
        (void)poll(&at, 1, 100);
        for (ssize_t got = 1; live && got > 0;) {
            got = recv(link->socket, &byte, 1, 0);
            if (got == 0) {
                return shut;
            }
            live = got > 0 || errno == EAGAIN || errno == EINTR;
        }
    }
    return false;
}

bool ls_link_send(ls_link *link, const ls_wire_head *before, const ls_wire_head *message) {
    size_t first = before != NULL ? before->bytes - message->bytes : 0;
    char *room = reserve(&link->plain, first + message->bytes);
    if (room == NULL) {
        return ended("no memory");
    }
    if (before != NULL) {
        memcpy(room, before, first);
    }
    memcpy(room + first, message, message->bytes);
    link->plain.last += first + message->bytes;
    return true;
}

bool ls_link_next(const ls_wire_head **out, ls_link *link) {
    ls_wire_head head = {.bytes = 0};
    size_t there = length_of(&link->got);
    *out = NULL;
    if (there < sizeof head) {
        return true;
    }
    memcpy(&head, link->got.at + link->got.first, sizeof head);
    if (head.bytes < sizeof head || head.bytes > sizeof link->message) {
        return ended("a message of an impossible size");
    }
    if (there >= head.bytes) {
        memcpy(link->message, link->got.at + link->got.first, head.bytes);
        link->got.first += head.bytes;
        *out = (const void *)link->message;
    }
    return true;
}
