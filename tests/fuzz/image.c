/* JPEG, PNG, BMP, WebP, TIFF and AVIF, by what the first bytes say.  Whatever they are: probing and decoding end with a status and, for bad
 * data, a sentence; nothing stays held; 4 MiB are never exceeded, whatever size the picture claims. */
#include <stdlib.h>
#include <string.h>
#include "data/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

static void decode(const uint8_t *data, size_t size, const hri_image_info *info, hri_view v,
                   hri_buffer_pool *pool, hri_account *account) {
    static uint8_t out[48 * 48 * 3];
    hri_memory memory = {.pool = pool, .account = account};
    hri_prose why = {{0}};
    const hr_status status = hri_image_decode(data, size, info, &v, &memory, out, &why);
    must(status == HR_OK || status == HR_E_FORMAT || status == HR_E_RANGE || status == HR_E_LIMIT ||
         status == HR_E_UNSUPPORTED);
    must(status != HR_E_FORMAT || why.text[0] != 0);
    const hri_ledger_view ledger = hri_ledger_look(hri_pool_ledger(pool));
    must(ledger.held == 0 && ledger.peak <= ledger.budget);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hri_image_info info;
    hri_prose why = {{0}};
    const hr_status status = hri_image_probe(data, size, &info, &why);
    if (status != HR_OK) {
        must(status == HR_E_EOF || (status == HR_E_FORMAT && why.text[0] != 0));
        return 0;
    }
    if ((uint64_t)info.width * info.height > 1 << 22) {
        return 0; /* the decode stage's max_pixels; here it bounds the time */
    }
    hri_buffer_pool *pool;
    hri_account *account;
    if (hri_pool_create(4 << 20, &pool) != HR_OK) {
        return 0;
    }
    must(hri_ledger_open(hri_pool_ledger(pool), "fuzz", 0, &account) == HR_OK);
    hri_ledger_set_user_waiting(hri_pool_ledger(pool), true);
    const double w = info.width, h = info.height;
    decode(data, size, &info, (hri_view){0, 0, w, h, 48, 48, 3, HRI_FILTER_AUTO, false}, pool,
           account);
    decode(data, size, &info,
           (hri_view){w / 3, h / 4, w / 2, h / 2, 20, 30, 1, HRI_FILTER_BILINEAR, true}, pool,
           account);
    decode(data, size, &info,
           (hri_view){w * 0.9, h * 0.9, w * 0.1, h * 0.1, 48, 7, 3, HRI_FILTER_AREA, false}, pool,
           account);
    hri_pool_unref(pool);
    return 0;
}
