/* A model in several safetensors files: read as one, and every way in which an index and its files can differ is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "test.h"
#include "weights/safetensors.h"

static char folder[64], path[128];

static void put(const char *name, const char *text, int with_data) {
    char to[160];
    const uint64_t bytes = strlen(text);
    snprintf(to, sizeof to, "%s/%s", folder, name);
    FILE *f = fopen(to, "wb");
    CHECK(f != NULL);
    if (with_data) {
        fwrite(&bytes, 1, 8, f);
    }
    fwrite(text, 1, bytes, f);
    if (with_data) {
        fwrite((const float[]){(float)with_data, 2.5F}, 1, 8, f);
    }
    CHECK_EQ(fclose(f), 0);
}

static const char *index_of(const char *text) {
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/headroom-shards-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
        put("a.safetensors", "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7);
        put("b.safetensors",
            "{\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
            "\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
            8);
    }
    put("model.safetensors.index.json", text, 0);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    return path;
}

static void leave(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
    folder[0] = '\0';
}

#define BOTH                                                                                       \
    "{\"metadata\":{\"total_size\":16},\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"b."         \
    "safetensors\","                                                                               \
    "\"z\":\"b.safetensors\"}}"

TEST(sharded, several_files_are_read_as_one) {
    static const struct {
        const char *name;
        float first;
    } wanted[] = {{"x", 7}, {"y", 2.5F}, {"z", 8}};
    hri_tensors t;
    CHECK_OK(hri_tensors_open(index_of(BOTH), &t, NULL));
    CHECK_EQ(t.count, 3);
    for (size_t i = 0; i < 3; i++) {
        float x = 0;
        CHECK_OK(hri_tensors_read(&t, hri_tensors_find(&t, wanted[i].name), 0, 1, HR_TYPE_F32, &x,
                                  NULL));
        CHECK(x == wanted[i].first);
    }
    CHECK(hri_tensors_held_bytes(&t) > 0);
    hri_tensors_close(&t);
    leave();
}

TEST(sharded, an_index_that_its_files_do_not_bear_out_is_refused) {
    static const struct {
        const char *text, *part;
        hr_status status;
    } all[] = {
        {"[]", "not an object", HR_E_FORMAT},
        {"{}", "no weight_map", HR_E_FORMAT},
        {"{\"weight_map\":[]}", "weight_map is not one object", HR_E_FORMAT},
        {"{\"weight_map\":{\"x\":1}}", "x is not the name of a file", HR_E_FORMAT},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}",
         "not a file in the directory of the index", HR_E_FORMAT},
        {"{\"weight_map\":{\"x\":\"\"}}", "not a file in the directory of the index", HR_E_FORMAT},
        {"{\"weight_map\":{\"x\":\"c.safetensors\"}}", "c.safetensors", HR_E_NOT_FOUND},
        {"{\"weight_map\":{\"x\":\"b.safetensors\"}}", "tensor x is not in b.safetensors",
         HR_E_FORMAT},
        {"{\"weight_map\":{\"y\":\"b.safetensors\"}}", "have 2 tensors, the index has 1",
         HR_E_FORMAT},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"a.safetensors\"}}", "duplicate name",
         HR_E_FORMAT},
        {"{\"weight_map\":{\"x\":\"model.safetensors.index.json\"}}", "names an index",
         HR_E_FORMAT},
        {"{\"weight_map\":{\"x\":", "line 1", HR_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hri_tensors t = {.fd = -7};
        hri_prose why = {""};
        CHECK_STATUS(hri_tensors_open(index_of(all[i].text), &t, &why), all[i].status);
        CHECK_EQ(t.fd, -7);
        if (!strstr(why.text, all[i].part) || !strstr(why.text, folder)) {
            test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", why.text, all[i].part);
        }
    }
    leave();
}

#ifdef HEADROOM_FAULTS
static hr_status open_and_read(void) {
    hri_tensors t;
    float x;
    hr_status status = hri_tensors_open(path, &t, NULL);
    if (status == HR_OK) {
        status = hri_tensors_read(&t, hri_tensors_find(&t, "y"), 0, 1, HR_TYPE_F32, &x, NULL);
        hri_tensors_close(&t);
    }
    return status;
}

TEST(sharded, whatever_is_refused_on_the_way_is_a_status_and_a_retry_works) {
    index_of(BOTH);
    for (uint64_t nth = 1;; nth++) {
        CHECK(nth < 2000);
        const int64_t before = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ANY, nth, 0);
        const hr_status status = open_and_read();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), before);
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        CHECK(status == HR_E_NOMEM_HOST || status == HR_E_IO);
    }
    leave();
}
#endif
