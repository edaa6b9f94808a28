// The stderr of the processes that the coordinator starts, passed on line by line.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/internal.h"

#define PARTIAL_SECONDS 0.1  // before a line without an end is passed on

static void pass_on(const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t wrote = write(2, text, bytes);
        if (wrote < 0 && errno == EAGAIN) {
            struct pollfd at = {.fd = 2, .events = POLLOUT};
            (void)poll(&at, 1, -1);
        } else if (wrote < 0 && errno != EINTR) {
            return;  // it is not read
        }
        text += wrote > 0 ? wrote : 0;
        bytes -= wrote > 0 ? (size_t)wrote : 0;
    }
}

void ls_exec__warn(const char *sentence) {
    char line[512];
    int length = snprintf(line, sizeof line, "lockstep exec: %s\n", sentence);
    pass_on(line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

static void keep_lines(ls_exec_child *child, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        bool ends = text[i] == '\n' || text[i] == '\r';
        if (!ends && child->columns + 1 < sizeof child->line) {
            child->line[child->columns++] = text[i];
        } else if (ends && strspn(child->line, " \t") < child->columns) {
            memcpy(child->last, child->line, sizeof child->last);
        }
        child->columns = ends ? 0 : child->columns;
        child->line[child->columns] = 0;
    }
}

static void flush(ls_exec_child *child, size_t bytes) {
    pass_on(child->text, bytes);
    keep_lines(child, child->text, bytes);
    child->length -= bytes;
    memmove(child->text, child->text + bytes, child->length);
}

void ls_exec__hear(ls_exec_child *child, double now) {
    ssize_t got = 1;
    while (child->errors >= 0 && got > 0) {
        got = read(child->errors, child->text + child->length, sizeof child->text - child->length);
        child->length += got > 0 ? (size_t)got : 0;
        child->heard = got > 0 ? now : child->heard;
        size_t whole = child->length;
        while (whole > 0 && child->text[whole - 1] != '\n') {
            whole -= 1;
        }
        bool late = now - child->heard > PARTIAL_SECONDS || child->length == sizeof child->text;
        bool ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
        flush(child, late || ended ? child->length : whole);
        if (ended) {
            keep_lines(child, "\n", 1);
            (void)close(child->errors);
            child->errors = -1;
        }
    }
}
