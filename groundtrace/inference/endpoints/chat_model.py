"""Runs a vision-language model of the ``transformers`` library as an endpoint in this process, without a server.

The endpoint is for a small model, such as a model that was just trained, on a machine without vLLM. In all other cases,
use vLLM, which is faster. The checkpoint's own chat template converts the prompt to a chat, and the library's function
``generate`` generates the tokens. Prompts that arrive while the model is busy are answered together, with at most
``max_concurrency`` samples at a time.

Only safetensors are loaded, and no code of a checkpoint is run. The optional dependency ``vision`` of this project
installs the libraries. They are imported when the first model is loaded.
"""

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as executors
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from PIL import Image

from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.inference.endpoints.transformers_loading import (
    check_config,
    load_weights,
    not_sent,
    of_library,
    one_line,
    source,
)
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Completion, Reply, Request, Sampling
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.vision.media import MediaStore

if TYPE_CHECKING:
    from groundtrace.inference.endpoints.chat_generation import Chat, ChatModel

DRAWING_REVISION = "1"
"""The revision of the code that prompts the model and draws its tokens. It must be increased if a change of this code
gives another reply for the same request, so that old replies in the cache are not used.
"""

_TRIAL = RenderedPrompt("trial", "0" * 64, "", (MediaPart("", "0" * 64), TextPart("What is this?")), None, ())
"""The prompt of the test after loading. It has an image of the size :data:`_TRIAL_PX` (width, height), in pixels."""
_TRIAL_PX = (64, 64)
_STOPPED = "the model was stopped, because the run has ended"


@dataclass(eq=False)
class _Waiting:
    """Holds a request that waits for the model's thread, and the future of its reply."""

    request: Request
    reply: "asyncio.Future[Reply]"
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def finish(self, reply: Reply) -> None:
        """Pass the reply to the caller. Any thread may call this method."""
        self._call(_finish, reply)

    def fail(self, error: BaseException) -> None:
        """Pass the error to the caller. A CallError is copied first, so that no two callers get the same object. Any
        thread may call this method.
        """
        own = CallError(error.failure, error.message, partial=error.partial) if isinstance(error, CallError) else error
        self._call(_fail, own)

    def _call(self, settle: Callable[["asyncio.Future[Reply]", Any], None], result: object) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's event loop is closed, so the caller does not wait
            self.loop.call_soon_threadsafe(settle, self.reply, result)


class ChatEndpoint:
    """Implements an endpoint (:class:`groundtrace.inference.endpoint.Endpoint`) of the kind ``transformers_chat``: a
    vision-language model that runs in this process.

    ``settings`` are the endpoint's settings. ``media`` is the store from which the images of prompts are read. The
    model is loaded at the first use, and runs in a separate thread. Loading is not retried after an error. The random
    numbers of a sample depend only on the prompt and the sample's index. So a sample does not depend on the other
    samples of its batch, except for rounding. The argument ``threads`` is not used, since torch runs on all cores or on
    the GPU.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        self.settings = settings
        self._media = media
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="chat-model")
        self._process: int | None = None
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._model: ChatModel | None = None
        self._broken: CallError | None = None

    @property
    def revision(self) -> str:
        """Return the revision from the settings, together with the revision of the code that generates the reply. If
        one of the two changes, the replies change. So both are part of the cache key.

        If a model is trained again in the same folder, it needs another ``revision`` in the config.
        """
        return f"{self.settings.revision}#drawing={DRAWING_REVISION}"

    async def generate(self, request: Request) -> Reply:
        """Generate and return a reply with one sample (generated text) for each number in ``request.indices`` (the
        numbers of the requested samples). If the request has a ``continuation`` (a given text), nothing is generated,
        and the reply has the log-probabilities of this text's tokens. Raises CallError if the request fails.
        """
        if any(part.kind != "image" for part in request.prompt.media):
            raise not_sent(
                f"{self.settings.model} accepts only images, but the prompt {request.prompt.name} has a video: use "
                "another model"
            )
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._submit(self._answer_some, waiting)
        reply = await waiting.reply
        if any(not each.text.strip() and not each.is_truncated for each in reply.completions):
            kept = tuple(itertools.takewhile(lambda each: each.text.strip() or each.is_truncated, reply.completions))
            raise CallError(Failure.EMPTY, f"{self.settings.model} wrote a reply without text", partial=Reply(kept))
        return reply

    def _submit(self, work: Callable[[], Any], *waiting: _Waiting) -> "Future[Any]":
        """Add requests to the waiting ones, and let the model's thread call ``work``. Raises CallError if the endpoint
        is closed, or if this process is a fork of the process that used the endpoint.

        A forked process has a copy of the model, but not the thread that runs it. torch could also hang in such a
        process.
        """
        if self._is_forked():
            raise not_sent(
                f"{self.settings.model} was loaded before this process was forked, and cannot answer in it: open the "
                'endpoint after the fork, or start processes with the method "spawn"'
            )
        with self._lock:
            if self._must_end():
                raise CallError(Failure.STOPPED, _STOPPED)
            self._process = os.getpid()
            self._waiting += waiting
            return self._thread.submit(work)

    def _is_forked(self) -> bool:
        return self._process not in (None, os.getpid())

    def _answer_some(self) -> None:
        """Answer one batch of the waiting requests. The batch has the first request, and later requests that can be
        answered together with it."""
        batch = self._taken()
        if not batch:
            return
        try:
            model = self._loaded()
            chats = self._chats(model, batch)
            replies = self._answered(model, chats) if chats else []
        except BaseException as error:  # passed to the callers: a future of the thread would hide it
            for each in batch:
                each.fail(error)
            return
        for each, reply in zip(chats, replies, strict=True):
            each.finish(reply)

    def _taken(self) -> list[_Waiting]:
        """Remove the next batch from the waiting requests, and return it.

        If the endpoint is closed, or the process is about to end, the batch is empty, and the requests stay unanswered
        (:meth:`_must_end`).
        """
        if self._must_end():
            return []
        with self._lock:
            batch, rest, room = list[_Waiting](), list[_Waiting](), self.settings.max_concurrency
            for each in self._waiting:
                fits = not batch or (_is_alike(each.request, batch[0].request) and len(each.request.indices) <= room)
                (batch if fits else rest).append(each)
                room -= len(each.request.indices) if fits else 0
            self._waiting = rest
        return batch

    def _must_end(self) -> bool:
        """Return whether the model's thread must end soon: the endpoint is closed, or the process is about to end.

        In both cases, no caller needs the replies any more. But :meth:`close`, or Python at the end of the process,
        waits until the thread has ended, so the thread must not continue its work.
        """
        is_ending = getattr(executors, "_shutdown", False)  # private; Python sets nothing public before it waits
        return self._is_closed.is_set() or is_ending

    def _chats(self, model: "ChatModel", batch: list[_Waiting]) -> "dict[_Waiting, Chat]":
        """Return the chat of each request in a batch. A request whose chat cannot be made fails, and is left out."""
        chats: dict[_Waiting, Chat] = {}
        for each in batch:
            prompt = each.request.prompt
            try:
                chats[each] = _rendered(self.settings, model, prompt, self._pictures(prompt))
            except Exception as error:  # passed to the caller
                each.fail(error)
        return chats

    def _answered(self, model: "ChatModel", chats: "dict[_Waiting, Chat]") -> list[Reply]:
        requests = [each.request for each in chats]
        try:
            if requests[0].continuation is not None:
                return [_scored(model, chat, request) for request, chat in zip(requests, chats.values(), strict=True)]
            numbers = [request.indices for request in requests]
            drawn = model.draw(list(chats.values()), numbers, requests[0].sampling, self._must_end)
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's own, which is not imported here
                raise
            remedy = f"set a smaller max_concurrency than {self.settings.max_concurrency}"
            raise CallError(
                Failure.OVERLOADED, one_line(f"the model has run out of memory ({remedy}): {error}")
            ) from error
        if self._must_end():  # the texts may be cut off, and must not become replies
            raise CallError(Failure.STOPPED, _STOPPED)
        return [Reply(tuple(Completion(text, finish_reason=reason) for text, reason in texts)) for texts in drawn]

    def _pictures(self, prompt: RenderedPrompt) -> list[Image.Image]:
        return [Image.fromarray(self._media.pixels(part.uri)) for part in prompt.media if isinstance(part, MediaPart)]

    def _loaded(self) -> "ChatModel":
        if self._broken is not None:
            raise CallError(self._broken.failure, self._broken.message, partial=self._broken.partial)
        if self._model is None:
            try:
                self._model = of_library(self.settings, _load)
            except CallError as error:
                self._broken = error
                raise
        return self._model

    async def check(self) -> str:
        """Load the model, and return one line for the user that names the model. Raises CallError if the model cannot
        be loaded or cannot answer a prompt with an image, or if the endpoint is closed.
        """
        await asyncio.wrap_future(self._submit(self._load_or_stop))
        return f"answers with {self.settings.model} in this process"

    def _load_or_stop(self) -> None:
        if self._must_end():
            raise CallError(Failure.STOPPED, _STOPPED)
        self._loaded()

    async def close(self) -> None:
        """Stop the model at its next token, wait for its thread to end, and free the model's memory.

        The requests and checks that wait for the model fail with CallError, and so do all later requests and checks.
        """
        self._is_closed.set()
        if not self._is_forked():
            with self._lock:
                waiting, self._waiting = self._waiting, []
            self._thread.shutdown()  # the calls that wait in the executor return at once
            for each in waiting:
                each.fail(CallError(Failure.STOPPED, _STOPPED))
        self._model = None


def _is_alike(one: Request, other: Request) -> bool:
    """Return whether two requests can be answered in one batch. They need the same temperature, ``top_p`` and
    ``max_tokens``. Also, both or neither of them must have a continuation (a given text to score).
    """
    alike = (one.sampling.temperature, one.sampling.top_p, one.sampling.max_tokens) == (
        other.sampling.temperature,
        other.sampling.top_p,
        other.sampling.max_tokens,
    )
    return alike and (one.continuation is None) == (other.continuation is None)


def _scored(model: "ChatModel", chat: Any, request: Request) -> Reply:
    assert request.continuation is not None
    logprobs = model.logprobs(chat, request.continuation.given, request.continuation.text)
    return Reply((Completion(request.continuation.text, logprobs=logprobs),))


def _finish(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)


def _fail(future: "asyncio.Future[Reply]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _load(settings: EndpointSettings) -> "ChatModel":
    """Load the checkpoint, and return its model. To test all parts, the model first generates one token in reply to a
    prompt with an image.

    Raises CallError if the checkpoint cannot be used, e.g. because it has no chat template. Other errors of the
    libraries are passed on; :func:`of_library`, which calls this function, converts them.
    """
    import transformers
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from groundtrace.inference.endpoints.chat_generation import ChatModel

    transformers.utils.logging.disable_progress_bar()
    check_config(settings)
    processor = AutoProcessor.from_pretrained(settings.model, **source(settings))
    if not getattr(processor, "chat_template", None) or not hasattr(processor, "image_processor"):
        raise not_sent(
            f"{settings.model} has no chat template or no image processor: choose a vision-language chat model",
            Failure.BAD_REQUEST,
        )
    model = ChatModel(load_weights(AutoModelForImageTextToText, settings, dtype="auto"), processor)
    chat = _rendered(settings, model, _TRIAL, [Image.new("RGB", _TRIAL_PX)])
    model.draw([chat], [(0,)], Sampling(1, 0.0, max_tokens=1))
    return model


def _rendered(
    settings: EndpointSettings, model: "ChatModel", prompt: RenderedPrompt, pictures: list[Image.Image]
) -> "Chat":
    """Convert a prompt to a chat. Raises CallError if the checkpoint's chat template cannot render the prompt."""
    try:
        return model.chat(prompt, pictures)
    except Exception as error:  # a template can raise any type
        raise not_sent(
            f"the chat template of {settings.model} cannot render the prompt {prompt.name} (correct the template, or "
            f"use another model): {error}",
            Failure.BAD_REQUEST,
        ) from error
