// A descriptor in the ancillary data of a packet; descriptors that are not inherited.
#define _GNU_SOURCE
#include "process/descriptor.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t ls_descriptor_send(int socket, const void *bytes, size_t count, int descriptor, int flags) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof control.bytes;
        struct cmsghdr *with = CMSG_FIRSTHDR(&packet);
        with->cmsg_level = SOL_SOCKET;
        with->cmsg_type = SCM_RIGHTS;
        with->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(with), &descriptor, sizeof descriptor);
    }
    return sendmsg(socket, &packet, MSG_NOSIGNAL | flags);
}

ssize_t ls_descriptor_receive(int socket, void *bytes, size_t count, int *descriptor, int flags) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = bytes, .iov_len = count};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    *descriptor = -1;
    ssize_t got = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC | flags);
    struct cmsghdr *with = got > 0 ? CMSG_FIRSTHDR(&packet) : NULL;
    if (with != NULL && with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_RIGHTS) {
        memcpy(descriptor, CMSG_DATA(with), sizeof *descriptor);
    }
    return got;
}

void ls_descriptors_close(int first) {
    if (syscall(SYS_close_range, first, UINT_MAX, 0) == 0) {
        return;
    }
    DIR *open = opendir("/proc/self/fd");  // Linux before 5.9 has no close_range
    const struct dirent *at = NULL;
    while (open != NULL && (at = readdir(open)) != NULL) {
        int descriptor = (int)strtol(at->d_name, NULL, 10);
        if (descriptor >= first && descriptor != dirfd(open)) {
            (void)close(descriptor);
        }
    }
    if (open != NULL) {
        (void)closedir(open);
    }
}
