/* A custom data source: a pipeline with callbacks that generate and change samples on demand, on all cores, within one
 * memory budget.  Uses the public API only.
 *
 *   source   draws an image of a bar at a random angle; the label is the angle in eighths of a half turn
 *   map      adds noise; the pipeline supplies the random numbers, so they depend on the seed, not on threads
 *   filter   drops images that are too dark
 *
 * The pipeline is read with 1 worker, with 4, and once more resumed from the middle: the bytes are the same.  Exits 0 if
 * they are and the budget held, 1 if not, 3 on failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <headroom/headroom.h>

enum { SIDE = 32, SAMPLES = 600, BATCH = 16 };
static const uint64_t budget = 2 << 20;

static void fail(hr_pipeline *p, const char *what) {
    hr_error error = {.code = HR_OK};
    if (p) {
        hr_pipeline_error(p, &error);
    }
    fprintf(stderr, "own_source: %s: %s\n", what, error.message);
    exit(3);
}

/* An hr_source_fn: the same index always gives the same element. */
static hr_status draw_bar(void *user, uint64_t epoch, uint64_t index, hr_emit *emit) {
    const hr_meta image = {HR_TYPE_F32, hr_shape_3(SIDE, SIDE, 1)};
    const hr_meta number = {HR_TYPE_I32, hr_shape_0()};
    void *data, *label;
    (void)user;
    (void)epoch;
    (void)index;
    hr_status status = hr_emit_field(emit, "image", &image, &data);
    if (status == HR_OK) {
        status = hr_emit_field(emit, "label", &number, &label);
    }
    if (status != HR_OK) {
        return status;
    }
    const double turn = (double)(hr_emit_random(emit) >> 11) * 0x1p-53 * 3.14159265;
    const double bright = (double)(hr_emit_random(emit) >> 11) * 0x1p-53;
    float *pixel = data;
    for (int i = 0; i < SIDE * SIDE; i++) {
        const double x = i % SIDE - SIDE / 2, y = i / SIDE - SIDE / 2;
        const double away = fabs(x * sin(turn) - y * cos(turn));
        pixel[i] = (float)(away < 3 ? bright : 0.0);
    }
    const int32_t eighth = (int32_t)(turn / 3.14159265 * 8);
    memcpy(label, &eighth, sizeof eighth);
    return HR_OK;
}

/* An hr_map_fn. */
static hr_status add_noise(void *user, const hr_element *input, hr_emit *emit) {
    const hr_field *from = hr_element_find(input, "image");
    void *data;
    (void)user;
    hr_status status = hr_emit_field(emit, "image", &from->meta, &data);
    if (status != HR_OK) {
        return status;
    }
    const float *x = from->data;
    float *y = data;
    for (int i = 0; i < SIDE * SIDE; i++) {
        y[i] = x[i] + 0.1f * ((float)(hr_emit_random(emit) >> 40) * 0x1p-24f - 0.5f);
    }
    return hr_emit_keep(emit, NULL); /* the label is passed on unchanged */
}

/* An hr_filter_fn. */
static int is_bright(void *user, const hr_element *element) {
    const float *x = hr_element_find(element, "image")->data;
    double sum = 0;
    (void)user;
    for (int i = 0; i < SIDE * SIDE; i++) {
        sum += (double)x[i];
    }
    return sum > 0.03 * SIDE * SIDE;
}

static hr_pipeline *open_pipeline(uint32_t workers) {
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = budget, .seed = 5, .workers = workers};
    const hr_meta outputs[] = {{HR_TYPE_F32, hr_shape_3(SIDE, SIDE, 1)},
                               {HR_TYPE_I32, hr_shape_0()}};
    const char *const names[] = {"image", "label"};
    const hr_map_options made = {
        .size = sizeof made, .name = "bars", .outputs = outputs, .names = names, .output_count = 2};
    const hr_map_options noisy = {.size = sizeof noisy,
                                  .name = "noise",
                                  .outputs = outputs,
                                  .names = names,
                                  .output_count = 1};
    hr_pipeline *p;
    if (hr_pipeline_create(&o, &p) != HR_OK) {
        fail(NULL, "out of memory");
    }
    if (hr_pipeline_callback(p, draw_bar, NULL, SAMPLES, &made) != HR_OK ||
        hr_pipeline_map(p, add_noise, NULL, &noisy) != HR_OK ||
        hr_pipeline_filter(p, is_bright, NULL, "bright") != HR_OK ||
        hr_pipeline_add(p, "batch(16) | prefetch") != HR_OK || hr_pipeline_build(p) != HR_OK) {
        fail(p, "build");
    }
    return p;
}

/* Reads up to `most` batches; returns their number and mixes their bytes into *sum. */
static int read_batches(hr_pipeline *p, int most, uint64_t *sum) {
    int count = 0;
    hr_element *e;
    while (count < most && hr_pipeline_next(p, &e) == HR_OK) {
        for (size_t k = 0; k < hr_element_field_count(e); k++) {
            const hr_field *field = hr_element_field(e, k);
            const unsigned char *bytes = field->data;
            for (uint64_t i = 0; i < field->bytes; i++) {
                *sum = (*sum ^ bytes[i]) * 0x100000001b3u;
            }
        }
        hr_element_unref(e);
        count++;
    }
    return count;
}

int main(void) {
    uint64_t one = 0, four = 0, resumed = 0;
    hr_pipeline *p = open_pipeline(1);
    const int count = read_batches(p, SAMPLES, &one);
    hr_pipeline_destroy(p);

    /* Four workers, stopped in the middle; another pipeline resumes from there. */
    p = open_pipeline(4);
    int got = read_batches(p, count / 2, &four);
    void *state;
    size_t bytes;
    if (hr_pipeline_save(p, &state, &bytes) != HR_OK) {
        fail(p, "save");
    }
    resumed = four;
    got += read_batches(p, SAMPLES, &four);
    hr_pipeline_stats stats = {.size = sizeof stats};
    hr_pipeline_get_stats(p, &stats);
    hr_pipeline_destroy(p);
    p = open_pipeline(2);
    if (hr_pipeline_restore(p, state, bytes) != HR_OK) {
        fail(p, "restore");
    }
    read_batches(p, SAMPLES, &resumed);
    hr_pipeline_state_free(state);
    hr_pipeline_destroy(p);

    printf("%d batches; 1 worker %016llx, 4 workers %016llx, resumed in the middle %016llx\n",
           count, (unsigned long long)one, (unsigned long long)four, (unsigned long long)resumed);
    printf("peak %.0f KiB of %.0f KiB\n", (double)stats.peak_bytes / 1024, (double)budget / 1024);
    return count == got && one == four && four == resumed && stats.peak_bytes <= budget ? 0 : 1;
}
