/* Checking and making packets; see wire.h. */
#include "broker/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int hri_wire_check(const void *packet, size_t bytes) {
    hri_wire w;
    if (bytes != sizeof w) {
        return 0;
    }
    memcpy(&w, packet, sizeof w);
    return w.magic == HRI_WIRE_MAGIC && w.version == HRI_WIRE_VERSION && w.verb >= HRI_VERB_JOB &&
           w.verb < HRI_VERB_END_ && w.said < HRI_SAID_END_ &&
           (w.flags & ~(uint32_t)HRI_WIRE_FLAGS) == 0 && w.zero == 0 &&
           memchr(w.name, '\0', sizeof w.name) != NULL;
}

hri_wire hri_wire_make(hri_verb verb) {
    hri_wire w;
    memset(&w, 0, sizeof w);
    w.magic = HRI_WIRE_MAGIC;
    w.version = HRI_WIRE_VERSION;
    w.verb = (uint16_t)verb;
    return w;
}

void hri_wire_name(hri_wire *wire, const char *text) {
    size_t length = strlen(text);
    if (length >= sizeof wire->name) {
        length = sizeof wire->name - 1;
        while (length && ((unsigned char)text[length] & 0xc0) == 0x80) {
            length--;
        }
    }
    memset(wire->name, 0, sizeof wire->name);
    memcpy(wire->name, text, length);
}

int hri_wire_folder(char *out, size_t size) {
    const char *own = getenv("HEADROOM_RUNTIME_DIR");
    const char *user = getenv("XDG_RUNTIME_DIR");
    int length;
    if (own && *own) {
        length = snprintf(out, size, "%s", own);
    } else if (user && *user) {
        length = snprintf(out, size, "%s/headroom", user);
    } else {
        length = snprintf(out, size, "/tmp/headroom-%u", (unsigned)getuid());
    }
    return length < 0 || (size_t)length >= size ? -1 : 0;
}
