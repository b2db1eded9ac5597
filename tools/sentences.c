/* tools/sentences [--csv] PATH [COUNT [SEED]]: small texts of two sorts, for tests and for trying things out.
 *
 * PATH/annoyed/NNNN.txt and PATH/pleased/NNNN.txt, COUNT in all (400 unless said); with --csv the file PATH with the columns id, body
 * and mood.  A text is one to four statements about things; what tells its class is their adjectives alone.  A text depends on
 * the seed and its number.  Nothing of the library is used: what is trained on must not come from what trains. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const things[] = {"day", "song", "meal", "walk", "book", "house"};
static const char *const moods[] = {"annoyed", "pleased"};
static const char *const adjectives[2][7] = {
    {"dark", "cold", "nasty", "rainy", "harsh", "sad", "bitter"},
    {"bright", "warm", "lovely", "sunny", "calm", "happy", "sweet"}};

static uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void write_text(FILE *f, int number, uint64_t seed) {
    uint64_t state = seed * 1000003u + (uint64_t)number;
    const int count = 1 + (int)(draw(&state) % 4);
    for (int i = 0; i < count; i++) {
        fprintf(f, "%sthe %s was %s", i ? ", and " : "", things[draw(&state) % 6],
                adjectives[number % 2][draw(&state) % 7]);
    }
    fputs(".", f);
}

static int fail(const char *path) {
    fprintf(stderr, "sentences: %s: %s\n", path, strerror(errno));
    return 1;
}

static int write_table(const char *path, int count, uint64_t seed) {
    FILE *f = fopen(path, "w");
    if (!f) {
        return fail(path);
    }
    fputs("id,body,mood\n", f);
    for (int i = 0; i < count; i++) {
        fprintf(f, "s%d,\"", i);
        write_text(f, i, seed);
        fprintf(f, "\",%s\n", moods[i % 2]);
    }
    return fclose(f) == 0 ? 0 : fail(path);
}

static int write_folder(const char *folder, int count, uint64_t seed) {
    char path[4096];
    for (int i = -3; i < count; i++) { /* first the folders */
        if (i < 0) {
            snprintf(path, sizeof path, "%s%s%s", folder, i == -3 ? "" : "/",
                     i == -3 ? "" : moods[i + 2]);
            if (mkdir(path, 0777) != 0 && errno != EEXIST) {
                return fail(path);
            }
            continue;
        }
        snprintf(path, sizeof path, "%s/%s/%04d.txt", folder, moods[i % 2], i);
        FILE *f = fopen(path, "w");
        if (!f) {
            return fail(path);
        }
        write_text(f, i, seed);
        fputs("\n", f);
        if (fclose(f) != 0) {
            return fail(path);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    const int table = argc > 1 && !strcmp(argv[1], "--csv");
    argv += table;
    argc -= table;
    const int count = argc > 2 ? atoi(argv[2]) : 400;
    if (argc < 2 || argc > 4 || argv[1][0] == '-' || count < 1) {
        fputs("usage: sentences [--csv] PATH [COUNT [SEED]]\n", stderr);
        return 2;
    }
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    return table ? write_table(argv[1], count, seed) : write_folder(argv[1], count, seed);
}
