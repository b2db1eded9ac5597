/* Byte sizes as people write them.
 *
 *   8GiB  1536MiB  512KiB  64k  2G  1.5e9  4096  75%
 *
 * KiB, MiB, GiB, TiB, PiB and K, M, G, T, P are powers of 1024; kB, MB, GB, TB, PB are powers of 1000; a bare
 * number or B counts bytes.  Letters may be of either case except that the "i" decides nothing: "8gib" is 8GiB and
 * "8gb" is 8 * 10^9.  Spaces around the number and before the unit are allowed.  Shown sizes use MiB and GiB. */
#ifndef HEADROOM_BYTES_H
#define HEADROOM_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

/* Parses `text`.  A percentage is relative to `whole`; with whole == 0 a percentage is HR_E_INVALID.  Fractions are
 * rounded down to whole bytes.  Nonsense, a negative number, NaN or an empty text is HR_E_INVALID; what does not fit
 * in 64 bits, or a percentage over 100, is HR_E_RANGE.  `out` is untouched on failure.  Any thread. */
HR_API HR_MUST_CHECK hr_status hr_bytes_parse(const char *text, uint64_t whole, uint64_t *out);

/* Writes a size for people: "0 B", "512 B", "1.50 KiB", "148 MiB", "23.9 GiB": at least three significant figures,
 * integers exactly.  Always ends `buf` with a NUL when size > 0; returns `buf`.  32 bytes are always enough. */
HR_API const char *hr_bytes_print(uint64_t bytes, char *buf, size_t size);

HR_END_DECLS
#endif
