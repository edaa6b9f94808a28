// A connection between an agent and the coordinator on another host: messages of wire.h over TCP,
// in TLS 1.3 with a key that both have. Nothing blocks but ls_link_connect. Without OpenSSL in the
// build every function that opens something fails.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "exec/wire.h"

#define LS_LINK_NAME_BYTES 64

typedef struct ls_link ls_link;

typedef struct ls_link_key {
    unsigned char bytes[32];
} ls_link_key;

bool ls_link_available(void);
// The key of a file that only its owner may read; identical for identical contents.
int ls_link_read_key(ls_link_key *out, const char *file);
// "PORT" or "HOST:PORT" of this machine; port 0: any. The port that it got in *port.
int ls_link_listen(int *out, int *port, const char *address);
// A connection of somebody who may turn out not to have the key.
int ls_link_accept(ls_link **out, int listening, const ls_link_key *key);
// "HOST:PORT"; tries again until that many seconds are over.
int ls_link_connect(ls_link **out, const char *address, const ls_link_key *key, double seconds);
void ls_link_close(ls_link *link);

int ls_link_descriptor(const ls_link *link);
short ls_link_events(const ls_link *link);  // to poll for
// Sends and receives what can be; false: the connection has ended, with the last error's sentence.
// Messages that came before are still to be taken.
bool ls_link_work(ls_link *link);
bool ls_link_flush(ls_link *link);       // sends alone
bool ls_link_open(const ls_link *link);  // the other side has shown that it has the key
const char *ls_link_peer(const ls_link *link);
// Queues the message, behind its address (NULL: it has none), whose head counts both.
bool ls_link_send(ls_link *link, const ls_wire_head *before, const ls_wire_head *message);
// Sends all that is queued and waits until the other side has closed the connection; whether it
// has. Gives up if no queued byte arrives there for so many seconds.
bool ls_link_finish(ls_link *link, double seconds);
size_t ls_link_queued(const ls_link *link);  // bytes
// The next whole message, which is kept until the next call for this link; NULL: it has not come.
// False: the other side breaks the protocol.
bool ls_link_next(const ls_wire_head **out, ls_link *link);
