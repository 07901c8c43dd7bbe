"""Batches, as `folding.pyx` reads them."""

from cython cimport final
from libc.stdint cimport uint16_t, uint32_t, uint64_t


cdef struct Item:
    uint32_t start  # of the key, in the body
    uint32_t user_start  # of the user's name, in the body
    uint32_t count
    uint16_t length
    uint16_t user_length  # 0 where none is named


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
    cdef Py_ssize_t _group(
        self, uint32_t* table, uint64_t mask, uint32_t* indexes, uint32_t* first, const uint64_t* multipliers
    ) noexcept nogil
    cdef bytes _user(self, Py_ssize_t at)
