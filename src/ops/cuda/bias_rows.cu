// y (rows, columns) += bias (columns).  HR_T is the type of y, HR_BIAS of the bias.
HR_KERNEL bias_rows(HR_T *y, const HR_BIAS *bias, hr_i64 count, hr_i64 columns) {
    const hr_i64 step = (hr_i64)gridDim.x * blockDim.x;
    for (hr_i64 at = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
        hr_store(&y[at], hr_load(y[at]) + hr_load(bias[at % columns]));
    }
}
