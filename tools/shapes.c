/* tools/shapes [--masks|--labels] [--size WxH] DIR [COUNT [SEED]]: a folder of drawn shapes, for `make demo` and for trying things out.
 *
 * DIR/CLASS/NNNN.jpg, ten classes, COUNT pictures in all (2,000 unless said).  Each has one light shape of any place,
 * colour and stretch, of different sizes and turned a little, over a dark ground of two colours with stains, lines, dots
 * and grain; picture sizes differ too.  So no pixel and no colour tells the class, but an eye does, and a small network
 * learns to in a minute or two.
 *
 * With --masks: DIR/images/NNNN.jpg with circles, squares and stars, and DIR/masks/NNNN.png, where every pixel has a class: 0 is
 * the ground, 1 a circle, 2 a square, 3 a star.
 *
 * With --labels: DIR/images/NNNN.jpg with any of a circle, a square and a star, each in its own part of the picture, and DIR/labels.csv,
 * which has "images/NNNN.jpg" and 0 or 1 for each of the three.
 *
 * With --size 500x375 every picture has that size; no side is longer than 512.
 *
 * A shape is a function of the distance to its edge, negative inside, in a plane where the shape has the radius 1.
 * A picture depends on the seed, its class and its number alone.  Nothing of the library is used: what is trained on
 * must not come from what trains. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <jpeglib.h>
#include <png.h>

enum {
    SIDE_LEAST = 96,
    SIDE_MOST = 160,
    SIDE_ROOM = 512,
    STAINS = 5,
    QUALITY_LEAST = 80,
    QUALITY_MOST = 95
};
static const double pi = 3.14159265358979323846;

/* ---- chance ---- */

typedef struct chance {
    uint64_t state;
} chance;

static uint64_t next(chance *c) {
    uint64_t z = (c->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double between(chance *c, double low, double high) {
    return low + (high - low) * (double)(next(c) >> 11) * 0x1p-53;
}

/* Nearly normal, with deviation 1. */
static double grain(chance *c) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += between(c, -1, 1);
    }
    return sum * 0.866;
}

/* ---- shapes ---- */

typedef double shape_fn(double x, double y);

static double box(double x, double y, double half_x, double half_y) {
    return fmax(fabs(x) - half_x, fabs(y) - half_y);
}

static double circle(double x, double y) {
    return hypot(x, y) - 1;
}

static double ring(double x, double y) {
    return fabs(hypot(x, y) - 0.78) - 0.22;
}

static double square(double x, double y) {
    return box(x, y, 0.8, 0.8);
}

/* A regular polygon: its farthest side. */
static double polygon(double x, double y, int sides) {
    double most = -10;
    for (int i = 0; i < sides; i++) {
        const double turn = 2 * pi * i / sides;
        most = fmax(most, x * cos(turn) + y * sin(turn) - cos(pi / sides));
    }
    return most;
}

static double triangle(double x, double y) {
    return polygon(-x, y, 3);
}

static double hourglass(double x, double y) {
    return fmax((fabs(y) - fabs(x) * 0.85 - 0.06) * 0.76, fabs(x) - 0.9);
}

/* Five points: folded into half of one, where the edge is a line from the tip to the notch. */
static double star(double x, double y) {
    const double fold = 2 * pi / 5, turn = atan2(y, x) - fold * floor(atan2(y, x) / fold + 0.5);
    const double px = hypot(x, y) * cos(turn), py = fabs(hypot(x, y) * sin(turn));
    const double nx = 0.42 * cos(pi / 5), ny = 0.42 * sin(pi / 5);
    const double ex = nx - 1, ey = ny;
    return ((px - 1) * -ey + py * ex) / hypot(ex, ey) * -1;
}

static double cross(double x, double y) {
    return fmin(box(x, y, 1, 0.3), box(x, y, 0.3, 1));
}

static double crescent(double x, double y) {
    return fmax(circle(x, y), 0.8 - hypot(x - 0.45, y));
}

/* A square on its tip and a disc on each of its upper sides. */
static double heart(double up, double x) {
    const double half = 0.48, side = half * sqrt(0.5), y = up + 0.15;
    const double u = (x + y) * sqrt(0.5), v = (x - y) * sqrt(0.5);
    return fmin(box(u, v, half, half),
                fmin(hypot(x - side, y - side), hypot(x + side, y - side)) - half);
}

static double arrow(double x, double y) {
    const double head = fmax(fmax(0.1 - x, (x + y - 1) * sqrt(0.5)), (x - y - 1) * sqrt(0.5));
    return fmin(box(x + 0.4, y, 0.6, 0.22), head);
}

static const struct {
    const char *name;
    shape_fn *distance;
} shapes[] = {{"arrow", arrow},      {"circle", circle}, {"crescent", crescent},
              {"cross", cross},      {"heart", heart},   {"hourglass", hourglass},
              {"ring", ring},        {"square", square}, {"star", star},
              {"triangle", triangle}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- pictures ---- */

typedef struct picture {
    int width, height;
    double at[SIDE_ROOM * SIDE_ROOM][3];
    png_byte mask[SIDE_ROOM * SIDE_ROOM]; /* classes */
} picture;

typedef struct colour {
    double at[3];
} colour;

static colour any_colour(chance *c, double low, double high) {
    return (colour){{between(c, low, high), between(c, low, high), between(c, low, high)}};
}

static double apart(const colour *a, const colour *b) {
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        sum += fabs(a->at[k] - b->at[k]);
    }
    return sum;
}

/* cover 1: the colour alone; 0: what was there. */
static void mix(double *pixel, const colour *c, double cover) {
    cover = fmin(fmax(cover, 0), 1);
    for (int k = 0; k < 3; k++) {
        pixel[k] += (c->at[k] - pixel[k]) * cover;
    }
}

/* Two colours that go over into one another, with stains of light and shade. */
static void draw_ground(picture *p, chance *c, const colour *from, const colour *to) {
    double stain[STAINS + 1][STAINS + 1];
    const double turn = between(c, 0, 2 * pi), depth = between(c, 0, 40);
    for (int i = 0; i <= STAINS; i++) {
        for (int j = 0; j <= STAINS; j++) {
            stain[i][j] = between(c, -depth, depth);
        }
    }
    for (int y = 0; y < p->height; y++) {
        for (int x = 0; x < p->width; x++) {
            const double u = (double)x / p->width, v = (double)y / p->height;
            const int i = (int)(v * STAINS), j = (int)(u * STAINS);
            const double a = v * STAINS - i, b = u * STAINS - j;
            const double shade = (stain[i][j] * (1 - b) + stain[i][j + 1] * b) * (1 - a) +
                                 (stain[i + 1][j] * (1 - b) + stain[i + 1][j + 1] * b) * a;
            const double share = 0.5 + (u - 0.5) * cos(turn) + (v - 0.5) * sin(turn);
            double *pixel = p->at[y * p->width + x];
            for (int k = 0; k < 3; k++) {
                pixel[k] = from->at[k] + shade;
            }
            mix(pixel, to, share);
        }
    }
}

/* Lines and dots that mean nothing. */
static void draw_clutter(picture *p, chance *c) {
    const int count = (int)between(c, 0, 4);
    for (int n = 0; n < count; n++) {
        const colour ink = any_colour(c, 10, 245);
        const int dot = next(c) & 1;
        const double turn = between(c, 0, 2 * pi), x0 = between(c, 0, p->width);
        const double y0 = between(c, 0, p->height), thick = between(c, 0.6, dot ? 3 : 1.4);
        for (int y = 0; y < p->height; y++) {
            for (int x = 0; x < p->width; x++) {
                const double across = (x - x0) * sin(turn) - (y - y0) * cos(turn);
                const double d = dot ? hypot(x - x0, y - y0) : fabs(across);
                mix(p->at[y * p->width + x], &ink, thick + 0.5 - d);
            }
        }
    }
}

/* A part of a picture. */
typedef struct part {
    double x, y, width, height;
} part;

static void draw_shape(picture *p, chance *c, shape_fn *distance, const colour *ink, int class,
                       part in) {
    const double least = fmin(in.width, in.height);
    const double radius = least * between(c, 0.32, 0.44), stretch = between(c, 0.88, 1.14);
    const double reach = radius * fmax(stretch, 1 / stretch);
    const double x0 =
        in.x + between(c, fmin(reach, in.width / 2), fmax(in.width - reach, in.width / 2));
    const double y0 =
        in.y + between(c, fmin(reach, in.height / 2), fmax(in.height - reach, in.height / 2));
    const double turn = between(c, -15, 15) * pi / 180 - pi / 2; /* up is where x grows */
    for (int y = 0; y < p->height; y++) {
        for (int x = 0; x < p->width; x++) {
            const double dx = (x - x0) / radius, dy = (y - y0) / radius;
            const double u = (dx * cos(turn) + dy * sin(turn)) * stretch;
            const double v = (dy * cos(turn) - dx * sin(turn)) / stretch;
            mix(p->at[y * p->width + x], ink, 0.5 - distance(u, v) * radius);
            p->mask[y * p->width + x] = distance(u, v) < 0 ? (png_byte) class : 0;
        }
    }
}

static shape_fn *find(const char *name) {
    int s = 0;
    while (strcmp(shapes[s].name, name) != 0) {
        s++;
    }
    return shapes[s].distance;
}

static const char *const masked[] = {"circle", "square", "star"};

/* Any of three shapes, in three quarters of the picture by chance. */
static void draw_several(picture *p, chance *c, const colour *ink, unsigned labels) {
    const int first = (int)(next(c) % 4), step = next(c) & 1 ? 1 : 3;
    const double w = p->width / 2.0, h = p->height / 2.0;
    for (int k = 0; k < 3; k++) {
        const int quarter = (first + k * step) % 4;
        if (labels >> k & 1) {
            draw_shape(p, c, find(masked[k]), ink, 0,
                       (part){quarter % 2 * w, quarter / 2 * h, w, h});
        }
    }
}

/* Sides of 0: any. */
typedef struct sides {
    int width, height;
} sides;

/* distance NULL: the labels say the shapes. */
static void draw(picture *p, chance *c, sides size, shape_fn *distance, int class,
                 unsigned labels) {
    p->width = (int)between(c, SIDE_LEAST, SIDE_MOST + 1);
    p->height = (int)between(c, SIDE_LEAST, SIDE_MOST + 1);
    if (size.width) {
        p->width = size.width;
        p->height = size.height;
    }
    const colour from = any_colour(c, 0, 110);
    colour to = any_colour(c, 0, 110), ink;
    mix(to.at, &from, 0.5);
    do {
        ink = any_colour(c, 90, 255);
    } while (apart(&ink, &from) < 250);
    draw_ground(p, c, &from, &to);
    draw_clutter(p, c);
    if (distance) {
        draw_shape(p, c, distance, &ink, class, (part){0, 0, p->width, p->height});
    } else {
        draw_several(p, c, &ink, labels);
    }
    const double strength = between(c, 0, 14);
    for (int i = 0; i < p->width * p->height; i++) {
        const double g = grain(c) * strength;
        for (int k = 0; k < 3; k++) {
            p->at[i][k] = fmin(fmax(p->at[i][k] + g + grain(c) * strength / 2, 0), 255);
        }
    }
}

/* ---- files ---- */

static void need(int good, const char *path) {
    if (!good) {
        fprintf(stderr, "shapes: %s: %s\n", path, strerror(errno));
        exit(3);
    }
}

static void save(const picture *p, int quality, const char *path) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *f = fopen(path, "wb");
    need(f != NULL, path);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, f);
    jpeg.image_width = (JDIMENSION)p->width;
    jpeg.image_height = (JDIMENSION)p->height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < p->height; y++) {
        JSAMPLE row[SIDE_ROOM * 3], *rows = row;
        for (int i = 0; i < p->width * 3; i++) {
            row[i] = (JSAMPLE)(p->at[y * p->width + i / 3][i % 3] + 0.5);
        }
        jpeg_write_scanlines(&jpeg, &rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    need(fclose(f) == 0, path);
}

static void save_mask(const picture *p, const char *path) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = PNG_FORMAT_GRAY};
    need(png_image_write_to_file(&image, path, 0, p->mask, 0, NULL), path);
}

static void make_folder(const char *path) {
    need(mkdir(path, 0777) == 0 || errno == EEXIST, path);
}

static void make_folder_in(const char *folder, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    make_folder(path);
}

/* The picture that the chance c makes. */
static void make(chance *c, sides size, shape_fn *distance, int class, unsigned labels,
                 const char *path) {
    static picture p;
    draw(&p, c, size, distance, class, labels);
    save(&p, (int)between(c, QUALITY_LEAST, QUALITY_MOST + 1), path);
    char mask[1024];
    if (class) { /* the path ends in /images/NNNN.jpg */
        const size_t folder = strlen(path) - strlen("/images/NNNN.jpg");
        snprintf(mask, sizeof mask, "%.*s/masks/%.4s.png", (int)folder, path,
                 path + folder + strlen("/images/"));
        save_mask(&p, mask);
    }
}

/* "500x375".  0: it is no size, or too large. */
static int read_size(const char *text, sides *out) {
    char *end;
    const long width = strtol(text, &end, 10);
    const long height = *end == 'x' ? strtol(end + 1, &end, 10) : 0;
    *out = (sides){(int)width, (int)height};
    return *end == 0 && width >= 1 && width <= SIDE_ROOM && height >= 1 && height <= SIDE_ROOM;
}

/* One of three shapes with its mask, or any of them with a row of labels. */
static void make_paired(const char *folder, long i, chance *c, sides size, FILE *rows) {
    char path[1024];
    const unsigned labels = (unsigned)(i % 8);
    snprintf(path, sizeof path, "%s/images/%04ld.jpg", folder, i);
    if (!rows) {
        make(c, size, find(masked[i % 3]), (int)(i % 3) + 1, 0, path);
        return;
    }
    make(c, size, NULL, 0, labels, path);
    fprintf(rows, "images/%04ld.jpg,%u,%u,%u\n", i, labels & 1, labels >> 1 & 1, labels >> 2 & 1);
}

static FILE *open_rows(const char *folder) {
    char path[1024];
    snprintf(path, sizeof path, "%s/labels.csv", folder);
    FILE *rows = fopen(path, "w");
    need(rows && fputs("file,circle,square,star\n", rows) >= 0, path);
    return rows;
}

int main(int argc, char **argv) {
    const int labels = argc > 1 && !strcmp(argv[1], "--labels");
    const int masks = argc > 1 && !strcmp(argv[1], "--masks"), paired = masks || labels;
    argc -= paired;
    argv += paired;
    sides size = {0, 0};
    const int sized = argc > 2 && !strcmp(argv[1], "--size");
    const int good = !sized || read_size(argv[2], &size);
    argc -= 2 * sized;
    argv += 2 * sized;
    const long count = argc > 2 ? strtol(argv[2], NULL, 10) : 2000;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (!good || argc < 2 || argc > 4 || argv[1][0] == '-' || count < 1 ||
        count > (paired ? 10000 : 1000000)) {
        fprintf(stderr, "use: shapes [--masks|--labels] [--size WxH] DIR [COUNT [SEED]]\n");
        return 2;
    }
    char path[1024];
    make_folder(argv[1]);
    for (int s = 0; s < (masks ? 2 : labels ? 1 : SHAPES); s++) {
        make_folder_in(argv[1], paired ? (const char *[]){"images", "masks"}[s] : shapes[s].name);
    }
    FILE *rows = labels ? open_rows(argv[1]) : NULL;
    for (long i = 0; i < count; i++) {
        const int s = (int)(i % SHAPES);
        chance c = {seed * 0x2545f4914f6cdd1du + (uint64_t)i};
        next(&c);
        if (paired) {
            make_paired(argv[1], i, &c, size, rows);
            continue;
        }
        snprintf(path, sizeof path, "%s/%s/%04ld.jpg", argv[1], shapes[s].name, i / SHAPES);
        make(&c, size, shapes[s].distance, 0, 0, path);
    }
    need(!rows || fclose(rows) == 0, argv[1]);
    printf("%ld images of %d shapes in %s\n", count, paired ? 3 : SHAPES, argv[1]);
    return 0;
}
