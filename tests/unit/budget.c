/* The budget: limits that hold under threads, waiting in order, requests to shrink, pools inside pools. */
#include <headroom/budget.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "memory/budget.h"
#include "test.h"

#define KIB 1024u

static hr_lease_options ask(const char *pool, const char *name, uint64_t wanted, uint64_t least,
                            uint64_t wait_ms) {
    return (hr_lease_options){.size = sizeof(hr_lease_options),
                              .pool = pool,
                              .name = name,
                              .wanted_bytes = wanted,
                              .least_bytes = least,
                              .wait_ms = wait_ms};
}

static hri_book *open_book(uint64_t host, uint64_t pinned) {
    hri_book *book;
    CHECK_OK(hri_book_create(&book));
    CHECK_OK(hri_book_add_pool(book, "host", NULL, host));
    CHECK_OK(hri_book_add_pool(book, "pinned", "host", pinned));
    return book;
}

static hr_pool_info pool_at(hri_book *book, size_t i) {
    hr_pool_info info = {.size = sizeof info};
    CHECK_OK(hri_book_get_pool(book, i, &info));
    return info;
}

TEST(budget, grants_what_there_is_and_says_who_holds_the_rest) {
    hri_book *book = open_book(1000, 600);
    hr_lease *a, *b, *c = NULL;
    hr_error why = {0};
    CHECK_OK(hri_book_request(book, &(hr_lease_options[]){ask("host", "first", 700, 0, 0)}[0], &a,
                              NULL));
    CHECK_OK(hri_book_request(book, &(hr_lease_options[]){ask("host", "second", 500, 200, 0)}[0],
                              &b, NULL));
    CHECK_EQ(hr_lease_granted(b), 300);
    hr_lease_options o = ask("host", "third", 1, 0, 0);
    CHECK_STATUS(hri_book_request(book, &o, &c, &why), HR_E_AGAIN);
    CHECK(!c && why.holder_count == 2 && strstr(why.message, "first"));
    o = ask("host", "third", 1001, 0, 60000);
    CHECK_STATUS(hri_book_request(book, &o, &c, &why),
                 HR_E_LIMIT); /* at once: waiting cannot help */
    CHECK_STATUS(hri_book_destroy(book), HR_E_BUSY);
    CHECK_OK(hri_book_check(book));
    hr_lease_release(a);
    hr_lease_release(b);
    CHECK_EQ(pool_at(book, 0).granted_bytes, 0);
    CHECK_OK(hri_book_destroy(book));
}

TEST(budget, an_inner_pool_counts_in_both) {
    hri_book *book = open_book(1000, 600);
    hr_lease *a, *b;
    hr_lease_options o = ask("pinned", "copies", 500, 0, 0);
    CHECK_OK(hri_book_request(book, &o, &a, NULL));
    CHECK_OK(hr_lease_hold(a, 400));
    CHECK(pool_at(book, 0).granted_bytes == 500 && pool_at(book, 0).held_bytes == 400);
    o = ask("pinned", "more", 200, 0, 0);
    CHECK_STATUS(hri_book_request(book, &o, &b, NULL), HR_E_AGAIN); /* its own limit */
    o = ask("host", "tensors", 600, 0, 0);
    CHECK_STATUS(hri_book_request(book, &o, &b, NULL), HR_E_AGAIN); /* the outer one */
    o = ask("host", "tensors", 500, 0, 0);
    CHECK_OK(hri_book_request(book, &o, &b, NULL));
    CHECK_OK(hri_book_check(book));
    hr_lease_release(b);
    hr_lease_release(a);
    CHECK_EQ(pool_at(book, 0).peak_bytes, 400);
    CHECK_OK(hri_book_destroy(book));
}

TEST(budget, held_stays_under_granted_and_a_lease_cannot_shrink_below_it) {
    hri_book *book = open_book(1000, 0);
    hr_lease *a;
    hr_lease_options o = ask("host", "a", 400, 0, 0);
    CHECK_OK(hri_book_request(book, &o, &a, NULL));
    CHECK_STATUS(hr_lease_hold(a, 401), HR_E_LIMIT);
    CHECK_OK(hr_lease_hold(a, 300));
    CHECK_STATUS(hr_lease_resize(a, 299), HR_E_BUSY);
    CHECK_OK(hr_lease_resize(a, 300));
    CHECK_OK(hr_lease_resize(a, 1000));
    CHECK_STATUS(hr_lease_resize(a, 1001), HR_E_LIMIT);
    hr_lease_release(a);
    CHECK_OK(hri_book_destroy(book));
}

TEST(budget, a_lower_limit_asks_those_furthest_above_their_minimum) {
    hri_book *book = open_book(1000, 0);
    hr_lease *a, *b;
    hr_lease_options o = ask("host", "large", 600, 300, 0);
    CHECK_OK(hri_book_request(book, &o, &a, NULL));
    o = ask("host", "small", 400, 350, 0);
    CHECK_OK(hri_book_request(book, &o, &b, NULL));
    CHECK_EQ(hr_lease_asked(a), HR_UNKNOWN);
    CHECK_STATUS(hri_book_set_limit(book, "host", 800), HR_E_AGAIN);
    CHECK_EQ(hr_lease_asked(a), 400);
    CHECK_EQ(hr_lease_asked(b), HR_UNKNOWN);
    CHECK_OK(hr_lease_resize(a, 400));
    CHECK_EQ(hr_lease_asked(a), HR_UNKNOWN);
    CHECK_EQ(pool_at(book, 0).free_bytes, 0);
    CHECK_OK(hri_book_ask(book, "host", "small", 0));
    CHECK_EQ(hr_lease_asked(b), 0);
    hr_lease_decline(b, 390);
    CHECK_EQ(hr_lease_asked(b), HR_UNKNOWN);
    hr_lease_info info = {.size = sizeof info};
    CHECK_OK(hri_book_get_lease(book, "host", 1, &info));
    CHECK(!strcmp(info.name, "small") && info.least_bytes == 390);
    info.size = sizeof info;
    CHECK_STATUS(hri_book_get_lease(book, "host", 2, &info), HR_E_EOF);
    CHECK_STATUS(hri_book_ask(book, "host", "nobody", 0), HR_E_NOT_FOUND);
    hr_lease_release(a);
    hr_lease_release(b);
    CHECK_OK(hri_book_destroy(book));
}

/* ---- waiting ---- */

typedef struct waiter {
    hri_book *book;
    uint64_t bytes;
    const char *name;
    pthread_t thread;
    atomic_int *order;
    int place, ticks;
    hr_status status;
} waiter;

static hr_status on_wait(void *user, uint64_t waited_ms) {
    (void)waited_ms;
    ((waiter *)user)->ticks++;
    return HR_OK;
}

static void *wait_for_it(void *user) {
    waiter *w = user;
    hr_lease *l = NULL;
    hr_lease_options o = ask("host", w->name, w->bytes, 0, 20000);
    o.on_wait = on_wait;
    o.user = w;
    w->status = hri_book_request(w->book, &o, &l, NULL);
    w->place = atomic_fetch_add(w->order, 1);
    hr_lease_release(l);
    return NULL;
}

static void until_waiting(hri_book *book, uint32_t count) {
    for (int i = 0; i < 2000 && pool_at(book, 0).waiting_count < count; i++) {
        usleep(1000);
    }
    CHECK_EQ(pool_at(book, 0).waiting_count, count);
}

TEST(budget, a_large_request_is_not_starved_by_small_ones_behind_it) {
    hri_book *book = open_book(1000, 0);
    atomic_int order = 0;
    waiter large = {.book = book, .bytes = 900, .name = "large", .order = &order};
    waiter small = {.book = book, .bytes = 200, .name = "small", .order = &order};
    hr_lease *a;
    hr_lease_options o = ask("host", "first", 700, 0, 0);
    CHECK_OK(hri_book_request(book, &o, &a, NULL));
    CHECK_EQ(pthread_create(&large.thread, NULL, wait_for_it, &large), 0);
    until_waiting(book, 1);
    CHECK_EQ(pthread_create(&small.thread, NULL, wait_for_it, &small), 0);
    until_waiting(book, 2); /* 300 are free, and it waits all the same */
    hr_lease_release(a);
    pthread_join(large.thread, NULL);
    pthread_join(small.thread, NULL);
    CHECK(large.status == HR_OK && small.status == HR_OK && large.place < small.place);
    CHECK(large.ticks > 0);
    CHECK_OK(hri_book_destroy(book));
}

static hr_status give_up(void *user, uint64_t waited_ms) {
    (void)user;
    return waited_ms >= 100 ? HR_E_CANCELLED : HR_OK;
}

TEST(budget, a_wait_can_be_cancelled_and_runs_out) {
    hri_book *book = open_book(1000, 0);
    hr_lease *a, *b = NULL;
    hr_lease_options o = ask("host", "first", 1000, 0, 0);
    CHECK_OK(hri_book_request(book, &o, &a, NULL));
    o = ask("host", "second", 10, 0, 20000);
    o.on_wait = give_up;
    CHECK_STATUS(hri_book_request(book, &o, &b, NULL), HR_E_CANCELLED);
    o.on_wait = NULL;
    o.wait_ms = 50;
    CHECK_STATUS(hri_book_request(book, &o, &b, NULL), HR_E_AGAIN);
    CHECK_EQ(pool_at(book, 0).waiting_count, 0);
    hr_lease_release(a);
    CHECK_OK(hri_book_destroy(book));
}

/* Threads that lease, hold, resize and give back at random: the limit is never passed. */
static void *trade(void *user) {
    waiter *w = user;
    uint64_t state = (uint64_t)(uintptr_t)w->name[0] + test_seed();
    w->status = HR_OK;
    for (int i = 0; i < 400 && w->status == HR_OK; i++) {
        hr_lease *l = NULL;
        hr_lease_options o = ask(test_random(&state) % 3 ? "host" : "pinned", w->name,
                                 1 + test_random(&state) % 500, 1, 20000);
        w->status = hri_book_request(w->book, &o, &l, NULL);
        if (w->status == HR_OK) {
            w->status = hr_lease_hold(l, hr_lease_granted(l));
        }
        if (w->status == HR_OK && hr_lease_resize(l, hr_lease_granted(l) + 100) == HR_OK) {
            w->status = hr_lease_hold(l, hr_lease_granted(l));
        }
        w->status = w->status == HR_OK ? hri_book_check(w->book) : w->status;
        hr_lease_release(l);
    }
    return NULL;
}

TEST_TIMEOUT(budget, eight_threads_never_pass_a_limit, 120) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    hri_book *book = open_book(1000, 400);
    waiter w[8];
    for (int i = 0; i < 8; i++) {
        w[i] = (waiter){.book = book, .name = names[i]};
        CHECK_EQ(pthread_create(&w[i].thread, NULL, trade, &w[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(w[i].thread, NULL);
        CHECK_STATUS(w[i].status, HR_OK);
    }
    const hr_pool_info host = pool_at(book, 0), pinned = pool_at(book, 1);
    CHECK(host.peak_bytes <= 1000 && pinned.peak_bytes <= 400 && host.granted_bytes == 0);
    CHECK_OK(hri_book_destroy(book));
}

/* ---- of a context ---- */

TEST(budget, texts_name_pools_and_unmentioned_ones_get_what_is_free) {
    hr_ctx *ctx;
    hr_budget *b = NULL;
    hr_error why = {0};
    hr_lease *l;
    CHECK_OK(hr_ctx_create(&(hr_ctx_options){.size = sizeof(hr_ctx_options), .no_cuda = 1}, &ctx));
    CHECK_OK(hr_budget_create(ctx, "host=64MiB,input=16MiB", &b, &why));
    hr_pool_info info = {.size = sizeof info};
    CHECK_OK(hr_budget_get_pool(b, 0, &info));
    CHECK(info.limit_bytes == 64 * KIB * KIB && !strcmp(info.name, "host"));
    hr_lease_options o = ask("input", "pipeline", 17 << 20, 0, 0);
    CHECK_STATUS(hr_lease_request(b, &o, &l, &why), HR_E_LIMIT);
    o = ask("pinned", "copies", 63 << 20, 0, 0); /* bounded by the host alone */
    CHECK_OK(hr_lease_request(b, &o, &l, &why));
    hr_lease_release(l);
    CHECK_OK(hr_budget_check(b));
    CHECK_OK(hr_budget_destroy(b));
    CHECK_OK(hr_budget_create(ctx, NULL, &b, &why));
    o = ask(NULL, "any", 1 << 20, 0, 0);
    CHECK_OK(hr_lease_request(b, &o, &l, &why));
    hr_lease_release(l);
    CHECK_OK(hr_budget_destroy(b));
    b = NULL;
    CHECK_STATUS(hr_budget_create(ctx, "cuda:7=1GiB", &b, &why), HR_E_NOT_FOUND);
    CHECK_STATUS(hr_budget_create(ctx, "host=4096TiB", &b, &why), HR_E_RANGE);
    CHECK_STATUS(hr_budget_create(ctx, "host=nonsense", &b, &why), HR_E_INVALID);
    CHECK_STATUS(hr_budget_create(ctx, "=1GiB", &b, &why), HR_E_INVALID);
    CHECK(!b);
    hr_ctx_destroy(ctx);
}
