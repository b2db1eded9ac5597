/* Launchers' variables: who wins, what is refused, where the ranks meet. */
#include <stdio.h>
#include <string.h>

#include "net/who.h"
#include "test.h"

/* user: NAME, value, NAME, value, ..., NULL */
static const char *find(void *user, const char *name) {
    for (const char *const *p = user; *p; p += 2) {
        if (strcmp(p[0], name) == 0) {
            return p[1];
        }
    }
    return NULL;
}

#define WHO(...)                                                                                   \
    (const char *[]) {                                                                             \
        __VA_ARGS__, NULL                                                                          \
    }

static hri_who read_good(const char **env) {
    hri_who who;
    hri_prose why = {0};
    const hr_status status = hri_who_read(find, (void *)env, &who, &why);
    CHECK_STR(why.text, "");
    CHECK_OK(status);
    return who;
}

TEST(net_who, each_launcher_is_understood) {
    hri_who w = read_good(WHO("HOME", "/"));
    CHECK_EQ(w.size, 1);
    CHECK_STR(w.launcher, "");
    w = read_good(WHO("RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "1", "MASTER_ADDR", "node1",
                      "MASTER_PORT", "1234"));
    CHECK_EQ(w.rank, 3);
    CHECK_EQ(w.size, 8);
    CHECK_EQ(w.local_rank, 1);
    CHECK_STR(w.meet, "node1:1234");
    w = read_good(WHO("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4",
                      "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "PMIX_NAMESPACE", "job7"));
    CHECK_STR(w.launcher, "Open MPI");
    CHECK_STR(w.meet, "");
    CHECK_STR(w.run, "job7");
    CHECK_EQ(w.local_size, 4);
    w = read_good(WHO("PMI_RANK", "0", "PMI_SIZE", "2"));
    CHECK_STR(w.launcher, "MPICH");
    w = read_good(WHO("TF_CONFIG",
                      "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\", \"c:1\"]}, "
                      "\"task\": {\"type\": \"worker\", \"index\": 1}}"));
    CHECK_EQ(w.rank, 2);
    CHECK_EQ(w.size, 3);
    CHECK_STR(w.meet, "a:1");
    w = read_good(WHO("SLURM_PROCID", "5", "SLURM_NTASKS", "6", "SLURM_STEP_ID", "0",
                      "SLURM_JOB_ID", "41", "SLURM_JOB_NODELIST", "gpu-a[07-09,12]",
                      "SLURM_JOB_NUM_NODES", "4"));
    CHECK_STR(w.meet, "gpu-a07:20041");
    w = read_good(WHO("SLURM_PROCID", "0", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0",
                      "SLURM_JOB_ID", "41", "SLURM_JOB_NODELIST", "big-one,other",
                      "SLURM_JOB_NUM_NODES", "2"));
    CHECK_STR(w.meet, "big-one:20041");
}

TEST(net_who, the_first_in_order_wins_and_the_others_are_kept) {
    const hri_who w =
        read_good(WHO("HEADROOM_RANK", "0", "HEADROOM_SIZE", "2", "HEADROOM_MEET", "h:9",
                      "HEADROOM_TOKEN_FILE", "/t", "PMI_RANK", "1", "PMI_SIZE", "7", "SLURM_PROCID",
                      "1", "SLURM_NTASKS", "3", "SLURM_STEP_ID", "1"));
    CHECK_STR(w.launcher, "headroom");
    CHECK_STR(w.others, "MPICH, Slurm");
    CHECK_STR(w.meet, "h:9");
    CHECK_STR(w.token_file, "/t");
    CHECK_EQ(w.size, 2);
}

TEST(net_who, an_allocation_without_a_step_is_one_process) {
    CHECK_EQ(read_good(WHO("SLURM_NTASKS", "8", "SLURM_PROCID", "0", "SLURM_JOB_ID", "3")).size, 1);
    CHECK_EQ(read_good(WHO("RANK", "1", "WORLD_SIZE", "2")).size, 1); /* nobody says where */
}

TEST(net_who, nonsense_is_refused_by_name) {
    const char **bad[] = {
        WHO("RANK", "x", "WORLD_SIZE", "2", "MASTER_ADDR", "h"),
        WHO("RANK", "2", "WORLD_SIZE", "2", "MASTER_ADDR", "h"),
        WHO("PMI_RANK", "0", "PMI_SIZE", "99999"),
        WHO("TF_CONFIG", "{\"cluster\": 3}"),
        WHO("TF_CONFIG", "not json"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hri_who who = {.size = 77};
        hri_prose why = {0};
        CHECK_STATUS(hri_who_read(find, (void *)bad[i], &who, &why), HR_E_INVALID);
        CHECK(why.text[0] != '\0');
        CHECK_EQ(who.size, 77);
    }
}
