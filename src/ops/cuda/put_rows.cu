// Rows into the places that their numbers say.  c is (outer, rows, width), x (outer, picks, width); a thread has one element
// of x.  Of rows with the same number the last one is written, whatever the order of threads.

typedef HR_T T;
enum { THREADS = 256 };

HR_INLINE hr_i64 id_at(const void *ids, hr_u32 wide, hr_i64 i) {
    return wide ? ((const hr_i64 *)ids)[i] : ((const hr_i32 *)ids)[i];
}

HR_KERNEL __launch_bounds__(THREADS)
    put_rows(T *c, const T *x, const void *ids, hr_u32 wide, hr_i64 count, hr_i64 rows,
             hr_i64 picks, hr_i64 width) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const hr_i64 t = i / width % picks, outer = i / width / picks, id = id_at(ids, wide, t);
    if (id < 0 || id >= rows) {
        return;
    }
    for (hr_i64 later = t + 1; later < picks; later++) {
        if (id_at(ids, wide, later) == id) {
            return;
        }
    }
    c[(outer * rows + id) * width + i % width] = x[i];
}
