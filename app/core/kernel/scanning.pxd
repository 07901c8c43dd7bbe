"""Batches, as `folding.pyx` reads them."""

from libc.stdint cimport uint32_t, uint64_t


cdef struct Item:
    uint32_t start  # of the key, in the body
    uint32_t length
    uint32_t count


cdef class Batch:
    cdef object body  # owns the bytes that the items point into
    cdef const unsigned char* text
    cdef Item* items
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef uint64_t total
    cdef void _read(self, bytes body)
    cdef int _append(self, Py_ssize_t start, Py_ssize_t length, uint64_t count) noexcept nogil
