/* A tokenizer.json without a pattern, so that no library is needed: all bytes as 0 to 255, "he" 256, "ll" 257, "hell" 258; added:
 * "<end>" 259 and "[MASK]" 260. */
#ifndef TEST_SMALL_TOKENIZER_H
#define TEST_SMALL_TOKENIZER_H

#include <string.h>
#include "base/text.h"
#include "pictures.h"

static inline void write_small_tokenizer(const char *name) {
    hri_text t = {0};
    int next = 256;
    hri_text_add(&t,
                 "{\"added_tokens\":[{\"id\":259,\"content\":\"<end>\"},{\"id\":260,\"content\":"
                 "\"[MASK]\"}],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                 "false,\"use_regex\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0; i < 256; i++) {
        const int prints = (i >= 33 && i <= 126) || (i >= 161 && i != 173);
        hri_text_add(&t, "\"\\u%04x\":%d,", (unsigned)(prints ? i : next++), i);
    }
    hri_text_add(&t,
                 "\"he\":256,\"ll\":257,\"hell\":258},\"merges\":[\"h e\",\"l l\",\"he ll\"]}}");
    test_write(test_folder(), name, hri_text_get(&t), strlen(hri_text_get(&t)));
    hri_text_deinit(&t);
}

#endif
