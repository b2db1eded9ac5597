/* The ledger: the one account of every byte of data in a pipeline.
 *
 * Each stage has an account with a guarantee: the smallest working set with which it can make one element.  The sum
 * of the guarantees is at most the budget (that is what building a pipeline checks), and the invariant is
 *
 *     held + unfilled <= budget,      unfilled = sum over accounts of max(0, guarantee - held)
 *
 * so a charge within the guarantee is always granted at once, and growth beyond it never eats what another stage was
 * promised.  All of it under one mutex: exact for any number of threads.
 *
 * Why nobody waits for ever.  (1) A stage makes its next element inside its guarantee, so it needs nobody's memory
 * to go on; growth (one more element in flight, a deeper queue) is only tried, and when it is refused the stage
 * works on with less.  (2) Whoever takes an element over first gets room for it in his own account, then pulls: so
 * the producer's guarantee is free again before it is asked for the next element.  (3) Only the element that is next
 * in order may use the guarantee of a stage with many workers; the others give back what they hold before they
 * wait.  (4) An element larger than its stage declared waits only for bytes held further down, which flow out by
 * themselves, or by workers of its own stage, which finish; bytes held further up or by the user are counted as
 * stuck, and when those leave no room the answer is HR_E_LIMIT instead of a wait.
 *
 * Left out: any notion of fairness.  Elements go in order, so the oldest wins by construction. */
#ifndef HRI_DATA_LEDGER_H
#define HRI_DATA_LEDGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <headroom/status.h>

typedef struct hri_ledger hri_ledger;

typedef struct hri_account {
    char name[32];
    hri_ledger *ledger;
    uint32_t position;  /* in the pipeline, from the source; the user's is UINT32_MAX */
    uint64_t guarantee; /* 0: growth only */
    uint64_t held, peak;
    uint64_t handed; /* of held: in the user's hands although the user's account had no room */
    uint64_t refused;
    struct hri_account *next;
} hri_account;

struct hri_ledger {
    pthread_mutex_t mutex;
    pthread_cond_t
        freed; /* something was released, or the user began to wait, or all is cancelled */
    uint64_t budget, held, peak, unfilled, guarantees;
    uint64_t most;     /* the largest budget that it had */
    uint32_t waiting;  /* threads in hri_ledger_wait */
    bool user_waiting; /* the user's thread is inside hr_pipeline_next */
    hri_account *accounts;
};

HR_MUST_CHECK hr_status hri_ledger_init(hri_ledger *l, uint64_t budget);
void hri_ledger_deinit(hri_ledger *l);

/* Lowers the budget to `bytes`, or to what is held and promised where that is more.  Gives what it is now. */
uint64_t hri_ledger_shrink(hri_ledger *l, uint64_t bytes);

/* Opens an account; it lives as long as the ledger. */
HR_MUST_CHECK hr_status hri_ledger_open(hri_ledger *l, const char *name, uint32_t position,
                                        hri_account **out);
/* Sets the guarantee; while a pipeline is built only.  What is held already counts towards it.  HR_E_LIMIT when the
 * guarantees would no longer fit the budget. */
HR_MUST_CHECK hr_status hri_ledger_guarantee(hri_account *account, uint64_t bytes);

/* Charges the account if the invariant allows it; never waits. */
HR_MUST_CHECK bool hri_ledger_try(hri_account *account, uint64_t bytes);
/* Would it be granted now?  Only a hint under threads. */
bool hri_ledger_could(hri_account *account, uint64_t bytes);
/* Waits until somebody releases something or wait_ms pass.  HR_E_LIMIT when the user waits, too, and the bytes that
 * are stuck leave no room for `bytes` beside the `mine` bytes that the asker has in this account already. */
HR_MUST_CHECK hr_status hri_ledger_wait(hri_account *account, uint64_t bytes, uint64_t mine,
                                        unsigned wait_ms);
void hri_ledger_release(hri_account *account, uint64_t bytes);
/* Moves a charge if the invariant allows it. */
HR_MUST_CHECK bool hri_ledger_move(hri_account *from, hri_account *to, uint64_t bytes);
/* Bytes charged to `account` went to the user, or came back. */
void hri_ledger_hand(hri_account *account, int64_t bytes);
/* Wakes all that wait. */
void hri_ledger_wake(hri_ledger *l);
void hri_ledger_set_user_waiting(hri_ledger *l, bool waiting);
/* The most that `account` could ever be granted, were everything that can flow out gone; with_user: but what the user
 * holds now stays. */
uint64_t hri_ledger_room(hri_account *account, bool with_user);

typedef struct hri_ledger_view {
    uint64_t budget, held, peak, guarantees;
} hri_ledger_view;
hri_ledger_view hri_ledger_look(hri_ledger *l);
/* One account's numbers, taken together. */
void hri_account_look(hri_account *account, uint64_t *held, uint64_t *peak, uint64_t *refused);
/* Walks the accounts: HR_OK, or HR_E_INTERNAL when a sum or the invariant is broken. */
HR_MUST_CHECK hr_status hri_ledger_check(hri_ledger *l);

#endif
