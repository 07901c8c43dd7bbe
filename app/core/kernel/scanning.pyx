# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bodies -> batches, without a Python object for a key. Reads what strangers send.

A scanner knows the plain form of each content type and gives up (answers None) at anything else: an escape, a control
character, a number, a missing comma, an empty or over-long key, one item too many. The careful readers in
`app/api/decoding` then read the body again from its start; they alone decide what is wrong and where. So a scanner may
give up too often, and must never take a body that the careful reader would refuse or read differently.

Strings are searched eight bytes at a time. A body with bytes above 127 is checked as a whole to be UTF-8: its quotes and
line feeds are single bytes, so each key between them is UTF-8 too.
"""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #define EACH(byte) (0x0101010101010101ULL * (byte))

    static inline uint64_t word_at(const unsigned char *place) { uint64_t word; memcpy(&word, place, 8); return word; }

    /* The high bit of each byte that is a quote, a backslash or a control character. A borrow can set the bit of a later
       byte falsely; the lowest one that is set is always right. */
    static inline uint64_t marks_in(uint64_t word) {
        uint64_t quote = word ^ EACH(0x22), slash = word ^ EACH(0x5c);
        uint64_t is_quote = (quote - EACH(0x01)) & ~quote, is_slash = (slash - EACH(0x01)) & ~slash;
        return (is_quote | is_slash | ((word - EACH(0x20)) & ~word)) & EACH(0x80);
    }
    static inline int first_mark(uint64_t marks) { return __builtin_ctzll(marks) >> 3; }
    """
    uint64_t EACH(int) nogil
    uint64_t word_at(const unsigned char*) nogil
    uint64_t marks_in(uint64_t) nogil
    int first_mark(uint64_t) nogil

cdef enum:
    MAX_KEY_BYTES = 512
    MAX_COUNT_DIGITS = 10
    GAVE_UP = -1
    NO_MEMORY = -2
cdef uint64_t MAX_COUNT = 2147483647
cdef Py_ssize_t LARGEST_BODY = 0xFFFFFFFF  # places are kept in 32 bits


cdef class Batch:
    """Checked events in arrival order: for each item a key and how many events in a row."""

    def __dealloc__(self):
        free(self.items)

    def __len__(self):
        return self.size

    @property
    def events(self):
        return self.total

    @property
    def nbytes(self):
        """The memory that the batch takes, about."""
        return len(self.body) + self.room * sizeof(Item)

    def pairs(self):
        """The items as Python objects: key and count."""
        return [
            (self.text[item.start:item.start + item.length].decode(), item.count) for item in self.items[:self.size]
        ]

    @staticmethod
    def of(pairs):
        """A batch of keys that were checked already."""
        cdef Batch batch = Batch()
        cdef Py_ssize_t at = 0
        keys = [key.encode() for key, _ in pairs]
        batch._read(b"".join(keys))
        for key, (_, count) in zip(keys, pairs):
            if batch._append(at, len(key), count) != 0:
                raise MemoryError
            at += len(key)
        return batch

    cdef void _read(self, bytes body):
        self.body = body
        self.text = body

    cdef int _append(self, Py_ssize_t start, Py_ssize_t length, uint64_t count) noexcept nogil:
        cdef Item* grown
        if self.size == self.room:
            grown = <Item*>realloc(self.items, (2 * self.room + 64) * sizeof(Item))
            if grown == NULL:
                return NO_MEMORY
            self.items = grown
            self.room = 2 * self.room + 64
        self.items[self.size] = Item(<uint32_t>start, <uint32_t>length, <uint32_t>count)
        self.size += 1
        self.total += count
        return 0


ctypedef int (*Scanner)(Batch, Py_ssize_t, Py_ssize_t) noexcept nogil


cdef object _scanned(Scanner scan, bytes body, Py_ssize_t max_items):
    cdef Batch batch = Batch()
    cdef Py_ssize_t size = len(body)
    cdef int status
    if size > LARGEST_BODY:
        return None
    batch._read(body)
    with nogil:
        status = scan(batch, size, max_items)
    if status == NO_MEMORY:
        raise MemoryError
    if status == GAVE_UP:
        return None
    if not body.isascii():
        try:
            PyUnicode_DecodeUTF8(<const char*>batch.text, size, NULL)
        except UnicodeDecodeError:
            return None
    return batch


def scan_json(bytes body not None, Py_ssize_t max_items):
    """`{"events": [item, …]}`; an item is a key or `{"key": …, "count": …}`."""
    return _scanned(_scan_json, body, max_items)


def scan_ndjson(bytes body not None, Py_ssize_t max_items):
    """One such item a line."""
    return _scanned(_scan_ndjson, body, max_items)


def scan_lines(bytes body not None, Py_ssize_t max_items):
    """One key a line, as it stands."""
    return _scanned(_scan_lines, body, max_items)


cdef Py_ssize_t _after_space(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    while at < size and (text[at] == c' ' or text[at] == c'\n' or text[at] == c'\r' or text[at] == c'\t'):
        at += 1
    return at


cdef Py_ssize_t _after_blanks(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """The same within a line."""
    while at < size and (text[at] == c' ' or text[at] == c'\r' or text[at] == c'\t'):
        at += 1
    return at


cdef Py_ssize_t _after(const unsigned char* text, Py_ssize_t at, Py_ssize_t size, const char* word, Py_ssize_t length) noexcept nogil:
    """Behind these bytes, if they are next."""
    if at < 0 or size - at < length or memcmp(text + at, word, length) != 0:
        return GAVE_UP
    return at + length


cdef Py_ssize_t _string_end(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """The closing quote of the string whose first byte is at `at`, if it is plain."""
    cdef uint64_t marks
    while at + 8 <= size:
        marks = marks_in(word_at(text + at))
        if marks:
            at += first_mark(marks)
            return at if text[at] == c'"' else GAVE_UP
        at += 8
    while at < size:
        if text[at] == c'"':
            return at
        if text[at] == c'\\' or text[at] < 0x20:
            return GAVE_UP
        at += 1
    return GAVE_UP


cdef Py_ssize_t _key_item(Batch batch, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """Append the key whose opening quote is at `at`; behind its closing quote."""
    cdef Py_ssize_t end = _string_end(batch.text, at + 1, size)
    cdef Py_ssize_t length = end - at - 1
    if end < 0 or length < 1 or length > MAX_KEY_BYTES:
        return GAVE_UP
    if batch._append(at + 1, length, 1) != 0:
        return NO_MEMORY
    return end + 1


cdef Py_ssize_t _object_item(Batch batch, Py_ssize_t at, Py_ssize_t size, Py_ssize_t (*skip)(const unsigned char*, Py_ssize_t, Py_ssize_t) noexcept nogil) noexcept nogil:
    """Append the object whose brace is at `at`: `key`, and `count` before or behind it. Behind its closing brace."""
    cdef const unsigned char* text = batch.text
    cdef Py_ssize_t start = -1, end = -1, value
    cdef uint64_t count = 0
    cdef int digits
    while True:
        at = skip(text, at + 1, size)  # behind the brace or the comma
        value = _after(text, at, size, b'"key"', 5)
        if value > 0 and start < 0:
            value = _colon(text, skip(text, value, size), size, skip)
            if value < 0 or value >= size or text[value] != c'"':
                return GAVE_UP
            start = value + 1
            end = _string_end(text, start, size)
            if end - start < 1 or end - start > MAX_KEY_BYTES:
                return GAVE_UP
            at = end + 1
        else:
            value = _after(text, at, size, b'"count"', 7)
            if value < 0 or count > 0:
                return GAVE_UP
            at = _colon(text, skip(text, value, size), size, skip)
            if at < 0 or at >= size or text[at] == c'0':
                return GAVE_UP
            digits = 0
            while at < size and c'0' <= text[at] <= c'9' and digits < MAX_COUNT_DIGITS:
                count = 10 * count + (text[at] - c'0')
                digits += 1
                at += 1
            if count < 1 or count > MAX_COUNT:
                return GAVE_UP
        at = skip(text, at, size)
        if at >= size or (text[at] != c',' and text[at] != c'}'):
            return GAVE_UP
        if text[at] == c'}':
            break
    if start < 0:
        return GAVE_UP
    if batch._append(start, end - start, count if count else 1) != 0:
        return NO_MEMORY
    return at + 1


cdef Py_ssize_t _colon(const unsigned char* text, Py_ssize_t at, Py_ssize_t size, Py_ssize_t (*skip)(const unsigned char*, Py_ssize_t, Py_ssize_t) noexcept nogil) noexcept nogil:
    """At the value behind a colon and white space."""
    if at >= size or text[at] != c':':
        return GAVE_UP
    return skip(text, at + 1, size)


cdef int _scan_json(Batch batch, Py_ssize_t size, Py_ssize_t max_items) noexcept nogil:
    cdef const unsigned char* text = batch.text
    cdef Py_ssize_t at = _after(text, _after_space(text, 0, size), size, b"{", 1)
    if at < 0:
        return GAVE_UP
    at = _after(text, _after_space(text, at, size), size, b'"events"', 8)
    if at < 0:
        return GAVE_UP
    at = _colon(text, _after_space(text, at, size), size, _after_space)
    if at < 0 or at >= size or text[at] != c'[':
        return GAVE_UP
    at = _after_space(text, at + 1, size)
    if at < size and text[at] == c']':
        return _closed(text, at + 1, size)
    while at < size:
        if text[at] == c'"':
            at = _key_item(batch, at, size)
        elif text[at] == c'{':
            at = _object_item(batch, at, size, _after_space)
        else:
            return GAVE_UP
        if at < 0:
            return <int>at
        if batch.size > max_items:
            return GAVE_UP
        at = _after_space(text, at, size)
        if at >= size:
            return GAVE_UP
        if text[at] == c']':
            return _closed(text, at + 1, size)
        if text[at] != c',':
            return GAVE_UP
        at = _after_space(text, at + 1, size)
    return GAVE_UP


cdef int _closed(const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """Whether nothing but the outer brace follows."""
    at = _after(text, _after_space(text, at, size), size, b"}", 1)
    return 0 if at > 0 and _after_space(text, at, size) == size else GAVE_UP


cdef int _scan_ndjson(Batch batch, Py_ssize_t size, Py_ssize_t max_items) noexcept nogil:
    cdef const unsigned char* text = batch.text
    cdef Py_ssize_t at = 0
    while at < size:
        at = _after_blanks(text, at, size)
        if at >= size:
            return GAVE_UP
        if text[at] == c'"':
            at = _key_item(batch, at, size)
        elif text[at] == c'{':
            at = _object_item(batch, at, size, _after_blanks)
        else:
            return GAVE_UP
        if at < 0:
            return <int>at
        at = _after_blanks(text, at, size)
        if batch.size > max_items or (at < size and text[at] != c'\n'):
            return GAVE_UP
        at += 1
    return 0


cdef int _scan_lines(Batch batch, Py_ssize_t size, Py_ssize_t max_items) noexcept nogil:
    cdef const unsigned char* text = batch.text
    cdef const unsigned char* end
    cdef Py_ssize_t at = 0, stop, length
    while at < size:
        end = <const unsigned char*>memchr(text + at, c'\n', size - at)
        stop = size if end == NULL else end - text
        length = stop - at
        if length > 0 and text[stop - 1] == c'\r':
            length -= 1
        if length < 1 or length > MAX_KEY_BYTES or batch.size == max_items:
            return GAVE_UP
        if batch._append(at, length, 1) != 0:
            return NO_MEMORY
        at = stop + 1
    return 0
