// Pairs of numbers turned by the angle of their place; a thread has one pair, or one number that stays.  y may lie over x.

typedef HR_T T;
typedef HR_TABLE_T table_type;
enum { THREADS = 256 };

// As rotary.c has it.
struct sizes {
    hr_i64 places, heads, depth, half, table_batch;
    hr_i32 neighbours;
    float sign;
};

HR_KERNEL __launch_bounds__(THREADS)
    rotary(const T *x, const table_type *cosine, const table_type *sine, T *y, hr_i64 count,
           hr_i64 units, HR_TABLE struct sizes z) {
    const hr_i64 at = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) {
        return;
    }
    const hr_i64 r = at / units, i = at % units, first = r * z.depth;
    if (i >= z.half) {
        y[first + z.half + i] = x[first + z.half + i];
        return;
    }
    const hr_i64 angle =
        r / z.heads / z.places * z.table_batch + r / z.heads % z.places * z.half + i;
    const hr_i64 one = first + (z.neighbours ? 2 * i : i),
                 two = z.neighbours ? one + 1 : one + z.half;
    const float a = hr_load(x[one]), b = hr_load(x[two]);
    const float by = hr_load(cosine[angle]), off = z.sign * hr_load(sine[angle]);
    hr_store(&y[one], a * by - b * off);
    hr_store(&y[two], b * by + a * off);
}
