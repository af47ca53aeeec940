"""Serves the page of ``beam view`` to a web browser, with a run's rows, counts, records, images and marks.

A mark holds the flag, the tags and the note that a person sets on a record.
"""

import asyncio
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.answers import apart, image_response, json_response
from groundtrace.publishing.view.audit import Audit
from groundtrace.publishing.view.audit_routes import AuditRoutes
from groundtrace.publishing.view.files import FILES
from groundtrace.publishing.view.filters import OPENING, BadFilter, Filters, read_filters
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.mark_request import MarkRequest, read_mark_request
from groundtrace.publishing.view.opened_run import RunChanged
from groundtrace.publishing.view.other_run import MAX_SETTINGS, OTHER_TRACE, OtherRun
from groundtrace.publishing.view.record import record_of
from groundtrace.publishing.view.reopening import Reopening
from groundtrace.publishing.view.replays import Replays
from groundtrace.publishing.view.replies import keys_of, read_replies
from groundtrace.publishing.view.reviews import Mark, Reviews
from groundtrace.publishing.view.rows import RowPlace, ViewedRows
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.schemas.text import storable

CHECK_EVERY_S = 0.5
MAX_PAGE_ROWS = 200
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_STATIC = {"/": ("view.html", "text/html")} | {f"/{name}": (name, _TYPES[Path(name).suffix]) for name in FILES}


def state_of(address: str) -> list[tuple[str, str]]:
    """Return the (name, value) pairs in the address of a page.

    ``address`` is a URL, a path with a question mark, or only the part after the question mark. A question mark in this
    part is an ordinary character. A copy of a page has this part behind a number sign.
    """
    if re.match(r"[a-z]+://|/|[?#]", address):
        address = re.split(r"[?#]", address, maxsplit=1)[-1] if re.search(r"[?#]", address) else ""
    return parse_qsl(address, keep_blank_values=True)


class ViewServer:
    """Implements the HTTP server for one run; :meth:`app` makes its application.

    ``run`` is the run folder. ``rows`` and ``images`` read its rows and their images. ``reviews`` stores the flags,
    tags and notes of a person. ``guard`` refuses requests from other programs. ``audit`` serves the sample of traces
    that a person judges; None if the run is viewed without an audit. ``other`` is a second run; None if only one run is
    viewed. For each record, the page also shows its outcome and its traces in the second run. ``replays`` repeats the
    stages for a record; None if the view does not offer this. ``cache`` is the folder of the reply cache; None for the
    cache in the run folder. ``reopening`` requests that the run is read again if its files have changed; None if it is
    not read again.
    """

    def __init__(
        self,
        run: Path,
        rows: ViewedRows,
        images: RowImages,
        reviews: Reviews,
        guard: Guard,
        audit: Audit | None = None,
        other: OtherRun | None = None,
        replays: Replays | None = None,
        cache: Path | None = None,
        reopening: Reopening | None = None,
    ) -> None:
        self._run, self._rows, self._images, self._reviews, self._guard = run, rows, images, reviews, guard
        self._audit, self._other, self._replays, self._cache = audit, other, replays, cache
        self._reopening = reopening
        self._opening = secrets.token_hex(8)

    def app(self) -> web.Application:
        """Return the aiohttp application with the HTTP paths of the page, such as ``/api/rows``."""
        app = web.Application(middlewares=[self._guard.middleware, _errors, self._check_runs], client_max_size=2**20)
        for path, (name, kind) in _STATIC.items():
            app.router.add_get(path, page_file(name, kind))
        app.router.add_get("/api/run", self._get_run)
        app.router.add_get("/api/changed", self._get_changed)
        app.router.add_get("/api/rows", self._get_rows)
        app.router.add_get("/api/counts", self._get_counts)
        app.router.add_get("/api/ids", self._get_ids)
        app.router.add_get("/api/record", self._get_record)
        app.router.add_get("/api/replies", self._get_replies)
        app.router.add_get("/image/{n:[0-9]{1,12}}/{column:images|overlays|media}/{index:[0-9]{1,6}}", self._get_image)
        app.router.add_get("/thumbnail/{n:[0-9]{1,12}}", self._get_thumbnail)
        app.router.add_post("/api/mark", self._post_mark)
        if self._replays is not None:
            app.router.add_post("/api/replay", self._post_replay)
            app.on_shutdown.append(self._stop_replay)
        if self._audit is not None:
            AuditRoutes(self._audit, self._rows, self._images).add_to(app.router)
        return app

    @web.middleware
    async def _check_runs(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        """Raise RunChanged instead of serving rows or images of a run that another run has replaced.

        The run is checked again after the handler, which may have read other files: it opens shards and starts replays
        some time after the first check. If the browser loads the page itself, the run is read again. Also raises
        RunChanged if the request comes from a page that was loaded before the run was read again: the row numbers of
        such a page are those of the earlier files.
        """
        if request.path == "/" and self._reopening is not None and not self.is_current():
            return self._reopening.response()
        if request.path in _STATIC:
            return await handler(request)
        self.check_runs()
        if request.query.get(OPENING, self._opening) != self._opening:
            raise RunChanged(f"{self._run} was changed after this page had been loaded")
        try:
            response = await handler(request)
        except Exception:
            self.check_runs()  # the change of the run may be the cause of the error
            raise
        self.check_runs()
        return response

    def check_runs(self) -> None:
        """Raise RunChanged if another run has replaced the viewed run or the second run since its rows were read."""
        self._rows.check_run()
        if self._other is not None:
            self._other.rows.check_run()

    def is_current(self) -> bool:
        """Return whether the runs still have the files whose rows were read."""
        try:
            self.check_runs()
        except (RunChanged, UnsafeFile):
            return False
        return True

    async def _get_changed(self, _: web.Request) -> web.Response:
        """Return an empty response. A page that is open sends this request regularly, to find out whether its run has
        changed.

        The HTTP status is the answer. If a run has changed, :meth:`_check_runs` refuses the request with the status
        410. This check reads only the sizes and times of the files, and not their content.
        """
        return web.Response(status=204)

    async def _get_run(self, _: web.Request) -> web.Response:
        return json_response(self.about() | {OPENING: self._opening})

    def about(self) -> dict[str, Any]:
        """Return what the page shows about the run, such as its name and the columns to filter by."""
        summary = self._rows.summary
        return {
            "name": self._run.name,
            "path": str(self._run),
            "recipe": summary.recipe,
            "input": summary.input,
            "finished": summary.finished,
            "rows": len(self._rows),
            "has_audit": self._audit is not None,
            "has_replay": self._replays is not None,
            "other": None if self._other is None else self._about(self._other),
            "meanings": self._rows.meanings,
            "titles": {} if self._other is None else self._other.titles(self._run.name),
            "floors": summary.floors,
            "dimensions": [{"name": each.name, "is_number": each.is_number} for each in self._rows.dimensions],
        }

    @staticmethod
    def _about(other: OtherRun) -> dict[str, Any]:
        """Return what the page shows about the second run."""
        summary = other.rows.summary
        about: dict[str, Any] = {"name": other.run.name, "path": str(other.run), "recipe": summary.recipe}
        left = max(len(other.settings) - MAX_SETTINGS, 0)
        about |= {"both": other.both, "moved": other.moved, "retraced": other.changes.get(OTHER_TRACE, 0)}
        about |= {"settings": other.settings[:MAX_SETTINGS], "more_settings": left}
        return about | {"finished": summary.finished, "only_there": other.only_there, "floors": summary.floors}

    async def _get_rows(self, request: web.Request) -> web.Response:
        filters = self._filters(request)
        offset, limit = _number(request, "offset", 0), min(_number(request, "limit", 48), MAX_PAGE_ROWS)
        total, rows = await apart(lambda: self._rows.page(filters, offset, limit))
        return json_response({"total": total, "rows": rows})

    async def _get_counts(self, request: web.Request) -> web.Response:
        filters = self._filters(request)
        counts = await apart(lambda: self._rows.counts(filters))
        return json_response({name: each if isinstance(each, list) else asdict(each) for name, each in counts.items()})

    async def _get_ids(self, request: web.Request) -> web.StreamResponse:
        """Return the ids of all rows that pass the filters, one on each line, as JSON texts."""
        filters = self._filters(request)
        ids = await apart(lambda: self._rows.ids(filters))
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in ids)
        headers = {"Content-Disposition": 'attachment; filename="ids.jsonl"'}
        return web.Response(text=text, content_type="application/jsonl", headers=headers)

    async def _get_record(self, request: web.Request) -> web.Response:
        """Return a record as JSON, with its place among the rows that pass the filters, and its mark.

        The JSON has these additional fields: ``n`` is the index of the record's row in the run. ``position`` is the
        place (from 1) among the rows that pass the filters, ``total`` is the number of these rows, and ``before`` and
        ``after`` are the ids of the neighbours. ``mark`` holds the flag, the tags and the note that a person set
        (:meth:`groundtrace.publishing.view.rows.ViewedRows.shown_mark`).
        ``other`` is the same record in the second run; None if there is no second run, or if it lacks this record.
        Raises HTTPNotFound for an unknown record.
        """
        record_id, filters = request.query.get("id", ""), self._filters(request)
        n = await apart(lambda: self._rows.number_of(record_id))
        if n is None:
            raise web.HTTPNotFound(text=f"the run has no record {record_id!r}")
        place = self._place(n)
        record = await apart(lambda: record_of(place, self._images))
        position, total, before, after = await apart(lambda: self._rows.neighbours(filters, n))
        found = record | {"n": n, "position": position, "total": total, "before": before, "after": after}
        found["other"] = None if self._other is None else await apart(lambda: self._elsewhere(record_id))
        mark = self._reviews.of(record["id"])
        return json_response(found | {"mark": await apart(lambda: self._rows.shown_mark(mark))})

    async def _get_replies(self, request: web.Request) -> web.Response:
        """Return the model replies with which a record was made. Raises HTTPNotFound for an unknown record."""
        record_id = request.query.get("id", "")
        n = await apart(lambda: self._rows.number_of(record_id))
        if n is None:
            raise web.HTTPNotFound(text=f"the run has no record {record_id!r}")
        place = self._place(n)
        columns = ["cache_key"] if place.set == "rejected" else ["lineage"]
        keys = keys_of(await apart(lambda: self._images.values(place, columns)))
        found = await apart(lambda: read_replies(self._run, keys, self._cache))
        return json_response({"keys": len(keys), "replies": found})

    def _elsewhere(self, record_id: str) -> dict[str, Any] | None:
        """Return a record of the second run, without images; None if the second run has no such record."""
        assert self._other is not None
        n = self._other.rows.number_of(record_id)
        place = None if n is None else self._other.rows.place_of(n)
        return None if place is None else record_of(place, self._images)

    async def _get_image(self, request: web.Request) -> web.Response:
        place = self._place(int(request.match_info["n"]))
        column: Any = request.match_info["column"]
        index = int(request.match_info["index"])
        return await image_response(lambda: self._images.original(place, column, index))

    async def _get_thumbnail(self, request: web.Request) -> web.Response:
        place = self._place(int(request.match_info["n"]))
        return await image_response(lambda: self._images.thumbnail(place))

    async def _stop_replay(self, _: web.Application) -> None:
        assert self._replays is not None
        await self._replays.close()

    async def _post_replay(self, request: web.Request) -> web.Response:
        """Repeat the stages (pipeline steps) for a record, and return what they did.

        The HTTP method of the request is POST, because the request executes the pipeline.
        """
        assert self._replays is not None
        try:
            record_id = str((await request.json())["id"])
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise web.HTTPBadRequest(text='the request must be an object with an "id"') from error
        if storable(record_id) != record_id or await apart(lambda: self._rows.number_of(record_id)) is None:
            raise web.HTTPNotFound(text=f"the run has no record {record_id!r:.200}")
        replay = asyncio.ensure_future(self._replays.of(record_id))
        try:
            while not (await asyncio.wait({replay}, timeout=CHECK_EVERY_S))[0]:
                if request.transport is None or request.transport.is_closing():
                    raise web.HTTPRequestTimeout(text="the browser has closed the connection")
            return json_response(replay.result())
        finally:
            replay.cancel()
            await asyncio.wait({replay})  # until its process has ended

    async def _post_mark(self, request: web.Request) -> web.Response:
        """Set the flag, tags or note of records. Only the values that the request contains are changed."""
        try:
            asked = read_mark_request(await request.json())
            kept = await apart(lambda: self._change_marks(asked))
        except (ValueError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"the mark cannot be kept: {error}") from error
        except OSError as error:
            raise web.HTTPInternalServerError(text=f"cannot write {error.filename}: {error.strerror}") from error
        return json_response([asdict(each) for each in kept])

    def _change_marks(self, asked: MarkRequest) -> list[Mark]:
        """Write the new marks of records to the file and to the table of rows, and return the marks.

        Each mark holds the output set (e.g. sft) and the trace of the row that the page shows. Raises ValueError if the
        run lacks a record, RunChanged if another run has replaced the viewed one, and the errors of
        :meth:`Reviews.change`. No mark is written then.
        """
        if half := next((each for each in asked.ids if storable(each) != each), None):
            raise ValueError(f"the id {half!r} contains half a character: send the id of a record of this run")
        seen = self._rows.seen(asked.ids)
        if (unknown := next((each for each in asked.ids if each not in seen), None)) is not None:
            raise ValueError(f"the run has no record {unknown!r}: send the id of a record of this run")
        self.check_runs()  # the traces must be those of the rows that the page shows
        kept = self._reviews.change(asked.changes, seen)
        self._rows.mark(kept)
        return kept

    def _filters(self, request: web.Request) -> Filters:
        """Return the filters in the address of a request.

        Raises the errors of :func:`read_filters`.
        """
        return read_filters(request.query.items(), self._rows.dimensions)

    def _place(self, n: int) -> RowPlace:
        """Return where the row with the index ``n`` is stored: its file, and its index there. Raises HTTPNotFound if
        the run has no such row.
        """
        place = self._rows.place_of(n)
        if place is None:
            raise web.HTTPNotFound(text=f"the run has no row {n}")
        return place


@web.middleware
async def _errors(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
    """Return the response of ``handler``. If ``handler`` raises an expected error, return the error's message instead.

    Expected errors are those about the request or the run. The HTTP status of the message is 400 for a bad filter, and
    409 for an error about the run. It is 410 if the run has changed: the page must be loaded again.
    """
    try:
        return await handler(request)
    except BadFilter as error:
        return web.Response(status=400, text=str(error))
    except RunChanged as error:
        return web.Response(status=410, text=f"{error}: reload this page")
    except (InspectError, UnsafeFile) as error:
        return web.Response(status=409, text=str(error))


def page_file(name: str, kind: str) -> Callable[[web.Request], Any]:
    """Return an HTTP handler that responds with the file ``name`` of this package; ``kind`` is the MIME type of the
    file.
    """
    data = resources.files("groundtrace.publishing.view").joinpath(name).read_bytes()

    async def respond(_: web.Request) -> web.Response:
        return web.Response(body=data, content_type=kind, charset="utf-8")

    return respond


def _number(request: web.Request, name: str, default: int) -> int:
    """Return the parameter ``name`` in the address of a request as a whole number; ``default`` if the address lacks it.
    Raises BadFilter if the value is not a whole number.
    """
    text = request.query.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise BadFilter(f"{name} in the address must be a whole number of at least 0, got {text!r}")
    return int(text)
