// NCCL's own log: which rings and trees a communicator has, and what was used for each call. NCCL
// has no function that tells; the log's lines are those of 2.28 and 2.30:
//   "Channel 00/24 :   0   1   2   3"                       member 0: the ring of channel 0, of 24
//   "Trees [0] 1/-1/-1->0->-1 [1] ..."                      every member: children, itself, parent
//   "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}"   member 0: one call
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/nccl/nccl_internal.h"

#define LOG_BYTES_MAX ((size_t)64 << 20)

static char log_path[512];  // "": nothing to unlink
static FILE *log_file;      // read to here; NULL: none

int ls_nccl__log_open(void) {
    if (log_file != NULL) {
        return LS_OK;
    }
    const char *base = getenv("TMPDIR");
    (void)snprintf(log_path, sizeof log_path, "%s/lockstep-nccl-XXXXXX",
                   base != NULL && base[0] != '\0' ? base : "/tmp");
    int file = mkstemp(log_path);
    log_file = file >= 0 ? fdopen(file, "r") : NULL;
    if (log_file == NULL) {
        int status = LS_FAIL(LS_ERR_RESOURCE, "cannot make \"%s\": %s", log_path, strerror(errno));
        log_path[0] = '\0';
        return status;
    }
    // NCCL reads its environment at its first call. Every % in a log file's name means something.
    bool plain = strchr(log_path, '%') == NULL;
    if (!plain || setenv("NCCL_DEBUG", "INFO", 1) != 0 ||
        setenv("NCCL_DEBUG_SUBSYS", "INIT,TUNING", 1) != 0 ||
        setenv("NCCL_DEBUG_FILE", log_path, 1) != 0) {
        ls_nccl__log_unlink();
    }
    return LS_OK;
}

void ls_nccl__log_unlink(void) {
    if (log_path[0] != '\0') {
        (void)unlink(log_path);
        log_path[0] = '\0';
    }
}

int ls_nccl__log_new(ls_text *out) {
    *out = (ls_text){0};
    if (log_file == NULL) {
        return LS_OK;
    }
    char part[8192];
    size_t got = 0;
    clearerr(log_file);  // the old end is no end any more
    while (out->length < LOG_BYTES_MAX && (got = fread(part, 1, sizeof part, log_file)) > 0) {
        ls_text_append(out, part, got);
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for NCCL's log") : LS_OK;
}

// ---- Topologies ---------------------------------------------------------------------------------
static int set_channels(ls_nccl_topology *topology, int channels) {
    if (topology->channels == channels) {
        return LS_OK;
    }
    int size = topology->size;
    ls_nccl__topology_free(topology);
    topology->size = size;
    size_t cells = (size_t)channels * (size_t)size;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, cells, sizeof(int)));
    topology->channels = channels;
    topology->rings = memory;
    LS_TRY(ls_alloc(&memory, (size_t)channels, sizeof(bool)));
    topology->ring_known = memory;
    LS_TRY(ls_alloc(&memory, cells, sizeof(ls_nccl_node)));
    topology->nodes = memory;
    return LS_OK;
}

void ls_nccl__topology_free(ls_nccl_topology *topology) {
    size_t channels = (size_t)topology->channels, cells = channels * (size_t)topology->size;
    ls_free(topology->rings, cells, sizeof(int));
    ls_free(topology->ring_known, channels, sizeof(bool));
    ls_free(topology->nodes, cells, sizeof(ls_nccl_node));
    free(topology->ring_text);
    free(topology->tree_text);
    *topology = (ls_nccl_topology){0};
}

// "Channel 00/24 :   0   1   2   3"
static int parse_ring(ls_nccl_topology *topology, const char *line) {
    int channel = 0, channels = 0, used = 0;
    if (sscanf(line, "Channel %d/%d :%n", &channel, &channels, &used) != 2 || used == 0 ||
        channels < 1 || channels > LS_NCCL_CHANNELS_MAX || channel < 0 || channel >= channels) {
        return LS_OK;
    }
    LS_TRY(set_channels(topology, channels));
    const char *at = line + used;
    int *ring = &topology->rings[channel * topology->size];
    for (int i = 0; i < topology->size; i++) {
        char *end = NULL;
        long member = strtol(at, &end, 10);
        if (end == at || member < 0 || member >= topology->size) {
            return LS_OK;  // a line that NCCL cut
        }
        ring[i] = (int)member;
        at = end;
    }
    topology->ring_known[channel] = true;
    return LS_OK;
}

// "Trees [0] 1/-1/-1->0->-1 [1] ..."
static void parse_trees(ls_nccl_topology *topology, const char *line) {
    const char *at = line + strlen("Trees");
    int channel = 0, children[LS_NCCL_CHILDREN_MAX], member = 0, parent = 0, used = 0;
    while (sscanf(at, " [%d] %d/%d/%d->%d->%d%n", &channel, &children[0], &children[1],
                  &children[2], &member, &parent, &used) == 6) {
        at += used;
        if (channel < 0 || channel >= topology->channels || member < 0 ||
            member >= topology->size) {
            return;
        }
        ls_nccl_node *node = &topology->nodes[channel * topology->size + member];
        node->known = true;
        for (int c = 0; c < LS_NCCL_CHILDREN_MAX; c++) {
            node->children[c] = children[c] < topology->size ? children[c] : -1;
        }
    }
}

// The part of a log line after "NCCL INFO ", as a separate string.
static bool next_line(char *out, size_t out_bytes, const char **text) {
    while (**text != '\0') {
        size_t length = strcspn(*text, "\n");
        const char *line = *text, *end = *text + length;
        *text = *end == '\n' ? end + 1 : end;
        const char *mark = strstr(line, "NCCL INFO ");
        if (mark == NULL || mark >= end) {
            continue;
        }
        mark += strlen("NCCL INFO ");
        (void)snprintf(out, out_bytes, "%.*s", (int)(end - mark), mark);
        return true;
    }
    return false;
}

int ls_nccl__topology_parse(ls_nccl_topology *topology, const char *text) {
    char line[2048];
    // Rings first: they give the number of channels, whichever rank wrote first.
    for (const char *at = text; next_line(line, sizeof line, &at);) {
        if (strncmp(line, "Channel ", 8) == 0) {
            LS_TRY(parse_ring(topology, line));
        }
    }
    for (const char *at = text; next_line(line, sizeof line, &at);) {
        if (strncmp(line, "Trees ", 6) == 0) {
            if (topology->channels == 0) {
                // Another process has member 0 and its rings: count the channels here.
                int channels = 0;
                for (const char *c = line; (c = strchr(c, '[')) != NULL; c++) {
                    channels++;
                }
                if (channels >= 1 && channels <= LS_NCCL_CHANNELS_MAX) {
                    LS_TRY(set_channels(topology, channels));
                }
            }
            parse_trees(topology, line);
        }
    }
    return LS_OK;
}

// ---- Texts --------------------------------------------------------------------------------------
static void write_ring(ls_text *out, const ls_nccl_topology *topology, int channel) {
    for (int i = 0; i < topology->size; i++) {
        ls_text_printf(out, "%s%d", i == 0 ? "" : "-",
                       topology->rings[channel * topology->size + i]);
    }
}

// `member` and its subtree: "0(1(2))". False if a member is unknown or occurs twice.
static bool write_tree(ls_text *out, const ls_nccl_topology *topology, int channel, int member,
                       int *met) {
    const ls_nccl_node *node = &topology->nodes[channel * topology->size + member];
    if (!node->known || ++*met > topology->size) {
        return false;
    }
    ls_text_printf(out, "%d", member);
    bool any = false;
    for (int c = 0; c < LS_NCCL_CHILDREN_MAX; c++) {
        if (node->children[c] < 0) {
            continue;
        }
        ls_text_puts(out, any ? "+" : "(");
        any = true;
        if (!write_tree(out, topology, channel, node->children[c], met)) {
            return false;
        }
    }
    ls_text_puts(out, any ? ")" : "");
    return true;
}

static int root_of(const ls_nccl_topology *topology, int channel) {
    for (int root = 0; root < topology->size; root++) {
        bool child = false;
        for (int m = 0; m < topology->size; m++) {
            const ls_nccl_node *node = &topology->nodes[channel * topology->size + m];
            for (int c = 0; c < LS_NCCL_CHILDREN_MAX; c++) {
                child = child || (node->known && node->children[c] == root);
            }
        }
        if (!child) {
            return root;
        }
    }
    return 0;
}

static bool write_channel(ls_text *out, const ls_nccl_topology *topology, int channel, bool ring) {
    if (ring) {
        write_ring(out, topology, channel);
        return topology->ring_known[channel];
    }
    int met = 0;
    return write_tree(out, topology, channel, root_of(topology, channel), &met) &&
           met == topology->size;
}

// The smallest period with which the list of the first `told` channels repeats.
static int period_of(ls_text *channels, int told) {
    int period = 1;
    for (int c = 0; c < told; c++) {
        if (strcmp(ls_text_string(&channels[c]), ls_text_string(&channels[c % period])) != 0) {
            period = c + 1;
            c = -1;
        }
    }
    return period;
}

// "KEY=a/b/...": the shortest list that repeats into that of all channels. NCCL truncates its lines
// after 1,023 characters, so of 64 channels some 50 trees are logged: if more than half are, and
// repeat, the others continue the pattern. (Trees over several hosts differ in the second half.)
static char *write_list(const ls_nccl_topology *topology, bool ring) {
    ls_text channels[LS_NCCL_CHANNELS_MAX] = {{0}};
    int told = 0;
    while (told < topology->channels && write_channel(&channels[told], topology, told, ring) &&
           !channels[told].failed) {
        told++;
    }
    int period = period_of(channels, told);
    bool known = told > 0 && (told == topology->channels ||
                              (told * 2 > topology->channels && told >= period * 2));
    ls_text text = {0};
    ls_text_printf(&text, ",channels=%d,%s=", topology->channels, ring ? "rings" : "trees");
    for (int c = 0; c < period && known; c++) {
        ls_text_printf(&text, "%s%s", c == 0 ? "" : "/", ls_text_string(&channels[c]));
    }
    for (int c = 0; c <= told && c < topology->channels; c++) {
        ls_text_free(&channels[c]);
    }
    char *copy = known && !text.failed ? strdup(ls_text_string(&text)) : NULL;
    ls_text_free(&text);
    return copy;
}

void ls_nccl__topology_write(ls_nccl_topology *topology) {
    free(topology->ring_text);
    free(topology->tree_text);
    topology->ring_text = write_list(topology, true);
    topology->tree_text = write_list(topology, false);
}

// ---- Calls --------------------------------------------------------------------------------------
static const char *const function_names[LS_KIND_COUNT] = {
    [LS_ALL_REDUCE] = "AllReduce",         [LS_REDUCE] = "Reduce",
    [LS_BROADCAST] = "Broadcast",          [LS_ALL_GATHER] = "AllGather",
    [LS_REDUCE_SCATTER] = "ReduceScatter",
};

static void lower(char *text) {
    for (; *text != '\0'; text++) {
        *text = (char)tolower((unsigned char)*text);
    }
}

void ls_nccl__choice_parse(ls_nccl_choice *out, const char *text, ls_kind kind) {
    *out = (ls_nccl_choice){.channels = 0};
    char line[2048];
    for (const char *at = text; next_line(line, sizeof line, &at);) {
        char function[32], algorithm[24], protocol[16];
        long bytes = 0;
        int low = 0, high = 0;
        if (sscanf(line, "%31[A-Za-z]: %ld Bytes -> Algo %23s proto %15s channel{Lo..Hi}={%d..%d}",
                   function, &bytes, algorithm, protocol, &low, &high) != 6) {
            continue;
        }
        bool reduce_blocks = kind == LS_REDUCE_SCATTER && strcmp(function, "Reduce") == 0;
        if (function_names[kind] == NULL ||
            (strcmp(function, function_names[kind]) != 0 && !reduce_blocks)) {
            continue;
        }
        lower(algorithm);
        lower(protocol);
        (void)snprintf(out->algorithm, sizeof out->algorithm, "%s", algorithm);
        (void)snprintf(out->protocol, sizeof out->protocol, "%s", protocol);
        out->channels = high + 1 > out->channels ? high + 1 : out->channels;
    }
}
