"""The parts of JSON that the scanners read: white space, plain strings, members. Each says where it ended, or gives up.

Strings are searched 32 bytes at a time.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

cdef extern from "marks.h":
    uint32_t marks_in(const unsigned char*) nogil
    int first_mark(uint32_t) nogil

cdef enum:
    MAX_KEY_BYTES = 512
    MAX_COUNT_DIGITS = 10
    GAVE_UP = -1
    NO_MEMORY = -2
    AT_ONCE = 32  # bytes that are searched for marks

ctypedef Py_ssize_t (*Skip)(const unsigned char*, Py_ssize_t, Py_ssize_t) noexcept nogil


cdef inline Py_ssize_t after_space(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    while at < size and (text[at] == c' ' or text[at] == c'\n' or text[at] == c'\r' or text[at] == c'\t'):
        at += 1
    return at


cdef inline Py_ssize_t after_blanks(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """The same as `after_space`, but it stops at the end of the line."""
    while at < size and (text[at] == c' ' or text[at] == c'\r' or text[at] == c'\t'):
        at += 1
    return at


cdef inline Py_ssize_t after(
    const unsigned char* text, Py_ssize_t at, Py_ssize_t size, const char* word, Py_ssize_t length
) noexcept nogil:
    """The position behind these bytes, if they come next; else it gives up."""
    if at < 0 or size - at < length or memcmp(text + at, word, length) != 0:
        return GAVE_UP
    return at + length


cdef inline Py_ssize_t string_end(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """The closing quote of the string whose first byte is at `at`, if it is plain."""
    cdef uint32_t marks
    while at + AT_ONCE <= size:
        marks = marks_in(text + at)
        if marks:
            at += first_mark(marks)
            return at if text[at] == c'"' else GAVE_UP
        at += AT_ONCE
    while at < size:
        if text[at] == c'"':
            return at
        if text[at] == c'\\' or text[at] < 0x20:
            return GAVE_UP
        at += 1
    return GAVE_UP


cdef inline Py_ssize_t after_colon(
    const unsigned char* text, Py_ssize_t at, Py_ssize_t size, Skip skip
) noexcept nogil:
    """At the value behind a member's name, white space and a colon."""
    at = skip(text, at, size)
    if at >= size or text[at] != c':':
        return GAVE_UP
    return skip(text, at + 1, size)


cdef inline Py_ssize_t member_text(
    const unsigned char* text, Py_ssize_t at, Py_ssize_t size, Skip skip, uint32_t* start, uint16_t* length
) noexcept nogil:
    """The string behind a member's name; behind its closing quote."""
    cdef Py_ssize_t end
    at = after_colon(text, at, size, skip)
    if at < 0 or at >= size or text[at] != c'"':
        return GAVE_UP
    end = string_end(text, at + 1, size)
    if end - at - 1 < 1 or end - at - 1 > MAX_KEY_BYTES:
        return GAVE_UP
    start[0], length[0] = <uint32_t>(at + 1), <uint16_t>(end - at - 1)
    return end + 1


cdef inline Py_ssize_t list_begin(
    const unsigned char* text, Py_ssize_t size, const char* member, Py_ssize_t length
) noexcept nogil:
    """Behind the bracket of `{"member": [` and the white space that follows; `member` in its quotes."""
    cdef Py_ssize_t at = after(text, after_space(text, 0, size), size, b"{", 1)
    if at < 0:
        return GAVE_UP
    at = after(text, after_space(text, at, size), size, member, length)
    if at < 0:
        return GAVE_UP
    at = after_colon(text, at, size, after_space)
    if at < 0 or at >= size or text[at] != c'[':
        return GAVE_UP
    return after_space(text, at + 1, size)


cdef inline int is_closed(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """0 if nothing but the outer closing brace follows; else it gives up."""
    at = after(text, after_space(text, at, size), size, b"}", 1)
    return 0 if at > 0 and after_space(text, at, size) == size else GAVE_UP
