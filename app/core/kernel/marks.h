/* Where the strings of a body end, found in 32 bytes at a time. */
#ifndef DISCREET_MARKS_H
#define DISCREET_MARKS_H

#include <stdint.h>
#include <string.h>

/* A bit for each byte that is a quote, a backslash or a control character. The lowest that is set is always right; the
   ones above it may be set falsely. */
#if defined(__SSE2__) && !defined(DISCREET_PORTABLE)
#include <emmintrin.h>

static inline uint32_t marks_in_half(const unsigned char *bytes_at) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)bytes_at);
    __m128i quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22)), slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
    __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, slashes), controls));
}

static inline uint32_t marks_in(const unsigned char *bytes_at) {
    return marks_in_half(bytes_at) | marks_in_half(bytes_at + 16) << 16;
}
#else
#define EACH(byte) (0x0101010101010101ULL * (byte))

/* A borrow can set the bit of a later byte falsely. */
static inline uint32_t marks_in_word(const unsigned char *bytes_at) {
    uint64_t word, quotes, slashes, marks;
    memcpy(&word, bytes_at, 8);
    quotes = word ^ EACH(0x22);
    slashes = word ^ EACH(0x5c);
    marks = ((quotes - EACH(0x01)) & ~quotes) | ((slashes - EACH(0x01)) & ~slashes) | ((word - EACH(0x20)) & ~word);
    return (uint32_t)(((marks >> 7) & EACH(0x01)) * 0x0102040810204080ULL >> 56);
}

static inline uint32_t marks_in(const unsigned char *bytes_at) {
    return marks_in_word(bytes_at) | marks_in_word(bytes_at + 8) << 8 | marks_in_word(bytes_at + 16) << 16 |
           marks_in_word(bytes_at + 24) << 24;
}
#endif

static inline int first_mark(uint32_t marks) { return __builtin_ctz(marks); }

#endif
