# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""`alg:MG` in compiled code, working inside the bytes of `sketches/state.py`.

What `sketches/stream.py` defines, and what is tested to be equal to it, event by event. `slots.pxd` has the table of keys
and the heap of counters. Opening the lowest bucket finds the next level; the slots at that level, the zeros to be, are
sorted once. The heap names a slot by the upper 48 bits of its key's hash and then the slot, so that sorting reads nothing
else.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset

from app.core.kernel.scanning cimport Batch, Item
from app.core.kernel.slots cimport (
    LARGEST,
    NONE,
    SLOT,
    Sketch,
    empty_heap,
    enter,
    file,
    find,
    free_memory,
    home_of,
    lay_out,
    leave,
    load,
    memory,
    slot_hash,
    hash_of,
    rebase,
    soon,
    write_key,
)

cdef extern from *:
    """
    #include <stdint.h>
    static inline int lowest_bits(uint32_t number) { return 31 - __builtin_clz(number); }
    """
    int lowest_bits(uint32_t) nogil

cdef enum:
    AHEAD = 8  # evictions, so that what they read is on its way
    BLOCK = 32  # hashes that are made ahead, so that the table's lines are on their way

cdef struct Items:
    const unsigned char* text
    const Item* items
    Py_ssize_t size


cdef inline uint64_t _name(uint32_t slot, uint64_t key_hash) noexcept nogil:
    return key_hash >> 16 << 16 | slot


@final
cdef class Fold:
    cdef Sketch sketch
    cdef uint32_t* ends  # scratch

    def __cinit__(self, bytes state not None, bytes multipliers not None):
        load(&self.sketch, state, multipliers, compact=False)
        if not self._is_full() and (self.sketch.header.offset or self.sketch.header.lowered not in (0, UINT64_MAX)):
            raise ValueError("the header is damaged")
        self.ends = <uint32_t*>malloc((<size_t>self.sketch.header.k + 1) * sizeof(uint32_t))
        if self.ends == NULL:
            raise MemoryError
        if self._is_full():
            self._fill_heap()

    def __dealloc__(self):
        free_memory(&self.sketch)
        free(self.ends)

    def add(self, *batches):
        """Fold the batches in. OverflowError, and nothing changed, where counters could need more than 63 bits.

        All of them in one go, so that none waits for the interpreter's lock.
        """
        cdef uint64_t total = 0
        cdef Py_ssize_t count = 0, at
        cdef int status = 0
        cdef Batch batch
        for batch in batches:
            if batch is None:
                raise TypeError("None is no batch")
            total += batch.total  # below 2^63, and so is what it is added to
            if total > LARGEST():
                raise OverflowError("the counters need the wide form")
        if self.sketch.most + total > LARGEST():
            self._rebase()
            if self.sketch.most + total > LARGEST():
                raise OverflowError("the counters need the wide form")
        cdef bytearray room = bytearray(len(batches) * sizeof(Items))
        cdef Items* parts = <Items*><char*>room
        for batch in batches:
            parts[count] = Items(batch.text, batch.items, batch.size)
            count += 1
        self.sketch.most += total
        with nogil:
            for at in range(count):
                status = self._add(parts[at].text, parts[at].items, parts[at].size)
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
        return memory(&self.sketch)

    cdef inline bint _is_full(self) noexcept nogil:
        return self.sketch.header.stored == self.sketch.header.k

    cdef void _rebase(self) noexcept nogil:
        rebase(&self.sketch)
        if self._is_full():
            self._fill_heap()

    # The smallest counter

    cdef void _fill_heap(self) noexcept nogil:
        cdef uint32_t slot
        empty_heap(&self.sketch)
        for slot in range(self.sketch.header.k):
            file(&self.sketch, _name(slot, slot_hash(&self.sketch, slot)))
        self._sort_lowest()

    cdef inline uint64_t _smallest(self) noexcept nogil:
        """The name of the smallest entry; of equal ones the first in order. `level` becomes that entry."""
        cdef Sketch* sketch = &self.sketch
        cdef uint64_t name
        while True:
            while sketch.lowest_at < sketch.lowest_count:
                name = sketch.lowest[sketch.lowest_at]
                if sketch.slots[name & SLOT].entry == sketch.level:
                    return name
                sketch.lowest_at += 1
                file(sketch, name)  # it has grown, so this is a bucket
            sketch.open_next(sketch, UINT64_MAX)
            self._sort_lowest()

    cdef void _sort_lowest(self) noexcept nogil:
        """Sort by hash, then by key. Hashes are uniform: after one pass by their upper bits, little is left to insert."""
        cdef uint64_t* lowest = self.sketch.lowest
        cdef uint64_t* names = self.sketch.names
        cdef uint32_t count = self.sketch.lowest_count, i, j
        cdef uint32_t* ends = self.ends
        cdef uint64_t name
        cdef int bits
        if count < 2:
            return
        bits = lowest_bits(count)
        memset(ends, 0, ((<size_t>1 << bits) + 1) * sizeof(uint32_t))
        for i in range(count):
            ends[(lowest[i] >> (64 - bits)) + 1] += 1
        for i in range(<uint32_t>1 << bits):
            ends[i + 1] += ends[i]
        for i in range(count):
            name = lowest[i]
            j = <uint32_t>(name >> (64 - bits))
            names[ends[j]] = name
            ends[j] += 1
        for i in range(count):
            name = names[i]
            j = i
            while j > 0 and self._before(name, lowest[j - 1]):
                lowest[j] = lowest[j - 1]
                j -= 1
            lowest[j] = name

    cdef inline bint _before(self, uint64_t left, uint64_t right) noexcept nogil:
        return left < right if (left ^ right) > SLOT else self._before_in_full(left & SLOT, right & SLOT)

    cdef bint _before_in_full(self, uint32_t left, uint32_t right) noexcept nogil:
        """Compare two keys whose names carry the same bits of the hash."""
        cdef Sketch* sketch = &self.sketch
        cdef uint32_t ours = home_of(sketch, left) & SLOT, theirs = home_of(sketch, right) & SLOT
        cdef int difference
        if ours != theirs:
            return ours < theirs
        ours, theirs = sketch.slots[left].length, sketch.slots[right].length
        difference = memcmp(
            sketch.text + sketch.slots[left].start,
            sketch.text + sketch.slots[right].start,
            ours if ours < theirs else theirs,
        )
        return difference < 0 or (difference == 0 and ours < theirs)

    # Events

    cdef int _add(self, const unsigned char* text, const Item* items, Py_ssize_t size) noexcept nogil:
        cdef Sketch* sketch = &self.sketch
        cdef uint64_t hashes[BLOCK]
        cdef Py_ssize_t at = 0, block, i
        cdef uint32_t slot
        cdef const Item* item
        while at < size:
            block = size - at if size - at < BLOCK else BLOCK
            for i in range(block):
                hashes[i] = hash_of(text + items[at + i].start, items[at + i].length, sketch.multipliers)
                soon(&sketch.table[hashes[i] & sketch.mask])
            for i in range(block):
                item = &items[at + i]
                slot = find(sketch, text + item.start, item.length, <uint32_t>hashes[i])
                if slot != NONE:  # branch 1
                    sketch.slots[slot].entry += item.count
                elif self._add_unstored(text + item.start, item.length, hashes[i], item.count) != 0:
                    return -1
            at += block
        return 0

    cdef inline int _add_unstored(
        self, const unsigned char* key, uint32_t length, uint64_t key_hash, uint64_t count
    ) noexcept nogil:
        cdef Sketch* sketch = &self.sketch
        cdef uint32_t slot
        cdef uint64_t paid
        cdef bint was_full = self._is_full()
        if not was_full:  # branch 3: nothing was ever decremented, so the zero slots are the empty ones
            slot = sketch.header.stored
        else:
            slot = self._smallest() & SLOT
            paid = sketch.level - sketch.header.offset  # branch 2, as many events at once as all counters can pay for
            paid = count if count < paid else paid
            sketch.header.offset += paid
            count -= paid
            if count == 0:
                return 0
            leave(sketch, slot)  # branch 3: the smallest counter is zero by now
            sketch.lowest_at += 1
            self._fetch_next()
        if write_key(sketch, slot, key, length) != 0:
            return -1
        sketch.slots[slot].entry = sketch.header.offset + count
        enter(sketch, slot, <uint32_t>key_hash)
        if was_full:
            file(sketch, _name(slot, key_hash))
        else:
            sketch.header.stored += 1
            if self._is_full():
                self._fill_heap()  # as soon as it is full, needed or not: the time must not tell what was stored
        return 0

    cdef inline void _fetch_next(self) noexcept nogil:
        """Ask the processor for what the next evictions will read: first the slots, which say where the keys are, then
        the keys."""
        cdef Sketch* sketch = &self.sketch
        cdef uint64_t slot
        if sketch.lowest_at + 2 * AHEAD < sketch.lowest_count:
            slot = sketch.lowest[sketch.lowest_at + 2 * AHEAD] & SLOT
            soon(&sketch.slots[slot])
            soon(&sketch.positions[slot])
            slot = sketch.lowest[sketch.lowest_at + AHEAD] & SLOT
            soon(sketch.text + sketch.slots[slot].start)
            soon(&sketch.table[sketch.positions[slot]])
