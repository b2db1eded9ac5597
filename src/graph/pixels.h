/* How the bytes of an image become the real numbers of a model: (x / 255 - mean) / std, channel by channel.
 *
 * The one idea: images stay bytes until they are on the device, a quarter of what they would be as f32, and the first
 * node of the graph normalises them.  Whoever builds a graph for such data sets g->pixels; the input of that name, which
 * the model asks for as f32, is then u8, and the model gets the result of a `normalise` node.  Models know nothing of it.
 *
 * The arithmetic is that of the pipeline's own stage `normalise`, to the bit: x * scale + shift in f32, the product
 * rounded before the sum, with scale and shift rounded from double. */
#ifndef HRI_GRAPH_PIXELS_H
#define HRI_GRAPH_PIXELS_H

#include <stdint.h>

enum { HRI_PIXELS_CHANNELS = 16, HRI_PIXELS_NAME = 32 };

typedef struct hri_pixels {
    char name[HRI_PIXELS_NAME]; /* of the model's input: "image" */
    uint32_t channels;          /* 0: the data is real already, and nothing is normalised */
    double mean[HRI_PIXELS_CHANNELS], std[HRI_PIXELS_CHANNELS];
} hri_pixels;

static inline float hri_pixels_scale(const hri_pixels *p, uint32_t channel) {
    return (float)(1 / (255 * p->std[channel]));
}
static inline float hri_pixels_shift(const hri_pixels *p, uint32_t channel) {
    return (float)(-p->mean[channel] / p->std[channel]);
}

/* x * scale + shift with two roundings on every machine, fused multiply-adds or not: the product of a byte and an f32 is
 * exact in double, and so is its sum with another f32 as far as the rounding to f32 can tell. */
static inline float hri_pixels_real(float x, float scale, float shift) {
    const float product = (float)((double)x * (double)scale);
    return (float)((double)product + (double)shift);
}

#endif
