"""Log lines on standard error: one JSON object a line, or text for a terminal.

What a line may hold is listed here, and nothing else is written: no argument of a call, no text of an exception, for
they may quote events. Of a failure the kind and the places in the code are given. Loggers other than ours and uvicorn's
may say anything, so of their lines the place stands for the words.
"""

import json
import logging
import logging.config
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from traceback import walk_tb
from types import TracebackType
from typing import Any

_FIELDS = ("request_id", "operation", "status", "problem", "duration")
_TRUSTED = ("discreet", "uvicorn")  # we have read what they say
_MOST_FRAMES = 50


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(dict(_members(record)), ensure_ascii=False)


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = dict(_members(record))
        head = " ".join(str(told.pop(name)) for name in ("time", "level", "logger", "message"))
        return " ".join([head, *(f"{name}={_text(value)}" for name, value in told.items())])


def configuration(level: str, form: str) -> dict[str, Any]:
    """For `logging.config.dictConfig` and for uvicorn, whose workers need it too."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": f"app.logs.{'JsonLines' if _is_json(form) else 'TextLines'}"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "lines"}},
        "loggers": {name: {"level": level.upper()} for name in _TRUSTED},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
    }


def configure(level: str, form: str) -> None:
    logging.config.dictConfig(configuration(level, form))


def _is_json(form: str) -> bool:
    return form == "json" or (not form and not sys.stderr.isatty())


def _members(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    moment = datetime.fromtimestamp(record.created, UTC)
    yield "time", moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    yield "level", record.levelname.lower()
    yield "logger", record.name
    yield "message", _words(record)
    for name in _FIELDS:
        value = getattr(record, name, None)
        if value is not None:
            yield name, value
    if record.exc_info and record.exc_info[0] is not None:
        yield "failure", record.exc_info[0].__name__
        yield "trace", _places(record.exc_info[2])


def _words(record: logging.LogRecord) -> str:
    if record.name.partition(".")[0] in _TRUSTED:
        return " ".join(record.getMessage().split())
    return f"withheld, since it may quote data; said at {record.pathname}:{record.lineno}"


def _places(trace: TracebackType | None) -> list[str]:
    places = [f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}" for frame, line in walk_tb(trace)]
    return places[-_MOST_FRAMES:]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) or " " in str(value) else str(value)
