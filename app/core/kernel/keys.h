/* A key as bytes: its hash (sketches/order.py says what it is and why), and what a fold does with it. */
#ifndef DISCREET_KEYS_H
#define DISCREET_KEYS_H

#include <stdint.h>
#include <string.h>
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the stored form is little-endian; this machine runs the Python fold"
#endif

static inline uint64_t tail_word(const unsigned char *key, uint32_t length) {
    uint32_t rest = length & 7;
    uint64_t word = 0;
    if (length >= 8) {
        memcpy(&word, key + length - 8, 8);
        return word >> (8 * (8 - rest));
    }
    for (uint32_t i = 0; i < rest; i++) word |= (uint64_t)key[i] << (8 * i);
    return word;
}

/* The length and the words of the key, times the multipliers, mod 2^128; the upper half, mixed. */
static inline uint64_t hash_of(const unsigned char *key, uint32_t length, const uint64_t *multipliers) {
    unsigned __int128 low = (unsigned __int128)multipliers[0] * length;
    uint64_t high = multipliers[1] * length, word;
    const uint64_t *next = multipliers + 2;
    for (uint32_t at = 0; at + 8 <= length; at += 8, next += 2) {
        memcpy(&word, key + at, 8);
        low += (unsigned __int128)next[0] * word;
        high += next[1] * word;
    }
    if (length & 7) {
        word = tail_word(key, length);
        low += (unsigned __int128)next[0] * word;
        high += next[1] * word;
    }
    word = high + (uint64_t)(low >> 64);
    word = (word ^ (word >> 33)) * 0xff51afd7ed558ccdULL;
    word = (word ^ (word >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return word ^ (word >> 33);
}

/* memcmp() == 0 and memcpy() for short keys, without a call: the last eight bytes overlap those before. */
static inline int same_bytes(const unsigned char *left, const unsigned char *right, uint32_t length) {
    uint64_t ours, theirs, differs = 0;
    if (length < 8) {
        for (uint32_t i = 0; i < length; i++) differs |= left[i] ^ right[i];
        return differs == 0;
    }
    for (uint32_t at = 0; at + 8 < length; at += 8) {
        memcpy(&ours, left + at, 8);
        memcpy(&theirs, right + at, 8);
        differs |= ours ^ theirs;
    }
    memcpy(&ours, left + length - 8, 8);
    memcpy(&theirs, right + length - 8, 8);
    return (differs | (ours ^ theirs)) == 0;
}

static inline void copy_bytes(unsigned char *into, const unsigned char *from, uint32_t length) {
    if (length < 8) {
        for (uint32_t i = 0; i < length; i++) into[i] = from[i];
        return;
    }
    for (uint32_t at = 0; at + 8 < length; at += 8) memcpy(into + at, from + at, 8);
    memcpy(into + length - 8, from + length - 8, 8);
}

#endif
