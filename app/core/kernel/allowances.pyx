# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""How much of their allowance people have used: fingerprint -> a number from 1 to 65,535, ten million of them if need be.

A table of open addressing, 14 bytes a place. Fingerprints are outputs of a keyed function, uniform already and not to be
chosen by anybody, so their own low bits index it. What is used only grows.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef enum:
    FINGERPRINT = 12
    ENTRY = 14  # a fingerprint and what is used, u16


cdef class Allowances:
    cdef uint64_t* lower
    cdef uint32_t* upper
    cdef uint16_t* used  # 0 where the place is empty
    cdef uint64_t mask, count

    def __cinit__(self):
        self._resize(1024)

    def __dealloc__(self):
        free(self.lower)
        free(self.upper)
        free(self.used)

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        return ENTRY * (self.mask + 1)

    def learn(self, bytes entries not None):
        """What was used, as stored: entries of a fingerprint and a number. The larger number holds."""
        cdef const unsigned char* at = entries
        cdef const unsigned char* end = at + len(entries)
        cdef uint64_t place
        cdef uint16_t used
        if len(entries) % ENTRY:
            raise ValueError("entries have 14 bytes each")
        self._reserve(len(entries) // ENTRY)
        with nogil:
            while at < end:
                memcpy(&used, at + FINGERPRINT, sizeof(used))
                place = self._place(at)
                if used > self.used[place]:
                    self._set(place, at, used)
                at += ENTRY

    def grant(self, bytes indexes not None, bytes wanted not None, bytes fingerprints not None, int limit):
        """For each item, in order, what its user may still use of what is wanted; and entries of what changed.

        `indexes` and `wanted` are u32 for each item: which fingerprint, how much. An allowance is `limit` in all.
        """
        cdef Py_ssize_t items = len(indexes) // sizeof(uint32_t), people = len(fingerprints) // FINGERPRINT, at
        cdef const uint32_t* index = <const uint32_t*><const char*>indexes
        cdef const uint32_t* want = <const uint32_t*><const char*>wanted
        cdef const unsigned char* fingerprint = fingerprints
        cdef bytearray granted_bytes = bytearray(len(indexes))
        cdef bytearray changed_bytes = bytearray(people)
        cdef uint32_t* granted = <uint32_t*><char*>granted_bytes
        cdef unsigned char* changed = changed_bytes
        cdef uint64_t place
        cdef uint32_t free_share
        if len(wanted) != len(indexes) or not 1 <= limit <= 0xFFFF:
            raise ValueError("one number for each item, and a limit of 16 bits")
        for at in range(items):
            if index[at] >= <uint32_t>people:
                raise ValueError("there is no such fingerprint")
        self._reserve(people)
        with nogil:
            for at in range(items):
                place = self._place(fingerprint + FINGERPRINT * index[at])
                if self.used[place] >= limit:
                    continue
                free_share = limit - self.used[place]
                granted[at] = want[at] if want[at] < free_share else free_share
                if granted[at]:
                    self._set(place, fingerprint + FINGERPRINT * index[at], <uint16_t>(self.used[place] + granted[at]))
                    changed[index[at]] = 1
        return bytes(granted_bytes), self._entries(fingerprints, changed_bytes)

    def entries(self):
        """All that is known, to be learnt again."""
        cdef bytearray entries = bytearray(ENTRY * self.count)
        cdef unsigned char* into = entries
        cdef uint64_t at
        for at in range(self.mask + 1):
            if self.used[at]:
                memcpy(into, &self.lower[at], sizeof(uint64_t))
                memcpy(into + sizeof(uint64_t), &self.upper[at], sizeof(uint32_t))
                memcpy(into + FINGERPRINT, &self.used[at], sizeof(uint16_t))
                into += ENTRY
        return bytes(entries)

    def _entries(self, bytes fingerprints, bytearray changed):
        cdef const unsigned char* fingerprint = fingerprints
        cdef bytearray entries = bytearray(ENTRY * sum(changed))
        cdef unsigned char* into = entries
        cdef Py_ssize_t at
        for at in range(len(changed)):
            if changed[at]:
                memcpy(into, fingerprint + FINGERPRINT * at, FINGERPRINT)
                memcpy(into + FINGERPRINT, &self.used[self._place(fingerprint + FINGERPRINT * at)], sizeof(uint16_t))
                into += ENTRY
        return bytes(entries)

    cdef inline uint64_t _place(self, const unsigned char* fingerprint) noexcept nogil:
        """Where the fingerprint is, or would be."""
        cdef uint64_t lower, place
        cdef uint32_t upper
        memcpy(&lower, fingerprint, sizeof(lower))
        memcpy(&upper, fingerprint + sizeof(lower), sizeof(upper))
        place = lower & self.mask
        while self.used[place] and (self.lower[place] != lower or self.upper[place] != upper):
            place = (place + 1) & self.mask
        return place

    cdef inline void _set(self, uint64_t place, const unsigned char* fingerprint, uint16_t used) noexcept nogil:
        if not self.used[place]:
            memcpy(&self.lower[place], fingerprint, sizeof(uint64_t))
            memcpy(&self.upper[place], fingerprint + sizeof(uint64_t), sizeof(uint32_t))
            self.count += 1
        self.used[place] = used

    cdef int _reserve(self, uint64_t more) except -1:
        """Keep the table at most two thirds full."""
        cdef uint64_t size = self.mask + 1
        while 3 * (self.count + more) > 2 * size:
            size *= 2
        if size > self.mask + 1:
            self._resize(size)
        return 0

    cdef int _resize(self, uint64_t size) except -1:
        cdef uint64_t* lower = self.lower
        cdef uint32_t* upper = self.upper
        cdef uint16_t* used = self.used
        cdef uint64_t old_size = self.mask + 1 if used != NULL else 0, at, place
        cdef uint64_t* new_lower = <uint64_t*>calloc(size, sizeof(uint64_t))
        cdef uint32_t* new_upper = <uint32_t*>calloc(size, sizeof(uint32_t))
        cdef uint16_t* new_used = <uint16_t*>calloc(size, sizeof(uint16_t))
        if not (new_lower and new_upper and new_used):
            free(new_lower)
            free(new_upper)
            free(new_used)
            raise MemoryError
        self.lower, self.upper, self.used, self.mask = new_lower, new_upper, new_used, size - 1
        with nogil:
            for at in range(old_size):
                if used[at]:
                    place = lower[at] & self.mask
                    while self.used[place]:
                        place = (place + 1) & self.mask
                    self.lower[place], self.upper[place], self.used[place] = lower[at], upper[at], used[at]
        free(lower)
        free(upper)
        free(used)
        return 0
