# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""How much of their allowance people have used: fingerprint -> a number from 1 to 65,535, ten million of them if need be.

A table of open addressing, 16 bytes a position. Fingerprints are outputs of a keyed function, uniform already and not to be
chosen by anybody, so their own low bits index it. What is used only grows, and nobody leaves the table.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    static inline void soon(const void *address) { __builtin_prefetch(address); }
    """
    void soon(const void*) nogil

cdef extern from "blake2b.h":
    void blake2b_keyed(uint64_t*, const unsigned char*, int) nogil
    void blake2b_of(const uint64_t*, const unsigned char*, uint64_t, uint64_t*) nogil

cdef enum:
    FINGERPRINT = 12
    USAGE = 14  # a fingerprint and what is used, u16
    AHEAD = 16
    KEY = 32

cdef struct Person:
    uint64_t lower
    uint32_t upper
    uint16_t used  # 0 where the position is empty
    uint16_t unused

cdef uint64_t NOWHERE = <uint64_t>-1


def fingerprints(names, bytes key not None):
    """A fingerprint of 12 bytes for each name, joined: BLAKE2b under the user key. No name is empty."""
    cdef uint64_t keyed[8]
    cdef uint64_t digest[8]
    cdef bytes name
    cdef Py_ssize_t at = 0
    cdef bytearray found = bytearray(FINGERPRINT * len(names))
    cdef unsigned char* into = found
    if len(key) != KEY:
        raise ValueError("a key has 32 bytes")
    blake2b_keyed(keyed, key, FINGERPRINT)
    for name in names:
        if not name:
            raise ValueError("a name is not empty")
        blake2b_of(keyed, name, len(name), digest)
        memcpy(into + at, digest, FINGERPRINT)
        at += FINGERPRINT
    return bytes(found)


cdef class Allowances:
    cdef Person* table
    cdef uint64_t mask, count

    def __cinit__(self):
        self._resize(1024)

    def __dealloc__(self):
        free(self.table)

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        return sizeof(Person) * (self.mask + 1)

    def learn(self, bytes usages not None):
        """Take over stored usages. Of a person who is known already, the larger number stays."""
        cdef const unsigned char* at = usages
        cdef const unsigned char* end = at + len(usages)
        cdef uint64_t position
        cdef uint16_t used
        if len(usages) % USAGE:
            raise ValueError("usages have 14 bytes each")
        self._reserve(len(usages) // USAGE)
        with nogil:
            while at < end:
                if at + AHEAD * USAGE < end:
                    self._soon(at + AHEAD * USAGE)
                memcpy(&used, at + FINGERPRINT, sizeof(used))
                position = self._find(at)
                if used > self.table[position].used:
                    self._set(position, at, used)
                at += USAGE

    def grant(self, bytes indexes not None, bytes wanted not None, bytes fingerprints not None, int limit):
        """For each item, in order, what its user may still use of what is wanted; and usages of what changed.

        `indexes` and `wanted` are u32 for each item: which fingerprint, how much. An allowance is `limit` in all.
        """
        cdef Py_ssize_t items = len(indexes) // sizeof(uint32_t), people = len(fingerprints) // FINGERPRINT, at
        cdef const uint32_t* index = <const uint32_t*><const char*>indexes
        cdef const uint32_t* want = <const uint32_t*><const char*>wanted
        cdef const unsigned char* fingerprint = fingerprints
        cdef bytearray granted_bytes = bytearray(len(indexes))
        cdef bytearray position_bytes = bytearray(people * sizeof(uint64_t))
        cdef uint32_t* granted = <uint32_t*><char*>granted_bytes
        cdef uint64_t* positions = <uint64_t*><char*>position_bytes  # of those who were granted something
        cdef uint64_t position
        cdef uint32_t rest
        if len(wanted) != len(indexes) or not 1 <= limit <= 0xFFFF:
            raise ValueError("one number for each item, and a limit of 16 bits")
        for at in range(items):
            if index[at] >= <uint32_t>people:
                raise ValueError("there is no such fingerprint")
        self._reserve(people)
        with nogil:
            memset(positions, 0xFF, people * sizeof(uint64_t))
            for at in range(people):
                self._soon(fingerprint + FINGERPRINT * at)
            for at in range(items):
                position = positions[index[at]]
                if position == NOWHERE:
                    position = self._find(fingerprint + FINGERPRINT * index[at])
                if self.table[position].used >= limit:
                    continue
                rest = limit - self.table[position].used
                granted[at] = want[at] if want[at] < rest else rest
                if granted[at]:
                    rest = self.table[position].used + granted[at]
                    self._set(position, fingerprint + FINGERPRINT * index[at], <uint16_t>rest)
                    positions[index[at]] = position  # nobody leaves the table, so it stays there
        return bytes(granted_bytes), self._changed(fingerprint, positions, people)

    cdef bytes _changed(self, const unsigned char* fingerprint, const uint64_t* positions, Py_ssize_t people):
        """The usages of the people who were granted something: those for whom `positions` has a position."""
        cdef bytearray usages = bytearray(USAGE * people)
        cdef unsigned char* into = usages
        cdef Py_ssize_t at, size = 0
        for at in range(people):
            if positions[at] != NOWHERE:
                memcpy(into + size, fingerprint + FINGERPRINT * at, FINGERPRINT)
                memcpy(into + size + FINGERPRINT, &self.table[positions[at]].used, sizeof(uint16_t))
                size += USAGE
        return bytes(usages[:size])

    def usages(self):
        """Everything that is known, as usages that `learn` takes."""
        cdef bytearray usages = bytearray(USAGE * self.count)
        cdef unsigned char* into = usages
        cdef uint64_t at
        for at in range(self.mask + 1):
            if self.table[at].used:
                memcpy(into, &self.table[at], USAGE)  # its members lie as an usage has them
                into += USAGE
        return bytes(usages)

    cdef inline void _soon(self, const unsigned char* fingerprint) noexcept nogil:
        cdef uint64_t lower
        memcpy(&lower, fingerprint, sizeof(lower))
        soon(&self.table[lower & self.mask])

    cdef inline uint64_t _find(self, const unsigned char* fingerprint) noexcept nogil:
        """The position of the fingerprint in the table; if it is not there, the free position that it would get."""
        cdef uint64_t lower, position
        cdef uint32_t upper
        memcpy(&lower, fingerprint, sizeof(lower))
        memcpy(&upper, fingerprint + sizeof(lower), sizeof(upper))
        position = lower & self.mask
        while self.table[position].used and (self.table[position].lower != lower or self.table[position].upper != upper):
            position = (position + 1) & self.mask
        return position

    cdef inline void _set(self, uint64_t position, const unsigned char* fingerprint, uint16_t used) noexcept nogil:
        if not self.table[position].used:
            memcpy(&self.table[position].lower, fingerprint, sizeof(uint64_t))
            memcpy(&self.table[position].upper, fingerprint + sizeof(uint64_t), sizeof(uint32_t))
            self.count += 1
        self.table[position].used = used

    cdef int _reserve(self, uint64_t more) except -1:
        """Keep the table at most two thirds full."""
        cdef uint64_t size = self.mask + 1
        while 3 * (self.count + more) > 2 * size:
            size *= 2
        if size > self.mask + 1:
            self._resize(size)
        return 0

    cdef int _resize(self, uint64_t size) except -1:
        cdef Person* old = self.table
        cdef uint64_t old_size = self.mask + 1 if old != NULL else 0, at, position
        cdef Person* table = <Person*>calloc(size, sizeof(Person))
        if table == NULL:
            raise MemoryError
        self.table, self.mask = table, size - 1
        with nogil:
            for at in range(old_size):
                if old[at].used:
                    position = old[at].lower & self.mask
                    while table[position].used:
                        position = (position + 1) & self.mask
                    table[position] = old[at]
        free(old)
        return 0
