"""The two forms of a batch. The sketch decides which it takes: events, or people with their sets of keys."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    member: str  # of the JSON document: its list of items
    document: str  # what to send instead of another document
    required: frozenset[str]  # columns of a table
    columns: frozenset[str]  # these and those that may be left out
    table: str  # what to send instead of another table


_EACH_ONCE = "each once and in lower case, and no other; name them so (CSV: in a header row) and leave the others out."

EVENTS = Form(
    member="events",
    document='A sketch of events takes {"events": [ … ]} and nothing else.',
    required=frozenset({"key"}),
    columns=frozenset({"key", "count", "user"}),
    table=f"A table of events has a column key and, optionally, the columns count and user, {_EACH_ONCE}",
)
USERS = Form(
    member="users",
    document='A sketch of users takes {"users": [ … ]} and nothing else.',
    required=frozenset({"user", "key"}),
    columns=frozenset({"user", "key"}),
    table=f"A table for a sketch of users has the columns user and key, {_EACH_ONCE}",
)
