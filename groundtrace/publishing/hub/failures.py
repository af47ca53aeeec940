"""Converts errors of the Hub's client to errors whose message is one line of text.

The line holds the Hub's message and what to do. It never holds the access token.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from groundtrace.inference.endpoints.keys import scrub
from groundtrace.publishing.hub.errors import HubDown, PublishError
from groundtrace.schemas.errors import causes
from groundtrace.schemas.text import printable

MAX_MESSAGE_CHARS = 300
_AGAIN = "run the same command again, which continues where this one stopped"
_NOT_AS_THE_HUB = (ValueError, LookupError, TypeError, AttributeError)
"""The exceptions that the Hub's client raises if a response does not have the form of the Hub's responses.

They have these general types because the client does not check the fields of a response before it uses them.
"""


@contextmanager
def converting_hub_errors(repo: str, endpoint: str) -> Iterator[None]:
    """Convert each error in the ``with`` block: to PublishError if the user can correct it, otherwise to HubDown.

    ``repo`` is the name of the repository, and ``endpoint`` is the URL of the Hub. Both occur in the messages.
    """
    try:
        yield
    except (PublishError, HubDown):
        raise
    except Exception as error:
        raise _converted(error, repo, endpoint) from None  # the cause quotes the request, which holds the token


def _converted(error: Exception, repo: str, endpoint: str) -> Exception:
    """Return the error to raise for ``error``: PublishError if the user can correct the cause, else HubDown. ``repo``
    is the name of the repository, and ``endpoint`` is the URL of the Hub, both for the message.
    """
    refused = _http_error(error)
    if refused is not None:
        return _refusal(refused, repo)
    if isinstance(error, OSError) and error.filename is not None:
        return PublishError(
            f"{error.filename} cannot be read: {error.strerror}: make it readable, and run the same command again"
        )
    if isinstance(error, _NOT_AS_THE_HUB):
        message = f"{type(error).__name__}: {line_of(error)}"
        return HubDown(
            f"{endpoint} does not answer as the Hub does ({message}): check HF_ENDPOINT and the proxy; {_AGAIN}"
        )
    return HubDown(f"{endpoint} does not answer: {line_of(error)}; {_AGAIN}")


def _refusal(refused: HfHubHTTPError, repo: str) -> Exception:
    """Return the error to raise for ``refused``, an HTTP error of the Hub.

    The result is HubDown if the HTTP status is 429, or 500 or more. Otherwise the result is PublishError, because the
    user can correct the cause. ``repo`` is the name of the repository, for the message.
    """
    status, message = refused.response.status_code, line_of(refused)
    if status == 401:
        return PublishError(f"the Hub refuses the token: {message}: set HF_TOKEN to a token that can write {repo}")
    if isinstance(refused, RepositoryNotFoundError) or status in (403, 404):
        return PublishError(
            f"the token has no write access to {repo}: {message}: name another repository, or ask its owner for access"
        )
    if status == 412 or status == 409:
        return PublishError(f"{repo} changed during the upload: {message}: run the same command again")
    if status < 500 and status != 429:
        return PublishError(
            f"the Hub refuses the publication of {repo} (HTTP {status}): {message}: correct this, and run the same "
            "command again"
        )
    return HubDown(f"the Hub failed (HTTP {status}): {message}; {_AGAIN}")


def _http_error(error: BaseException | None) -> HfHubHTTPError | None:
    """Return the first HTTP error of the Hub among an error and its causes; None if there is no such error."""
    return next((each for each in causes(error) if isinstance(each, HfHubHTTPError)), None)


def line_of(error: BaseException) -> str:
    """Return the error's message on one line, without the Hub's access token.

    The line has at most :data:`MAX_MESSAGE_CHARS` characters.
    """
    message = getattr(error, "server_message", None) or str(error) or type(error).__name__
    if error.__cause__ is not None and isinstance(error, RuntimeError):
        message = f"{message}: {error.__cause__}"
    return printable(" ".join(_without_tokens(message).split()))[:MAX_MESSAGE_CHARS]


def _without_tokens(text: str) -> str:
    from huggingface_hub import get_token

    token = get_token()
    return scrub(text, token) if token else text
