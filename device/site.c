// Places of the program: of calls, which name them, and of accesses, whose code's line is looked
// up where it is reported.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef LOCKSTEP_HAVE_DW
#include <elfutils/libdwfl.h>
#endif

#include "device/internal.h"

#define CACHE 4096

typedef struct place {
    const void *code;
    ls_cuda_site site;
} place;

static struct {
    place *all;
    uint32_t count, room;
    uint32_t cache[CACHE];
} s;

// The same code in the first copy of the program.
static const void *in_first_image(const void *code) {
    const device_state *state = &ls_device__state;
    for (int i = 1; i < RANKS_MAX && state->images[i] != NULL; i++) {
        size_t offset = (size_t)((const char *)code - state->images[i]);
        if (offset < state->image_bytes) {
            return state->images[0] + offset;
        }
    }
    return code;
}

static bool is(const place *at, const void *code, const ls_cuda_site *site) {
    return code != NULL
               ? at->code == code
               : at->code == NULL && at->site.file == site->file && at->site.line == site->line;
}

uint32_t ls_device__site(const void *code, const ls_cuda_site *site) {
    if (code != NULL) {
        code = in_first_image(code);
    }
    uintptr_t key = code != NULL ? (uintptr_t)code : (uintptr_t)site->file + (uintptr_t)site->line;
    uint32_t *cached = &s.cache[(key ^ key >> 12) % CACHE];
    if (*cached > 0 && is(&s.all[*cached], code, site)) {
        return *cached;
    }
    for (uint32_t i = 1; i < s.count; i++) {
        if (is(&s.all[i], code, site)) {
            return *cached = i;
        }
    }
    if (s.count + 1 >= s.room) {
        s.room = s.room * 2 + 256;
        s.all = realloc(s.all, s.room * sizeof *s.all);
        LS_ASSERT(s.all != NULL);
    }
    s.count = s.count == 0 ? 1 : s.count;
    s.all[s.count] = (place){code, code != NULL ? (ls_cuda_site){NULL, 0} : *site};
    return *cached = s.count++;
}

#ifdef LOCKSTEP_HAVE_DW
static Dwfl *dwfl;

static void look_up(void *arg) {
    place *at = arg;
    static const Dwfl_Callbacks calls = {.find_elf = dwfl_linux_proc_find_elf,
                                         .find_debuginfo = dwfl_standard_find_debuginfo};
    if (dwfl == NULL) {
        dwfl = dwfl_begin(&calls);
        if (dwfl == NULL || dwfl_linux_proc_report(dwfl, getpid()) != 0 ||
            dwfl_report_end(dwfl, NULL, NULL) != 0) {
            return;
        }
    }
    Dwarf_Addr code = (Dwarf_Addr)(uintptr_t)at->code - 1;
    Dwfl_Module *module = dwfl_addrmodule(dwfl, code);
    Dwfl_Line *line = module != NULL ? dwfl_module_getsrc(module, code) : NULL;
    if (line != NULL) {
        const char *file = dwfl_lineinfo(line, NULL, &at->site.line, NULL, NULL, NULL);
        const char *folder = dwfl_line_comp_dir(line);
        size_t length = folder != NULL ? strlen(folder) : 0;
        bool inside = length > 0 && strncmp(file, folder, length) == 0 && file[length] == '/';
        at->site.file = inside ? file + length + 1 : file;  // as the compiler was given it
    }
}

#else
static void look_up(void *arg) {
    (void)arg;
}
#endif

ls_cuda_site ls_device__site_at(uint32_t number) {
    place *at = &s.all[number];
    if (at->code != NULL && at->site.file == NULL) {
        ls_device__with_stack(look_up, at);
        at->site.file = at->site.file != NULL ? at->site.file : "an unknown line";
    }
    return at->site;
}
