/* See pack.h. */
#include "show/pack.h"

void hri_pack_json(const hri_pack_file *file, const uint64_t *offsets, const hri_pack_result *r,
                   hri_json *json) {
    hri_json_u64(json, "height_bytes", r->height);
    hri_json_u64(json, "lower_bound_bytes", r->lower_bound);
    hri_json_bool(json, "proved", r->proved != 0);
    hri_json_bool(json, "refuted", r->refuted != 0);
    hri_json_string(json, "method", r->method);
    hri_json_u64(json, "steps", r->steps);
    hri_json_array(json, "buffers");
    for (size_t i = 0; i < file->count; i++) {
        hri_json_object(json, NULL);
        hri_json_string(json, "id", file->ids[i]);
        hri_json_u64(json, "offset", offsets[i]);
        hri_json_end(json);
    }
    hri_json_end(json);
}

void hri_pack_show_csv(const hri_pack_file *file, const uint64_t *offsets, hri_out *out) {
    hri_out_text(out, "id,offset\n");
    for (size_t i = 0; i < file->count; i++) {
        hri_out_printf(out, "%s,%llu\n", file->ids[i], (unsigned long long)offsets[i]);
    }
}

void hri_pack_show_summary(const hri_pack_result *r, FILE *to) {
    const double gap = r->lower_bound
                           ? 100.0 * (double)(r->height - r->lower_bound) / (double)r->lower_bound
                           : 0.0;
    fprintf(to, "height %llu, lower bound %llu, gap %.3f %%, by %s in %llu steps%s\n",
            (unsigned long long)r->height, (unsigned long long)r->lower_bound, gap, r->method,
            (unsigned long long)r->steps,
            r->proved    ? ", which is optimal"
            : r->refuted ? "; no packing reaches the capacity, which is proved"
                         : "");
}
