/* See library.h. */
#include "data/image/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/fault.h"

void *hri_image_library_open(const char *const *names) {
    void *library = NULL;
    const bool none = HRI_FAULT(OPEN);
    for (; !none && !library && *names; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    return library;
}

void hri_image_library_close(void *library) {
    if (library) {
        dlclose(library);
    }
}

bool hri_image_library_get(void *library, const char *name, void *to) {
    void *function = library ? dlsym(library, name) : NULL;
    memcpy(to, &function, sizeof function);
    return function != NULL;
}
