// Connections between hosts in a build without OpenSSL.
#include "exec/link.h"

static int no_ssl(void) {
    return LS_FAIL(LS_ERR_UNSUPPORTED, "this build has no OpenSSL, which jobs on many hosts need");
}

bool ls_link_available(void) {
    return false;
}

int ls_link_read_key(ls_link_key *out, const char *file) {
    (void)out;
    (void)file;
    return no_ssl();
}

int ls_link_listen(int *out, int *port, const char *address) {
    (void)out;
    (void)port;
    (void)address;
    return no_ssl();
}

int ls_link_accept(ls_link **out, int listening, const ls_link_key *key) {
    (void)out;
    (void)listening;
    (void)key;
    return no_ssl();
}

int ls_link_connect(ls_link **out, const char *address, const ls_link_key *key, double seconds) {
    (void)out;
    (void)address;
    (void)key;
    (void)seconds;
    return no_ssl();
}

void ls_link_close(ls_link *link) {
    (void)link;
}

int ls_link_descriptor(const ls_link *link) {
    (void)link;
    return -1;
}

short ls_link_events(const ls_link *link) {
    (void)link;
    return 0;
}

bool ls_link_work(ls_link *link) {
    (void)link;
    return false;
}

bool ls_link_flush(ls_link *link) {
    (void)link;
    return false;
}

bool ls_link_finish(ls_link *link, double seconds) {
    (void)link;
    (void)seconds;
    return false;
}

bool ls_link_open(const ls_link *link) {
    (void)link;
    return false;
}

const char *ls_link_peer(const ls_link *link) {
    (void)link;
    return "";
}

bool ls_link_send(ls_link *link, const ls_wire_head *before, const ls_wire_head *message) {
    (void)link;
    (void)before;
    (void)message;
    return false;
}

size_t ls_link_queued(const ls_link *link) {
    (void)link;
    return 0;
}

bool ls_link_next(const ls_wire_head **out, ls_link *link) {
    (void)link;
    *out = NULL;
    return false;
}
