// Finds the object that contains a call's buffer: an allocation, a variable of the program, or an
// array in an active frame. A buffer must not end behind its object.
//
// Sizes come from the program's symbols and from its debug information, which gives the location of
// a function's variables at each instruction. Without this information there is no object, and no
// finding.
#define _GNU_SOURCE  // dlinfo
#include "mpi/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LOCKSTEP_HAVE_DW
#include <dlfcn.h>
#include <dwarf.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include "mpi/debug_info.h"

#define SITES 1024  // lists of call sites, by a hash of their addresses

// Locations relative to the stack pointer are not used: Clang's are wrong while arguments are on
// the stack. lockstep-cc keeps frame pointers.
#if defined(__x86_64__)
enum { FRAME_POINTER = 6 };
#else  // AArch64
enum { FRAME_POINTER = 29 };
#endif
enum { FRAME_ADDRESS = -1 };  // DWARF's canonical frame address

typedef struct symbol {
    uintptr_t low, high;  // relative to the image, or to its thread-local block
    const char *name;
} symbol;

typedef struct symbols {
    symbol *all;
    size_t count, room;
} symbols;

// A variable of a frame that waits in a call.
typedef struct variable {
    int from;
    ptrdiff_t offset;
    size_t bytes;
    const char *name, *file;
    int line;
} variable;

typedef struct site {
    struct site *next;
    uintptr_t code;
    variable *variables;
    size_t count;
} site;

typedef struct frame {
    uintptr_t code, stack, pointer, address;  // address: where the frame ends
} frame;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static Elf *elf;
static Dwarf *debug;
static int image = -1;
static symbols own[2];  // ordinary ones, then thread-local ones, by address
static site *sites[SITES];

// ---- Global and static variables ----------------------------------------------------------------
static void add_symbol(symbols *to, const symbol *made) {
    if (to->count == to->room) {
        size_t room = to->room == 0 ? 64 : 2 * to->room;
        symbol *more = realloc(to->all, room * sizeof *more);
        if (more == NULL) {
            return;
        }
        to->all = more;
        to->room = room;
    }
    to->all[to->count++] = *made;
}

// Parts of a section that the program names explicitly may form one array that it iterates over.
static bool is_whole(size_t section) {
    size_t names;
    GElf_Shdr head;
    Elf_Scn *of = section < SHN_LORESERVE ? elf_getscn(elf, section) : NULL;
    const char *name =
        of != NULL && gelf_getshdr(of, &head) != NULL && elf_getshdrstrndx(elf, &names) == 0
            ? elf_strptr(elf, names, head.sh_name)
            : NULL;
    return name != NULL && name[0] == '.';
}

static void read_symbols(Elf_Scn *section, const GElf_Shdr *head) {
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Sym at;
    for (int i = 0; data != NULL && gelf_getsym(data, i, &at) != NULL; i++) {
        int type = GELF_ST_TYPE(at.st_info);
        if (at.st_size == 0 || (type != STT_OBJECT && type != STT_TLS) || !is_whole(at.st_shndx)) {
            continue;
        }
        const symbol made = {at.st_value, at.st_value + at.st_size,
                             elf_strptr(elf, head->sh_link, at.st_name)};
        add_symbol(&own[type == STT_TLS ? 1 : 0], &made);
    }
}

static int by_place(const void *a, const void *b) {
    const symbol *x = a, *y = b;
    if (x->low != y->low) {
        return x->low < y->low ? -1 : 1;
    }
    if (x->high == y->high) {
        return 0;
    }
    return x->high > y->high ? -1 : 1;
}

// A symbol inside another variable names that variable.
static void join(symbols *of) {
    size_t kept = 0;
    qsort(of->all, of->count, sizeof *of->all, by_place);
    for (size_t i = 0; i < of->count; i++) {
        symbol *last = kept > 0 ? &of->all[kept - 1] : NULL;
        if (last != NULL && of->all[i].low < last->high) {
            last->high = of->all[i].high > last->high ? of->all[i].high : last->high;
        } else {
            of->all[kept++] = of->all[i];
        }
    }
    of->count = kept;
}

static const symbol *symbol_at(const symbols *of, uintptr_t at) {
    size_t low = 0, high = of->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (of->all[middle].low <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && at < of->all[low - 1].high ? &of->all[low - 1] : NULL;
}

static bool find_symbol(mpi_object *out, const symbols *of, const char *start, const char *at) {
    const symbol *found = symbol_at(of, (uintptr_t)at - (uintptr_t)start);
    if (found != NULL) {
        *out = (mpi_object){.low = start + found->low,
                            .high = start + found->high,
                            .name = found->name != NULL ? found->name : "a variable"};
    }
    return found != NULL;
}

static bool find_global(mpi_object *out, const mpi_rank *me, const char *at) {
    void *local = NULL;
    if (at >= me->code_low && at < me->code_high) {
        return find_symbol(out, &own[0], me->code_low, at);
    }
    return own[1].count > 0 && dlinfo(me->library, RTLD_DI_TLS_DATA, &local) == 0 &&
           local != NULL && find_symbol(out, &own[1], local, at);
}

// ---- Variables of functions ---------------------------------------------------------------------
// What an attribute says of an address, where that is one operation.
static bool one_operation(Dwarf_Op *out, Dwarf_Die *die, unsigned name, Dwarf_Addr code) {
    Dwarf_Attribute attribute;
    Dwarf_Op *all;
    size_t count;
    if (dwarf_attr(die, name, &attribute) == NULL ||
        dwarf_getlocation_addr(&attribute, code, &all, &count, 1) != 1 || count != 1) {
        return false;
    }
    *out = all[0];
    return true;
}

static bool place_of(variable *out, const Dwarf_Op *at, const Dwarf_Op *base) {
    if (at->atom == DW_OP_fbreg && base != NULL) {
        bool known = place_of(out, base, NULL);
        out->offset += (ptrdiff_t)at->number;
        return known;
    }
    bool added = at->atom >= DW_OP_breg0 && at->atom <= DW_OP_breg31;
    bool plain = base == NULL && at->atom >= DW_OP_reg0 && at->atom <= DW_OP_reg31;
    out->offset = added ? (ptrdiff_t)at->number : 0;
    out->from = plain ? at->atom - DW_OP_reg0 : FRAME_ADDRESS;
    if (added) {
        out->from = at->atom - DW_OP_breg0;
    }
    return added || plain || (base == NULL && at->atom == DW_OP_call_frame_cfa);
}

static bool size_of(size_t *out, Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    Dwarf_Die type;
    Dwarf_Word bytes;
    if (dwarf_attr_integrate(die, DW_AT_type, &attribute) == NULL ||
        dwarf_formref_die(&attribute, &type) == NULL || dwarf_aggregate_size(&type, &bytes) != 0) {
        return false;  // of a size that the program computes
    }
    *out = bytes;
    return true;
}

// Not every compiler numbers the source of its unit.
static void declaration_of(const char **file, int *line, Dwarf_Die *die) {
    Dwarf_Die unit;
    *file = dwarf_decl_file(die);
    if (*file == NULL && dwarf_diecu(die, &unit, NULL, NULL) != NULL) {
        *file = dwarf_diename(&unit);
    }
    (void)dwarf_decl_line(die, line);
}

static void add_variable(site *to, Dwarf_Die *die, const Dwarf_Op *base, const char *file,
                         int line) {
    Dwarf_Op at;
    variable made = {.name = dwarf_diename(die)};
    declaration_of(&made.file, &made.line, die);
    const char *own_file = dwarf_decl_file(die);
    // Its location may belong to another variable until it is declared.
    bool later =
        made.line > line && (own_file == NULL || (file != NULL && strcmp(own_file, file) == 0));
    if (later || !one_operation(&at, die, DW_AT_location, to->code) ||
        !place_of(&made, &at, base) || !size_of(&made.bytes, die) ||
        (made.from != FRAME_ADDRESS && made.from != FRAME_POINTER)) {
        return;
    }
    variable *more = realloc(to->variables, (to->count + 1) * sizeof *more);
    if (more != NULL) {
        to->variables = more;
        to->variables[to->count++] = made;
    }
}

static bool unit_of(Dwarf_Die *out, Dwarf_Addr code) {
    Dwarf_CU *unit = NULL;
    uint8_t type;
    while (dwarf_get_units(debug, unit, &unit, NULL, &type, out, NULL) == 0) {
        if (dwarf_haspc(out, code) > 0) {
            return true;
        }
    }
    return false;
}

bool ls_mpi__unit_hold(Dwarf_Die *out, Dwarf_Addr code) {
    (void)pthread_mutex_lock(&turn);
    bool found = debug != NULL && unit_of(out, code);
    if (!found) {
        (void)pthread_mutex_unlock(&turn);
    }
    return found;
}

void ls_mpi__unit_release(void) {
    (void)pthread_mutex_unlock(&turn);
}

// The variables of the scopes around an instruction, from the innermost scope to the function.
static void read_variables(site *to) {
    Dwarf_Die unit, *scopes = NULL;
    Dwarf_Op base = {0};
    if (debug == NULL || !unit_of(&unit, to->code)) {
        return;
    }
    int count = ls_mpi__scopes_at(&scopes, &unit, to->code), line = INT_MAX, function = 0;
    Dwarf_Line *at = dwarf_getsrc_die(&unit, to->code);
    const char *file = at != NULL ? dwarf_linesrc(at, NULL, NULL) : NULL;
    (void)(at != NULL && dwarf_lineno(at, &line));
    while (function < count && dwarf_tag(&scopes[function]) != DW_TAG_subprogram) {
        function += 1;
    }
    bool based =
        function < count && one_operation(&base, &scopes[function], DW_AT_frame_base, to->code);
    for (int i = 0; based && i <= function; i++) {
        Dwarf_Die child;
        for (int more = dwarf_child(&scopes[i], &child); more == 0;
             more = dwarf_siblingof(&child, &child)) {
            int tag = dwarf_tag(&child);
            if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter) {
                add_variable(to, &child, &base, file, line);
            }
        }
        line = dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine ? INT_MAX : line;
    }
    free(scopes);
}

static const site *site_of(uintptr_t code) {
    site **list = &sites[code % SITES];
    for (const site *at = *list; at != NULL; at = at->next) {
        if (at->code == code) {
            return at;
        }
    }
    site *made = ls_mpi__alloc(sizeof *made);
    made->code = code;
    made->next = *list;
    *list = made;
    read_variables(made);
    return made;
}

typedef struct walk {
    uintptr_t at;
    frame here;  // the last variable that was visited
    bool found;  // `at` is in it
} walk;

// A frame ends at the next frame's stack pointer.
static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg) {
    walk *w = arg;
    uintptr_t stack = _Unwind_GetCFA(context);
    if (w->here.code != 0 && w->at < stack) {
        w->here.address = stack;
        w->found = w->at >= w->here.stack;
        return _URC_END_OF_STACK;
    }
    w->here = (frame){.code = _Unwind_GetIP(context),
                      .stack = stack,
                      .pointer = (uintptr_t)_Unwind_GetGR(context, FRAME_POINTER)};
    return w->here.code != 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// If variables share a location, the largest: the active one cannot be determined.
static bool find_local(mpi_object *out, const mpi_rank *me, const char *at) {
    uintptr_t place = (uintptr_t)at, start;
    walk w = {.at = place};
    if (!ls_mpi__on_stack(me, at)) {
        return false;
    }
    (void)_Unwind_Backtrace(step, &w);
    if (!w.found || w.here.code < (uintptr_t)me->code_low ||
        w.here.code >= (uintptr_t)me->code_high) {
        return false;
    }
    const site *of = site_of(w.here.code - (uintptr_t)me->code_low - 1);
    bool found = false;
    for (size_t i = 0; i < of->count; i++) {
        const variable *v = &of->variables[i];
        start = v->from == FRAME_ADDRESS ? w.here.address : w.here.pointer;
        start += (uintptr_t)v->offset;
        if (place < start || place - start >= v->bytes ||
            (found && (uintptr_t)out->high >= start + v->bytes)) {
            continue;
        }
        const char *first = at - (place - start);
        *out = (mpi_object){.low = first,
                            .high = first + v->bytes,
                            .name = v->name != NULL ? v->name : "a variable",
                            .file = v->file,
                            .line = v->line};
        found = true;
    }
    return found;
}

// ---- The declaration of a global variable: looked up only when it is reported -------------------
static bool is_at(Dwarf_Die *die, Dwarf_Addr address) {
    Dwarf_Attribute location, indexed;
    Dwarf_Op *all;
    Dwarf_Addr at;
    size_t count;
    if (dwarf_attr(die, DW_AT_location, &location) == NULL ||
        dwarf_getlocation(&location, &all, &count) != 0 || count != 1) {
        return false;
    }
    if (all[0].atom == DW_OP_addr) {
        return all[0].number == address;
    }
    return all[0].atom == DW_OP_addrx &&
           dwarf_getlocation_attr(&location, &all[0], &indexed) == 0 &&
           dwarf_formaddr(&indexed, &at) == 0 && at == address;
}

static bool find_declaration(mpi_object *out, Dwarf_Die *around, Dwarf_Addr address) {
    Dwarf_Die child;
    for (int more = dwarf_child(around, &child); more == 0;
         more = dwarf_siblingof(&child, &child)) {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_variable && is_at(&child, address)) {
            const char *name = dwarf_diename(&child);
            out->name = name != NULL ? name : out->name;
            declaration_of(&out->file, &out->line, &child);
            return true;
        }
        bool inside = tag == DW_TAG_namespace || tag == DW_TAG_subprogram ||
                      tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine;
        if (inside && find_declaration(out, &child, address)) {
            return true;
        }
    }
    return false;
}

void ls_mpi__variable_declared(mpi_object *object, const mpi_rank *me) {
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    uint8_t type;
    bool found = object->file != NULL || debug == NULL;
    (void)pthread_mutex_lock(&turn);
    while (!found && dwarf_get_units(debug, unit, &unit, NULL, &type, &die, NULL) == 0) {
        found = find_declaration(object, &die, (Dwarf_Addr)(object->low - me->code_low));
    }
    (void)pthread_mutex_unlock(&turn);
}

// ---- The program --------------------------------------------------------------------------------
void ls_mpi__objects_open(const char *path) {
    GElf_Shdr head;
    (void)elf_version(EV_CURRENT);
    image = open(path, O_RDONLY | O_CLOEXEC);
    elf = image >= 0 ? elf_begin(image, ELF_C_READ_MMAP, NULL) : NULL;
    debug = elf != NULL ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
    for (Elf_Scn *at = NULL; elf != NULL && (at = elf_nextscn(elf, at)) != NULL;) {
        if (gelf_getshdr(at, &head) != NULL && head.sh_type == SHT_SYMTAB) {
            read_symbols(at, &head);
        }
    }
    join(&own[0]);
    join(&own[1]);
}

void ls_mpi__objects_close(void) {
    for (size_t i = 0; i < SITES; i++) {
        for (site *at = sites[i], *next; at != NULL; at = next) {
            next = at->next;
            free(at->variables);
            free(at);
        }
        sites[i] = NULL;
    }
    for (size_t i = 0; i < 2; i++) {
        free(own[i].all);
        own[i] = (symbols){0};
    }
    (void)dwarf_end(debug);
    (void)elf_end(elf);
    if (image >= 0) {
        (void)close(image);
    }
    debug = NULL;
    elf = NULL;
    image = -1;
}

bool ls_mpi__variable_at(mpi_object *out, const mpi_rank *me, const char *at) {
    (void)pthread_mutex_lock(&turn);
    bool found = find_global(out, me, at) || find_local(out, me, at);
    (void)pthread_mutex_unlock(&turn);
    return found;
}
#else
void ls_mpi__objects_open(const char *path) {
    (void)path;
}

void ls_mpi__objects_close(void) {
}

bool ls_mpi__variable_at(mpi_object *out, const mpi_rank *me, const char *at) {
    (void)out;
    (void)me;
    (void)at;
    return false;
}

void ls_mpi__variable_declared(mpi_object *object, const mpi_rank *me) {
    (void)object;
    (void)me;
}
#endif
