"""Batches of people's sets, as `compact.pyx` reads them."""

from cython cimport final
from libc.stdint cimport uint32_t

from app.core.kernel.scanning cimport Name


cdef struct Person:
    uint32_t first  # of their keys
    uint32_t size  # how many keys are listed
    Name user  # of length 0 where none is named


@final
cdef class Sets:
    cdef object body  # owns the bytes that keys and names point into
    cdef const unsigned char* text
    cdef Sets owner  # of the keys, where another batch has them
    cdef Name* listed  # the keys of everybody, one person's after another's
    cdef Py_ssize_t listed_size, listed_room  # no room where another batch has them
    cdef Person* persons
    cdef Py_ssize_t size, room
    cdef readonly Py_ssize_t most_keys  # of a person count so many different ones, the first
    cdef void _read(self, bytes body)
    cdef int _append_key(self, Name key) noexcept nogil
    cdef int _append_person(self, Person person) noexcept nogil
    cdef object _name(self, Name name)
