/* randaugment(ops=2,magnitude=9)  so many random operations of one magnitude on each picture: RandAugment (Cubuk et al. 2019).
 *
 * As torchvision's: each operation is drawn from fourteen (image/augment.h), with the magnitude in its bin of 31 and, where
 * it has one, a random sign.  A mask moves with its picture. */
#include <string.h>
#include "data/image/augment.h"

typedef struct options {
    hri_apply_options apply;
    int64_t ops, magnitude, bins, seed;
} options;

enum { MOST = 8 };

static const hri_field fields[] = {{"ops", "operations per image", offsetof(options, ops),
                                    HRI_FIELD_INT, "2", .min = 1, .max = MOST, .metavar = "N"},
                                   {"magnitude", "of all operations: 0 to bins - 1",
                                    offsetof(options, magnitude), HRI_FIELD_INT, "9", .min = 0,
                                    .max = 1000},
                                   {"bins", "number of magnitudes", offsetof(options, bins),
                                    HRI_FIELD_INT, "31", .min = 2, .max = 1001},
                                   {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
                                   HRI_APPLY_FIELDS,
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    if (o->magnitude >= o->bins) {
        return hri_prose_set(why, HR_E_RANGE, "randaugment: magnitude=%lld is not below bins=%lld",
                             (long long)o->magnitude, (long long)o->bins);
    }
    const hr_field *f = hri_spec_find(&s->spec, "image");
    const hr_shape *shape = f ? &f->meta.shape : NULL;
    const int known = shape && shape->rank == 3 && hr_shape_count(shape) > 0;
    s->scratch_bytes = hri_pool_round(known ? (uint64_t)hr_shape_count(shape) : 1 << 26);
    return hri_bitmap_open(s, 0, 0, HR_TYPE_U8, 0, why);
}

typedef struct drawn {
    hri_augment_op op;
    double magnitude;
} drawn;

/* Where a pixel of the last picture comes from in the first: m of what came before, then `then`. */
static void follow(hri_plane_move *m, const hri_plane_move *then) {
    const double *x = then->x, *y = then->y;
    const hri_plane_move is = *m;
    *m = (hri_plane_move){{is.x[0] + is.x[1] * x[0] + is.x[2] * y[0],
                           is.x[1] * x[1] + is.x[2] * y[1], is.x[1] * x[2] + is.x[2] * y[2]},
                          {is.y[0] + is.y[1] * x[0] + is.y[2] * y[0],
                           is.y[1] * x[1] + is.y[2] * y[1], is.y[1] * x[2] + is.y[2] * y[2]}};
}

static void draw(hr_emit *emit, const options *o, const hri_bitmap *in, drawn *out,
                 hri_plane_move *all) {
    *all = (hri_plane_move){{0, 1, 0}, {0, 0, 1}};
    for (int64_t i = 0; i < o->ops; i++) {
        hri_plane_move by;
        bool either;
        out[i].op = (hri_augment_op)(hri_emit_uniform(emit) * HRI_AUGMENT_OPS);
        out[i].magnitude =
            hri_augment_magnitude(out[i].op, o->magnitude, o->bins, in->height, in->width, &either);
        const bool minus = hri_emit_uniform(emit) < 0.5; /* drawn in any case */
        out[i].magnitude *= either && minus ? -1 : 1;
        if (hri_augment_moves(out[i].op, out[i].magnitude, in->height, in->width, &by)) {
            follow(all, &by);
        }
    }
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    hri_bitmap in, out;
    hri_buffer *buffer = NULL;
    drawn ops[MOST];
    hri_plane_move move;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status == HR_OK && in.channels != 1 && in.channels != 3) {
        status = hri_emit_fail(emit, HR_E_SHAPE, "the image has %lld channels instead of 1 or 3",
                               (long long)in.channels);
    }
    if (status != HR_OK) {
        return status;
    }
    draw(emit, o, &in, ops, &move);
    status = hri_plane_apply(emit, &in, in.height, in.width, &move, false);
    if (status == HR_OK) {
        status = hri_bitmap_output(emit, in.height, in.width, in.channels, &out);
    }
    if (status == HR_OK && o->ops > 1) {
        status = hri_memory_buffer(emit->memory, (uint64_t)(in.height * in.width * in.channels),
                                   &buffer);
    }
    if (status != HR_OK) {
        return status;
    }
    /* To and fro between the output and the buffer, so that the last one ends in the output. */
    hri_bitmap from = in, other = out;
    other.data = buffer ? buffer->data : out.data;
    for (int64_t i = 0; i < o->ops; i++) {
        hri_bitmap *to = (o->ops - i) % 2 ? &out : &other;
        hri_augment_apply(ops[i].op, ops[i].magnitude, &from, to);
        from = *to;
    }
    hri_buffer_unref(buffer);
    return HR_OK;
}

const hri_stage_type hri_stage_type_randaugment = {
    .name = "randaugment",
    .help = "random operations on images (RandAugment)",
    .main = "ops",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
