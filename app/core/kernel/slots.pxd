"""A sketch that is open in memory: the bytes of `sketches/state.py`, and what finds keys and smallest counters.

Both folds are made of this, `folding.pyx` for streams and `compact.pyx` for compact sketches:

- A key is found by a table of open addressing that compares full keys. Its index is the low bits of the key's hash; the
  eviction order of streams starts with the high bits, so a batch in that order does not cluster in the table.
- A counter is its entry minus the shared offset, so "decrement all" is one addition.
- Entries lie in a radix heap: bucket b holds the slots whose entry first differs from `level` in bit b − 1; a slot whose
  entry has grown meanwhile is put right when its bucket is opened. `open_next` opens the lowest bucket and moves `level`
  up. A slot moves down at most once for each bit of its counter, so an event costs a constant for all but contrived
  counts.
- The heap names a slot by one number, whose lower 16 bits are the slot; a bucket is a list of chunks of one cache line,
  so that its slots are fetched side by side.
- The text of a key goes into the room of the key that it replaces, if that is large enough.

Not for two threads at once: whoever adds owns the sketch.
"""

from libc.stdint cimport UINT64_MAX, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

cdef extern from "keys.h":
    uint64_t hash_of(const unsigned char*, uint32_t, const uint64_t*) nogil
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
    static inline void soon(const void *address) { __builtin_prefetch(address); }
    static inline void put(unsigned char *into, uint32_t number) { memcpy(into, &number, sizeof number); }
    """
    const uint32_t NONE
    int bucket_of(uint64_t, uint64_t) nogil
    void soon(const void*) nogil
    void put(unsigned char*, uint32_t) nogil

cdef enum:
    BUCKETS = 65
    MULTIPLIERS = 65
    MAX_K = 65536
    MAX_KEY_BYTES = 512
    ROOM = 16
    MARK = 7  # where the header says how the slots are laid out
    BY_COLUMN = 1
    CHUNK = 7  # names in a cache line
    SLOT = 0xFFFF  # the bits of a name that are the slot

cdef packed struct Header:
    uint8_t magic[4]
    uint8_t version
    uint8_t family
    uint8_t width
    uint8_t layout
    uint32_t k
    uint32_t stored
    uint32_t sources
    uint32_t text_size
    uint32_t text_used
    uint32_t zeros
    uint64_t offset
    uint8_t secret[16]
    uint64_t lowered  # before the offset was last zero; UINT64_MAX where it is not known
    uint64_t items  # of a compact sketch, likewise
    uint64_t end

cdef struct Slot:
    uint64_t entry
    uint32_t start  # of the key in the text
    uint16_t length  # of the key; 0 where a compact sketch has forgotten it
    uint16_t room

cdef struct Chunk:
    uint64_t names[CHUNK]
    uint32_t size
    uint32_t following

cdef struct Sketch:
    Header* header  # the start of the bytes
    size_t size
    Slot* slots
    unsigned char* text

    uint64_t multipliers[2 * MULTIPLIERS]
    uint64_t most  # no entry is larger
    uint32_t* positions  # of each slot in the table
    uint64_t* table  # lower half of a hash, and slot + 1; 0 where it is empty
    uint32_t mask

    uint64_t level  # no entry is smaller
    uint32_t heads[BUCKETS]  # the chunks
    Chunk* chunks
    uint32_t spare  # chunks in no bucket
    uint64_t* lowest  # the names of those that were at `level` when it was opened; before lowest_at all are gone
    uint32_t lowest_at, lowest_count
    uint64_t* names  # scratch: those that are to be filed or sorted

    # What happens seldom, by address: a compiler would copy it into what happens at every event, and slow that down
    void (*open_next)(Sketch*, uint64_t) noexcept nogil
    int (*move_text)(Sketch*, uint32_t) noexcept nogil

cdef inline uint64_t LARGEST() noexcept nogil:
    """No entry of the narrow form is larger, so that what a batch adds still fits into 63 bits."""
    return <uint64_t>1 << 62


# Loading and storing


cdef inline int load(Sketch* sketch, bytes state, bytes multipliers, bint compact) except -1:
    """The bytes checked, copied and indexed. What is not right raises ValueError; the caller frees in any case."""
    cdef uint32_t k, slot
    if len(multipliers) != sizeof(sketch.multipliers):
        raise ValueError("wrong multipliers")
    memcpy(sketch.multipliers, <const char*>multipliers, sizeof(sketch.multipliers))
    sketch.open_next, sketch.move_text = open_next, move_text
    copy_checked(sketch, state, compact)
    find_most(sketch)
    if sketch.most > LARGEST():
        raise ValueError("a counter is too large")
    k = sketch.header.k
    allocate(sketch, k)
    for slot in range(k):
        if sketch.slots[slot].length:
            enter(sketch, slot, <uint32_t>slot_hash(sketch, slot))
    return 0


cdef inline int copy_checked(Sketch* sketch, bytes state, bint compact) except -1:
    cdef Header* found = <Header*><char*>state
    cdef size_t size = len(state)
    cdef uint32_t slot, used = 0
    if size < sizeof(Header) or memcmp(found.magic, b"DSCR\x04\x02\x08\x00" if compact else b"DSCR\x04\x01\x08\x00", 8):
        raise ValueError("not the narrow form of such a sketch")
    if not 1 <= found.k <= MAX_K or found.stored > found.k:
        raise ValueError("the header is damaged")
    if found.text_used > found.text_size or found.text_size < found.k * ROOM:  # `move_text` doubles it: never zero
        raise ValueError("the text is too small")
    if size != sizeof(Header) + <size_t>found.k * sizeof(Slot) + found.text_size:
        raise ValueError("the lengths do not add up")
    sketch.header = <Header*>malloc(size)
    if sketch.header == NULL:
        raise MemoryError
    memcpy(sketch.header, found, size)
    point(sketch, size)
    if not compact:
        memset(&sketch.slots[found.stored], 0, (found.k - found.stored) * sizeof(Slot))
    for slot in range(found.k if compact else found.stored):
        used += check_slot(sketch, slot, compact)
    if used != found.stored:
        raise ValueError("not as many keys as the header says")
    return 0


cdef inline int check_slot(Sketch* sketch, uint32_t at, bint compact) except -1:
    """Whether the slot is used."""
    cdef Slot* slot = &sketch.slots[at]
    if <uint64_t>slot.start + slot.room > sketch.header.text_used:
        raise ValueError("a key lies outside the text")
    if slot.length == 0 and compact:
        return 0
    if not 1 <= slot.length <= MAX_KEY_BYTES or slot.length > slot.room:
        raise ValueError("a key has a length that no key has")
    if slot.entry < sketch.header.offset + compact:
        raise ValueError("a counter is too small")
    return 1


cdef inline void point(Sketch* sketch, size_t size) noexcept nogil:
    sketch.size = size
    sketch.slots = <Slot*>(<unsigned char*>sketch.header + sizeof(Header))
    sketch.text = <unsigned char*>(sketch.slots + sketch.header.k)


cdef inline int allocate(Sketch* sketch, uint32_t k) except -1:
    cdef size_t size = 4
    while size < 4 * <size_t>k:
        size *= 2
    sketch.mask = <uint32_t>(size - 1)
    sketch.positions = <uint32_t*>malloc(k * sizeof(uint32_t))
    sketch.table = <uint64_t*>calloc(size, sizeof(uint64_t))
    sketch.chunks = <Chunk*>aligned_alloc(sizeof(Chunk), most_chunks(k) * sizeof(Chunk))
    sketch.lowest = <uint64_t*>malloc(k * sizeof(uint64_t))
    sketch.names = <uint64_t*>malloc(k * sizeof(uint64_t))
    if not (sketch.positions and sketch.table and sketch.chunks and sketch.lowest and sketch.names):
        raise MemoryError
    return 0


cdef inline void free_memory(Sketch* sketch) noexcept nogil:
    free(sketch.header)
    free(sketch.positions)
    free(sketch.table)
    free(sketch.chunks)
    free(sketch.lowest)
    free(sketch.names)


cdef inline size_t memory(const Sketch* sketch) noexcept nogil:
    """About how much memory an open sketch takes."""
    cdef size_t k = sketch.header.k
    return sketch.size + 8 * (<size_t>sketch.mask + 1) + 24 * k + most_chunks(k) * sizeof(Chunk) + sizeof(Sketch)


cdef inline void lay_out(const Sketch* sketch, unsigned char* into) noexcept nogil:
    """The bytes by column, as they are stored."""
    cdef uint32_t k = sketch.header.k, slot
    cdef size_t column = 4 * <size_t>k
    cdef unsigned char* lower = into + sizeof(Header)
    cdef unsigned char* text = lower + column
    cdef unsigned char* upper = text + sketch.header.text_size
    cdef Slot* at
    memcpy(into, sketch.header, sizeof(Header))
    into[MARK] = BY_COLUMN
    for slot in range(k):
        at = &sketch.slots[slot]
        put(lower + 4 * slot, <uint32_t>at.entry)
        put(upper + 4 * slot, <uint32_t>(at.entry >> 32))
        put(upper + column + 4 * slot, at.start)
        put(upper + 2 * column + 4 * slot, at.length | <uint32_t>at.room << 16)
    memcpy(text, sketch.text, sketch.header.text_size)


cdef inline void find_most(Sketch* sketch) noexcept nogil:
    cdef uint32_t slot
    sketch.most = sketch.header.offset
    for slot in range(sketch.header.k):
        if sketch.slots[slot].length and sketch.slots[slot].entry > sketch.most:
            sketch.most = sketch.slots[slot].entry


cdef inline void rebase(Sketch* sketch) noexcept nogil:
    """The same counters with an offset of zero. The heap must be filled anew."""
    cdef uint32_t slot
    for slot in range(sketch.header.k):
        if sketch.slots[slot].length:
            sketch.slots[slot].entry -= sketch.header.offset
    sketch.header.lowered = sum_if_known(sketch.header.lowered, sketch.header.offset)
    sketch.header.offset = 0
    find_most(sketch)


cdef inline uint64_t sum_if_known(uint64_t tally, uint64_t more) noexcept nogil:
    """The tally with so much more; UINT64_MAX, which is not known, where it was that or becomes too large."""
    return tally + more if more < UINT64_MAX - tally else UINT64_MAX


# The table


cdef inline uint64_t slot_hash(const Sketch* sketch, uint32_t slot) noexcept nogil:
    return hash_of(sketch.text + sketch.slots[slot].start, sketch.slots[slot].length, sketch.multipliers)


cdef inline uint32_t find(
    const Sketch* sketch, const unsigned char* key, uint32_t length, uint32_t home
) noexcept nogil:
    cdef uint32_t at = home & sketch.mask
    cdef uint64_t found
    cdef Slot* slot
    while True:
        found = sketch.table[at]
        if found == 0:
            return NONE
        if found >> 32 == home:
            slot = &sketch.slots[<uint32_t>found - 1]
            if slot.length == length and same_bytes(sketch.text + slot.start, key, length):
                return <uint32_t>found - 1
        at = (at + 1) & sketch.mask


cdef inline uint32_t home_of(const Sketch* sketch, uint32_t slot) noexcept nogil:
    return <uint32_t>(sketch.table[sketch.positions[slot]] >> 32)


cdef inline void enter(Sketch* sketch, uint32_t slot, uint32_t home) noexcept nogil:
    cdef uint32_t at = home & sketch.mask
    while sketch.table[at] != 0:
        at = (at + 1) & sketch.mask
    sketch.table[at] = <uint64_t>home << 32 | (slot + 1)
    sketch.positions[slot] = at


cdef inline void leave(Sketch* sketch, uint32_t slot) noexcept nogil:
    """Empty the slot's position in the table, and move up those that a probe would no longer reach."""
    cdef uint32_t hole = sketch.positions[slot], at = hole, home
    while True:
        at = (at + 1) & sketch.mask
        if sketch.table[at] == 0:
            break
        home = <uint32_t>(sketch.table[at] >> 32)
        if ((at - home) & sketch.mask) >= ((at - hole) & sketch.mask):
            sketch.table[hole] = sketch.table[at]
            sketch.positions[<uint32_t>sketch.table[at] - 1] = hole
            hole = at
    sketch.table[hole] = 0


# The radix heap of entries


cdef inline size_t most_chunks(size_t k) noexcept nogil:
    """As many as k names can take: none is empty, and but for one in each bucket all are full; and one that ends the list
    of the spare ones."""
    cdef size_t most = k // CHUNK + BUCKETS
    return (most if most < k else k) + 1


cdef inline void empty_heap(Sketch* sketch) noexcept nogil:
    """Empty the heap. Its level becomes the offset."""
    cdef uint32_t at, chunks = <uint32_t>most_chunks(sketch.header.k)
    memset(sketch.heads, 0xFF, sizeof(sketch.heads))
    for at in range(chunks):
        sketch.chunks[at].following = at + 1  # the last one is never taken
    sketch.spare = 0
    sketch.level = sketch.header.offset
    sketch.lowest_at = sketch.lowest_count = 0


cdef inline void file(Sketch* sketch, uint64_t name) noexcept nogil:
    """Put a name into the bucket of its slot's entry, or among the lowest."""
    cdef int bucket = bucket_of(sketch.slots[name & SLOT].entry, sketch.level)
    cdef uint32_t at = sketch.heads[bucket]
    cdef Chunk* chunk
    if bucket == 0:
        sketch.lowest[sketch.lowest_count] = name
        sketch.lowest_count += 1
        return
    if at == NONE or sketch.chunks[at].size == CHUNK:
        at = sketch.spare
        sketch.spare = sketch.chunks[at].following
        sketch.chunks[at].following = sketch.heads[bucket]
        sketch.chunks[at].size = 0
        sketch.heads[bucket] = at
    chunk = &sketch.chunks[at]
    chunk.names[chunk.size] = name
    chunk.size += 1


cdef inline void open_next(Sketch* sketch, uint64_t limit) noexcept nogil:
    """Move the level up to the smallest entry, but not above the limit. None is among the lowest before that.

    A bucket that begins above the limit stays closed: the level then differs from the old one in lower bits only, so what
    lies in higher buckets lies right.
    """
    cdef uint32_t count = 0, i
    cdef uint64_t smallest = 0
    cdef int bucket = 1
    while count == 0:
        while bucket < BUCKETS and sketch.heads[bucket] == NONE:
            bucket += 1
        if bucket == BUCKETS or (sketch.level >> (bucket - 1) | 1) << (bucket - 1) > limit:
            smallest = limit
            break
        count = take(sketch, bucket, &smallest)
    sketch.level = smallest if smallest < limit else limit
    sketch.lowest_at = sketch.lowest_count = 0
    for i in range(count):
        file(sketch, sketch.names[i])


cdef inline uint32_t take(Sketch* sketch, int bucket, uint64_t* smallest) noexcept nogil:
    """Move a bucket's names to `names`, and return how many these are; `smallest` becomes their smallest entry. A name
    whose entry has grown since goes into its higher bucket instead."""
    cdef uint32_t at = sketch.heads[bucket], count = 0, i
    cdef uint64_t name, entry
    cdef Chunk chunk
    sketch.heads[bucket] = NONE
    smallest[0] = UINT64_MAX
    while at != NONE:
        chunk = sketch.chunks[at]
        sketch.chunks[at].following = sketch.spare
        sketch.spare = at
        for i in range(chunk.size):
            name = chunk.names[i]
            entry = sketch.slots[name & SLOT].entry
            if bucket_of(entry, sketch.level) != bucket:
                file(sketch, name)
            else:
                smallest[0] = entry if entry < smallest[0] else smallest[0]
                sketch.names[count] = name
                count += 1
        at = chunk.following
    return count


# The text


cdef inline uint32_t room_for(uint32_t length) noexcept nogil:
    return (length + ROOM - 1) // ROOM * ROOM


cdef inline int write_key(Sketch* sketch, uint32_t slot, const unsigned char* key, uint32_t length) noexcept nogil:
    """Write the key into the slot's room, or into a new room at the end of the text.

    −1 where there is no memory: the sketch must then be thrown away.
    """
    cdef Slot* into = &sketch.slots[slot]
    cdef uint32_t room = room_for(length)
    if into.room < length:
        memset(sketch.text + into.start, 0, into.room)  # nothing of the old key stays behind
        into.room = 0
        if sketch.header.text_size - sketch.header.text_used < room and sketch.move_text(sketch, room) != 0:
            return -1
        into = &sketch.slots[slot]
        into.start = sketch.header.text_used
        into.room = <uint16_t>room
        sketch.header.text_used += room
    into.length = <uint16_t>length
    copy_bytes(sketch.text + into.start, key, length)
    if into.room > length:
        memset(sketch.text + into.start + length, 0, into.room - length)
    return 0


cdef inline int move_text(Sketch* sketch, uint32_t wanted) noexcept nogil:
    """Move all keys close together, with space for more: the text is doubled until a quarter of it is free."""
    cdef uint32_t k = sketch.header.k, slot, room, at = 0
    cdef uint64_t live = wanted, text_size = sketch.header.text_size
    cdef size_t head = sizeof(Header) + <size_t>k * sizeof(Slot)
    cdef Header* old = sketch.header
    cdef unsigned char* old_text = sketch.text
    for slot in range(k):
        live += kept_room(&sketch.slots[slot])
    while 4 * live > 3 * text_size:
        text_size *= 2
    sketch.header = <Header*>calloc(1, head + text_size)
    if sketch.header == NULL:
        sketch.header = old
        return -1
    memcpy(sketch.header, old, head)
    point(sketch, head + text_size)
    for slot in range(k):
        room = kept_room(&sketch.slots[slot])
        memcpy(sketch.text + at, old_text + sketch.slots[slot].start, sketch.slots[slot].length if room else 0)
        sketch.slots[slot].start = at if room else 0
        sketch.slots[slot].room = <uint16_t>room
        at += room
    sketch.header.text_size = <uint32_t>text_size
    sketch.header.text_used = at
    free(old)
    return 0


cdef inline uint32_t kept_room(const Slot* slot) noexcept nogil:
    """What a slot keeps when the text is moved: room for its key, and none where its key is gone or about to be written."""
    return room_for(slot.length) if slot.room else 0
