"""Batches of events, as the folds read them, and what the scanner of people's sets shares with that of events."""

from cython cimport final
from libc.stdint cimport uint16_t, uint32_t, uint64_t


cdef struct Item:
    uint32_t start  # of the key, in the body
    uint32_t user_start  # of the user's name, in the body
    uint32_t count
    uint16_t length
    uint16_t user_length  # 0 where none is named


cdef struct Name:
    uint32_t start  # in the body
    uint16_t length


cdef enum:
    LARGEST_BODY = 0xFFFFFFFF  # positions are kept in 32 bits


@final
cdef class Batch:
    cdef object body  # owns the bytes that the items point into
    cdef const unsigned char* text
    cdef Item* items
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef uint64_t total
    cdef void _read(self, bytes body)
    cdef int _append(self, Item item) noexcept nogil
    cdef bytes _user(self, Py_ssize_t at)


cdef tuple located(dict texts, object text)
cdef tuple people_named(const unsigned char* text, const Name* names, Py_ssize_t size, bytes multipliers)
cdef object checked_scan(object batch, bytes body, int status)
