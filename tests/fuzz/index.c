/* Indexes of sharded safetensors from outside, beside two files that are good: whatever the bytes, opening ends with a status and a
 * sentence, and every tensor of what was accepted can be read from the file that it lies in. */
#include "source.h"
#include "weights/safetensors.h"

static char folder[64];

static void put(const char *name, const void *data, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    must(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static void put_tensors(const char *name, const char *header) {
    char bytes[512];
    const uint64_t n = strlen(header);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    memset(bytes + 8 + n, 1, 8);
    put(name, bytes, 8 + n + 8);
}

static void leave(void) {
    static const char *const names[] = {"a.safetensors", "b.safetensors", "m.index.json"};
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void make(void) {
    snprintf(folder, sizeof folder, "/tmp/headroom-fuzz-index-XXXXXX");
    must(mkdtemp(folder) != NULL);
    put_tensors("a.safetensors",
                "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}");
    put_tensors("b.safetensors",
                "{\"y\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,4]},"
                "\"z\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}");
    atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    hri_tensors t = {.fd = -1};
    hri_prose why = {""};
    if (!*folder) {
        make();
    }
    put("m.index.json", data, size);
    snprintf(path, sizeof path, "%s/m.index.json", folder);
    const hr_status status = hri_tensors_open(path, &t, &why);
    must(status == HR_OK || (fuzz_known(status) && why.text[0] != '\0'));
    must(status != HR_OK || t.count == 1 || t.count == 2 || t.count == 3);
    for (size_t i = 0; i < t.count; i++) {
        unsigned char out[8];
        const hr_type type = t.items[i].name[0] == 'x'   ? HR_TYPE_F32
                             : t.items[i].name[0] == 'y' ? HR_TYPE_F16
                                                         : HR_TYPE_U8;
        must(hri_tensors_find(&t, t.items[i].name) == &t.items[i]);
        must(hri_tensors_read(&t, &t.items[i], 0, 2, type, out, &why) == HR_OK);
        must(out[0] == 1 && out[1] == 1);
    }
    hri_tensors_close(&t);
    return 0;
}
