/* This command again, once a rank; see launch.h. */
#include "net/launch.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { MOST_BYTES = 4 << 20, MOST_WORDS = 4096 }; /* of a command line */

/* The words of this process's command line, in *text, one after the other; their number, 0: it cannot be read. */
static size_t own_words(char *text, char **words) {
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t used = 0, count = 0;
    for (ssize_t n = 1; fd >= 0 && n > 0 && used < MOST_BYTES;) {
        n = read(fd, text + used, MOST_BYTES - used);
        used += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (used == MOST_BYTES) {
        return 0;
    }
    text[used] = '\0';
    for (size_t at = 0; at < used && count < MOST_WORDS; at += strlen(text + at) + 1) {
        words[count++] = text + at;
    }
    words[count] = NULL;
    return count < MOST_WORDS ? count : 0;
}

hr_status hri_launch_self(uint32_t count, uint64_t grace_ns, hri_launch_end *out, hri_prose *why) {
    char *text = hri_malloc(MOST_BYTES + 1);
    char **words = hri_calloc(MOST_WORDS + 1, sizeof *words);
    hr_status status = text && words ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK && !own_words(text, words)) {
        status = HR_E_IO;
    }
    status = status == HR_OK ? hri_launch(count, words, grace_ns, out, why)
                             : hri_prose_set(why, status, "the command cannot be started again: %s",
                                             hr_status_text(status));
    hri_free(text);
    hri_free(words);
    return status;
}
