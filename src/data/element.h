/* Elements, and how they are made.
 *
 * An item is what travels between stages: either an element that lies in memory, or a ticket (which source, which
 * place) from which the source can load it when somebody needs the bytes.  A ticket costs no data: shuffles of files,
 * records and lines hold tickets.
 *
 * An emit makes an element: it collects fields, each a counted buffer, all charged to one account through an
 * hri_memory, which knows whether the maker may use the stage's guarantee (ledger.h, rule 3). */
#ifndef HRI_DATA_ELEMENT_H
#define HRI_DATA_ELEMENT_H

#include <headroom/data.h>
#include "base/prose.h"
#include "base/random.h"
#include "data/pool.h"

typedef struct hri_stage hri_stage;
typedef struct hri_workers hri_workers;

typedef struct hri_part {
    hr_field field;
    hri_buffer *buffer;
} hri_part;

struct hr_element {
    _Atomic uint32_t refs;
    uint32_t count, capacity;
    hri_part *parts;
};

typedef struct hri_item {
    hr_element *element;   /* owned; NULL: a ticket */
    hri_stage *source;     /* who loads it; NULL for elements made by a stage that has no tickets */
    uint64_t a, b;         /* where: the source knows what they mean */
    uint64_t epoch, index; /* who it is: random choices are drawn by these */
} hri_item;

/* Where the bytes of one piece of work are charged. */
typedef struct hri_memory {
    hri_buffer_pool *pool;
    hri_account *account; /* the stage's own account: its guarantee */
    hri_account *extra;   /* growth for work that is not next in order; NULL: there is none such */
    hri_workers *workers; /* NULL: the work is next in order by itself */
    uint64_t slot;        /* its number with the workers */
    uint64_t mine;        /* bytes it holds in `account` */
    hri_stage *stage;     /* looked at while waiting: is it being stopped? */
} hri_memory;

/* A buffer for the work.  HR_E_AGAIN: not next in order, and the budget has no room: give everything back and wait
 * for your turn.  HR_E_LIMIT: it can never be had.  HR_E_CANCELLED: the stage is being stopped. */
HR_MUST_CHECK hr_status hri_memory_buffer(hri_memory *m, uint64_t bytes, hri_buffer **out);

struct hr_emit {
    hri_memory *memory;
    const hr_element *input; /* NULL for sources */
    hr_element *output;
    hri_random random;
    char reason[256];
};

/* The stage's random stream for this element starts at (seed, epoch, index). */
HR_MUST_CHECK hr_status hri_emit_init(hr_emit *emit, hri_memory *memory, const hr_element *input,
                                      uint64_t seed, uint64_t epoch, uint64_t index);
/* The element made so far, and the emit is empty. */
hr_element *hri_emit_take(hr_emit *emit);
void hri_emit_deinit(hr_emit *emit);
/* Appends a field over a part of a buffer that exists already (a reference is taken). */
HR_MUST_CHECK hr_status hri_emit_share(hr_emit *emit, const hr_field *field, hri_buffer *buffer);
/* Says why, and returns status. */
hr_status hri_emit_fail(hr_emit *emit, hr_status status, const char *format, ...) HR_PRINTF(3, 4);

HR_MUST_CHECK hr_status hri_element_create(uint32_t capacity, hr_element **out);
/* What its buffers are charged, shared ones included. */
uint64_t hri_element_charged(const hr_element *element);
/* Sum of the fields' bytes. */
uint64_t hri_element_bytes(const hr_element *element);
/* Moves the charges of the buffers that nobody else holds.  `claim`: bytes that `to` was charged beforehand for
 * this, which are given back; 0: none, and buffers for which there is no room stay where they were. */
void hri_element_charge_to(hr_element *element, hri_account *to, uint64_t claim);
/* Marks what is not in the user's account as handed to the user. */
void hri_element_hand(hr_element *element, hri_account *user);

/* The element of an item: the item's own, or loaded now.  The item's ticket stays. */
HR_MUST_CHECK hr_status hri_item_load(const hri_item *item, hri_memory *memory, hr_element **out,
                                      char *reason, size_t reason_size);
/* "roses/01.jpg" or "element 7 of npy". */
void hri_item_name(const hri_item *item, char *buf, size_t size);
void hri_item_drop(hri_item *item);

/* Number i of a field, of any type. */
double hri_field_number(const hr_field *f, uint64_t i);
/* The same as a whole number; 0 when it is none (2.5), or the type has none. */
int hri_field_whole(const hr_field *f, uint64_t i, int64_t *out);

#endif
