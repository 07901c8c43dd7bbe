"""Log lines on standard error: one JSON object a line, or text for a terminal.

What a line may hold is listed here, and nothing else is written. Arguments of calls and texts of exceptions may quote
events, so a failure is described by its kind and by places in the code. Loggers other than ours and uvicorn's may say
anything, so instead of their words a line has the place that logged them.
"""

import json
import logging
import logging.config
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from traceback import walk_tb
from typing import Any

_FIELDS = ("request_id", "operation", "status", "problem", "duration")
_TRUSTED = ("discreet", "uvicorn")  # loggers whose messages were read and found to quote no data
_MOST_FRAMES = 50  # of a trace, the innermost


class JsonLines(logging.Formatter):
    """A JSON object for each record, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(dict(_members(record)), ensure_ascii=False)


class TextLines(logging.Formatter):
    """The same members as words and `name=value`, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        told = dict(_members(record))
        line = " ".join(str(told.pop(name)) for name in ("time", "level", "logger", "message"))
        for name, value in told.items():
            is_quoted = isinstance(value, list) or " " in str(value)
            line += f" {name}={json.dumps(value, ensure_ascii=False) if is_quoted else value}"
        return line


def configuration(level: str, log_format: str) -> dict[str, Any]:
    """The configuration for `logging.config.dictConfig`, and for uvicorn, which hands it to its workers.

    `log_format` is "json" or "text"; empty, it is text on a terminal, else JSON.
    """
    as_json = log_format == "json" or (not log_format and not sys.stderr.isatty())
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": f"app.logs.{'JsonLines' if as_json else 'TextLines'}"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "lines"}},
        "loggers": {name: {"level": level.upper()} for name in _TRUSTED},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
    }


def configure(level: str, log_format: str) -> None:
    """Configure the loggers of this process."""
    logging.config.dictConfig(configuration(level, log_format))


def _members(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    moment = datetime.fromtimestamp(record.created, UTC)
    yield "time", moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    yield "level", record.levelname.lower()
    yield "logger", record.name
    if record.name.partition(".")[0] in _TRUSTED:
        yield "message", " ".join(record.getMessage().split())
    else:
        yield "message", f"withheld, since it may quote data; said at {record.pathname}:{record.lineno}"
    for name in _FIELDS:
        value = getattr(record, name, None)
        if value is not None:
            yield name, value
    if record.exc_info and record.exc_info[0] is not None:
        yield "failure", record.exc_info[0].__name__
        frames = list(walk_tb(record.exc_info[2]))[-_MOST_FRAMES:]
        yield "trace", [f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}" for frame, line in frames]
