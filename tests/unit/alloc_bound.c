/* Bounds on what a thread may hold (base/alloc.h). */
#include "base/alloc.h"
#include "test.h"

#ifdef __GLIBC__
TEST(alloc_bound, refuses_what_goes_beyond_it_and_says_so) {
    hri_alloc_bound bound;
    hri_alloc_bound_open(&bound, 10000);
    void *a = hri_malloc(6000);
    CHECK(a != NULL);
    CHECK(hri_malloc(6000) == NULL);
    CHECK(hri_alloc_bound_hit());
    CHECK(!hri_alloc_bound_hit()); /* asked once */
    CHECK(hri_realloc(a, 20000) == NULL);
    CHECK(hri_calloc(100, 60) == NULL);
    CHECK(hri_alloc_bound_hit());
    hri_free(a);
    a = hri_calloc(1, 6000); /* what was freed is there again */
    CHECK(a != NULL);
    hri_alloc_bound_close(&bound);
    void *b = hri_malloc(60000); /* and outside there is no bound */
    CHECK(b != NULL);
    hri_free(a);
    hri_free(b);
}

TEST(alloc_bound, an_outer_one_holds_inside) {
    hri_alloc_bound outer, inner;
    hri_alloc_bound_open(&outer, 10000);
    hri_alloc_bound_open(&inner, 0);
    CHECK(hri_malloc(20000) == NULL);
    void *a = hri_malloc(1000);
    CHECK(a != NULL);
    CHECK(inner.held_bytes >= 1000 && inner.held_bytes == outer.held_bytes);
    hri_alloc_bound_close(&inner);
    hri_free(a);
    CHECK_EQ(outer.held_bytes, 0);
    CHECK(outer.peak_bytes >= 1000);
    hri_alloc_bound_close(&outer);
}
#endif
