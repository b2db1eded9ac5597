/* CSV files from outside: with and without a header, with tabs, with an index, and as tables. */
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const forms[] = {"csv:%s",
                                        "csv:%s,header=off,max_bytes=100",
                                        "csv:%s,separator=tab",
                                        "csv:%s,index=on",
                                        "csv:%s,x=*",
                                        "csv:%s,x=a+b,y=c,key=d,ids=b",
                                        "csv:%s,x=a,y=b,task=classes,categories=a,max_bytes=200",
                                        "csv:%s,x=a,y=b,weight=c",
                                        "csv:%s,text=a,y=b,key=c,length=5",
                                        "csv:%s,image=a,y=b+c,folder=/nonexistent"};
    char path[32], text[96];
    const int fd = fuzz_file(data, size, path);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        snprintf(text, sizeof text, forms[i], path);
        fuzz_source(text);
    }
    close(fd);
    return 0;
}
