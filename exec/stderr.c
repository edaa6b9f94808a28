// The stderr of the processes that the coordinator starts, passed on line by line.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/internal.h"

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

// How much of the text can be passed on: of one process all of it; of several the whole lines, so
// that no line of another process lands within one. '\r' ends a line, too: progress bars have it.
static size_t passable(const ls_exec_child *child, bool alone) {
    size_t whole = child->length;
    while (!alone && whole > 0 && child->text[whole - 1] != '\n' &&
           child->text[whole - 1] != '\r') {
        whole -= 1;
    }
    return whole == 0 && child->length == sizeof child->text ? child->length : whole;
}

void ls_exec__hear(ls_exec *exec, ls_exec_child *child, bool last) {
    ssize_t got = 1;
    while (child->errors >= 0 && got > 0) {
        got = read(child->errors, child->text + child->length, sizeof child->text - child->length);
        child->length += got > 0 ? (size_t)got : 0;
        bool ended = got == 0 || (got < 0 && (last || (errno != EAGAIN && errno != EINTR)));
        flush(child, ended ? child->length : passable(child, exec->child_count == 1));
        if (ended) {
            keep_lines(child, "\n", 1);
            (void)close(child->errors);
            child->errors = -1;
        }
    }
}
