/* Small runs in the folder of a case: trained on the host in one thread, nothing measured, nothing kept elsewhere. */
#ifndef HR_TEST_RUNS_H
#define HR_TEST_RUNS_H

#include <headroom/headroom.h>

/* The path of NAME in the case's folder, good for three more calls. */
const char *test_in(const char *name);
hr_ctx *test_context(void);
/* Of a run as above into NAME in the case's folder (NULL: none); data, sizes and steps are the caller's. */
hr_job_options test_job(const char *model, const char *name);
/* Plans and trains; *history, the digest of its losses, is set where that went well. */
hr_status test_train(const hr_job_options *o, uint64_t *history, hr_error *why);
/* The same, which must go well; gives the digest. */
uint64_t test_trained(const hr_job_options *o);
/* The first `count` numbers of a tensor in a run or a file. */
void test_read_tensor(const char *checkpoint, const char *tensor, float *to, uint64_t count);

typedef struct test_scores {
    float of[64][16]; /* samples, classes */
    uint64_t count, classes;
} test_scores;

/* Scores of all 64 samples of synthetic data. */
void test_predict(const char *checkpoint, test_scores *out);

#endif
