// Python's frames by its C API, whose functions are looked up in the process: nothing here needs
// Python to build, and a process without Python has none of it.
//
// The caller may hold the interpreter's lock or not (torch gives it up around collectives, and
// autograd's threads never had it). PyGILState_Ensure does either: it takes the lock only from who
// does not hold it. It could wait for ever only if the lock's holder waited for this call; torch's
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

// Where torch's package lies, with a slash behind it; "" until it is imported.
static char torch_folder[1024];

// Looked up in the modules that are imported: a program's own folder may be called torch, too.
static void find_torch(void) {
    if (torch_folder[0] != 0) {
        return;
    }
    void *name = api.string("torch");
    void *torch = name != NULL ? api.module(name) : NULL;
    if (torch != NULL) {
        copy_attribute(torch_folder, sizeof torch_folder, torch, "__file__");
        char *slash = strrchr(torch_folder, '/');
        torch_folder[slash != NULL ? slash + 1 - torch_folder : 0] = 0;
        api.drop(torch);
    }
    if (name != NULL) {
        api.drop(name);
    }
}

static bool in_torch(const char *file, const char *part) {
    size_t length = strlen(torch_folder);
    return length > 0 && strncmp(file, torch_folder, length) == 0 &&
           strncmp(file + length, part, strlen(part)) == 0;
}

// Torch's own, or of what stands between it and a program.
static bool of_torch(const char *file) {
    return in_torch(file, "") || file[0] == '<' || strstr(file, "/contextlib.py") != NULL ||
           strstr(file, "/lockstep/torch_") != NULL;
}

// Adds a frame; `own`: it is not torch's.
static void add(ls_python_place *out, size_t *length, const char *file, int line,
                const char *function, bool own) {
    if (out->line == 0 || (own && of_torch(out->file))) {
        (void)snprintf(out->file, sizeof out->file, "%s", file);
        out->line = line;
    }
    if (!own) {
        return;
    }
    size_t room = sizeof out->stack - *length;
    int wrote = snprintf(out->stack + *length, room, "%s:%d %s\n", file, line, function);
    if (wrote < 0 || (size_t)wrote >= room) {
        out->stack[*length] = 0;
    } else {
        *length += (size_t)wrote;
    }
}

// Takes `frame`, which it drops.
static void walk(ls_python_place *out, void *frame) {
    size_t length = 0;
    out->in_torch = false;
    for (int depth = 0; frame != NULL && depth < 128; depth++) {
        char file[sizeof out->file], function[256];
        void *code = api.code(frame);
        copy_attribute(file, sizeof file, code, "co_filename");
        copy_attribute(function, sizeof function, code, "co_name");
        out->in_torch = depth == 0 ? in_torch(file, "distributed/") : out->in_torch;
        add(out, &length, file, api.line(frame), function, !of_torch(file));
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
    int state = api.ensure();
    void *type = NULL, *value = NULL, *trace = NULL;
    api.fetch(&type, &value, &trace);
    find_torch();
    void *frame = first ? NULL : api.frame();  // borrowed; a frame of another thread is ours
    if (frame != NULL) {
        api.keep(frame);
    } else {
        frame = first_frame();
    }
    walk(out, frame);
    api.restore(type, value, trace);
    api.release(state);
    return out->line != 0;
}

bool ls_python_here(ls_python_place *out) {
    return gather(out, false);
}

bool ls_python_first(ls_python_place *out) {
    return gather(out, true);
}
