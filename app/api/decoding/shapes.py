"""The two shapes of a batch. The sketch decides which it takes: events, or people with their sets of keys."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a batch of this shape looks like in each content type, and the sentences that refuse another."""

    member: str  # of the JSON document: its list of items
    document: str  # what to send instead of another document
    required: frozenset[str]  # columns of a table
    columns: frozenset[str]  # these and those that may be left out
    table: str  # what to send instead of a table with other columns
    types: str  # and instead of columns of other types


# A person's set must not depend on where a sender cuts the rows into requests, so rows are not grouped here.
WHOLE_PEOPLE = (
    'A sketch of users takes whole people: {"user": …, "keys": […]} in JSON or NDJSON, or a Parquet or Arrow table in '
    "which each row is one person, with a list column keys and, where people are named, a column user, and no other. "
    "Rows of (user, key) must be grouped before they are sent: sort them by user, and `discreet ingest` groups them."
)

EVENTS = Shape(
    member="events",
    document='A sketch of events takes {"events": [ … ]} and nothing else.',
    required=frozenset({"key"}),
    columns=frozenset({"key", "count", "user"}),
    table="A table of events has a column key and, optionally, the columns count and user, each once and in lower "
    "case, and no other; name them so (CSV: in a header row) and leave the others out.",
    types="The columns key and user must be of a string type, and count of an integer type.",
)
USERS = Shape(
    member="users",
    document='A sketch of users takes {"users": [ … ]} and nothing else.',
    required=frozenset({"keys"}),
    columns=frozenset({"user", "keys"}),
    table=WHOLE_PEOPLE,
    types="The column keys must be a list (not a list view) of a string type, and the column user of a string type.",
)
