// Python's frames by its C API, whose functions are looked up in the process: nothing here needs
// Python to build, and a process without Python has none of it.
//
// The caller may hold the interpreter's lock or not (torch gives it up around collectives, and
// autograd's threads never had it). PyGILState_Ensure does either: it takes the lock only from who
// does not hold it. It could hang only if the lock's holder waited for this call; torch's
// own flight recorder takes it at the same place.
#define _GNU_SOURCE  // RTLD_DEFAULT
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "exec/site.h"

typedef struct python {
    int (*is_initialized)(void);
    int (*is_finalizing)(void);
    int (*ensure)(void);
    void (*release)(int);
    void *(*frame)(void);  // borrowed
    void *(*back)(void *);
    void *(*code)(void *);
    int (*line)(void *);
    void *(*attribute)(void *, const char *);
    void *(*string)(const char *);
    void *(*module)(void *);  // one that is imported, by its name
    const char *(*utf8)(void *);
    void (*keep)(void *);
    void (*drop)(void *);
    void (*fetch)(void **, void **, void **);
    void (*restore)(void *, void *, void *);
    void *(*interpreter)(void);
    void *(*first_thread)(void *);
    void *(*next_thread)(void *);
    void *(*thread_frame)(void *);
} python;

static python api;
static bool there;
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

static bool find(void *out, const char *name) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

// Looked for until it is found: the interpreter may be loaded after the first call.
static bool load(void) {
    (void)pthread_mutex_lock(&looking);
    if (!there && find(&api.is_initialized, "Py_IsInitialized")) {
        there = find(&api.ensure, "PyGILState_Ensure") &&
                find(&api.release, "PyGILState_Release") && find(&api.frame, "PyEval_GetFrame") &&
                find(&api.back, "PyFrame_GetBack") && find(&api.code, "PyFrame_GetCode") &&
                find(&api.line, "PyFrame_GetLineNumber") &&
                find(&api.attribute, "PyObject_GetAttrString") &&
                find(&api.string, "PyUnicode_FromString") &&
                find(&api.module, "PyImport_GetModule") && find(&api.utf8, "PyUnicode_AsUTF8") &&
                find(&api.keep, "Py_IncRef") && find(&api.drop, "Py_DecRef") &&
                find(&api.fetch, "PyErr_Fetch") && find(&api.restore, "PyErr_Restore") &&
                find(&api.interpreter, "PyInterpreterState_Get") &&
                find(&api.first_thread, "PyInterpreterState_ThreadHead") &&
                find(&api.next_thread, "PyThreadState_Next") &&
                find(&api.thread_frame, "PyThreadState_GetFrame");
        if (!find(&api.is_finalizing, "Py_IsFinalizing")) {
            (void)find(&api.is_finalizing, "_Py_IsFinalizing");
        }
    }
    bool found = there;
    (void)pthread_mutex_unlock(&looking);
    return found;
}

static void copy_attribute(char *out, size_t bytes, void *code, const char *name) {
    void *value = api.attribute(code, name);
    const char *text = value != NULL ? api.utf8(value) : NULL;
    (void)snprintf(out, bytes, "%s", text != NULL ? text : "?");
    if (value != NULL) {
        api.drop(value);
    }
}

// The folders whose frames are not the program's: torch's, this package's and the standard
// library's, each with a slash at its end; "" until its module is imported.
typedef struct folder {
    const char *module;
    char path[1024];
} folder;
static folder torch = {.module = "torch"};
static folder lockstep = {.module = "lockstep"};
static folder library = {.module = "os"};

// By the modules that are imported: a program's own folder may be called torch, too.
static void find_folder(folder *of) {
    void *name = of->path[0] == 0 ? api.string(of->module) : NULL;
    void *found = name != NULL ? api.module(name) : NULL;
    if (found != NULL) {
        copy_attribute(of->path, sizeof of->path, found, "__file__");
        char *slash = strrchr(of->path, '/');
        of->path[slash != NULL ? slash + 1 - of->path : 0] = 0;
        api.drop(found);
    }
    if (name != NULL) {
        api.drop(name);
    }
}

static bool in_folder(const folder *of, const char *file, const char *part) {
    size_t length = strlen(of->path);
    return length > 0 && strncmp(file, of->path, length) == 0 &&
           strncmp(file + length, part, strlen(part)) == 0;
}

// The owner of a frame's code, by how well it names the place of a call.
typedef enum owner {
    OWNER_NOBODY,     // lockstep, the interpreter, the standard library
    OWNER_FRAMEWORK,  // torch, and whatever else is installed
    OWNER_TEXT,       // the program's, but of no file: python -c
    OWNER_PROGRAM,
} owner;

static owner owner_of(const char *file) {
    if (strcmp(file, "<string>") == 0 || strcmp(file, "<stdin>") == 0) {
        return OWNER_TEXT;
    }
    if (file[0] == '<' || in_folder(&lockstep, file, "")) {
        return OWNER_NOBODY;
    }
    if (strstr(file, "/site-packages/") != NULL || strstr(file, "/dist-packages/") != NULL ||
        in_folder(&torch, file, "")) {
        return OWNER_FRAMEWORK;
    }
    return in_folder(&library, file, "") ? OWNER_NOBODY : OWNER_PROGRAM;
}

// The place of a call: the nearest frame of the program; without one, the outermost of the
// frameworks, which is the one that the program called.
typedef struct walk_state {
    ls_python_place *out;
    size_t length;  // of the stack
    owner best;
} walk_state;

static void add(walk_state *walk, const char *file, int line, const char *function) {
    ls_python_place *out = walk->out;
    owner own = owner_of(file);
    if (own == OWNER_NOBODY || own < walk->best) {
        return;
    }
    if (own > walk->best || own == OWNER_FRAMEWORK) {
        (void)snprintf(out->file, sizeof out->file, "%s", file);
        out->line = line;
        walk->length = 0;  // frames of lesser owners are not worth a line
    }
    walk->best = own;
    size_t room = sizeof out->stack - walk->length;
    int wrote = snprintf(out->stack + walk->length, room, "%s:%d %s\n", file, line, function);
    if (wrote < 0 || (size_t)wrote >= room) {
        out->stack[walk->length] = 0;
    } else {
        walk->length += (size_t)wrote;
    }
}

// Takes `frame`, which it drops.
static void walk_frames(walk_state *walk, void *frame) {
    for (int depth = 0; frame != NULL && (depth < 128 || walk->best < OWNER_TEXT); depth++) {
        char file[sizeof walk->out->file], function[256];
        void *code = api.code(frame);
        copy_attribute(file, sizeof file, code, "co_filename");
        copy_attribute(function, sizeof function, code, "co_name");
        if (depth == 0) {
            walk->out->in_torch = in_folder(&torch, file, "distributed/");
            walk->out->connects = in_folder(&torch, file, "distributed/rendezvous.py");
        }
        add(walk, file, api.line(frame), function);
        api.drop(code);
        void *back = api.back(frame);
        api.drop(frame);
        frame = back;
    }
    if (frame != NULL) {
        api.drop(frame);
    }
}

// The frame of the interpreter's first thread, which is the last of its list.
static void *first_frame(void) {
    void *last = NULL;
    for (void *at = api.first_thread(api.interpreter()); at != NULL; at = api.next_thread(at)) {
        last = at;
    }
    return last != NULL ? api.thread_frame(last) : NULL;
}

static bool gather(ls_python_place *out, bool first) {
    if (!load() || api.is_initialized() == 0 ||
        (api.is_finalizing != NULL && api.is_finalizing() != 0)) {
        return false;
    }
    out->line = 0;
    out->file[0] = out->stack[0] = 0;
    out->in_torch = out->connects = false;
    int state = api.ensure();
    void *type = NULL, *value = NULL, *trace = NULL;
    api.fetch(&type, &value, &trace);
    find_folder(&torch);
    find_folder(&lockstep);
    find_folder(&library);
    walk_state walk = {.out = out};
    void *frame = first ? NULL : api.frame();  // borrowed
    if (frame != NULL) {
        api.keep(frame);
        walk_frames(&walk, frame);
    }
    // A thread of autograd's or of a framework's works for the first thread.
    if (walk.best < OWNER_TEXT) {
        bool in_torch = out->in_torch;
        walk.best = OWNER_NOBODY;
        walk_frames(&walk, first_frame());
        out->in_torch = frame != NULL ? in_torch : out->in_torch;
    }
    api.restore(type, value, trace);
    api.release(state);
    return out->line != 0;
}

bool ls_python_here(ls_python_place *out) {
    return gather(out, false);
}

static pthread_mutex_t entering = PTHREAD_MUTEX_INITIALIZER;
static bool closed;

// Invariant: the caller of ls_python_close does not hold the interpreter's lock, so that who is in
// there gets it.
bool ls_python_first(ls_python_place *out) {
    (void)pthread_mutex_lock(&entering);
    bool found = !closed && gather(out, true);
    (void)pthread_mutex_unlock(&entering);
    return found;
}

void ls_python_close(void) {
    (void)pthread_mutex_lock(&entering);
    closed = true;
    (void)pthread_mutex_unlock(&entering);
}
