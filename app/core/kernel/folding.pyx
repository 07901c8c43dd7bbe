# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""`alg:MG` in compiled code, working inside the bytes of `sketches/state.py`, version 2.

What `sketches/stream.py` defines, and what is tested to be equal to it, event by event:

- A key is found by a table of open addressing that compares full keys. Its index is the low bits of the key's hash; the
  eviction order starts with the high bits, so a batch in that order does not cluster in the table.
- A counter is its entry minus the shared offset, so "decrement all" is one addition.
- Entries lie in a radix heap: bucket b holds the slots whose entry first differs from `level` in bit b − 1; a slot whose
  entry has grown meanwhile is put right when its bucket is opened. Opening the lowest bucket finds the next level,
  `level` moves there, and the slots at that level, the zeros to be, are sorted once. A slot moves down at most once for
  each bit of its counter, so an event costs a constant for all but contrived counts.
- The heap names a slot by one number, the upper 48 bits of its key's hash and then the slot, so that sorting reads
  nothing else; a bucket is a list of chunks of one cache line, so that its slots are fetched side by side.
- The text of a key goes into the room of the key that it replaces, if that is large enough.

Not for two threads at once: whoever adds owns the fold.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport UINT64_MAX, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from app.core.kernel.scanning cimport Batch, Item

cdef extern from "keys.h":
    uint64_t place_of(const unsigned char*, uint32_t, const uint64_t*) nogil
    bint same_bytes(const unsigned char*, const unsigned char*, uint32_t) nogil
    void copy_bytes(unsigned char*, const unsigned char*, uint32_t) nogil

cdef extern from "stdlib.h":
    void* aligned_alloc(size_t, size_t) nogil

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #define NONE UINT32_MAX
    static inline int bucket_of(uint64_t entry, uint64_t level) {
        return entry == level ? 0 : 64 - __builtin_clzll(entry ^ level);
    }
    static inline void soon(const void *place) { __builtin_prefetch(place); }
    static inline int lowest_bits(uint32_t number) { return 31 - __builtin_clz(number); }
    static inline void put(unsigned char *place, uint32_t number) { memcpy(place, &number, sizeof number); }
    """
    const uint32_t NONE
    int bucket_of(uint64_t, uint64_t) nogil
    void soon(const void*) nogil
    int lowest_bits(uint32_t) nogil
    void put(unsigned char*, uint32_t) nogil

cdef enum:
    BUCKETS = 65
    MULTIPLIERS = 65
    MAX_K = 65536
    MAX_KEY_BYTES = 512
    ROOM = 16
    BY_COLUMN = 1  # in the header of what is stored
    CHUNK = 7  # names in a cache line
    SLOT = 0xFFFF  # the bits of a name that are the slot
    AHEAD = 8  # evictions, so that what they read is on its way
    BLOCK = 32  # hashes that are made ahead, so that the table's lines are on their way

cdef packed struct Header:
    uint8_t magic[4]
    uint8_t version
    uint8_t family
    uint8_t width
    uint8_t zero
    uint32_t k
    uint32_t stored
    uint32_t sources
    uint32_t text_size
    uint32_t text_used
    uint32_t zeros
    uint64_t offset
    uint8_t secret[16]
    uint64_t end

cdef struct Slot:
    uint64_t entry
    uint32_t start  # of the key in the text
    uint16_t length
    uint16_t room

cdef struct Chunk:
    uint64_t names[CHUNK]
    uint32_t size
    uint32_t following

cdef uint64_t LARGEST = <uint64_t>1 << 62


cdef struct Items:
    const unsigned char* text
    const Item* items
    Py_ssize_t size


cdef inline size_t _chunks(size_t k) noexcept nogil:
    """As many as k names can take: none is empty, and but for one in each bucket all are full; and one that ends the list
    of the spare ones."""
    cdef size_t most = k // CHUNK + BUCKETS
    return (most if most < k else k) + 1


cdef inline uint64_t _name(uint32_t slot, uint64_t place) noexcept nogil:
    return place >> 16 << 16 | slot


cdef inline uint32_t _room(uint32_t length) noexcept nogil:
    return (length + ROOM - 1) // ROOM * ROOM


@final
cdef class Fold:
    cdef Header* header  # the start of the bytes
    cdef size_t size
    cdef Slot* slots
    cdef unsigned char* text

    cdef uint64_t multipliers[2 * MULTIPLIERS]
    cdef uint64_t most  # no entry is larger
    cdef uint32_t* places  # of each slot in the table
    cdef uint64_t* table  # lower half of a hash, and slot + 1; 0 where it is empty
    cdef uint32_t mask

    cdef uint64_t level  # no entry is smaller
    cdef uint32_t heads[BUCKETS]  # the chunks
    cdef Chunk* chunks
    cdef uint32_t spare  # chunks in no bucket
    cdef uint64_t* zeros  # the names of those that were at `level` when it was opened, in order; before zero_at all are gone
    cdef uint32_t zero_at, zero_count
    cdef uint64_t* names  # scratch: those that are to be filed or sorted
    cdef uint32_t* ends  # scratch

    def __cinit__(self, bytes state not None, bytes multipliers not None):
        if len(multipliers) != sizeof(self.multipliers):
            raise ValueError("wrong multipliers")
        memcpy(self.multipliers, <const char*>multipliers, sizeof(self.multipliers))
        self._load(state)
        self._index()
        if self.header.stored == self.header.k:
            self._open()

    def __dealloc__(self):
        free(self.header)
        free(self.places)
        free(self.table)
        free(self.chunks)
        free(self.zeros)
        free(self.names)
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
            if total > LARGEST:
                raise OverflowError("the counters need the wide form")
        if self.most + total > LARGEST:
            self._rebase()
            if self.most + total > LARGEST:
                raise OverflowError("the counters need the wide form")
        cdef bytearray room = bytearray(len(batches) * sizeof(Items))
        cdef Items* parts = <Items*><char*>room
        for batch in batches:
            parts[count] = Items(batch.text, batch.items, batch.size)
            count += 1
        self.most += total
        with nogil:
            for at in range(count):
                status = self._add(parts[at].text, parts[at].items, parts[at].size)
                if status != 0:
                    break  # what is left halfway must not be folded into
        if status != 0:
            raise MemoryError

    def state(self):
        """The bytes that it works in."""
        return (<const char*>self.header)[:self.size]

    def stored(self):
        """The bytes to store: the same, laid out by column."""
        cdef bytes stored = PyBytes_FromStringAndSize(NULL, self.size)
        cdef unsigned char* into = <unsigned char*><char*>stored
        with nogil:
            self._lay_out(into)
        return stored

    cdef void _lay_out(self, unsigned char* into) noexcept nogil:
        cdef uint32_t k = self.header.k, slot
        cdef size_t column = 4 * <size_t>k
        cdef unsigned char* lower = into + sizeof(Header)
        cdef unsigned char* text = lower + column
        cdef unsigned char* upper = text + self.header.text_size
        cdef Slot* at
        memcpy(into, self.header, sizeof(Header))
        (<Header*>into).zero = BY_COLUMN
        for slot in range(k):
            at = &self.slots[slot]
            put(lower + 4 * slot, <uint32_t>at.entry)
            put(upper + 4 * slot, <uint32_t>(at.entry >> 32))
            put(upper + column + 4 * slot, at.start)
            put(upper + 2 * column + 4 * slot, at.length | <uint32_t>at.room << 16)
        memcpy(text, self.text, self.header.text_size)

    @property
    def nbytes(self):
        """The memory that the fold takes, about."""
        cdef size_t k = self.header.k
        return self.size + 8 * (<size_t>self.mask + 1) + 24 * k + _chunks(k) * sizeof(Chunk) + sizeof(Fold)

    # Loading

    cdef int _load(self, bytes state) except -1:
        cdef Header* found = <Header*><char*>state
        cdef size_t size = len(state)
        cdef Slot* slot
        cdef uint32_t at
        if size < sizeof(Header) or memcmp(found.magic, b"DSCR\x02\x01\x08\x00", 8) != 0:
            raise ValueError("not the narrow form of a stream sketch")
        if not 1 <= found.k <= MAX_K or found.stored > found.k or (found.offset and found.stored < found.k):
            raise ValueError("the header is damaged")
        if found.text_used > found.text_size or found.text_size < found.k * ROOM:  # `_move` doubles it: never zero
            raise ValueError("the text is too small")
        if size != sizeof(Header) + <size_t>found.k * sizeof(Slot) + found.text_size:
            raise ValueError("the lengths do not add up")
        self.header = <Header*>malloc(size)
        if self.header == NULL:
            raise MemoryError
        memcpy(self.header, found, size)
        self._point(size)
        for at in range(self.header.stored):
            slot = &self.slots[at]
            if not 1 <= slot.length <= MAX_KEY_BYTES or slot.length > slot.room:
                raise ValueError("a key has a length that no key has")
            if <uint64_t>slot.start + slot.room > self.header.text_used:
                raise ValueError("a key lies outside the text")
            if slot.entry < self.header.offset:
                raise ValueError("a counter is negative")
        self._find_most()
        if self.most > LARGEST:
            raise ValueError("a counter is too large")
        return 0

    cdef void _point(self, size_t size) noexcept nogil:
        self.size = size
        self.slots = <Slot*>(<unsigned char*>self.header + sizeof(Header))
        self.text = <unsigned char*>(self.slots + self.header.k)

    cdef void _find_most(self) noexcept nogil:
        cdef uint32_t slot
        self.most = self.header.offset
        for slot in range(self.header.stored):
            if self.slots[slot].entry > self.most:
                self.most = self.slots[slot].entry

    cdef void _rebase(self) noexcept nogil:
        """The same counters with an offset of zero."""
        cdef uint32_t slot
        for slot in range(self.header.stored):
            self.slots[slot].entry -= self.header.offset
        self.header.offset = 0
        self._find_most()
        if self.header.stored == self.header.k:
            self._open()

    cdef int _index(self) except -1:
        cdef uint32_t k = self.header.k, slot
        cdef size_t size = 4
        while size < 4 * <size_t>k:
            size *= 2
        self.mask = <uint32_t>(size - 1)
        self.places = <uint32_t*>malloc(k * sizeof(uint32_t))
        self.table = <uint64_t*>calloc(size, sizeof(uint64_t))
        self.chunks = <Chunk*>aligned_alloc(sizeof(Chunk), _chunks(k) * sizeof(Chunk))
        self.zeros = <uint64_t*>malloc(k * sizeof(uint64_t))
        self.names = <uint64_t*>malloc(k * sizeof(uint64_t))
        self.ends = <uint32_t*>malloc((<size_t>k + 1) * sizeof(uint32_t))
        if not (self.places and self.table and self.chunks and self.zeros and self.names and self.ends):
            raise MemoryError
        for slot in range(self.header.stored):
            self._enter(slot, <uint32_t>self._place(slot))
        return 0

    cdef inline uint64_t _place(self, uint32_t slot) noexcept nogil:
        return place_of(self.text + self.slots[slot].start, self.slots[slot].length, self.multipliers)

    # The table

    cdef inline uint32_t _find(self, const unsigned char* key, uint32_t length, uint32_t home) noexcept nogil:
        cdef uint32_t at = home & self.mask
        cdef uint64_t found
        cdef Slot* slot
        while True:
            found = self.table[at]
            if found == 0:
                return NONE
            if found >> 32 == home:
                slot = &self.slots[<uint32_t>found - 1]
                if slot.length == length and same_bytes(self.text + slot.start, key, length):
                    return <uint32_t>found - 1
            at = (at + 1) & self.mask

    cdef inline uint32_t _home(self, uint32_t slot) noexcept nogil:
        return <uint32_t>(self.table[self.places[slot]] >> 32)

    cdef inline void _enter(self, uint32_t slot, uint32_t home) noexcept nogil:
        cdef uint32_t at = home & self.mask
        while self.table[at] != 0:
            at = (at + 1) & self.mask
        self.table[at] = <uint64_t>home << 32 | (slot + 1)
        self.places[slot] = at

    cdef inline void _leave(self, uint32_t slot) noexcept nogil:
        """Empty the slot's place in the table, and move up those that a probe would no longer reach."""
        cdef uint32_t hole = self.places[slot], at = hole, home
        while True:
            at = (at + 1) & self.mask
            if self.table[at] == 0:
                break
            home = <uint32_t>(self.table[at] >> 32)
            if ((at - home) & self.mask) >= ((at - hole) & self.mask):
                self.table[hole] = self.table[at]
                self.places[<uint32_t>self.table[at] - 1] = hole
                hole = at
        self.table[hole] = 0

    # The radix heap of entries

    cdef inline void _file(self, uint64_t name) noexcept nogil:
        """Into the bucket of its slot's entry, or among the zeros to be."""
        cdef int bucket = bucket_of(self.slots[name & SLOT].entry, self.level)
        cdef uint32_t at = self.heads[bucket]
        cdef Chunk* chunk
        if bucket == 0:
            self.zeros[self.zero_count] = name
            self.zero_count += 1
            return
        if at == NONE or self.chunks[at].size == CHUNK:
            at = self.spare
            self.spare = self.chunks[at].following
            self.chunks[at].following = self.heads[bucket]
            self.chunks[at].size = 0
            self.heads[bucket] = at
        chunk = &self.chunks[at]
        chunk.names[chunk.size] = name
        chunk.size += 1

    cdef void _open(self) noexcept nogil:
        """File every slot anew."""
        cdef uint32_t slot, at, chunks = <uint32_t>_chunks(self.header.k)
        memset(self.heads, 0xFF, sizeof(self.heads))
        for at in range(chunks):
            self.chunks[at].following = at + 1  # the last one is never taken
        self.spare = 0
        self.level = self.header.offset
        self.zero_at = self.zero_count = 0
        for slot in range(self.header.k):
            self._file(_name(slot, self._place(slot)))
        self._sort_zeros()

    cdef inline uint64_t _smallest(self) noexcept nogil:
        """The name of the first in order of those with the smallest entry, which is `level` from then on."""
        cdef uint64_t name
        while True:
            while self.zero_at < self.zero_count:
                name = self.zeros[self.zero_at]
                if self.slots[name & SLOT].entry == self.level:
                    return name
                self.zero_at += 1
                self._file(name)  # it has grown, so this is a bucket
            self._next_level()

    cdef void _next_level(self) noexcept nogil:
        cdef uint32_t count = 0, i
        cdef uint64_t lowest = 0
        cdef int bucket = 1
        while count == 0:
            while self.heads[bucket] == NONE:
                bucket += 1
            count = self._take(bucket, &lowest)
        self.level = lowest
        self.zero_at = self.zero_count = 0
        for i in range(count):
            self._file(self.names[i])
        self._sort_zeros()

    cdef uint32_t _take(self, int bucket, uint64_t* lowest) noexcept nogil:
        """Move the bucket to `names`, but for those that have grown into a higher one; and the lowest entry."""
        cdef uint32_t at = self.heads[bucket], after, count = 0, i
        cdef uint64_t name, entry
        cdef Chunk chunk
        self.heads[bucket] = NONE
        lowest[0] = UINT64_MAX
        while at != NONE:
            chunk = self.chunks[at]
            self.chunks[at].following = self.spare
            self.spare = at
            for i in range(chunk.size):
                name = chunk.names[i]
                entry = self.slots[name & SLOT].entry
                if bucket_of(entry, self.level) != bucket:
                    self._file(name)
                else:
                    lowest[0] = entry if entry < lowest[0] else lowest[0]
                    self.names[count] = name
                    count += 1
            at = chunk.following
        return count

    cdef void _sort_zeros(self) noexcept nogil:
        """By hash, then by key. Hashes are uniform: after one pass by their upper bits little is left to insert."""
        cdef uint32_t count = self.zero_count, i, j
        cdef uint32_t* ends = self.ends
        cdef uint64_t name
        cdef int bits
        if count < 2:
            return
        bits = lowest_bits(count)
        memset(ends, 0, ((<size_t>1 << bits) + 1) * sizeof(uint32_t))
        for i in range(count):
            ends[(self.zeros[i] >> (64 - bits)) + 1] += 1
        for i in range(<uint32_t>1 << bits):
            ends[i + 1] += ends[i]
        for i in range(count):
            name = self.zeros[i]
            j = <uint32_t>(name >> (64 - bits))
            self.names[ends[j]] = name
            ends[j] += 1
        for i in range(count):
            name = self.names[i]
            j = i
            while j > 0 and self._before(name, self.zeros[j - 1]):
                self.zeros[j] = self.zeros[j - 1]
                j -= 1
            self.zeros[j] = name

    cdef inline bint _before(self, uint64_t left, uint64_t right) noexcept nogil:
        return left < right if (left ^ right) > SLOT else self._before_in_full(left & SLOT, right & SLOT)

    cdef bint _before_in_full(self, uint32_t left, uint32_t right) noexcept nogil:
        """Where the names have the same bits of the hash."""
        cdef uint32_t ours = self._home(left) & SLOT, theirs = self._home(right) & SLOT
        cdef int difference
        if ours != theirs:
            return ours < theirs
        ours, theirs = self.slots[left].length, self.slots[right].length
        difference = memcmp(
            self.text + self.slots[left].start,
            self.text + self.slots[right].start,
            ours if ours < theirs else theirs,
        )
        return difference < 0 or (difference == 0 and ours < theirs)

    # Events

    cdef int _add(self, const unsigned char* text, const Item* items, Py_ssize_t size) noexcept nogil:
        cdef uint64_t places[BLOCK]
        cdef Py_ssize_t at = 0, block, i
        cdef uint32_t slot
        cdef const Item* item
        while at < size:
            block = size - at if size - at < BLOCK else BLOCK
            for i in range(block):
                places[i] = place_of(text + items[at + i].start, items[at + i].length, self.multipliers)
                soon(&self.table[places[i] & self.mask])
            for i in range(block):
                item = &items[at + i]
                slot = self._find(text + item.start, item.length, <uint32_t>places[i])
                if slot != NONE:  # branch 1
                    self.slots[slot].entry += item.count
                elif self._add_unstored(text + item.start, item.length, places[i], item.count) != 0:
                    return -1
            at += block
        return 0

    cdef inline int _add_unstored(
        self, const unsigned char* key, uint32_t length, uint64_t place, uint64_t count
    ) noexcept nogil:
        cdef uint32_t slot
        cdef uint64_t paid
        cdef bint was_full = self.header.stored == self.header.k
        if not was_full:  # branch 3: nothing was ever decremented, so the zero slots are the empty ones
            slot = self.header.stored
            self.slots[slot].start = self.slots[slot].room = 0
        else:
            slot = self._smallest() & SLOT
            paid = self.level - self.header.offset  # branch 2, as many events at once as all counters can pay for
            paid = count if count < paid else paid
            self.header.offset += paid
            count -= paid
            if count == 0:
                return 0
            self._leave(slot)  # branch 3: the smallest counter is zero by now
            self.zero_at += 1
            self._fetch_next()
        if self._write(slot, key, length) != 0:
            return -1
        self.slots[slot].entry = self.header.offset + count
        self._enter(slot, <uint32_t>place)
        if was_full:
            self._file(_name(slot, place))
        else:
            self.header.stored += 1
            if self.header.stored == self.header.k:
                self._open()  # as soon as the sketch is full, needed or not: the time must not tell what was stored
        return 0

    cdef inline void _fetch_next(self) noexcept nogil:
        """What the next evictions will read: first where it is, then itself."""
        cdef uint64_t slot
        if self.zero_at + 2 * AHEAD < self.zero_count:
            slot = self.zeros[self.zero_at + 2 * AHEAD] & SLOT
            soon(&self.slots[slot])
            soon(&self.places[slot])
            slot = self.zeros[self.zero_at + AHEAD] & SLOT
            soon(self.text + self.slots[slot].start)
            soon(&self.table[self.places[slot]])

    # The text

    cdef inline int _write(self, uint32_t slot, const unsigned char* key, uint32_t length) noexcept nogil:
        cdef Slot* into = &self.slots[slot]
        cdef uint32_t room = _room(length)
        if into.room < length:
            memset(self.text + into.start, 0, into.room)  # nothing of the old key stays behind
            into.room = 0
            if self.header.text_size - self.header.text_used < room and self._move(room) != 0:
                return -1
            into = &self.slots[slot]
            into.start = self.header.text_used
            into.room = <uint16_t>room
            self.header.text_used += room
        into.length = <uint16_t>length
        copy_bytes(self.text + into.start, key, length)
        if into.room > length:
            memset(self.text + into.start + length, 0, into.room - length)
        return 0

    cdef int _move(self, uint32_t wanted) noexcept nogil:
        """All keys close together, with space for more: twice the size until a quarter is free."""
        cdef uint32_t k = self.header.k, slot, room, at = 0
        cdef uint64_t live = wanted, text_size = self.header.text_size
        cdef size_t head = sizeof(Header) + <size_t>k * sizeof(Slot)
        cdef Header* old = self.header
        cdef unsigned char* old_text = self.text
        for slot in range(self.header.stored):
            if self.slots[slot].room:
                live += _room(self.slots[slot].length)
        while 4 * live > 3 * text_size:
            text_size *= 2
        self.header = <Header*>calloc(1, head + text_size)
        if self.header == NULL:
            self.header = old
            return -1
        memcpy(self.header, old, head)
        self._point(head + text_size)
        for slot in range(self.header.stored):
            if self.slots[slot].room:
                room = _room(self.slots[slot].length)
                memcpy(self.text + at, old_text + self.slots[slot].start, self.slots[slot].length)
                self.slots[slot].start = at
                self.slots[slot].room = <uint16_t>room
                at += room
        self.header.text_size = <uint32_t>text_size
        self.header.text_used = at
        free(old)
        return 0
