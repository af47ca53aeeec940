"""Checks whether an endpoint can answer calls. If it cannot, the module describes the fault and what the user can do
about it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from groundtrace.inference.errors import REFUSED_STATUSES, CallError, Failure
from groundtrace.inference.flow.retry import Pause, impatient, retried
from groundtrace.inference.settings import EndpointSettings

CHECK_RETRIES = 3
CHECK_TIMEOUT_S = 60.0
_REFUSALS = frozenset({Failure.UNAUTHORISED, Failure.UNKNOWN_MODEL})


async def checked(
    check: Callable[[], Awaitable[object]],
    retries: int = 0,
    timeout_s: float | None = CHECK_TIMEOUT_S,
    pause: Pause = impatient,
) -> CallError | None:
    """Check an endpoint, and return the error of the last attempt, or None if the check succeeded.

    ``check`` is the endpoint's own check, which raises CallError if it fails. ``retries`` is the largest number of
    repetitions. ``timeout_s`` is the time limit of each attempt, in seconds (None: no limit). ``pause`` is the function
    that waits before each repetition.
    """

    async def once() -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await check()
        except TimeoutError as error:
            raise CallError(Failure.TIMEOUT, f"the server did not answer within {timeout_s:g} s") from error

    try:
        await retried(once, retries, pause)
    except CallError as error:
        return error
    return None


def described(name: str, roles: Sequence[str], settings: EndpointSettings) -> str:
    """Return a text for messages that identifies an endpoint by its ``name``, its ``roles`` (the jobs of its model),
    its model and its URL. E.g. "endpoint main (judge, teacher), model qwen3 at http://127.0.0.1:8000/v1".
    """
    at = f" at {settings.base_url}" if settings.base_url else ""
    return f"endpoint {name} ({', '.join(roles)}), model {settings.model}{at}"


def is_refusal(error: CallError) -> bool:
    """Return whether the server will refuse the same request again. This is the case if the API key is invalid, the
    model is unknown, or the HTTP status is 401, 402, 403 or 404. ``error`` is the error of the request.
    """
    return error.failure in _REFUSALS or error.status in REFUSED_STATUSES


def will_not_serve(settings: EndpointSettings, error: CallError) -> bool:
    """Return whether calls to the endpoint would fail although its server is up, e.g. because the API key is invalid.
    ``settings`` are the endpoint's settings, and ``error`` is the error of its check.
    """
    if error.failure is Failure.GARBLED:  # such as a web page
        return settings.check_model
    if error.failure in (Failure.UNSUPPORTED, Failure.BAD_REQUEST) and error.status is None:
        return True  # a model in this process that cannot be loaded
    return is_refusal(error) and error.status != 404  # a server may have no list of its models


def what_to_do(name: str, roles: Sequence[str], settings: EndpointSettings, error: CallError, where: str = "") -> str:
    """Return a one-line message for the user. It names the endpoint, the reason why the endpoint cannot answer calls,
    and what the user can do about it.

    ``name`` is the endpoint's name, ``roles`` are the jobs of its model (such as "judge"), ``settings`` are its
    settings, and ``error`` is the error of its check or call. The message names config keys of the endpoint, such as
    ``endpoints.main.model``. ``where`` is put before these keys: "reward." gives ``reward.endpoints.main.model``. It is
    "" for the main config.
    """
    key = f"{where}endpoints.{name}"
    if error.unreachable or error.failure is Failure.TIMEOUT:
        why, change = "cannot be reached: ", f"Start the server, or correct {key}.base_url"
    else:
        why, change = "", f"To go on, {_change(key, settings, error)}"
    return f"{described(name, roles, settings)}: {why}{error}. {change}"


def _change(key: str, settings: EndpointSettings, error: CallError) -> str:
    if error.status == 402:
        return f"check the account's balance, or set another endpoint than {key} for the role"
    if error.failure is Failure.UNAUTHORISED:
        return f"give a key that the server accepts ({key}.api_key_env or {key}.api_key_file)"
    if error.failure is Failure.UNKNOWN_MODEL:
        return f"correct {key}.model, or set {key}.check_model = false for a server that does not list all its models"
    if error.failure is Failure.GARBLED:
        return f"correct {key}.base_url, or set {key}.check_model = false for a server that does not list its models"
    if not settings.base_url:
        return f"correct {key}.model"
    is_usual = settings.base_url.rstrip("/").endswith("/v1")
    return f"correct {key}.model or {key}.base_url" + ("" if is_usual else " (most servers answer under /v1)")
