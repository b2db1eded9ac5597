/* Text files from outside, as lines and as tokens. */
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const forms[] = {"lines:%s",
                                        "lines:%s,index=on",
                                        "lines:%s,empty=off,max_bytes=16",
                                        "tokens:%s,length=3",
                                        "tokens:%s,length=2,stride=1,type=u32",
                                        "tokens:%s,length=2,random=on"};
    char path[32], text[96];
    const int fd = fuzz_file(data, size, path);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        snprintf(text, sizeof text, forms[i], path);
        fuzz_source(text);
    }
    close(fd);
    return 0;
}
