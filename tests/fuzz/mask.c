/* Masks: PNG, BMP, TIFF and WebP files whose pixels are classes.  Whatever the bytes are: looking and decoding end with a status and, for bad data, a
 * sentence; what was decoded is a class or ignored; nothing stays held; 4 MiB are never exceeded. */
#include <stdlib.h>
#include <string.h>
#include "data/image/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

static void check(hr_status status, const hri_prose *why, hri_buffer_pool *pool) {
    must(status == HR_OK || status == HR_E_FORMAT || status == HR_E_RANGE || status == HR_E_LIMIT ||
         status == HR_E_UNSUPPORTED);
    must(status != HR_E_FORMAT || why->text[0] != 0);
    const hri_ledger_view ledger = hri_ledger_look(hri_pool_ledger(pool));
    must(ledger.held == 0 && ledger.peak <= ledger.budget);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t out[1 << 16];
    static hri_mask_seen seen;
    static hri_mask_classes classes;
    hri_image_info info;
    hri_prose why = {{0}};
    if (hri_image_probe(data, size, &info, &why) != HR_OK ||
        (uint64_t)info.width * info.height > sizeof out) {
        return 0; /* larger ones would only take longer */
    }
    hri_buffer_pool *pool;
    hri_account *account;
    if (hri_pool_create(4 << 20, &pool) != HR_OK) {
        return 0;
    }
    must(hri_ledger_open(hri_pool_ledger(pool), "fuzz", 0, &account) == HR_OK);
    hri_ledger_set_user_waiting(hri_pool_ledger(pool), true);
    hri_memory memory = {.pool = pool, .account = account};
    seen = (hri_mask_seen){.colour_count = 0};
    why.text[0] = 0;
    hr_status status = hri_mask_look(data, size, &memory, &seen, &why);
    check(status, &why, pool);
    if (status == HR_OK) {
        must(hri_mask_classes_settle(NULL, NULL, NULL, &seen, &classes, &why) == HR_OK);
        status = hri_mask_decode(data, size, &classes, &memory, out, &why);
        check(status, &why, pool);
        for (uint32_t i = 0; status == HR_OK && i < info.width * info.height; i++) {
            must(out[i] < classes.count || out[i] == HRI_MASK_IGNORED);
        }
    }
    hri_pool_unref(pool);
    return 0;
}
