/* See pack_csv.h.  The text is copied once and cut in place. */
#include "plan/pack_csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMNS };
static const char *const column_names[COLUMNS] = {"id", "lower", "upper", "size"};

void hri_pack_file_deinit(hri_pack_file *file) {
    hri_free(file->buffers);
    hri_free(file->ids);
    hri_free(file->text);
    memset(file, 0, sizeof *file);
}

/* Cuts the next piece off at `mark`; NULL at the end. */
static char *cut(char **at, char mark) {
    char *piece = *at;
    if (!piece) {
        return NULL;
    }
    char *end = strchr(piece, mark);
    *at = end ? end + 1 : NULL;
    if (end) {
        *end = '\0';
    }
    const size_t length = strlen(piece);
    if (length > 0 && piece[length - 1] == '\r') {
        piece[length - 1] = '\0';
    }
    return piece;
}

static hr_status read_header(char *line, int places[COLUMNS], hri_prose *why) {
    for (int c = 0; c < COLUMNS; c++) {
        places[c] = -1;
    }
    int place = 0;
    for (char *name; (name = cut(&line, ',')); place++) {
        for (int c = 0; c < COLUMNS; c++) {
            if (!strcmp(name, column_names[c])) {
                places[c] = place;
            }
        }
    }
    for (int c = 0; c < COLUMNS; c++) {
        if (places[c] < 0) {
            return hri_prose_set(why, HR_E_FORMAT, "line 1: column \"%s\" is missing",
                                 column_names[c]);
        }
    }
    return HR_OK;
}

static int read_number(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    *out = value;
    return end != text && *end == '\0' && errno == 0 && text[0] != ' ';
}

static hr_status read_row(char *line, size_t number, const int places[COLUMNS], char **id,
                          hri_pack_buffer *out, hri_prose *why) {
    const char *texts[COLUMNS] = {NULL};
    int64_t numbers[COLUMNS] = {0};
    int place = 0;
    for (char *piece; (piece = cut(&line, ',')); place++) {
        for (int c = 0; c < COLUMNS; c++) {
            if (places[c] == place) {
                texts[c] = piece;
                *id = c == COLUMN_ID ? piece : *id;
            }
        }
    }
    for (int c = 0; c < COLUMNS; c++) {
        if (!texts[c] || (c != COLUMN_ID && !read_number(texts[c], &numbers[c]))) {
            return hri_prose_set(why, HR_E_FORMAT, "line %zu: \"%.40s\" is not a valid %s", number,
                                 texts[c] ? texts[c] : "", column_names[c]);
        }
    }
    if (numbers[COLUMN_SIZE] < 0 || numbers[COLUMN_UPPER] < numbers[COLUMN_LOWER]) {
        return hri_prose_set(why, HR_E_FORMAT, "line %zu: %s", number,
                             numbers[COLUMN_SIZE] < 0 ? "the size is negative"
                                                      : "it ends before it starts");
    }
    *out = (hri_pack_buffer){numbers[COLUMN_LOWER], numbers[COLUMN_UPPER],
                             (uint64_t)numbers[COLUMN_SIZE]};
    return HR_OK;
}

static hr_status parse(hri_pack_file *file, hri_prose *why) {
    size_t lines = 1;
    for (const char *c = file->text; *c; c++) {
        lines += *c == '\n';
    }
    file->buffers = hri_calloc(lines, sizeof *file->buffers);
    file->ids = hri_calloc(lines, sizeof *file->ids);
    if (!file->buffers || !file->ids) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for %zu lines", lines);
    }
    char *at = file->text;
    int places[COLUMNS];
    hr_status status = read_header(cut(&at, '\n'), places, why);
    size_t number = 1;
    for (char *line; status == HR_OK && (line = cut(&at, '\n'));) {
        number++;
        if (*line) {
            status = read_row(line, number, places, &file->ids[file->count],
                              &file->buffers[file->count], why);
            file->count++;
        }
    }
    return status;
}

hr_status hri_pack_file_parse(const char *text, size_t bytes, hri_pack_file *out, hri_prose *why) {
    hri_pack_file file = {0};
    if (memchr(text, '\0', bytes)) {
        return hri_prose_set(why, HR_E_FORMAT, "not a text file (it contains a zero byte)");
    }
    file.text = hri_malloc(bytes + 1);
    if (!file.text) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for %zu bytes", bytes);
    }
    memcpy(file.text, text, bytes);
    file.text[bytes] = '\0';
    const hr_status status = parse(&file, why);
    if (status != HR_OK) {
        hri_pack_file_deinit(&file);
        return status;
    }
    *out = file;
    return HR_OK;
}
