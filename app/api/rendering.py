"""A snapshot as JSON, CSV or SVG, by Accept, with an ETag: a stored release never changes."""

import csv
import io

from fastapi import Request, Response

from app.api.outputs import SnapshotOut
from app.api.picture import svg
from app.core.errors import NotAcceptable
from app.core.histogram import Snapshot


def _json(snapshot: Snapshot) -> str:
    return SnapshotOut.of(snapshot).model_dump_json()


def _csv(snapshot: Snapshot) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["key", "count", "low", "high"])
    writer.writerows((bar.key, bar.count, bar.low, "" if bar.high is None else bar.high) for bar in snapshot.histogram)
    return out.getvalue()


_RENDERERS = {"application/json": _json, "text/csv": _csv, "image/svg+xml": svg}


def rendered(snapshot: Snapshot, request: Request, *, top: int | None, min_count: int | None) -> Response:
    media_type = _negotiated(request.headers.get("accept", "*/*"))
    etag = f'"{snapshot.id}-{media_type.partition("/")[2]}-{top}-{min_count}"'
    headers = {"ETag": etag, "Vary": "Accept, Authorization", "Cache-Control": "private, no-cache"}
    known = request.headers.get("if-none-match", "").split(",")
    if etag in (tag.strip().removeprefix("W/") for tag in known):  # a proxy may have weakened it
        return Response(status_code=304, headers=headers)
    selected = snapshot.selected(top=top, min_count=min_count)
    return Response(_RENDERERS[media_type](selected), media_type=media_type, headers=headers)


def _negotiated(accept: str) -> str:
    """The first of ours that the client likes best; `*/*` means JSON."""
    wanted = [_preference(part) for part in accept.split(",")]
    refused = {media_range for media_range, quality in wanted if quality <= 0}
    for media_range, quality in sorted(wanted, key=lambda pair: -pair[1]):
        for ours in _RENDERERS:
            if quality > 0 and ours not in refused and media_range in ("*/*", f"{ours.partition('/')[0]}/*", ours):
                return ours
    raise NotAcceptable(f"Accept one of {', '.join(_RENDERERS)}.")


def _preference(part: str) -> tuple[str, float]:
    media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return media_range, float(parameter[2:])
            except ValueError:
                return media_range, 0.0
    return media_range, 1.0
