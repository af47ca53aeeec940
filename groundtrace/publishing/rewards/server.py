"""Provides Groundtrace's verifier (the code that scores responses) as an HTTP server.

The server is for trainers with a remote reward. :mod:`groundtrace.publishing.rewards.requests` describes the requests.
The responses are:

    /score       {"recipe": "argos", "scores": [{"id", "reward", "outcome", "verdicts"}, …]}
                 where verdicts are {NAME: {"value", "reason"}, …}; the value of an unscored verdict is null
    /get_reward  {"rewards": […], "scores": [outcomes], "extra_logs": {}}
    /health      {"status", "roles": {ROLE: "ready" or the fault}, "recipe", "rows", "scoring", "waiting", "scored",
                 "held_bytes"}; the status is "ready" or, with HTTP 503, "unready"
    /health/live {"status": "live"}: the server runs, even if its judges do not
    an error     {"error": {"type", "message", "item"}}, with an error status; "item", the index of the invalid item, is
                 left out if the error does not concern a single item

In ``/health``, a ROLE is a job of a model, such as judge. "rows" is the number of rows of the opened runs. "scoring" is
the number of requests that are being scored. "waiting" is the number of requests in the queue. "scored" is the number
of responses that the server has scored. "held_bytes" is the size of all requests in memory.

The server has its own event loop, so that it responds while it reads a long request. It scores on the event loop of
:mod:`groundtrace.inference.runtime`, where the judges are called. Up to :attr:`Bounds.max_scoring` requests are scored
concurrently, so a request does not have to wait until all responses of an earlier request are scored. The requests
share the reply cache and each endpoint's limit of concurrent calls. If two requests need the same call of a judge, this
call is made only once. The server finishes each request whose scoring has begun, and caches the judges' replies, even
if the client has disconnected or timed out.

If a judge does not answer, the server returns an error and never a made-up number. The client retries, and finished
replies come from the cache. The server checks the endpoints (model servers) every few seconds. While an endpoint is
down, requests that need it get an error immediately, and all other requests are scored.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from groundtrace.config.errors import ConfigError
from groundtrace.inference.runtime import runtime
from groundtrace.publishing.rewards.judge_watch import JudgeWatch
from groundtrace.publishing.rewards.requests import BadRequest, ScoreRequest, read_get_reward, read_score
from groundtrace.publishing.rewards.row_reward import BadAnswer, RowReward, ScoreBatch
from groundtrace.rewards.rows.reward import JudgesDown, Scored
from groundtrace.schemas.errors import UserError

_log = logging.getLogger(__name__)
_http_log = logging.getLogger(f"{__name__}.http")
MAX_BODY_BYTES = 8 * 2**20
MAX_HELD_BYTES = 256 * 2**20
"""The maximum total size of the bodies of all requests that are being read, queued or scored."""
BODY_TIMEOUT_S = 30.0
"""The time in seconds within which a client must have sent a body."""
IDLE_S = 60.0
"""The time in seconds after which a connection without a complete request head is closed."""
RETRY_AFTER_S = 5
"""The value in seconds of the ``Retry-After`` header in answers while a judge is down."""


def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether a log record is about an error of the server.

    Errors of clients, such as invalid HTTP, are not logged, because clients could fill the log with any text.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_http_log.addFilter(_is_ours)


def runner_of(app: web.Application, shutdown_timeout_s: float) -> web.AppRunner:
    """Return the aiohttp runner that serves the application ``app``.

    When the server stops, connections that are still open after ``shutdown_timeout_s`` seconds are closed. The runner
    does not decompress the bodies of requests, because a small body may expand to gigabytes.
    """
    return web.AppRunner(
        app,
        access_log=None,
        logger=_http_log,
        shutdown_timeout=shutdown_timeout_s,
        keepalive_timeout=IDLE_S,
        auto_decompress=False,
    )


@dataclass(frozen=True)
class Bounds:
    """Holds the limits of a reward server.

    Attributes:
        max_batch: the maximum number of responses in one request.
        max_scoring: the maximum number of requests that are scored at the same time.
        max_waiting: the maximum number of requests that wait in the queue.
        timeout_s: the time in seconds within which a request must be scored, including its time in the queue.
    """

    max_batch: int = 4096
    max_scoring: int = 64
    max_waiting: int = 256
    timeout_s: float = 150.0


class Refused(Exception):
    """Raised if the server refuses a request.

    Attributes:
        status: the HTTP status of the response.
        kind: the reason as one word, for programs. The message states the reason for users.
        item: the index of the invalid item in the request; None if the error does not concern a single item.
        retry_after_s: the time in seconds after which the client may send the request again; 0 if no time is given.
    """

    def __init__(self, status: int, kind: str, message: str, item: int | None = None, retry_after_s: int = 0) -> None:
        super().__init__(message)
        self.status, self.kind, self.item, self.retry_after_s = status, kind, item, retry_after_s

    def response(self) -> web.Response:
        """Return the error as an HTTP response with JSON, which the server sends to the client."""
        error = {"type": self.kind, "message": str(self)} | ({} if self.item is None else {"item": self.item})
        headers = {"Retry-After": str(self.retry_after_s)} if self.retry_after_s else None
        return web.json_response({"error": error}, status=self.status, headers=headers)


class RewardServer:
    """Implements the HTTP server that scores the responses of a model in training; :meth:`app` makes its application.

    ``reward`` computes the scores. ``rows`` is the number of rows of the opened runs, which ``/health`` states.
    ``bounds`` are the limits of the server. ``token`` is the bearer token that clients must send; "" if they need no
    token.
    """

    def __init__(self, reward: RowReward, rows: int, bounds: Bounds, token: str = "") -> None:
        self._reward, self._rows, self._bounds, self._token = reward, rows, bounds, token
        self._scoring = asyncio.Semaphore(bounds.max_scoring)
        self._at_once = self._waiting = self._scored = self._held_bytes = 0
        self._tasks: set[asyncio.Task[list[Scored]]] = set()
        self._judges = JudgeWatch(reward)

    def app(self) -> web.Application:
        """Return the aiohttp application with its routes. All its errors are JSON."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._errors])
        app.router.add_post("/score", self._post_score)
        app.router.add_post("/get_reward", self._post_get_reward)
        app.router.add_get("/health", self._get_health)
        app.router.add_get("/health/live", self._get_live)
        app.cleanup_ctx.append(self._judges.running)
        app.on_cleanup.append(self._finish)
        return app

    async def _post_score(self, request: web.Request) -> web.Response:
        asked, scored = await self._answered(request, read_score)
        answers = zip(asked.answers, scored, strict=True)
        return web.json_response(
            {
                "recipe": self._reward.recipe.name,
                "scores": [_plain(each) | {"id": answer.reference.id} for answer, each in answers],
            }
        )

    async def _post_get_reward(self, request: web.Request) -> web.Response:
        _, scored = await self._answered(request, read_get_reward)
        counts = self._reward.settings.unscored
        rewards = [counts if each.reward is None else each.reward for each in scored]
        if None in rewards:
            message = "the response is unscored: set the key `unscored` of the config to the reward of such a response"
            raise Refused(422, "unscored", message, rewards.index(None))
        pairs = zip(scored, rewards, strict=True)
        outcomes = [reward if each.outcome is None else each.outcome for each, reward in pairs]
        return web.json_response({"rewards": rewards, "scores": outcomes, "extra_logs": {}})

    async def _get_health(self, _: web.Request) -> web.Response:
        counts = {"rows": self._rows, "scoring": self._at_once, "waiting": self._waiting, "scored": self._scored}
        counts["held_bytes"] = self._held_bytes
        is_ready, roles = self._judges.are_ready, self._judges.states
        state = {"status": "ready" if is_ready else "unready", "roles": roles, "recipe": self._reward.recipe.name}
        headers = None if is_ready else {"Retry-After": str(RETRY_AFTER_S)}
        return web.json_response(state | counts, status=200 if is_ready else 503, headers=headers)

    async def _get_live(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def _answered(
        self, request: web.Request, parse: Callable[[bytes], ScoreRequest]
    ) -> tuple[ScoreRequest, list[Scored]]:
        """Read a request, and score its responses. Return the parsed request and the scores.

        ``parse`` parses the body of the request. Raises Refused if the request is invalid or cannot be scored, if the
        queue is full, or if the server holds too many bytes of requests.
        """
        self._check_head(request)
        size = min(request.content_length or MAX_BODY_BYTES, MAX_BODY_BYTES)
        if self._held_bytes + size > MAX_HELD_BYTES:
            raise Refused(
                429,
                "busy",
                f"the server already holds {self._held_bytes} bytes of requests, too many to accept another one: send "
                "the request again later",
                retry_after_s=1,
            )
        self._held_bytes += size
        try:
            asked = await self._read(request, parse)
            return asked, await self._scores(request, asked)
        finally:
            self._held_bytes -= size

    def _check_head(self, request: web.Request) -> None:
        """Check the headers of a request before its body is read.

        Raises Refused if the bearer token is missing or wrong, or if the body is not declared as uncompressed JSON.
        """
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._token and not hmac.compare_digest(bearer.encode("utf-8", "replace"), self._token.encode()):
            raise Refused(
                401,
                "unauthorised",
                "the Authorization header must hold the server's bearer token: give it to the client",
            )
        if request.content_type != "application/json":  # so that web pages in a browser cannot post here
            raise Refused(415, "not_json", "the Content-Type must be application/json")
        if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise Refused(415, "not_json", "the body must not be compressed: leave out Content-Encoding")

    async def _read(self, request: web.Request, parse: Callable[[bytes], ScoreRequest]) -> ScoreRequest:
        """Read the body of a request, and parse it.

        Raises Refused if the body does not arrive completely and in time, is too large, or is not a valid request.
        """
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await request.read()
        except TimeoutError as error:
            raise Refused(
                408, "slow_body", f"the body did not arrive within {BODY_TIMEOUT_S:g} s: send it again"
            ) from error
        except web.HTTPRequestEntityTooLarge as error:
            raise Refused(
                413, "too_large", f"the body has more than {MAX_BODY_BYTES} bytes: split the request"
            ) from error
        except (web.RequestPayloadError, ConnectionError, ValueError) as error:
            raise Refused(400, "bad_request", "the body ended early, or is not valid HTTP: send it again") from error
        try:
            asked = await asyncio.to_thread(parse, body)
        except BadRequest as error:
            raise Refused(400, "bad_request", str(error), error.item) from error
        if len(asked.answers) > self._bounds.max_batch:
            message = (
                f"the request has {len(asked.answers)} responses, but at most {self._bounds.max_batch} are allowed: "
                "split it"
            )
            raise Refused(413, "too_large", message)
        return asked

    async def _scores(self, request: web.Request, asked: ScoreRequest) -> list[Scored]:
        """Put the request into the queue, wait until it is scored, and return its scores.

        Raises Refused if the queue is full, the request is not scored within the timeout, the client has disconnected,
        an answer cannot be scored, or a judge or detector does not answer.
        """
        if self._waiting + self._at_once >= self._bounds.max_scoring + self._bounds.max_waiting:
            raise Refused(
                429,
                "busy",
                f"the queue is full ({self._waiting} requests): send the request again later",
                retry_after_s=1,
            )
        self._waiting += 1
        task = asyncio.create_task(self._in_turn(request, asked))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._bounds.timeout_s)
        except TimeoutError as error:
            message = (
                f"the request was not scored within {self._bounds.timeout_s:g} s: send it again (replies are kept)"
            )
            raise Refused(504, "timeout", message, retry_after_s=RETRY_AFTER_S) from error

    async def _in_turn(self, request: web.Request, asked: ScoreRequest) -> list[Scored]:
        """Wait until fewer than ``max_scoring`` (a limit of the server) requests are being scored. Then score this
        request, and return its scores.

        Raises Refused if the client has disconnected, if an answer cannot be scored, or if a judge or detector does not
        answer.
        """
        try:
            await self._scoring.acquire()
        finally:
            self._waiting -= 1
        self._at_once += 1
        try:
            if request.transport is None or request.transport.is_closing():
                raise Refused(499, "gone", "the client closed the connection")
            call = await asyncio.to_thread(self._prepared, asked)
            scored = await asyncio.wrap_future(runtime().submit(self._reward.attempt(call, asked.is_step)))
        except JudgesDown as error:
            raise Refused(
                503, "judges_down", f"a judge or detector does not answer: {error}", retry_after_s=RETRY_AFTER_S
            ) from error
        finally:
            self._at_once -= 1
            self._scoring.release()
        self._scored += len(scored)
        return scored

    def _prepared(self, asked: ScoreRequest) -> ScoreBatch:
        """Return the responses of a request in groups that are scored together.

        Raises Refused if a response cannot be scored. Also raises Refused if the request holds only a part of a
        training step, and the recipe (the code that computes the rewards) cannot score a part.
        """
        try:
            self._reward.check_way(asked.is_step)
            return self._reward.prepare(asked.answers)
        except BadAnswer as error:
            where = "" if error.number is None else f"items[{error.number}]: "
            raise Refused(400, "bad_request", f"{where}{error.problem}", error.number) from error
        except UserError as error:
            kind = "recipe" if isinstance(error, ConfigError) else "bad_request"
            raise Refused(400, kind, str(error)) from error

    def _ended(self, task: "asyncio.Task[list[Scored]]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved, also if the client has timed out

    async def _finish(self, _: web.Application) -> None:
        """Cancel the tasks that are still running when the server ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @web.middleware
    async def _errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Return the response of ``handler`` to a request. If an error is raised, return the error as JSON instead.

        This is a middleware of the aiohttp application. For a defect of the server, the JSON holds only the type of the
        exception.
        """
        try:
            return await handler(request)
        except Refused as error:
            return error.response()
        except web.HTTPException as error:
            return Refused(error.status, "http", error.reason).response()
        except asyncio.CancelledError:
            return Refused(
                503, "ending", "the server is stopping: send the request again later", retry_after_s=RETRY_AFTER_S
            ).response()
        except Exception as error:  # a defect: the client gets an error, and the log gets the traceback
            _log.exception("a request failed")
            return Refused(
                500, "internal", f"the server failed with {type(error).__name__}: see the server's output"
            ).response()


def _plain(scored: Scored) -> dict[str, Any]:
    """Return the scores of a response as fields of a JSON object."""
    fields = ("value", "failed", "reason")
    verdicts = {each.name: {field: getattr(each, field) for field in fields} for each in scored.verdicts}
    return {"reward": scored.reward, "outcome": scored.outcome, "verdicts": verdicts}
