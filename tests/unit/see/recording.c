/* Recordings: what a plan becomes, files of them, and files that end too early or lie. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "see/from_plan.h"
#include "see/hrp.h"
#include "see/open.h"
#include "see/outputs.h"
#include "pictures.h"
#include "test.h"

static hr_plan *plan(hr_ctx **ctx, const char *model, const char *budget, int64_t parts) {
    const hr_ctx_options c = {.size = sizeof c, .visible_devices = "", .no_cuda = 1};
    const hr_job_options o = {.size = sizeof o,
                              .model = model,
                              .batch = 8,
                              .budget = budget,
                              .micro_batches = parts,
                              .device = "null:1GiB",
                              .device_spec = "page=4KiB",
                              .effort = 200000,
                              .no_measure = 1};
    hr_plan *p = NULL;
    hr_error why = {0};
    CHECK_OK(hr_ctx_create(&c, ctx));
    CHECK_OK(hr_job_plan(*ctx, &o, &p, &why));
    return p;
}

static hri_recording record(const char *model, const char *budget, int64_t parts,
                            hr_plan_summary *s) {
    hr_ctx *ctx;
    hri_recording r = {0};
    hr_plan *p = plan(&ctx, model, budget, parts);
    *s = (hr_plan_summary){.size = sizeof *s};
    CHECK_OK(hr_plan_get_summary(p, s));
    CHECK_OK(hri_recording_from_plan(p, &r));
    s->model = s->peak_op = NULL; /* the plan's */
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
    return r;
}

static void check_plan(const char *model, const char *budget, int64_t parts) {
    hr_plan_summary s;
    hri_recording r = record(model, budget, parts, &s);
    const hri_see_buffer *b = hri_recording_buffers(&r);
    const size_t ops = r.tables[HRI_SEE_OPS].count, count = r.tables[HRI_SEE_BUFFERS].count;
    uint64_t planned = 0, *live;
    for (size_t i = 0; i < r.tables[HRI_SEE_PARTS].count; i++) {
        planned += hri_recording_parts(&r)[i].planned_bytes;
    }
    CHECK_EQ(planned, s.peak_bytes);
    CHECK_EQ(r.head.peak_bytes, s.peak_bytes);
    CHECK_EQ(r.head.arena_bytes, s.persistent_bytes + s.arena_bytes);
    CHECK_OK(hri_recording_live(&r, &live));
    const uint64_t *at = live + r.head.peak_op * HRI_SEE_CATEGORIES;
    CHECK_EQ(at[HRI_SEE_PARAMETERS], s.parameter_bytes);
    CHECK_EQ(at[HRI_SEE_OPTIMIZER], s.state_bytes);
    uint64_t sum = 0;
    for (int c = 0; c < HRI_SEE_CATEGORIES; c++) {
        sum += at[c];
    }
    CHECK_EQ(sum, s.live_bytes);
    hri_free(live);
    for (size_t i = 0; i < count; i++) {
        CHECK(b[i].birth < b[i].death && b[i].death <= ops && b[i].bytes > 0);
        CHECK(b[i].offset + b[i].bytes <= r.head.arena_bytes && b[i].asked_bytes <= b[i].bytes);
        for (size_t k = 0; k < i; k++) { /* no two overlap */
            const bool together = b[k].death > b[i].birth && b[i].death > b[k].birth;
            CHECK(!together || b[k].offset + b[k].bytes <= b[i].offset ||
                  b[i].offset + b[i].bytes <= b[k].offset);
        }
    }
    hri_recording_deinit(&r);
}

TEST(recording, of_a_plan_adds_up_and_nothing_overlaps) {
    check_plan("resnet18:size=32,width=8", "12MiB", 0);
    check_plan("gpt2-nano", NULL, 1);
}

TEST(recording, of_micro_batches_has_each_graph_once) {
    check_plan("mlp:size=8,width=64", "1MiB", 4);
    hr_plan_summary s;
    hri_recording r = record("mlp:size=8,width=64", "1MiB", 4, &s);
    const hri_see_op *ops = hri_recording_ops(&r);
    CHECK_EQ(ops[0].graph, 0);
    CHECK_EQ(ops[r.tables[HRI_SEE_OPS].count - 1].graph, 1);
    CHECK(strstr(r.head.graphs, "micro-batch of 2 samples, 3 runs per step;last micro-batch"));
    hri_recording_deinit(&r);
}

/* ---- files ---- */

typedef struct bytes {
    unsigned char *data;
    size_t count;
} bytes;

static hr_status keep(void *user, const void *data, size_t count, hri_prose *why) {
    bytes *b = user;
    (void)why;
    b->data = realloc(b->data, b->count + count);
    memcpy(b->data + b->count, data, count);
    b->count += count;
    return HR_OK;
}

static bytes encoded(const hri_recording *r) {
    bytes b = {0};
    CHECK_OK(hri_hrp_encode(r, keep, &b, NULL));
    return b;
}

static hri_recording many(size_t rows) {
    hri_recording r = {.head = {.model = "made up", .fits = 1, .budget_bytes = 1 << 30}};
    hri_see_op op = {.end_ns = 5};
    CHECK_OK(hri_recording_text(&r, "an op", &op.name));
    for (uint32_t i = 0; i < rows; i++) {
        hri_see_buffer b = {.birth = i, .death = i + 3, .offset = 64 * (i % 3), .bytes = 64};
        char name[32];
        snprintf(name, sizeof name, "value %u", i);
        CHECK_OK(hri_recording_text(&r, name, &b.name));
        CHECK_OK(hri_recording_add(&r, HRI_SEE_OPS, &op));
        CHECK_OK(hri_recording_add(&r, HRI_SEE_BUFFERS, &b));
    }
    CHECK_OK(hri_recording_finish(&r));
    return r;
}

TEST(hrp, what_is_written_is_read) {
    hr_plan_summary s;
    hri_recording a = record("resnet18:size=32,width=8", "12MiB", 0, &s), b = {0};
    bytes first = encoded(&a);
    CHECK_OK(hri_hrp_decode(first.data, first.count, &b, NULL));
    CHECK(!b.truncated);
    bytes second = encoded(&b);
    CHECK_EQ(first.count, second.count);
    CHECK(!memcmp(first.data, second.data, first.count));
    for (int t = 0; t < HRI_SEE_TABLES; t++) {
        CHECK_EQ(a.tables[t].count, b.tables[t].count);
    }
    CHECK_STR(a.head.model, b.head.model);
    hri_recording_deinit(&a);
    hri_recording_deinit(&b);
    free(first.data);
    free(second.data);
}

TEST(hrp, a_truncated_file_gives_every_whole_block) {
    hri_recording a = many(3 * HRI_HRP_BLOCK_ROWS + 5);
    bytes all = encoded(&a);
    size_t rows = 0, last = 0;
    for (size_t cut = all.count - 1; cut > 0; cut -= cut > 30000 ? 20011 : 1 + cut / 200) {
        hri_recording b = {0};
        hri_prose why = {0};
        const hr_status status = hri_hrp_decode(all.data, cut, &b, &why);
        if (status != HR_OK) {
            CHECK_STATUS(status, HR_E_FORMAT);
            CHECK(why.text[0] && cut < 2048);
            continue;
        }
        CHECK(b.truncated);
        rows = b.tables[HRI_SEE_OPS].count;
        CHECK(rows == a.tables[HRI_SEE_OPS].count || rows % HRI_HRP_BLOCK_ROWS == 0);
        CHECK(last == 0 || rows <= last);
        last = rows ? rows : last;
        for (size_t i = 0; i < b.tables[HRI_SEE_BUFFERS].count; i++) {
            CHECK(hri_recording_buffers(&b)[i].death <= rows);
        }
        hri_recording_deinit(&b);
    }
    CHECK_EQ(rows, 0);
    free(all.data);
    hri_recording_deinit(&a);
}

TEST(hrp, a_damaged_block_ends_the_file) {
    hri_recording a = many(HRI_HRP_BLOCK_ROWS * 2), b = {0};
    bytes all = encoded(&a);
    all.data[all.count - 100] ^= 1; /* in the last block of buffers */
    CHECK_OK(hri_hrp_decode(all.data, all.count, &b, NULL));
    CHECK(b.truncated);
    CHECK_EQ(b.tables[HRI_SEE_OPS].count, 2 * HRI_HRP_BLOCK_ROWS);
    CHECK_EQ(b.tables[HRI_SEE_BUFFERS].count, HRI_HRP_BLOCK_ROWS);
    hri_recording_deinit(&b);
    hri_prose why = {0};
    all.data[8] = 2;
    CHECK_STATUS(hri_hrp_decode(all.data, all.count, &b, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.text, "version 2"));
    free(all.data);
    hri_recording_deinit(&a);
}

TEST(page, has_everything_in_one_file) {
    char path[512], *text;
    size_t count;
    hri_recording a = many(10);
    snprintf(path, sizeof path, "%s/page.html", test_folder());
    CHECK_OK(hri_see_write(&a, &(hri_see_outputs){.html = path}, NULL));
    CHECK_OK(hri_file_read(path, 16 << 20, &text, &count, NULL));
    CHECK(
        strstr(text, "<script type=\"text/plain\" class=\"recording\" data-name=\"made up\">H4s"));
    CHECK(strstr(text, "script-src 'sha256-"));
    CHECK(!strstr(text, "<!-- ") && !strstr(text, "http:") && !strstr(text, "https:"));
    CHECK(!strstr(text, "src=") && !strstr(text, "@import") && !strstr(text, "url("));
    hri_free(text);
    hri_recording_deinit(&a);
}
