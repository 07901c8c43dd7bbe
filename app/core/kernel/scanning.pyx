# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bodies -> batches, without a Python object for a key. Reads what strangers send.

A scanner knows the plain form of each content type and gives up (answers None) at anything else: an escape, a control
character, a number, a missing comma, an empty or over-long key, one item too many. The careful decoders in
`app/api/decoding` then read the body again from its start; they alone decide what is wrong and where. So a scanner may
give up too often, and must never take a body that the careful decoder would refuse or read differently.

A body with bytes above 127 is checked as a whole to be UTF-8: its quotes and
line feeds are single bytes, so each key between them is UTF-8 too.
"""

from cython cimport final
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr

from app.core.kernel.json cimport (
    AT_ONCE,
    GAVE_UP,
    MAX_COUNT_DIGITS,
    MAX_KEY_BYTES,
    NO_MEMORY,
    Skip,
    after,
    after_blanks,
    after_colon,
    after_space,
    first_mark,
    is_closed,
    list_begin,
    marks_in,
    member_text,
    string_end,
)

cdef extern from "keys.h":
    uint64_t hash_of(const unsigned char*, uint32_t, const uint64_t*) nogil
    bint same_bytes(const unsigned char*, const unsigned char*, uint32_t) nogil

cdef uint64_t MAX_COUNT = 2147483647


@final
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
        """About how much memory the batch takes."""
        return len(self.body) + self.room * sizeof(Item)

    def pairs(self):
        """The items as Python objects: key and count."""
        return [
            (self.text[item.start:item.start + item.length].decode(), item.count) for item in self.items[:self.size]
        ]

    def users(self):
        """Who is named in each item: a name, or None."""
        return [
            self._user(at).decode() if self.items[at].user_length else None for at in range(self.size)
        ]

    def unnamed(self, Py_ssize_t most):
        """The positions of the first items that name no user, at most `most` of them."""
        found = []
        cdef Py_ssize_t at
        for at in range(self.size):
            if self.items[at].user_length == 0:
                found.append(at)
                if len(found) == most:
                    break
        return found

    def people(self, bytes multipliers not None):
        """Each user once, as bytes, in order of first occurrence; and for each item which of them, as u32.

        The multipliers serve a table that is thrown away: the answer does not depend on them. All items name a user.
        """
        cdef bytearray names = bytearray(self.size * sizeof(Name))
        cdef Name* name = <Name*><char*>names
        cdef Py_ssize_t at
        for at in range(self.size):
            name[at] = Name(self.items[at].user_start, self.items[at].user_length)
        return people_named(self.text, name, self.size, multipliers)

    cdef bytes _user(self, Py_ssize_t at):
        return self.text[self.items[at].user_start:self.items[at].user_start + self.items[at].user_length]

    def keys(self):
        """The keys of each item: one."""
        return [[key] for key, _ in self.pairs()]

    def counts(self):
        """The count of each item, as u32."""
        cdef bytearray counts = bytearray(self.size * sizeof(uint32_t))
        cdef uint32_t* into = <uint32_t*><char*>counts
        cdef Py_ssize_t at
        for at in range(self.size):
            into[at] = self.items[at].count
        return bytes(counts)

    def limited(self, bytes granted not None):
        """The batch with these counts, u32 each, none above its own; without the items that are granted nothing."""
        cdef Batch batch = Batch()
        cdef Py_ssize_t at
        cdef Item item
        cdef const uint32_t* counts = <const uint32_t*><const char*>granted
        if len(granted) != self.size * <Py_ssize_t>sizeof(uint32_t):
            raise ValueError("one count for each item")
        batch._read(self.body)
        for at in range(self.size):
            if counts[at]:
                item = self.items[at]
                item.count = counts[at]
                if batch._append(item) != 0:
                    raise MemoryError
        return batch

    @staticmethod
    def of(pairs, users=None):
        """A batch of keys, counts and users that were checked already. A text that comes again and again is kept once."""
        cdef Batch batch = Batch()
        texts = {}
        locations = [located(texts, key) for key, _ in pairs]
        names = [located(texts, user) for user in users] if users else [(0, 0)] * len(locations)
        batch._read(b"".join(text for text, _ in texts.values()))
        for (start, length), (user_start, user_length), (_, count) in zip(locations, names, pairs):
            if batch._append(Item(start, user_start, count, length, user_length)) != 0:
                raise MemoryError
        return batch

    cdef void _read(self, bytes body):
        self.body = body
        self.text = body

    cdef int _append(self, Item item) noexcept nogil:
        cdef Item* grown
        if self.size == self.room:
            grown = <Item*>realloc(self.items, (2 * self.room + 64) * sizeof(Item))
            if grown == NULL:
                return NO_MEMORY
            self.items = grown
            self.room = 2 * self.room + 64
        self.items[self.size] = item
        self.size += 1
        self.total += item.count
        return 0


cdef tuple located(dict texts, object text):
    """Where a text begins in all of `texts` joined, and its length; (0, 0) where there is no text."""
    if not text:
        return 0, 0
    found = texts.get(text)
    if found is None:
        written = text.encode()
        last = texts[next(reversed(texts))] if texts else (b"", 0)
        found = texts[text] = written, last[1] + len(last[0])
    return found[1], len(found[0])


cdef tuple people_named(const unsigned char* text, const Name* names, Py_ssize_t size, bytes multipliers):
    """Each name once, as bytes, in order of first occurrence; and for each of `names` which of them, as u32."""
    cdef Py_ssize_t room = 4, at, count = 0
    if len(multipliers) != 16 * 65:
        raise ValueError("wrong multipliers")
    while room < 2 * size:
        room *= 2
    cdef bytearray table_bytes = bytearray(room * sizeof(uint32_t))
    cdef bytearray index_bytes = bytearray(size * sizeof(uint32_t))
    cdef bytearray first_bytes = bytearray(size * sizeof(uint32_t))
    cdef uint32_t* first = <uint32_t*><char*>first_bytes  # where each name occurs first
    cdef const uint64_t* words = <const uint64_t*><const char*>multipliers
    cdef uint32_t* table = <uint32_t*><char*>table_bytes
    cdef uint32_t* indexes = <uint32_t*><char*>index_bytes
    with nogil:
        count = _group(text, names, size, table, room - 1, indexes, first, words)
    found = [text[names[first[at]].start:names[first[at]].start + names[first[at]].length] for at in range(count)]
    return found, bytes(index_bytes)


cdef Py_ssize_t _group(
    const unsigned char* text,
    const Name* names,
    Py_ssize_t size,
    uint32_t* table,
    uint64_t mask,
    uint32_t* indexes,
    uint32_t* first,
    const uint64_t* multipliers,
) noexcept nogil:
    cdef Py_ssize_t at, count = 0
    cdef uint64_t position
    cdef const Name* name
    cdef const Name* other
    for at in range(size):
        name = &names[at]
        position = hash_of(text + name.start, name.length, multipliers) & mask
        while table[position]:
            other = &names[first[table[position] - 1]]
            if name.length == other.length and same_bytes(text + name.start, text + other.start, name.length):
                break
            position = (position + 1) & mask
        if not table[position]:
            first[count] = <uint32_t>at
            count += 1
            table[position] = <uint32_t>count
        indexes[at] = table[position] - 1
    return count


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
    return checked_scan(batch, body, status)


cdef object checked_scan(object batch, bytes body, int status):
    """The batch, if the scanner came to the end of the body and all of the body is UTF-8; else None."""
    if status == NO_MEMORY:
        raise MemoryError
    if status == GAVE_UP:
        return None
    if not body.isascii():
        try:
            PyUnicode_DecodeUTF8(<const char*>body, len(body), NULL)
        except UnicodeDecodeError:
            return None
    return batch


def scan_json(bytes body not None, Py_ssize_t max_items):
    """`{"events": [item, …]}`; an item is a key or `{"key": …, "count": …, "user": …}`."""
    return _scanned(_scan_json, body, max_items)


def scan_ndjson(bytes body not None, Py_ssize_t max_items):
    """One item a line, each as in `scan_json`."""
    return _scanned(_scan_ndjson, body, max_items)


def scan_lines(bytes body not None, Py_ssize_t max_items):
    """One key a line, without quotes or escapes."""
    return _scanned(_scan_lines, body, max_items)


cdef inline Item _key(Py_ssize_t start, Py_ssize_t length) noexcept nogil:
    return Item(<uint32_t>start, 0, 1, <uint16_t>length, 0)


cdef Py_ssize_t _plain_keys(
    Batch batch, Py_ssize_t at, Py_ssize_t size, Py_ssize_t max_items, unsigned char between
) noexcept nogil:
    """Append keys while they are short, as most are, and end with `between`, perhaps a blank; where the next item begins.

    It may stop anywhere between two items: the caller goes on, and takes care of what is not of this form.
    """
    cdef const unsigned char* text = batch.text
    cdef Item* items = batch.items
    cdef Py_ssize_t before = batch.size, count = before
    cdef Py_ssize_t most = batch.room if batch.room < max_items else max_items
    cdef uint32_t marks, length
    while count < most and at + AT_ONCE + 4 <= size and text[at] == c'"':
        marks = marks_in(text + at + 1)
        if marks == 0:
            break
        length = first_mark(marks)
        if length == 0 or text[at + 1 + length] != c'"' or text[at + 2 + length] != between:
            break
        items[count] = _key(at + 1, length)
        count += 1
        at += length + 3
        if text[at] == c' ' and text[at + 1] == c'"':  # a branch, which is guessed: the next search need not wait
            at += 1
    batch.size = count
    batch.total += count - before
    return at


cdef Py_ssize_t _key_item(Batch batch, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """Append the key whose opening quote is at `at`, and return where it ended: behind its closing quote."""
    cdef Py_ssize_t end = string_end(batch.text, at + 1, size)
    cdef Py_ssize_t length = end - at - 1
    if end < 0 or length < 1 or length > MAX_KEY_BYTES:
        return GAVE_UP
    if batch._append(_key(at + 1, length)) != 0:
        return NO_MEMORY
    return end + 1


cdef Py_ssize_t _object_item(Batch batch, Py_ssize_t at, Py_ssize_t size, Skip skip) noexcept nogil:
    """Append the object whose brace is at `at`: members `key`, `count`, `user`, each once, in any order."""
    cdef const unsigned char* text = batch.text
    cdef Item item = Item(0, 0, 0, 0, 0)
    cdef Py_ssize_t value
    while True:
        at = skip(text, at + 1, size)  # behind the brace or the comma
        if (value := after(text, at, size, b'"key"', 5)) > 0 and item.length == 0:
            at = member_text(text, value, size, skip, &item.start, &item.length)
        elif (value := after(text, at, size, b'"user"', 6)) > 0 and item.user_length == 0:
            at = member_text(text, value, size, skip, &item.user_start, &item.user_length)
        elif (value := after(text, at, size, b'"count"', 7)) > 0 and item.count == 0:
            at = _number(text, value, size, skip, &item.count)
        else:
            return GAVE_UP
        if at < 0:
            return GAVE_UP
        at = skip(text, at, size)
        if at >= size or (text[at] != c',' and text[at] != c'}'):
            return GAVE_UP
        if text[at] == c'}':
            break
    if item.length == 0:
        return GAVE_UP
    if item.count == 0:
        item.count = 1
    if batch._append(item) != 0:
        return NO_MEMORY
    return at + 1


cdef Py_ssize_t _number(
    const unsigned char* text, Py_ssize_t at, Py_ssize_t size, Skip skip, uint32_t* number
) noexcept nogil:
    """Read the whole number behind a member's name, and return where it ended: behind its last digit."""
    cdef uint64_t read = 0
    cdef int digits = 0
    at = after_colon(text, at, size, skip)
    if at < 0 or at >= size or text[at] == c'0':
        return GAVE_UP
    while at < size and c'0' <= text[at] <= c'9' and digits < MAX_COUNT_DIGITS:
        read = 10 * read + (text[at] - c'0')
        digits += 1
        at += 1
    if read < 1 or read > MAX_COUNT:
        return GAVE_UP
    number[0] = <uint32_t>read
    return at


cdef int _scan_json(Batch batch, Py_ssize_t size, Py_ssize_t max_items) noexcept nogil:
    cdef const unsigned char* text = batch.text
    cdef Py_ssize_t at = list_begin(text, size, b'"events"', 8)
    if at < 0:
        return GAVE_UP
    if at < size and text[at] == c']':
        return is_closed(text, at + 1, size)
    while at < size:
        at = after_space(text, _plain_keys(batch, at, size, max_items, c','), size)
        if at >= size:
            return GAVE_UP
        if text[at] == c'"':
            at = _key_item(batch, at, size)
        elif text[at] == c'{':
            at = _object_item(batch, at, size, after_space)
        else:
            return GAVE_UP
        if at < 0:
            return <int>at
        if batch.size > max_items:
            return GAVE_UP
        at = after_space(text, at, size)
        if at >= size:
            return GAVE_UP
        if text[at] == c']':
            return is_closed(text, at + 1, size)
        if text[at] != c',':
            return GAVE_UP
        at = after_space(text, at + 1, size)
    return GAVE_UP


cdef int _scan_ndjson(Batch batch, Py_ssize_t size, Py_ssize_t max_items) noexcept nogil:
    cdef const unsigned char* text = batch.text
    cdef Py_ssize_t at = 0
    while at < size:
        at = _plain_keys(batch, at, size, max_items, c'\n')
        at = after_blanks(text, at, size)
        if at >= size:
            return GAVE_UP
        if text[at] == c'"':
            at = _key_item(batch, at, size)
        elif text[at] == c'{':
            at = _object_item(batch, at, size, after_blanks)
        else:
            return GAVE_UP
        if at < 0:
            return <int>at
        at = after_blanks(text, at, size)
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
        if batch._append(_key(at, length)) != 0:
            return NO_MEMORY
        at = stop + 1
    return 0
