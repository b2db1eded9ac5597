/* The version, from the build. */
#include <headroom/context.h>

const char *hr_version(void) {
    return HEADROOM_VERSION;
}
