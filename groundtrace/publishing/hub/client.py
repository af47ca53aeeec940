"""The client of the Hub, made only where the address and the token that it is given can be used."""

import urllib.parse

from huggingface_hub import HfApi, constants, get_session, get_token
from huggingface_hub.utils import disable_progress_bars

from groundtrace.publishing.hub.errors import PublishError
from groundtrace.schemas.text import printable

MAX_SILENCE_S = 300.0
"""How long the Hub may say nothing, or take no byte; it puts the parts of a large file together in that time."""


def open_client() -> HfApi:
    """The client, quiet. Raises PublishError for an address, a token or a setting that no request can be made with."""
    check_address(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE:
        raise PublishError("HF_HUB_OFFLINE is set, and publishing needs the Hub: unset it, or try --dry-run")
    check_token()
    disable_progress_bars()
    try:
        get_session().timeout = MAX_SILENCE_S  # the client's own is none: it would wait for ever
    except ValueError as error:  # which hides a password
        raise PublishError(
            f"the proxy of the environment cannot be used: {printable(str(error))}: correct HTTP_PROXY or HTTPS_PROXY"
        ) from None
    return HfApi()


def check_address(address: str) -> None:
    """Raises PublishError for an HF_ENDPOINT that is no address of a server.

    It is not quoted where it holds a password, which would take the token's place in every request, too.
    """
    try:
        parts = urllib.parse.urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        raise PublishError(_no_address(address)) from None
    if parts.username is not None or parts.password is not None:
        raise PublishError("HF_ENDPOINT holds a user name or a password: leave them out, the token is HF_TOKEN")
    if not is_address or address != address.strip():
        raise PublishError(_no_address(address))


def _no_address(address: str) -> str:
    shown = address.rpartition("@")[2]
    return f"HF_ENDPOINT {printable(shown)!r} is no address of a Hub: write one such as https://hub.example.org"


def check_token() -> None:
    """Raises PublishError where there is no token, or one that no header can hold; it is never quoted."""
    try:
        token = get_token()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is no text"
        raise PublishError(
            f"the token file {constants.HF_TOKEN_PATH} cannot be read: {said}: set HF_TOKEN, or log in with "
            "`hf auth login`"
        ) from None  # the error of the decoder holds what it was to decode
    if token is None:
        raise PublishError("there is no token: set HF_TOKEN, or log in with `hf auth login`")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise PublishError(
            "the token holds a character that no token has, such as a line break, a space or a letter with an accent: "
            "copy it again into HF_TOKEN, or log in with `hf auth login`"
        )
