# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""People's sets of keys: bodies -> batches, without a Python object for a key. Reads what strangers send.

As in `scanning.pyx`, a scanner knows the plain form of each content type and gives up at anything else; the careful
readers in `app/api/decoding` then read the body again from its start, and they alone decide what is wrong and where.
"""

from cython cimport final
from libc.stdint cimport uint16_t, uint32_t
from libc.stdlib cimport free, realloc

from app.core.kernel.json cimport (
    GAVE_UP,
    MAX_KEY_BYTES,
    NO_MEMORY,
    Skip,
    after,
    after_blanks,
    after_colon,
    after_space,
    is_closed,
    list_begin,
    member_text,
    string_end,
)
from app.core.kernel.scanning cimport LARGEST_BODY, Name, checked_scan, people_named, located


@final
cdef class Sets:
    """Checked sets of keys, one for each person, in arrival order."""

    def __dealloc__(self):
        if self.listed_room:  # its own; `owner` does not tell, as the garbage collector may have dropped it already
            free(self.listed)
        free(self.persons)

    def __len__(self):
        return self.size

    @property
    def events(self):
        """What a receipt counts: people."""
        return self.size

    @property
    def nbytes(self):
        """About how much memory the batch takes."""
        return len(self.body) + self.listed_room * sizeof(Name) + self.room * sizeof(Person)

    def keys(self):
        """The keys of each person, as they were listed."""
        cdef Py_ssize_t at
        cdef Person one
        found = []
        for at in range(self.size):
            one = self.persons[at]
            found.append([self._name(key) for key in self.listed[one.first:one.first + one.size]])
        return found

    def kept(self):
        """The keys of each person that count: the first different ones, at most `most_keys` of them."""
        return [list(dict.fromkeys(keys))[:self.most_keys] for keys in self.keys()]

    def users(self):
        """Who each person is: a name, or None."""
        return [
            self._name(person.user) if person.user.length else None for person in self.persons[:self.size]
        ]

    def unnamed(self, Py_ssize_t most):
        """The positions of the first people who are not named, at most `most` of them."""
        found = []
        cdef Py_ssize_t at
        for at in range(self.size):
            if self.persons[at].user.length == 0:
                found.append(at)
                if len(found) == most:
                    break
        return found

    def people(self, bytes multipliers not None):
        """Each name once, as bytes, in order of first occurrence; and for each person which of them, as u32.

        The multipliers serve a table that is thrown away: the answer does not depend on them. All are named.
        """
        cdef bytearray names = bytearray(self.size * sizeof(Name))
        cdef Name* name = <Name*><char*>names
        cdef Py_ssize_t at
        for at in range(self.size):
            name[at] = self.persons[at].user
        return people_named(self.text, name, self.size, multipliers)

    def counts(self):
        """What each person wants to count, as u32: one set."""
        return b"\1\0\0\0" * self.size

    def limited(self, bytes granted not None):
        """The batch without the people who are granted nothing. `granted` has a u32 for each."""
        cdef Sets kept = Sets()
        cdef const uint32_t* share = <const uint32_t*><const char*>granted
        cdef Py_ssize_t at
        if len(granted) != self.size * <Py_ssize_t>sizeof(uint32_t):
            raise ValueError("one number for each person")
        kept._read(self.body)
        kept.owner = self if self.owner is None else self.owner
        kept.listed, kept.listed_size, kept.most_keys = self.listed, self.listed_size, self.most_keys
        for at in range(self.size):
            if share[at] and kept._append_person(self.persons[at]) != 0:
                raise MemoryError
        return kept

    @staticmethod
    def of(sets, Py_ssize_t most_keys):
        """A batch of names, or None, and keys that were checked already. A text that comes again is kept once."""
        cdef Sets made = Sets()
        texts = {}
        locations = [(located(texts, user), [located(texts, key) for key in keys]) for user, keys in sets]
        made._read(b"".join(text for text, _ in texts.values()))
        made.most_keys = most_keys
        for (start, length), keys in locations:
            person = Person(<uint32_t>made.listed_size, len(keys), Name(start, length))
            for at, size in keys:
                if made._append_key(Name(at, size)) != 0:
                    raise MemoryError
            if made._append_person(person) != 0:
                raise MemoryError
        return made

    cdef void _read(self, bytes body):
        self.body = body
        self.text = body

    cdef int _append_key(self, Name key) noexcept nogil:
        cdef Name* grown
        if self.listed_size == self.listed_room:
            grown = <Name*>realloc(self.listed, (2 * self.listed_room + 64) * sizeof(Name))
            if grown == NULL:
                return NO_MEMORY
            self.listed = grown
            self.listed_room = 2 * self.listed_room + 64
        self.listed[self.listed_size] = key
        self.listed_size += 1
        return 0

    cdef int _append_person(self, Person person) noexcept nogil:
        cdef Person* grown
        if self.size == self.room:
            grown = <Person*>realloc(self.persons, (2 * self.room + 64) * sizeof(Person))
            if grown == NULL:
                return NO_MEMORY
            self.persons = grown
            self.room = 2 * self.room + 64
        self.persons[self.size] = person
        self.size += 1
        return 0

    cdef object _name(self, Name name):
        return self.text[name.start:name.start + name.length].decode()


ctypedef int (*Scanner)(Sets, Py_ssize_t, Py_ssize_t) noexcept nogil


cdef object _scanned(Scanner scan, bytes body, Py_ssize_t max_items, Py_ssize_t most_keys):
    cdef Sets sets = Sets()
    cdef Py_ssize_t size = len(body)
    cdef int status
    if size > LARGEST_BODY:
        return None
    sets._read(body)
    sets.most_keys = most_keys
    with nogil:
        status = scan(sets, size, max_items)
    return checked_scan(sets, body, status)


def scan_json(bytes body not None, Py_ssize_t max_items, Py_ssize_t most_keys):
    """`{"users": [person, …]}`; a person is a list of keys or `{"user": …, "keys": […]}`.

    `max_items` bounds the people, and the keys of all of them together.
    """
    return _scanned(_scan_json, body, max_items, most_keys)


def scan_ndjson(bytes body not None, Py_ssize_t max_items, Py_ssize_t most_keys):
    """One person a line, each as in `scan_json`."""
    return _scanned(_scan_ndjson, body, max_items, most_keys)


cdef int _scan_json(Sets sets, Py_ssize_t size, Py_ssize_t max_items) noexcept nogil:
    cdef const unsigned char* text = sets.text
    cdef Py_ssize_t at = list_begin(text, size, b'"users"', 7)
    if at < 0:
        return GAVE_UP
    if at < size and text[at] == c']':
        return is_closed(text, at + 1, size)
    while True:
        at = _person(sets, at, size, max_items, after_space)
        if at < 0:
            return <int>at
        at = after_space(text, at, size)
        if at >= size:
            return GAVE_UP
        if text[at] == c']':
            return is_closed(text, at + 1, size)
        if text[at] != c',':
            return GAVE_UP
        at = after_space(text, at + 1, size)


cdef int _scan_ndjson(Sets sets, Py_ssize_t size, Py_ssize_t max_items) noexcept nogil:
    cdef const unsigned char* text = sets.text
    cdef Py_ssize_t at = 0
    while at < size:
        at = _person(sets, after_blanks(text, at, size), size, max_items, after_blanks)
        if at < 0:
            return <int>at
        at = after_blanks(text, at, size)
        if at < size and text[at] != c'\n':
            return GAVE_UP
        at += 1
    return 0


cdef Py_ssize_t _person(Sets sets, Py_ssize_t at, Py_ssize_t size, Py_ssize_t max_items, Skip skip) noexcept nogil:
    """Append the person whose bracket or brace is at `at`, and return where they ended: behind the closing one."""
    cdef Person person = Person(<uint32_t>sets.listed_size, 0, Name(0, 0))
    if at < size and sets.text[at] == c'{':
        at = _members(sets, at, size, skip, &person)
    else:
        at = _key_list(sets, at, size, skip)
    if at < 0:
        return at
    person.size = <uint32_t>(sets.listed_size - person.first)
    if person.size == 0 or sets.size == max_items or sets.listed_size > max_items:
        return GAVE_UP
    if sets._append_person(person) != 0:
        return NO_MEMORY
    return at


cdef Py_ssize_t _members(Sets sets, Py_ssize_t at, Py_ssize_t size, Skip skip, Person* person) noexcept nogil:
    """Read the object whose brace is at `at`: members `user` and `keys`, each once, in any order; behind its brace."""
    cdef const unsigned char* text = sets.text
    cdef Py_ssize_t value
    while True:
        at = skip(text, at + 1, size)  # behind the brace or the comma
        if (value := after(text, at, size, b'"user"', 6)) > 0 and person.user.length == 0:
            at = member_text(text, value, size, skip, &person.user.start, &person.user.length)
        elif (value := after(text, at, size, b'"keys"', 6)) > 0 and sets.listed_size == person.first:
            at = _key_list(sets, after_colon(text, value, size, skip), size, skip)
        else:
            return GAVE_UP
        if at < 0:
            return at
        at = skip(text, at, size)
        if at >= size or (text[at] != c',' and text[at] != c'}'):
            return GAVE_UP
        if text[at] == c'}':
            return at + 1


cdef Py_ssize_t _key_list(Sets sets, Py_ssize_t at, Py_ssize_t size, Skip skip) noexcept nogil:
    """Append the keys of the list whose bracket is at `at`, at least one; behind its closing bracket."""
    cdef const unsigned char* text = sets.text
    cdef Py_ssize_t end
    if at < 0 or at >= size or text[at] != c'[':
        return GAVE_UP
    while True:
        at = skip(text, at + 1, size)  # behind the bracket or the comma
        if at >= size or text[at] != c'"':
            return GAVE_UP
        end = string_end(text, at + 1, size)
        if end - at - 1 < 1 or end - at - 1 > MAX_KEY_BYTES:
            return GAVE_UP
        if sets._append_key(Name(<uint32_t>(at + 1), <uint16_t>(end - at - 1))) != 0:
            return NO_MEMORY
        at = skip(text, end + 1, size)
        if at >= size or (text[at] != c',' and text[at] != c']'):
            return GAVE_UP
        if text[at] == c']':
            return at + 1
