/* Keyed BLAKE2b (RFC 7693) of short messages, many under one key; hashlib's is the reference. */
#ifndef DISCREET_BLAKE2B_H
#define DISCREET_BLAKE2B_H

#include <stdint.h>
#include <string.h>

static const uint64_t blake2b_start[8] = {
    0x6a09e667f3bcc908ULL, 0xbb67ae8584caa73bULL, 0x3c6ef372fe94f82bULL, 0xa54ff53a5f1d36f1ULL,
    0x510e527fade682d1ULL, 0x9b05688c2b3e6c1fULL, 0x1f83d9abfb41bd6bULL, 0x5be0cd19137e2179ULL,
};

static const uint8_t blake2b_order[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t blake2b_turned(uint64_t word, int bits) { return (word >> bits) | (word << (64 - bits)); }

#define BLAKE2B_MIX(a, b, c, d, x, y)                                                                                \
    a = a + b + (x); d = blake2b_turned(d ^ a, 32); c = c + d; b = blake2b_turned(b ^ c, 24);                        \
    a = a + b + (y); d = blake2b_turned(d ^ a, 16); c = c + d; b = blake2b_turned(b ^ c, 63);

/* One block of 128 bytes into the state; `total` bytes so far, this block included. */
static inline void blake2b_compress(uint64_t state[8], const unsigned char *block, uint64_t total, int last) {
    uint64_t words[16], v[16];
    memcpy(words, block, 128);
    memcpy(v, state, 64);
    memcpy(v + 8, blake2b_start, 64);
    v[12] ^= total;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; round++) {
        const uint8_t *order = blake2b_order[round];
        BLAKE2B_MIX(v[0], v[4], v[8], v[12], words[order[0]], words[order[1]])
        BLAKE2B_MIX(v[1], v[5], v[9], v[13], words[order[2]], words[order[3]])
        BLAKE2B_MIX(v[2], v[6], v[10], v[14], words[order[4]], words[order[5]])
        BLAKE2B_MIX(v[3], v[7], v[11], v[15], words[order[6]], words[order[7]])
        BLAKE2B_MIX(v[0], v[5], v[10], v[15], words[order[8]], words[order[9]])
        BLAKE2B_MIX(v[1], v[6], v[11], v[12], words[order[10]], words[order[11]])
        BLAKE2B_MIX(v[2], v[7], v[8], v[13], words[order[12]], words[order[13]])
        BLAKE2B_MIX(v[3], v[4], v[9], v[14], words[order[14]], words[order[15]])
    }
    for (int i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}

/* The state after the block of a 32-byte key, for digests of `size` bytes. A message must follow. */
static inline void blake2b_keyed(uint64_t state[8], const unsigned char key[32], int size) {
    unsigned char block[128] = {0};
    memcpy(block, key, 32);
    memcpy(state, blake2b_start, 64);
    state[0] ^= 0x01010000ULL ^ (32ULL << 8) ^ (uint64_t)size;
    blake2b_compress(state, block, 128, 0);
}

/* The digest's first 64 bytes, of a message of at least one byte, from the state of a key. */
static inline void blake2b_of(const uint64_t keyed[8], const unsigned char *message, uint64_t length, uint64_t state[8]) {
    unsigned char block[128] = {0};
    uint64_t total = 128;
    memcpy(state, keyed, 64);
    while (length > 128) {
        total += 128;
        blake2b_compress(state, message, total, 0);
        message += 128;
        length -= 128;
    }
    memcpy(block, message, length);
    blake2b_compress(state, block, total + length, 1);
}

#endif
