// Only a dead host is silent: its kernel also acknowledges for a process that is stopped or busy,
// and over a slow link some packet always arrives. The kernel's own limits are not about silence:
// TCP_USER_TIMEOUT counts from the first of the packets that were sent again, also while later ones
// arrive, and ends the connection of a process that reads nothing.
#define _GNU_SOURCE
#include "exec/silence.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/time.h"

#define SILENT_SECONDS 60  // a packet was sent again after 1, 3, 7, 15 and 31 s
#define LOOK_SECONDS   1
#define PROBE_SECONDS  4  // idle, before the first question whether the other side is there
#define AGAIN_SECONDS  2
#define NEVER_MS       86400000  // the kernel's limit

void ls_silence_watch(ls_silence *silence, int socket) {
    const int on = 1, idle = PROBE_SECONDS, every = AGAIN_SECONDS, never = NEVER_MS;
    (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof never);
    silence->looked = silence->since = ls_time_now();
}

bool ls_silence_lasts(ls_silence *silence, int socket) {
    const double now = ls_time_now();
    struct tcp_info about;
    socklen_t bytes = sizeof about;
    if (now - silence->looked < LOOK_SECONDS) {
        return false;
    }
    silence->looked = now;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &about, &bytes) != 0) {
        return false;
    }
    // The kernel asks while there is nothing to send, and a process that reads nothing ever more
    // seldom: there, silence begins with the question.
    const bool asked =
        ls_silence_unacknowledged(socket) == 0 || about.tcpi_probes > 0 ||
        (about.tcpi_unacked > 0 && about.tcpi_last_data_sent < about.tcpi_last_ack_recv);
    if (!asked || now - about.tcpi_last_ack_recv / 1000.0 > silence->since) {
        silence->since = now;
    }
    return now - silence->since > SILENT_SECONDS;
}

int64_t ls_silence_unacknowledged(int socket) {
    int bytes = 0;
    return ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}
