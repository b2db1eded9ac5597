/* bench/input [FOLDER]: JPEG to batches of 64 x 224 x 224 x 3, three ways in one run, on the same files:
 *
 *   headroom   images | shuffle | decode(224) | batch(64) | prefetch, in 64 MiB, all cores
 *   plain      as many threads as cores, each decoding whole pictures with libjpeg-turbo and doing nothing else
 *   tf.data    bench/input_tf.py, when $HEADROOM_TF_PYTHON names a Python that has TensorFlow
 *
 * Rounds of the three take turns, so that a busy machine is busy for all; what counts are the ratios of the medians.
 * Without a folder, 400 pictures from 500 x 375 to 4000 x 3000 are made first, in a temporary one.
 * The resident set is what /proc says of this process after the first rounds of ours alone. */
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jpeglib.h>
#include <headroom/headroom.h>
#include "base/clock.h"
#include "base/cores.h"

enum { ROUNDS = 3, SIZE = 224, BATCH = 64 };
#define SECONDS 4.0

static char **files;
static size_t file_count;

static void die(const char *what) {
    fprintf(stderr, "bench/input: %s\n", what);
    exit(1);
}

/* ---- pictures ---- */

static void write_jpeg(const char *path, int width, int height, unsigned seed) {
    FILE *f = fopen(path, "wb");
    if (!f) {
        die(path);
    }
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, f);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 88, TRUE);
    jpeg_start_compress(&c, TRUE);
    JSAMPROW row = malloc((size_t)width * 3);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            seed = seed * 1664525u + 1013904223u;
            const int noise = (int)(seed >> 28);
            row[3 * x] = (JSAMPLE)((x * 200 / width + noise) & 255);
            row[3 * x + 1] = (JSAMPLE)((y * 200 / height + noise) & 255);
            row[3 * x + 2] = (JSAMPLE)((((x >> 4) ^ (y >> 4)) & 1) * 80 + noise);
        }
        jpeg_write_scanlines(&c, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    fclose(f);
}

static const char *make_folder(void) {
    static char folder[] = "/tmp/headroom-input-XXXXXX";
    static const int sizes[10][2] = {{500, 375}, {500, 375}, {500, 333},  {375, 500},   {500, 375},
                                     {640, 480}, {500, 375}, {1024, 768}, {1600, 1200}, {500, 400}};
    if (!mkdtemp(folder)) {
        die("no temporary folder");
    }
    for (int i = 0; i < 400; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/class%d", folder, i % 4);
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/class%d/%04d.jpg", folder, i % 4, i);
        const int big = i % 100 == 99;
        write_jpeg(path, big ? 4000 : sizes[i % 10][0], big ? 3000 : sizes[i % 10][1], (unsigned)i);
    }
    return folder;
}

static void list_files(const char *folder) {
    char pattern[1024];
    static glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*/*.jpg", folder);
    if (glob(pattern, 0, NULL, &found) != 0) {
        die("there are no FOLDER/CLASS/NAME.jpg");
    }
    files = found.gl_pathv;
    file_count = found.gl_pathc;
}

/* ---- the three ---- */

typedef struct ours {
    hr_pipeline *pipeline;
    uint64_t peak, smallest;
} ours;

static double run_ours(ours *o) {
    const uint64_t began = hri_clock_ns();
    uint64_t images = 0, now;
    do {
        hr_element *e;
        const hr_status status = hr_pipeline_next(o->pipeline, &e);
        if (status == HR_E_EOF) {
            if (hr_pipeline_rewind(o->pipeline) != HR_OK) {
                die("rewind");
            }
        } else if (status != HR_OK) {
            die(hr_status_text(status));
        } else {
            images += (uint64_t)hr_element_find(e, "image")->meta.shape.dim[0];
            hr_element_unref(e);
        }
        now = hri_clock_ns();
    } while ((double)(now - began) < SECONDS * 1e9);
    return (double)images * 1e9 / (double)(now - began);
}

static _Atomic uint64_t plain_next, plain_done;
static _Atomic int plain_stop;

static void plain_decode(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        die(path);
    }
    fseek(f, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(bytes);
    if (fread(data, 1, bytes, f) != bytes) {
        die(path);
    }
    fclose(f);
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&c);
    jpeg_mem_src(&c, data, (unsigned long)bytes);
    jpeg_read_header(&c, TRUE);
    c.out_color_space = JCS_RGB;
    jpeg_start_decompress(&c);
    const size_t row = (size_t)c.output_width * 3;
    unsigned char *out = malloc(row * c.output_height);
    while (c.output_scanline < c.output_height) {
        JSAMPROW at = out + row * c.output_scanline;
        jpeg_read_scanlines(&c, &at, 1);
    }
    jpeg_finish_decompress(&c);
    jpeg_destroy_decompress(&c);
    free(out);
    free(data);
}

static void *plain_main(void *arg) {
    (void)arg;
    while (!plain_stop) {
        const uint64_t i = plain_next++;
        plain_decode(files[i * 7919 % file_count]);
        plain_done++;
    }
    return NULL;
}

static double run_plain(unsigned cores) {
    pthread_t threads[256];
    plain_stop = 0;
    plain_done = 0;
    const uint64_t began = hri_clock_ns();
    for (unsigned i = 0; i < cores; i++) {
        if (pthread_create(&threads[i], NULL, plain_main, NULL) != 0) {
            die("no thread");
        }
    }
    usleep((useconds_t)(SECONDS * 1e6));
    plain_stop = 1;
    for (unsigned i = 0; i < cores; i++) {
        pthread_join(threads[i], NULL);
    }
    return (double)plain_done * 1e9 / (double)(hri_clock_ns() - began);
}

static double run_tf(const char *python, const char *script, const char *folder) {
    char command[2048], line[128] = "";
    snprintf(command, sizeof command, "'%s' '%s' '%s' %g 2>/dev/null", python, script, folder,
             SECONDS);
    FILE *f = popen(command, "r");
    if (!f || !fgets(line, sizeof line, f)) {
        line[0] = 0;
    }
    if (f) {
        pclose(f);
    }
    return atof(line);
}

/* ---- the sum ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x) {
    qsort(x, ROUNDS, sizeof *x, by_size);
    return x[ROUNDS / 2];
}

static unsigned long resident_kib(const char *key) {
    char line[256];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            kib = strtoul(line + strlen(key), NULL, 10);
        }
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

int main(int argc, char **argv) {
    unsigned cores = hri_cores_usable();
    cores = cores < 256 ? cores : 256;
    const char *folder = argc > 1 ? argv[1] : make_folder();
    const char *python = getenv("HEADROOM_TF_PYTHON");
    const char *script = access("bench/input_tf.py", R_OK) == 0 ? "bench/input_tf.py" : NULL;
    list_files(folder);
    char text[2048];
    snprintf(text, sizeof text, "images:%s | shuffle(seed=1) | decode(%d) | batch(%d) | prefetch",
             folder, SIZE, BATCH);
    const hr_pipeline_options po = {.size = sizeof po, .budget_bytes = 64 << 20, .skip_bad = 1};
    ours o = {0};
    hr_error error;
    if (hr_pipeline_open(&po, text, &error, &o.pipeline) != HR_OK) {
        die(error.message);
    }
    double rates[3][ROUNDS] = {{0}};
    run_ours(&o); /* the page cache is warm for all */
    const unsigned long resident = resident_kib("VmHWM:");
    for (int i = 0; i < ROUNDS; i++) {
        rates[0][i] = run_ours(&o);
        rates[1][i] = run_plain(cores);
        rates[2][i] = python && script ? run_tf(python, script, folder) : 0;
    }
    hr_pipeline_stats s = {.size = sizeof s};
    hr_pipeline_get_stats(o.pipeline, &s);
    hr_pipeline_destroy(o.pipeline);
    const double headroom = median(rates[0]), plain = median(rates[1]), tf = median(rates[2]);
    printf("%zu files, %u cores\n", file_count, cores);
    printf("headroom  %8.1f images/s  %7.1f a core   ledger's peak %.1f of 64 MiB, resident at "
           "most %.1f MiB\n",
           headroom, headroom / cores, (double)s.peak_bytes / 1048576, (double)resident / 1024);
    printf("plain     %8.1f images/s  %7.1f a core   headroom is %.2f x that\n", plain,
           plain / cores, headroom / plain);
    if (tf > 0) {
        printf("tf.data   %8.1f images/s  %7.1f a core   headroom is %.2f x that\n", tf, tf / cores,
               headroom / tf);
    } else {
        printf("tf.data   not measured: HEADROOM_TF_PYTHON names no Python with TensorFlow\n");
    }
    return 0;
}
