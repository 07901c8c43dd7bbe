"""States in every earlier version of the stored form, with the sketches that they are: databases hold such bytes.

What an earlier version did not store is not known: how often counters were lowered, and how many items were counted.
Only of a stream with an empty slot it is certain that nothing was lowered.
"""

from base64 import b64decode

from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import BY_BYTES, Order
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch

SECRET = b"0123456789abcdef"

# Version 1

NARROW_1 = (
    b"DSCR\x01\x01\x08\x00"  # magic, version, family, width, zero
    b"\x03\x00\x00\x00\x03\x00\x00\x00"  # k, stored keys
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x2c\x01\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x01\x00\x02\x00"  # key lengths
    b"\x00b\xc3\xa9"
)
WIDE_1 = (
    b"DSCR\x01\x01\x09\x00"
    b"\x00\x00\x01\x00\x01\x00\x00\x00"
    b"\x01\x00\x00\x00\x00\x00\x00\x00\x01"  # nine bytes, because eight do not hold it
    b"\x01\x00"
    b"a"
)
COMPACT_1 = (
    b"DSCR\x01\x02\x08\x00"
    b"\x03\x00\x00\x00\x02\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00\x2c\x01\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x02\x00"
    b"b\xc3\xa9"
)
SUMMED_1 = (
    b"DSCR\x01\x03\x09\x00"
    b"\x01\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x02\x00\x00"  # sources
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x2c\x01\x00\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x02\x00"
    b"b\xc3\xa9"
)

# Version 2, and 3 of compact sketches, slot by slot

NARROW_2 = (
    b"DSCR\x02\x01\x08\x00"  # magic, version, family, width of an entry, zero
    b"\x03\x00\x00\x00\x02\x00\x00\x00"  # k, stored keys
    b"\x01\x00\x00\x00\x30\x00\x00\x00"  # sources, size of the text: a room for each slot
    b"\x20\x00\x00\x00\x00\x00\x00\x00"  # used text: two rooms; zero
    b"\x00\x00\x00\x00\x00\x00\x00\x00"  # offset
    b"0123456789abcdef"  # secret
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"  # 7, at 0, one byte of 16
    b"\x2c\x01\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x02\x00" + b"\x10\x00"  # 300, at 16, two bytes of 16
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00\x00"  # a slot for a third key
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\xc3\xa9\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
WIDE_2 = (
    b"DSCR\x02\x01\x10\x00"  # an entry has 16 bytes
    b"\x02\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x00\x00\x00\x30\x00\x00\x00"  # the text has grown to hold a key of two rooms
    b"\x30\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"0123456789abcdef"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"  # the lower half first
    b"\x00\x00\x00\x00\x01\x00\x10\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x10\x00\x00\x00\x11\x00\x20\x00"
    b"a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"a key of 17 byte"
    b"s\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
OFFSET_2 = (
    b"DSCR\x02\x01\x08\x00"
    b"\x02\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x00\x00\x00\x20\x00\x00\x00"
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x03\x00\x00\x00\x00\x00\x00\x00"  # three times all counters were decremented
    b"0123456789abcdef"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x03\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"aold key's rest\x00"  # rooms may hold what was there before
)
COMPACT_3 = (
    b"DSCR\x03\x02\x08\x00"  # version 3
    b"\x03\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x00\x00\x00\x30\x00\x00\x00"  # a room for each slot
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  # no secret: nothing is evicted
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"\x2c\x01\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x02\x00" + b"\x10\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00\x00"  # a free slot
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\xc3\xa9\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
HOLES_3 = (
    b"DSCR\x03\x02\x08\x00"
    b"\x03\x00\x00\x00\x01\x00\x00\x00"
    b"\x01\x00\x00\x00\x30\x00\x00\x00"
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x03\x00\x00\x00\x00\x00\x00\x00"  # three times all counters were decremented
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x10\x00"  # free, with its room
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
COMPACT_2 = (
    b"DSCR\x02\x02\x08\x00"  # version 2
    b"\x03\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x00\x00\x00\x20\x00\x00\x00"  # no more text than is used
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  # no secret: nothing is evicted
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00" + b"\x01\x00" + b"\x10\x00"
    b"\x2c\x01\x00\x00\x00\x00\x00\x00" + b"\x10\x00\x00\x00" + b"\x02\x00" + b"\x10\x00"
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\xc3\xa9\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
SUMMED_2 = (
    b"DSCR\x02\x03\x10\x00"
    b"\x01\x00\x00\x00\x02\x00\x00\x00"
    b"\x01\x02\x00\x00\x20\x00\x00\x00"  # 513 sources
    b"\x20\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x01\x00\x10\x00"
    b"\x2c\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x10\x00\x00\x00\x02\x00\x10\x00"
    b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\xc3\xa9\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)

# The same versions as their own code has stored them: the kernel's states by column

STORED_STREAM = b64decode(
    "RFNDUgIBCAEDAAAAAwAAAAEAAABgAAAAQAAAAAAAAAAFAAAAAAAAADAxMjM0NTY3ODlhYmNkZWYAAAAAAAAAAAoAAAAGAAAACQAAAGIAAAAA"
    "AAAAAAAAAAAAAABjAAAAAAAAAAAAAAAAAAAAw6kAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAAAAEAAAAAEAEAACACAAAQAQAA=="
)
STORED_STREAM_WITH_ROOM = b64decode(
    "RFNDUgIBCAEDAAAAAgAAAAEAAAAwAAAAIAAAAAAAAAAAAAAAAAAAADAxMjM0NTY3ODlhYmNkZWYAAAAAAAAAAAUAAAADAAAAAAAAAGEAAAAA"
    "AAAAAAAAAAAAAABiAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAEAEAABABAAAAAAAA=="
)
STORED_COMPACT = b64decode(
    "RFNDUgMCCAEDAAAAAwAAAAEAAABgAAAAQAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAkAAAANAAAACwAAAGUAAAAA"
    "AAAAAAAAAAAAAABjAAAAAAAAAAAAAAAAAAAAYgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAAAAEAAAAAEAEAABACAAAQAQAA=="
)
STORED_WIDE_STREAM = b64decode(
    "RFNDUgIBEAACAAAAAgAAAAEAAAAgAAAAIAAAAAAAAAAAAAAAAAAAADAxMjM0NTY3ODlhYmNkZWYAAAAAAAAAAP////////9/AAAAAAAAAAAA"
    "AAAAAQAQAAIAAAAAAAAAAAAAAAAAAAAQAAAAAQAQAGEAAAAAAAAAAAAAAAAAAABiAAAAAAAAAAAAAAAAAAAA"
)
STORED_WIDE_COMPACT = b64decode(
    "RFNDUgMCEAACAAAAAgAAAAEAAAAgAAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP////////9/AAAAAAAAAAAA"
    "AAAAAQAQAAIAAAAAAAAAAAAAAAAAAAAQAAAAAQAQAGEAAAAAAAAAAAAAAAAAAABiAAAAAAAAAAAAAAAAAAAA"
)
STORED_SUMMED = b64decode(
    "RFNDUgIDCAADAAAABAAAAAIAAABAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABEAAAAAAAAAAAAAAAEAEAAK"
    "AAAAAAAAABAAAAABABAABgAAAAAAAAAgAAAAAQAQAA0AAAAAAAAAMAAAAAIAEABhAAAAAAAAAAAAAAAAAAAAYgAAAAAAAAAAAAAAAAAAAGMA"
    "AAAAAAAAAAAAAAAAAADDqQAAAAAAAAAAAAAAAAAA"
)
STORED_WIDE_SUMMED = b64decode(
    "RFNDUgIDEAADAAAABAAAAAMAAABAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABEAAAAAAAAAwAAAAAAAAAAA"
    "AAAAAQAQAAoAAAAAAAAAAAAAAAAAAAAQAAAAAQAQAAYAAAAAAAAAAAAAAAAAAAAgAAAAAQAQAA0AAAAAAAAAAAAAAAAAAAAwAAAAAgAQAGEA"
    "AAAAAAAAAAAAAAAAAABiAAAAAAAAAAAAAAAAAAAAYwAAAAAAAAAAAAAAAAAAAMOpAAAAAAAAAAAAAAAAAAA="
)
STORED_PLAIN = b64decode(
    "RFNDUgIBCAADAAAAAwAAAAEAAAAwAAAAMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAUAAAAAAAAAAAAAAAEAEAAE"
    "AAAAAAAAABAAAAABABAAAQAAAAAAAAAgAAAAAgAQAGIAAAAAAAAAAAAAAAAAAABjAAAAAAAAAAAAAAAAAAAAw6kAAAAAAAAAAAAAAAAAAA=="
)

_KEYED = Order(SECRET)

EARLIER: dict[str, tuple[Sketch, bytes]] = {  # slot by slot
    "1: narrow": (StreamSketch(3, {"b": 7, "é": 300, "\0": 0}, BY_BYTES), NARROW_1),
    "1: wide": (StreamSketch(65_536, {"a": 2**64 + 1}, BY_BYTES, lowered=0), WIDE_1),
    "1: compact": (CompactSketch(3, {"b": 7, "é": 300}), COMPACT_1),
    "1: summed": (SummedSketch(1, 513, {"b": 2**64, "é": 300}), SUMMED_1),
    "2: narrow": (StreamSketch(3, {"b": 7, "é": 300}, _KEYED, lowered=0), NARROW_2),
    "2: wide": (StreamSketch(2, {"a": 2**64 + 1, "a key of 17 bytes": 0}, _KEYED), WIDE_2),
    "2: offset": (StreamSketch(2, {"b": 0, "a": 4}, _KEYED), OFFSET_2),
    "2: compact": (CompactSketch(3, {"b": 7, "é": 300}), COMPACT_2),
    "3: compact": (CompactSketch(3, {"b": 7, "é": 300}), COMPACT_3),
    "3: holes": (CompactSketch(3, {"a": 4}), HOLES_3),
    "2: summed": (SummedSketch(1, 513, {"b": 2**64, "é": 300}), SUMMED_2),
}
STORED: dict[str, tuple[Sketch, bytes]] = {  # as it was stored
    "stream": (StreamSketch(3, {"b": 5, "é": 1, "c": 4}, _KEYED), STORED_STREAM),
    "stream with room": (StreamSketch(3, {"a": 5, "b": 3}, _KEYED, lowered=0), STORED_STREAM_WITH_ROOM),
    "compact": (CompactSketch(3, {"e": 1, "b": 5, "c": 3}), STORED_COMPACT),
    "wide stream": (StreamSketch(2, {"a": 2**63 - 1, "b": 2}, _KEYED), STORED_WIDE_STREAM),
    "wide compact": (CompactSketch(2, {"a": 2**63 - 1, "b": 2}), STORED_WIDE_COMPACT),
    "summed": (SummedSketch(3, 2, {"c": 6, "b": 10, "é": 13, "a": 17}), STORED_SUMMED),
    "wide summed": (SummedSketch(3, 3, {"c": 6, "b": 10, "é": 13, "a": 17 + 3 * 2**70}), STORED_WIDE_SUMMED),
    "plain order": (StreamSketch(3, {"c": 4, "b": 5, "é": 1}, BY_BYTES), STORED_PLAIN),
}
