"""What a batch may look like, for the documentation: every format with its schema and an example."""

from typing import Any

_TEXT = {"type": "string", "minLength": 1}
_EVENT = {
    "oneOf": [
        _TEXT,
        {
            "type": "object",
            "required": ["key"],
            "additionalProperties": False,
            "properties": {
                "key": _TEXT,
                "count": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
                "user": _TEXT,
            },
        },
    ]
}
_SET = {"type": "array", "items": _TEXT, "minItems": 1}
_USER = {
    "oneOf": [
        _SET,
        {
            "type": "object",
            "required": ["keys"],
            "additionalProperties": False,
            "properties": {"user": _TEXT, "keys": _SET},
        },
    ]
}


def _list_of(items: dict[str, Any], member: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [member],
        "additionalProperties": False,
        "properties": {member: {"type": "array", "items": items}},
    }


_TABLE = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "Events: a column `key` and, optionally, `count` and `user`. People, for a sketch of unit "
        "`user`: one row for each, with a list column `keys` and, where people are named, a column `user`.",
    }
}
_EVENTS_ALONE = {"type": "string", "description": "Events; a sketch of unit `user` does not take it."}
BATCH: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"oneOf": [_list_of(_EVENT, "events"), _list_of(_USER, "users")]},
            "example": {
                "events": [
                    "/home",
                    "/pricing",
                    {"key": "/home", "count": 400},
                    {"key": "/pricing", "count": 150},
                ]
            },
        },
        "application/x-ndjson": {
            "schema": {"type": "string"},
            "example": '"/home"\n{"key": "/pricing", "count": 150}\n',
        },
        "text/plain": {"schema": _EVENTS_ALONE, "example": "/home\n/pricing\n/home\n"},
        "text/csv": {"schema": _EVENTS_ALONE, "example": "key,count\n/home,400\n/pricing,150\n"},
        "application/vnd.apache.parquet": _TABLE,
        "application/vnd.apache.arrow.stream": _TABLE,
    },
}
