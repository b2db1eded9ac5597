/* Training logs that a resumed run continues; the first byte is the step it resumes from.  A file that is not a log is
 * refused and stays as it was.  Otherwise a beginning of it is kept, byte for byte, no kept line is of a later step, and
 * the continued file can be continued again and drawn. */
#include "source.h"

#include <math.h>
#include <sys/stat.h>

#include "records/lines.h"

typedef struct seen {
    uint64_t step, lines;
} seen;

static void replay(void *user, const json_t *line) {
    seen *s = user;
    const json_int_t step = json_integer_value(json_object_get(line, "step"));
    must(json_is_string(json_object_get(line, "event")));
    must(step >= 0 && (uint64_t)step <= s->step);
    s->lines++;
}

static size_t size_of(int fd) {
    struct stat info;
    must(fstat(fd, &info) == 0);
    return (size_t)info.st_size;
}

/* How many of the first bytes of the file are those given. */
static size_t same_bytes(int fd, const uint8_t *data, size_t size) {
    uint8_t *is = malloc(size + 1);
    must(is != NULL);
    const ssize_t got = pread(fd, is, size, 0);
    must(got >= 0);
    size_t same = 0;
    while (same < (size_t)got && is[same] == data[same]) {
        same++;
    }
    free(is);
    return same;
}

/* Bytes of the first lines. */
static size_t bytes_of(const uint8_t *data, size_t size, uint64_t lines) {
    size_t at = 0;
    for (; lines > 0; lines--) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        must(end != NULL);
        at = (size_t)(end - data) + 1;
    }
    return at;
}

/* All of it as a chart, whatever numbers it has. */
static void draw(const char *lines, const hri_record_start *start) {
    char chart[] = "/tmp/fuzz-chart-XXXXXX";
    hri_record *r = NULL;
    hri_prose why = {""};
    const int fd = mkstemp(chart);
    must(fd >= 0);
    close(fd);
    const hri_record_options o = {.lines = lines, .picture = chart};
    must(hri_record_open(&o, start, &r, &why) == HR_OK);
    hri_record_ended(r, &(hri_record_end){.step = start->step, .loss = NAN, .accuracy = NAN});
    hri_record_close(r);
    unlink(chart);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32];
    hri_prose why = {""};
    hri_lines lines = {.sink = {.fd = -1}};
    if (size == 0) {
        return 0;
    }
    const hri_record_start start = {.step = 1u + data[0]};
    seen first = {.step = start.step}, second = first;
    data++;
    size--;
    const int fd = fuzz_file(data, size, path);
    const hr_status status = hri_lines_open(path, &start, replay, &first, NULL, NULL, &lines, &why);
    if (status == HR_OK) {
        hri_lines_close(&lines);
        const size_t kept = bytes_of(data, size, first.lines);
        must(same_bytes(fd, data, size) >= kept && size_of(fd) > kept);
        must(hri_lines_open(path, &start, replay, &second, NULL, NULL, &lines, &why) == HR_OK);
        must(second.lines == first.lines + 1);
        hri_lines_close(&lines);
        draw(path, &start);
    } else {
        must(status == HR_E_FORMAT && why.text[0]);
        must(size_of(fd) == size && same_bytes(fd, data, size) == size);
    }
    close(fd);
    return 0;
}
