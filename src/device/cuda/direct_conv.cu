// Convolutions with few channels a group (depthwise ones first of all): one result a thread, no tiles.
//
// A warp takes neighbouring channels, so accesses to images are coalesced.  The gradient for the weights is a sum over
// all pixels: blocks take ranges of pixels, write f32 sums to work space, and direct_join adds them in order.
//
// HR_T is the type of images and weights, HR_Y of the weights' gradient.

struct conv {
    hr_i64 n, pixels, part; // part: pixels of one part of the weights' gradient
    hr_i32 parts, h, w, c, o, p, q, kh, kw;
    hr_i32 stride_h, stride_w, top, left, dilation_h, dilation_w, cg, og;
};

HR_KERNEL direct_forward(conv g, const HR_T *x, const HR_T *w, HR_T *y) {
    const hr_i64 all = g.n * g.p * g.q * g.o, step = (hr_i64)gridDim.x * blockDim.x;
    for (hr_i64 at = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x; at < all; at += step) {
        const int o = (int)(at % g.o), q = (int)(at / g.o % g.q), p = (int)(at / g.o / g.q % g.p);
        const hr_i64 n = at / g.o / g.q / g.p;
        const int c0 = o / g.og * g.cg;
        float sum = 0.0f;
        for (int r = 0; r < g.kh; r++) {
            const int i = p * g.stride_h - g.top + r * g.dilation_h;
            for (int s = 0; s < g.kw; s++) {
                const int j = q * g.stride_w - g.left + s * g.dilation_w;
                if (i >= 0 && i < g.h && j >= 0 && j < g.w) {
                    const HR_T *from = x + ((n * g.h + i) * g.w + j) * g.c + c0;
                    const HR_T *by = w + (hr_i64)(r * g.kw + s) * g.cg * g.o + o;
                    for (int c = 0; c < g.cg; c++) {
                        sum = fmaf(hr_load(from[c]), hr_load(by[(hr_i64)c * g.o]), sum);
                    }
                }
            }
        }
        hr_store(&y[at], sum);
    }
}

HR_KERNEL direct_input(conv g, const HR_T *dy, const HR_T *w, HR_T *dx) {
    const hr_i64 all = g.n * g.h * g.w * g.c, step = (hr_i64)gridDim.x * blockDim.x;
    for (hr_i64 at = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x; at < all; at += step) {
        const int c = (int)(at % g.c), j = (int)(at / g.c % g.w), i = (int)(at / g.c / g.w % g.h);
        const hr_i64 n = at / g.c / g.w / g.h;
        const int o0 = c / g.cg * g.og;
        float sum = 0.0f;
        for (int r = 0; r < g.kh; r++) {
            const int y = i + g.top - r * g.dilation_h;
            for (int s = 0; s < g.kw; s++) {
                const int z = j + g.left - s * g.dilation_w;
                if (y >= 0 && z >= 0 && y % g.stride_h == 0 && z % g.stride_w == 0 &&
                    y / g.stride_h < g.p && z / g.stride_w < g.q) {
                    const HR_T *from =
                        dy + ((n * g.p + y / g.stride_h) * g.q + z / g.stride_w) * g.o + o0;
                    const HR_T *by = w + ((hr_i64)(r * g.kw + s) * g.cg + c % g.cg) * g.o + o0;
                    for (int o = 0; o < g.og; o++) {
                        sum = fmaf(hr_load(from[o]), hr_load(by[o]), sum);
                    }
                }
            }
        }
        hr_store(&dx[at], sum);
    }
}

// Block (x: 32 outputs, y: tap and channel of the group, z: part of the pixels); eight warps share the pixels.
HR_KERNEL direct_weight(conv g, const HR_T *x, const HR_T *dy, float *sums) {
    HR_SHARED(room);
    float *lanes = (float *)room; // [8][32]
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    const int o = (int)blockIdx.x * 32 + lane, row = (int)blockIdx.y; // row: (tap, channel)
    const int tap = row / g.cg, r = tap / g.kw, s = tap % g.kw;
    const hr_i64 begin = (hr_i64)blockIdx.z * g.part;
    const hr_i64 end = begin + g.part < g.pixels ? begin + g.part : g.pixels;
    float sum = 0.0f;
    if (o < g.o) {
        const int c = o / g.og * g.cg + row % g.cg;
        for (hr_i64 at = begin + warp; at < end; at += 8) {
            const int q = (int)(at % g.q), p = (int)(at / g.q % g.p);
            const int i = p * g.stride_h - g.top + r * g.dilation_h;
            const int j = q * g.stride_w - g.left + s * g.dilation_w;
            if (i >= 0 && i < g.h && j >= 0 && j < g.w) {
                const hr_i64 n = at / g.q / g.p;
                sum = fmaf(hr_load(x[((n * g.h + i) * g.w + j) * g.c + c]), hr_load(dy[at * g.o + o]),
                           sum);
            }
        }
    }
    lanes[warp * 32 + lane] = sum;
    __syncthreads();
    if (warp == 0 && o < g.o) {
        float all = 0.0f;
        for (int i = 0; i < 8; i++) {
            all += lanes[i * 32 + lane];
        }
        sums[((hr_i64)blockIdx.z * gridDim.y + row) * g.o + o] = all;
    }
}

HR_KERNEL direct_join(conv g, const float *sums, HR_Y *dw) {
    const hr_i64 all = (hr_i64)g.kh * g.kw * g.cg * g.o;
    const hr_i64 at = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < all) {
        float sum = 0.0f;
        for (int s = 0; s < g.parts; s++) {
            sum += sums[s * all + at];
        }
        hr_store(&dw[at], sum);
    }
}
