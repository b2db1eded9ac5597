/* MNIST's idx files and CIFAR-10's batches from outside.  The first byte says where the pictures end and the labels
 * begin. */
#include "source.h"

static void folder(const char *images, const char *labels, const char *batch) {
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "test_batch.bin"};
    const char *const targets[] = {images, labels, batch};
    char root[] = "/tmp/headroom-fuzz-XXXXXX", path[96], text[96];
    must(mkdtemp(root) != NULL);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        must(symlink(targets[i], path) == 0);
    }
    snprintf(text, sizeof text, "mnist:%s", root);
    fuzz_source(text);
    snprintf(text, sizeof text, "cifar10:%s,split=test", root);
    fuzz_source(text);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        must(unlink(path) == 0);
    }
    must(rmdir(root) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    const size_t cut = data[0] < size - 1 ? data[0] : size - 1;
    char images[32], labels[32], batch[32];
    const int fds[] = {fuzz_file(data + 1, cut, images),
                       fuzz_file(data + 1 + cut, size - 1 - cut, labels),
                       fuzz_file(data, size, batch)};
    folder(images, labels, batch);
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
    return 0;
}
