/* See pcre2.h. */
#include "data/text/pcre2.h"

#include <dlfcn.h>
#include <string.h>

#include "base/fault.h"

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define AT(NAME)                                                                                   \
    { #NAME, offsetof(hri_pcre2, NAME) }
    AT(pcre2_compile_8),
    AT(pcre2_code_free_8),
    AT(pcre2_jit_compile_8),
    AT(pcre2_match_data_create_from_pattern_8),
    AT(pcre2_match_data_free_8),
    AT(pcre2_match_context_create_8),
    AT(pcre2_match_context_free_8),
    AT(pcre2_set_match_limit_8),
    AT(pcre2_set_heap_limit_8),
    AT(pcre2_match_8),
    AT(pcre2_get_ovector_pointer_8),
    AT(pcre2_get_error_message_8),
#undef AT
};

int hri_pcre2_load(hri_pcre2 *p) {
    *p = (hri_pcre2){.library =
                         HRI_FAULT(OPEN) ? NULL : dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL)};
    for (size_t i = 0; p->library && i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(p->library, functions[i].name);
        if (!function) {
            hri_pcre2_unload(p);
            return 0;
        }
        memcpy((char *)p + functions[i].at, &function, sizeof function);
    }
    return p->library != NULL;
}

void hri_pcre2_unload(hri_pcre2 *p) {
    if (p->library) {
        dlclose(p->library);
    }
    *p = (hri_pcre2){0};
}
