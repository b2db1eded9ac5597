/* Walking stacks; see stack.h. */
#include "interpose/stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "interpose/doors.h"

enum { MOST_FRAMES = 24, MOST_LINES = 8 };

/* ---- native ---- */

static int walk(void **out, int most) {
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return 0;
    }
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    const uintptr_t top = (uintptr_t)low + size;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    int count = 0;
    while (count < most && frame >= (uintptr_t)low && frame + 2 * sizeof(void *) <= top &&
           frame % sizeof(void *) == 0) {
        const uintptr_t *at = (const uintptr_t *)frame;
        if (!at[1] || at[0] <= frame) {
            out[count] = (void *)at[1];
            count += at[1] != 0;
            break;
        }
        out[count++] = (void *)at[1];
        frame = at[0];
    }
    return count;
}

static void name_frame(const void *at, const Dl_info *info, char *out) {
    const char *file = strrchr(info->dli_fname, '/');
    const char *base =
        info->dli_sname ? (const char *)info->dli_saddr : (const char *)info->dli_fbase;
    snprintf(out, HRI_STACK_NAME, "%s+0x%llx in %s", info->dli_sname ? info->dli_sname : "",
             (unsigned long long)((const char *)at - base), file ? file + 1 : info->dli_fname);
}

int hri_stack_native(char (*out)[HRI_STACK_NAME], int most, int unwind) {
    void *frames[MOST_FRAMES];
    const int count = unwind ? backtrace(frames, MOST_FRAMES) : walk(frames, MOST_FRAMES);
    Dl_info own = {0};
    int named = 0;
    (void)dladdr((const void *)hri_stack_native, &own);
    for (int f = 0; f < count && named < most; f++) {
        Dl_info info;
        const int found = dladdr(frames[f], &info) && info.dli_fname;
        if (found && info.dli_fbase == own.dli_fbase) {
            continue; /* our own frames tell nobody anything */
        }
        if (found) {
            name_frame(frames[f], &info, out[named++]);
        } else {
            snprintf(out[named++], HRI_STACK_NAME, "%p", frames[f]);
        }
    }
    return named;
}

/* ---- Python ---- */

typedef struct python {
    int looked, there;
    int (*held)(void);                  /* PyGILState_Check */
    void *(*state)(void);               /* PyThreadState_GetUnchecked, or its older name */
    void *(*error)(void);               /* PyErr_Occurred */
    void (*clear)(void);                /* PyErr_Clear */
    void *(*frame)(void);               /* PyEval_GetFrame: borrowed */
    void *(*back)(void *);              /* PyFrame_GetBack: owned */
    void *(*code)(void *);              /* PyFrame_GetCode: owned */
    int (*line)(void *);                /* PyFrame_GetLineNumber */
    void *(*get)(void *, const char *); /* PyObject_GetAttrString: owned */
    const char *(*text)(void *);        /* PyUnicode_AsUTF8: as long as the object */
    void (*drop)(void *);               /* Py_DecRef */
} python;

/* Looked up when first asked for.  Two threads that do so find the same. */
static const python *find_python(void) {
    static python found; /* looked is written last */
    if (__atomic_load_n(&found.looked, __ATOMIC_ACQUIRE)) {
        return found.there ? &found : NULL;
    }
    const struct {
        const char *name, *older;
        void **to;
    } names[] = {
        {"PyGILState_Check", NULL, (void **)(void *)&found.held},
        {"PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet",
         (void **)(void *)&found.state},
        {"PyErr_Occurred", NULL, (void **)(void *)&found.error},
        {"PyErr_Clear", NULL, (void **)(void *)&found.clear},
        {"PyEval_GetFrame", NULL, (void **)(void *)&found.frame},
        {"PyFrame_GetBack", NULL, (void **)(void *)&found.back},
        {"PyFrame_GetCode", NULL, (void **)(void *)&found.code},
        {"PyFrame_GetLineNumber", NULL, (void **)(void *)&found.line},
        {"PyObject_GetAttrString", NULL, (void **)(void *)&found.get},
        {"PyUnicode_AsUTF8", NULL, (void **)(void *)&found.text},
        {"Py_DecRef", NULL, (void **)(void *)&found.drop},
    };
    int there = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *at = dlsym(RTLD_DEFAULT, names[i].name);
        at = !at && names[i].older ? dlsym(RTLD_DEFAULT, names[i].older) : at;
        *names[i].to = at;
        there = there && at;
    }
    found.there = there;
    __atomic_store_n(&found.looked, 1, __ATOMIC_RELEASE);
    return there ? &found : NULL;
}

/* A text of a code object, after its last '/'. */
static size_t add_text(const python *p, void *code, const char *name, char *out, size_t size) {
    void *object = p->get(code, name);
    const char *text = object ? p->text(object) : NULL;
    const char *slash = text ? strrchr(text, '/') : NULL;
    const int wrote = text ? snprintf(out, size, "%s", slash ? slash + 1 : text) : 0;
    if (object) {
        p->drop(object);
    }
    if (!text) {
        p->clear();
    }
    return wrote < 0 ? 0 : (size_t)wrote < size ? (size_t)wrote : size - 1;
}

static size_t add_line(const python *p, void *frame, char *out, size_t size) {
    void *code = p->code(frame);
    if (!code) {
        return 0;
    }
    size_t used = add_text(p, code, "co_filename", out, size);
    const int line = snprintf(out + used, size - used, ":%d ", p->line(frame));
    used += line > 0 && (size_t)line < size - used ? (size_t)line : 0;
    used += add_text(p, code, "co_name", out + used, size - used);
    p->drop(code);
    return used;
}

void hri_stack_python(char *out, size_t size) {
    const python *p = find_python();
    size_t used = 0;
    out[0] = '\0';
    if (!p || !p->state() || !p->held() || p->error()) {
        return;
    }
    void *owned = NULL, *frame = p->frame();
    for (int i = 0; frame && i < MOST_LINES && used + 2 < size; i++) {
        if (i) {
            out[used++] = ';';
        }
        used += add_line(p, frame, out + used, size - used);
        void *back = p->back(frame);
        if (owned) {
            p->drop(owned);
        }
        frame = owned = back;
    }
    if (owned) {
        p->drop(owned);
    }
    out[used] = '\0';
}
