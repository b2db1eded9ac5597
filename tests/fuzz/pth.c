/* Files of torch.save from outside: whatever the bytes, nothing is executed, opening ends with a status and a sentence, and every
 * element of what was accepted can be read. */
#include "source.h"
#include "weights/safetensors.h"
#include "weights/tensor_types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32];
    const int fd = fuzz_file(data, size, path);
    hri_tensors t = {.fd = -1};
    hri_prose why = {""};
    const hr_status status = hri_tensors_open(path, &t, &why);
    must(status == HR_OK || (fuzz_known(status) && why.text[0] != '\0'));
    for (size_t i = 0; i < t.count; i++) {
        const hri_tensor *x = &t.items[i];
        const uint64_t item = hri_dtypes[x->kind].bytes, count = (x->end - x->begin) / item;
        unsigned char out[64];
        const hr_type to = (hr_type)hri_dtypes[x->kind].type;
        must(hri_tensors_find(&t, x->name) == x && x->end >= x->begin);
        if (hri_dtypes[x->kind].type >= 0 && count) {
            const uint64_t n = count < 8 ? count : 8;
            must(hri_tensors_read(&t, x, 0, n, to, out, &why) == HR_OK);
            must(hri_tensors_read(&t, x, count - n, n, to, out, &why) == HR_OK);
        }
    }
    hri_tensors_close(&t);
    close(fd);
    return 0;
}
