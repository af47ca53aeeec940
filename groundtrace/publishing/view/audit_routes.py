"""Serves an audit to the page in the browser: the rows of the sample, the judgements, and the estimates.

In an audit, a reviewer judges whether traces (reasoning with answer) are right. The rows are sent without their
automatic scores and grades, because these could influence the reviewer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from groundtrace.publishing.view.answers import apart, image_response, json_response
from groundtrace.publishing.view.audit import WHOLE, Audit
from groundtrace.publishing.view.audit_estimate import Estimate, estimate, reasons_without_width
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.record import record_of
from groundtrace.publishing.view.rows import RowPlace, ViewedRows


class AuditRoutes:
    """Handles the HTTP requests of the page about one audit, in which a person judges a sample of a run's rows.

    ``audit`` holds the sample and the judgements. ``rows`` and ``images`` read the run's rows and their images.
    """

    def __init__(self, audit: Audit, rows: ViewedRows, images: RowImages) -> None:
        self._audit, self._rows, self._images = audit, rows, images

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the HTTP paths of the audit, such as ``/api/audit/judge``, to the server's ``router``."""
        router.add_get("/api/audit", self._get_audit)
        router.add_get("/api/audit/record", self._get_record)
        router.add_get("/api/audit/image", self._get_image)
        router.add_get("/api/audit/result", self._get_result)
        router.add_post("/api/audit/judge", self._post_judge)

    async def _get_audit(self, _: web.Request) -> web.Response:
        """Return the reviewer's name, and the reviewer's judgement of each trace (reasoning with answer) of the sample.

        A judgement is a pair: the id of the record, and "right", "wrong" or "unclear" for its trace as a whole. The
        second value is "" if the reviewer has not judged the trace yet.
        """
        judged = self._audit.judgements
        choices = [
            (row.id, judged[row.id, WHOLE].choice if (row.id, WHOLE) in judged else "") for row in self._audit.rows
        ]
        return json_response({"reviewer": self._audit.reviewer, "rows": choices})

    async def _get_record(self, request: web.Request) -> web.Response:
        """Return a record of the sample without the data that could influence the reviewer's judgement.

        The result lacks the name of the record's output set (e.g. sft or rejected), its automatic scores, and its
        attempts (the policy's sampled answers) with their grades. The addresses of its images do not show the output
        set either.
        """
        record_id = request.query.get("id", "")
        place = self._place(record_id)
        record = _without_verdicts(await apart(lambda: record_of(place, self._images)))
        for index, image in enumerate(record["images"]):
            image["address"] = f"/api/audit/image?{urlencode({'id': record_id, 'index': index})}"
            del image["column"], image["index"]
        judged = self._audit.judgements
        mine = {about: each.choice for (held, about), each in judged.items() if held == record_id}
        return json_response(record | {"names": self._audit.verdicts, "judgements": mine})

    async def _get_image(self, request: web.Request) -> web.Response:
        """Return an image of a record of the sample.

        The request holds the ``id`` of the record, and the ``index`` of the image in the list that the page shows.
        """
        place = self._place(request.query.get("id", ""))
        images = _without_verdicts(await apart(lambda: record_of(place, self._images)))["images"]
        index = request.query.get("index", "")
        if not (index.isascii() and index.isdigit() and len(index) < 7 and int(index) < len(images)):
            raise web.HTTPNotFound(text="the record has no such image")
        image = images[int(index)]
        return await image_response(lambda: self._images.original(place, image["column"], image["index"]))

    def _place(self, record_id: str) -> RowPlace:
        """Return where a record of the sample is stored (file and index). Raises HTTPNotFound if the sample has no
        record with the id ``record_id``.
        """
        n = self._rows.number_of(record_id) if any(row.id == record_id for row in self._audit.rows) else None
        place = None if n is None else self._rows.place_of(n)
        if place is None:
            raise web.HTTPNotFound(text=f"the sample has no record {record_id!r}")
        return place

    async def _get_result(self, _: web.Request) -> web.Response:
        """Return the results of the audit: counts, estimates and the agreement of reviewers.

        The counts state how many rows of each stratum (group of rows) were judged as right, wrong or unclear. The
        estimates are precision and recall of the run's verification, with intervals. ``exact`` states why an interval
        has no width. ``changed`` is the number of judged traces that a repeated run has changed. Until they are judged
        again, there are no estimates, because the other judged traces are not a random sample.
        """
        counted, changed = self._audit.counted(), len(self._audit.changed)
        found = Estimate(None, None) if changed else await apart(lambda: estimate(counted))
        strata = [asdict(each) | {"interval": each.interval} for each in counted]
        about = {"kappa": self._audit.kappa(), "changed": changed, "exact": reasons_without_width(counted, found)}
        return json_response({"strata": strata, **about, **asdict(found)})

    async def _post_judge(self, request: web.Request) -> web.Response:
        """Store the judgement that the request contains, and return this judgement as JSON."""
        try:
            asked = await request.json()
            made = await apart(lambda: self._audit.judge(str(asked["id"]), str(asked["about"]), str(asked["choice"])))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"the judgement cannot be kept: {error}") from error
        except OSError as error:
            raise web.HTTPInternalServerError(text=f"cannot write {error.filename}: {error.strerror}") from error
        return json_response(asdict(made))


def _without_verdicts(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as a reviewer may see it before judging, without the automatic scores.

    The verdicts (the scores of single aspects of the trace) are left out, and so are the total score and the answer of
    the trace, the policy's attempts, the points of the pointer, and facts such as the source. The overlays (images
    drawn for the teacher) and the statuses of executed code are left out, too: only kept rows have them, so they would
    show that the row was kept.
    """
    trace = record["traces"][0]
    shown = {name: trace[name] for name in ("parts", "sha256")} | {
        "marks": _blind(trace["marks"]),
        "score": None,
        "answer": None,
        "verdicts": [],
    }
    images = [
        each | {"caption": f"image {n}"} for n, each in enumerate(record["images"], 1) if each["kind"] != "overlay"
    ]
    # only kept rows have a status
    turns = [turn | {"status": "", "marks": _blind(turn["marks"])} for turn in record["turns"]]
    kept = {name: record[name] for name in ("id", "question", "choices", "answer", "answer_type", "gold")}
    empty = {name: [] for name in ("attempts", "facts", "pointed")}
    return kept | empty | {"turns": turns, "traces": [shown], "images": images}


def _blind(marks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return marks (points and boxes) without the key ``off``.

    The key states whether a point is not on its object. It comes from a verdict (automatic score), and could influence
    a reviewer.
    """
    return [{name: value for name, value in mark.items() if name != "off"} for mark in marks]
