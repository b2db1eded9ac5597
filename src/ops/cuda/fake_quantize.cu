// Fake quantization: values as they are after being bytes, ranges that are learned, and what depends on the number of the step.
// ops/common/learned_range.h and ops/common/requantize.h have the formulas.

enum { THREADS = 256, WEIGHTS = 128 };

// A thread has one byte of the mask: 8 elements of one sample.
HR_KERNEL __launch_bounds__(THREADS) fake_quantize(const float *x, const float *range, float *y, hr_u8 *mask,
                                                   hr_i64 bytes, hr_i64 row_bytes, hr_i64 each) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= bytes) {
        return;
    }
    const float scale = range[0], given = range[1];
    const float above = given > 0.0f ? given : 0.0f;
    const float zero = (float)__float2int_rn(above < 255.0f ? above : 255.0f);
    const float low = -zero, high = 255.0f - zero;
    const hr_i64 first = i % row_bytes * 8, at = i / row_bytes * each + first;
    const int n = each - first < 8 ? (int)(each - first) : 8;
    hr_u32 bits = 0;
    for (int k = 0; k < n; k++) {
        const float v = x[at + k], by = scale > 0.0f ? __fdiv_rn(v, scale) : 0.0f;
        const float over = by > low ? by : low, held = over < high ? over : high;
        bits |= (hr_u32)(by >= low && by <= high) << k;
        y[at + k] = scale > 0.0f ? __fmul_rn((float)__float2int_rn(held), scale) : v;
    }
    mask[i] = (hr_u8)bits;
}

// A block has one output.
HR_KERNEL __launch_bounds__(WEIGHTS) fake_quantize_weight(const float *w, const float *range, float *y, hr_i64 depth,
                                                          hr_i64 far, hr_i64 near) {
    __shared__ float room[32];
    const hr_i64 first = blockIdx.x * far;
    float largest = 0.0f;
    for (hr_i64 i = threadIdx.x; i < depth; i += WEIGHTS) {
        largest = fmaxf(largest, fabsf(w[first + i * near]));
    }
    largest = __fdiv_rn(hr_block_max(largest, room), 127.0f);
    const float scale = largest >= 1.17549435e-38f && largest <= 3.40282347e+38f ? largest : 1.0f;
    const bool on = range[0] > 0.0f;
    for (hr_i64 i = threadIdx.x; i < depth; i += WEIGHTS) {
        const float v = w[first + i * near], by = __fdiv_rn(v, scale);
        const float over = by >= -127.0f ? by : -127.0f;
        y[first + i * near] = on ? __fmul_rn((float)__float2int_rn(over < 127.0f ? over : 127.0f), scale) : v;
    }
}

// The least is the greatest of what has the other sign.
HR_INLINE void both(float *least, float *most, float *room) {
    *least = -hr_block_max(-*least, room);
    __syncthreads();
    *most = hr_block_max(*most, room);
}

HR_KERNEL __launch_bounds__(THREADS) min_max(const float *x, float *seen, hr_i64 count) {
    __shared__ float room[32];
    float least = 0.0f, most = 0.0f;
    for (hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x; i < count; i += (hr_i64)gridDim.x * THREADS) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    both(&least, &most, room);
    if (threadIdx.x == 0) {
        seen[2 * blockIdx.x] = least;
        seen[2 * blockIdx.x + 1] = most;
    }
}

HR_KERNEL __launch_bounds__(THREADS) min_max_all(const float *seen, float *y, hr_i64 blocks) {
    __shared__ float room[32];
    float least = 0.0f, most = 0.0f;
    for (hr_i64 i = threadIdx.x; i < blocks; i += THREADS) {
        least = seen[2 * i] < least ? seen[2 * i] : least;
        most = seen[2 * i + 1] > most ? seen[2 * i + 1] : most;
    }
    both(&least, &most, room);
    if (threadIdx.x == 0) {
        y[0] = least;
        y[1] = most;
    }
}

// ---- learned ranges, by one thread ----

HR_INLINE double seen_step(const float *s) {
    return s[5] < 1.0f ? -1.0 : ((double)s[5] - 1.0) * 65536.0 + (double)s[4];
}

HR_INLINE void bounds_of(const float *s, double step, double keep, float *bounds) {
    const double seen = seen_step(s);
    const bool none = s[0] == 0.0f && s[1] == 0.0f;
    for (int i = 0; i < 2; i++) {
        const float was = (float)((double)s[i] * keep), now = (float)((double)s[i + 2] * (1.0 - keep));
        bounds[i] = seen == step || seen < 0.0 ? s[i] : none ? s[i + 2] : __fadd_rn(was, now);
    }
    bounds[0] = bounds[0] < 0.0f ? bounds[0] : 0.0f;
    bounds[1] = bounds[1] > 0.0f ? bounds[1] : 0.0f;
}

HR_KERNEL range_scale(const float *range, float *y, const hr_control *control, double begin, double keep,
                      hr_u32 evaluate) {
    if (threadIdx.x) {
        return;
    }
    const double step = evaluate ? -2.0 : (double)control->step;
    float bounds[2] = {0.0f, 0.0f}, scale = 0.0f, zero = 0.0f;
    if ((evaluate ? seen_step(range) : step) >= begin) {
        bounds_of(range, step, keep, bounds);
    }
    const double width = (double)bounds[1] - (double)bounds[0];
    if (width >= 7.52316384526264e-37 && width <= 1.7014118346046923e+38) {
        scale = (float)(width / 255.0);
        const double at = rint(-(double)bounds[0] / (double)scale);
        zero = (float)(at < 255.0 ? at : 255.0);
    }
    y[0] = scale;
    y[1] = zero;
}

HR_KERNEL range_move(float *s, const float *seen, const hr_control *control, hr_i64 parts, hr_i64 until, double keep) {
    const hr_u32 step = control->step;
    if (threadIdx.x || (hr_i64)step >= until) {
        return;
    }
    for (hr_i64 i = 0; i < parts; i++) {
        const float least = seen[2 * i] < 0.0f ? seen[2 * i] : 0.0f;
        const float most = seen[2 * i + 1] > 0.0f ? seen[2 * i + 1] : 0.0f;
        if (!(least >= -3.40282347e+38f) || !(most <= 3.40282347e+38f)) {
            continue;
        }
        if (seen_step(s) == (double)step) {
            s[2] = least < s[2] ? least : s[2];
            s[3] = most > s[3] ? most : s[3];
            continue;
        }
        float bounds[2];
        bounds_of(s, (double)step, keep, bounds);
        s[0] = bounds[0];
        s[1] = bounds[1];
        s[2] = least;
        s[3] = most;
        s[4] = (float)(step & 0xffffu);
        s[5] = (float)(step >> 16) + 1.0f;
    }
}

HR_KERNEL __launch_bounds__(THREADS) from_step(float *y, const hr_control *control, hr_i64 count, hr_i64 step) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) {
        y[i] = (hr_i64)control->step >= step ? 1.0f : 0.0f;
    }
}
