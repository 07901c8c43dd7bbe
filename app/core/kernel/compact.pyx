# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""`alg:user-level-sketch` in compiled code, working inside the bytes of `sketches/state.py`.

What `sketches/compact.py` defines, and what is tested to be equal to it, person by person and event by event.
`slots.pxd` has the table of keys and the heap of counters. "Decrement all" adds one to the offset and forgets the slots
whose entry it has reached: the lowest of the heap. Forgotten slots are free for the next keys, and keep their room.

While a slot is free the heap's level is at most offset + 1, the entry of a key that is stored anew. Only a full sketch
lets it rise to the smallest entry, and takes no new key before the offset has come up to it.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport UINT32_MAX, UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from app.core.kernel.scanning cimport Batch, Item, Name
from app.core.kernel.sets cimport Person, Sets
from app.core.kernel.slots cimport (
    LARGEST,
    NONE,
    Sketch,
    empty_heap,
    enter,
    file,
    find,
    free_memory,
    lay_out,
    leave,
    load,
    memory,
    hash_of,
    rebase,
    same_bytes,
    soon,
    sum_if_known,
    write_key,
)

cdef enum:
    BLOCK = 32  # hashes that are made ahead, so that the table's lines are on their way

cdef struct Seen:
    uint32_t stamp  # of the person whose key it is
    uint32_t key

cdef struct Part:
    const unsigned char* text
    const Item* items  # of events
    const Person* people  # or NULL where it is events
    const Name* keys  # of the people
    Py_ssize_t size
    Py_ssize_t most_keys


@final
cdef class Fold:
    cdef Sketch sketch
    cdef uint32_t* vacant  # the slots without a key
    cdef uint32_t vacant_count
    # Scratch for one person: which keys were seen already, and which of them are not stored
    cdef Seen* seen
    cdef uint32_t seen_mask, stamp
    cdef uint32_t* unstored
    cdef uint64_t* hashes  # the hash of each key of a person
    cdef size_t most_listed  # so many keys have room in `hashes`

    def __cinit__(self, bytes state not None, bytes multipliers not None):
        load(&self.sketch, state, multipliers, compact=True)
        self.vacant = <uint32_t*>malloc(self.sketch.header.k * sizeof(uint32_t))
        if self.vacant == NULL:
            raise MemoryError
        self._fill_vacant()
        self._fill_heap()

    def __dealloc__(self):
        free_memory(&self.sketch)
        free(self.vacant)
        free(self.seen)
        free(self.unstored)
        free(self.hashes)

    def add(self, *batches):
        """Fold the batches in: of events, or of people. OverflowError, and nothing changed, where counters could need
        more than 63 bits.

        All of them in one go, so that none waits for the interpreter's lock.
        """
        cdef uint64_t total = 0
        cdef Py_ssize_t at, count = len(batches)
        cdef int status = 0
        cdef bytearray room = bytearray(count * sizeof(Part))
        cdef Part* parts = <Part*><char*>room
        for at, batch in enumerate(batches):
            parts[at] = self._part(batch)
            total += _most_added(batch)  # below 2^63, and so is what it is added to
            if total > LARGEST():
                raise OverflowError("the counters need the wide form")
        if self.sketch.most + total > LARGEST():
            rebase(&self.sketch)
            self._fill_heap()
            if self.sketch.most + total > LARGEST():
                raise OverflowError("the counters need the wide form")
        self.sketch.most += total
        self.sketch.header.items = sum_if_known(self.sketch.header.items, total)  # for a batch of people how many
        with nogil:
            for at in range(count):
                status = self._add_people(&parts[at]) if parts[at].people else self._add_events(&parts[at])
                if status != 0:
                    break  # what is left halfway must not be folded into
        if status != 0:
            raise MemoryError

    def state(self):
        """The bytes in which it works, as they are now."""
        return (<const char*>self.sketch.header)[:self.sketch.size]

    def stored(self):
        """The bytes to store: the same, laid out by column."""
        cdef bytes stored = PyBytes_FromStringAndSize(NULL, self.sketch.size)
        cdef unsigned char* into = <unsigned char*><char*>stored
        with nogil:
            lay_out(&self.sketch, into)
        return stored

    @property
    def nbytes(self):
        """About how much memory the fold takes."""
        cdef size_t scratch = sizeof(Seen) * (<size_t>self.seen_mask + 1) + 12 * self.most_listed
        return memory(&self.sketch) + 4 * <size_t>self.sketch.header.k + sizeof(Fold) + scratch

    # Batches

    cdef Part _part(self, object batch) except *:
        """Where the batch has its items in memory. Also makes scratch that is large enough for it."""
        cdef Sets sets
        cdef Batch events
        cdef Py_ssize_t at
        cdef uint32_t longest = 0
        if isinstance(batch, Sets):
            sets = batch
            for at in range(sets.size):
                longest = max(longest, sets.persons[at].size)
            self._reserve(longest)
            return Part(sets.text, NULL, sets.persons, sets.listed, sets.size, sets.most_keys)
        events = <Batch?>batch
        return Part(events.text, events.items, NULL, NULL, events.size, 0)

    cdef int _reserve(self, size_t listed) except -1:
        """Make scratch that is large enough for people with so many keys."""
        cdef size_t size = 4
        if listed <= self.most_listed:
            return 0
        while size < 2 * listed:
            size *= 2
        free(self.seen)
        free(self.unstored)
        free(self.hashes)
        self.most_listed = 0
        self.seen = <Seen*>calloc(size, sizeof(Seen))
        self.unstored = <uint32_t*>malloc(listed * sizeof(uint32_t))
        self.hashes = <uint64_t*>malloc(listed * sizeof(uint64_t))
        if not (self.seen and self.unstored and self.hashes):
            raise MemoryError
        self.seen_mask, self.stamp, self.most_listed = <uint32_t>(size - 1), 0, listed
        return 0

    cdef int _add_events(self, const Part* part) noexcept nogil:
        cdef Sketch* sketch = &self.sketch
        cdef const Item* item
        cdef uint64_t hashes[BLOCK]
        cdef Py_ssize_t at = 0, block, i
        while at < part.size:
            block = part.size - at if part.size - at < BLOCK else BLOCK
            for i in range(block):
                item = &part.items[at + i]
                hashes[i] = hash_of(part.text + item.start, item.length, sketch.multipliers)
                soon(&sketch.table[hashes[i] & sketch.mask])
            for i in range(block):
                item = &part.items[at + i]
                if self._add_event(part.text + item.start, item.length, hashes[i], item.count) != 0:
                    return -1
            at += block
        return 0

    cdef int _add_people(self, const Part* part) noexcept nogil:
        cdef Py_ssize_t at
        cdef const Person* person
        for at in range(part.size):
            person = &part.people[at]
            if self._add_person(part.text, part.keys + person.first, person.size, part.most_keys) != 0:
                return -1
        return 0

    # Steps

    cdef inline int _add_person(
        self, const unsigned char* text, const Name* keys, uint32_t listed, Py_ssize_t most
    ) noexcept nogil:
        """Count one person: the first `most` different keys of their list, each once."""
        cdef Sketch* sketch = &self.sketch
        cdef uint32_t at, slot, unstored = 0
        for at in range(listed):
            self.hashes[at] = hash_of(text + keys[at].start, keys[at].length, sketch.multipliers)
            soon(&sketch.table[self.hashes[at] & sketch.mask])
        self._begin_person()
        for at in range(listed):
            if most == 0:
                break
            if not self._is_first(text, keys, at):
                continue
            most -= 1
            slot = find(sketch, text + keys[at].start, keys[at].length, <uint32_t>self.hashes[at])
            if slot != NONE:
                sketch.slots[slot].entry += 1
            else:
                self.unstored[unstored] = at
                unstored += 1
        if sketch.header.stored + unstored > sketch.header.k:  # what is not stored would fall from 1 to 0 at once
            self._lower(1)
            return 0
        for at in range(unstored):
            slot = self.unstored[at]
            if self._store(text + keys[slot].start, keys[slot].length, self.hashes[slot], 1) != 0:
                return -1
        return 0

    cdef inline int _add_event(
        self, const unsigned char* key, uint32_t length, uint64_t key_hash, uint64_t count
    ) noexcept nogil:
        """Count so many events of one key in a row."""
        cdef Sketch* sketch = &self.sketch
        cdef uint32_t slot = find(sketch, key, length, <uint32_t>key_hash)
        cdef uint64_t paid
        if slot != NONE:
            sketch.slots[slot].entry += count
            return 0
        if sketch.header.stored == sketch.header.k:  # as many events at once as all counters can pay for
            paid = self._smallest() - sketch.header.offset
            paid = count if count < paid else paid
            self._lower(paid)
            count -= paid
        return self._store(key, length, key_hash, count) if count else 0

    cdef inline int _store(
        self, const unsigned char* key, uint32_t length, uint64_t key_hash, uint64_t count
    ) noexcept nogil:
        """Store a new key. A slot must be free."""
        cdef Sketch* sketch = &self.sketch
        cdef uint32_t slot = self.vacant[self.vacant_count - 1]
        self.vacant_count -= 1
        if write_key(sketch, slot, key, length) != 0:
            return -1
        sketch.slots[slot].entry = sketch.header.offset + count
        enter(sketch, slot, <uint32_t>key_hash)
        file(sketch, slot)
        sketch.header.stored += 1
        return 0

    cdef inline void _lower(self, uint64_t by) noexcept nogil:
        """Take `by` from all counters, of which none is smaller; keys whose counters are zero then are forgotten."""
        cdef Sketch* sketch = &self.sketch
        cdef uint32_t i
        cdef uint64_t name
        sketch.header.offset += by
        while sketch.level <= sketch.header.offset:
            for i in range(sketch.lowest_count):
                name = sketch.lowest[i]
                if sketch.slots[name].entry == sketch.level:
                    self._forget(<uint32_t>name)
                else:
                    file(sketch, name)  # it has grown, so this is a bucket
            sketch.lowest_count = 0
            sketch.open_next(sketch, sketch.header.offset + 1)

    cdef inline void _forget(self, uint32_t slot) noexcept nogil:
        cdef Sketch* sketch = &self.sketch
        leave(sketch, slot)
        memset(sketch.text + sketch.slots[slot].start, 0, sketch.slots[slot].length)  # nothing of the key stays behind
        sketch.slots[slot].length = 0
        sketch.slots[slot].entry = 0
        sketch.header.stored -= 1
        self.vacant[self.vacant_count] = slot
        self.vacant_count += 1

    cdef inline uint64_t _smallest(self) noexcept nogil:
        """The smallest entry of a full sketch. `level` becomes that entry."""
        cdef Sketch* sketch = &self.sketch
        cdef uint64_t name
        while True:
            while sketch.lowest_count:
                name = sketch.lowest[sketch.lowest_count - 1]
                if sketch.slots[name].entry == sketch.level:
                    return sketch.level
                sketch.lowest_count -= 1
                file(sketch, name)  # it has grown, so this is a bucket
            sketch.open_next(sketch, UINT64_MAX)

    # What is open

    cdef void _fill_heap(self) noexcept nogil:
        cdef uint32_t slot
        empty_heap(&self.sketch)
        for slot in range(self.sketch.header.k):
            if self.sketch.slots[slot].length:
                file(&self.sketch, slot)

    cdef void _fill_vacant(self) noexcept nogil:
        """List the free slots from the last to the first, so that the first is taken first."""
        cdef uint32_t k = self.sketch.header.k, at, slot
        for at in range(k):
            slot = k - 1 - at
            if self.sketch.slots[slot].length == 0:
                self.vacant[self.vacant_count] = slot
                self.vacant_count += 1

    # Keys that a person lists twice

    cdef inline void _begin_person(self) noexcept nogil:
        if self.stamp == UINT32_MAX:
            memset(self.seen, 0, (<size_t>self.seen_mask + 1) * sizeof(Seen))
            self.stamp = 0
        self.stamp += 1

    cdef inline bint _is_first(self, const unsigned char* text, const Name* keys, uint32_t key) noexcept nogil:
        """Whether this key is new in the list of the person who is being counted."""
        cdef uint32_t at = <uint32_t>(self.hashes[key] >> 32) & self.seen_mask, other
        while self.seen[at].stamp == self.stamp:
            other = self.seen[at].key
            if (
                self.hashes[other] == self.hashes[key]
                and keys[other].length == keys[key].length
                and same_bytes(text + keys[other].start, text + keys[key].start, keys[key].length)
            ):
                return False
            at = (at + 1) & self.seen_mask
        self.seen[at] = Seen(self.stamp, key)
        return True


cdef uint64_t _most_added(object batch) except *:
    """The most that the whole batch can add to one counter."""
    return (<Sets>batch).size if isinstance(batch, Sets) else (<Batch?>batch).total
