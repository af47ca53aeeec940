"""Opens the client of the Hugging Face Hub, after a check of the Hub's address, the token and the settings."""

import urllib.parse

from huggingface_hub import HfApi, constants, get_session, get_token
from huggingface_hub.utils import disable_progress_bars

from groundtrace.publishing.hub.errors import PublishError
from groundtrace.schemas.text import printable

MAX_SILENCE_S = 300.0
"""The longest time in seconds that the client waits for the Hub to send or accept bytes.

The time is this long because the Hub may need minutes to join the parts of a large file.
"""


def open_client() -> HfApi:
    """Return a client of the Hub that shows no progress bars.

    Raises PublishError if the address of the Hub, the token or a setting of the environment cannot be used.
    """
    check_address(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE:
        raise PublishError("HF_HUB_OFFLINE is set, but publishing needs the Hub: unset this variable, or use --dry-run")
    check_token()
    disable_progress_bars()
    try:
        get_session().timeout = MAX_SILENCE_S  # by default the client has no timeout
    except ValueError as error:  # its message hides the proxy's password
        raise PublishError(
            f"the proxy that the environment sets cannot be used: {printable(str(error))}: correct the variable "
            "HTTP_PROXY or HTTPS_PROXY"
        ) from None
    return HfApi()


def check_address(address: str) -> None:
    """Check the address of the Hub, which the environment variable ``HF_ENDPOINT`` sets.

    Raises PublishError if it is not the URL of a server, or if it contains a user name or a password. A password in the
    address would replace the token in every request. The message does not contain the password.
    """
    try:
        parts = urllib.parse.urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or an incomplete IPv6 address
        raise PublishError(_no_address(address)) from None
    if parts.username is not None or parts.password is not None:
        raise PublishError(
            "HF_ENDPOINT must not hold a user name or a password: remove them from the URL, and set HF_TOKEN to your "
            "access token"
        )
    if not is_address or address != address.strip():
        raise PublishError(_no_address(address))


def _no_address(address: str) -> str:
    shown = address.rpartition("@")[2]
    return f"HF_ENDPOINT {printable(shown)!r} is not the URL of a Hub: use one such as https://hub.example.org"


def check_token() -> None:
    """Check the access token for the Hub, which the Hub's own client reads from the environment or from a file.

    Raises PublishError if no token is set, if its file cannot be read, or if an HTTP header cannot hold it. The message
    does not contain the token.
    """
    try:
        token = get_token()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise PublishError(
            f"the token file {constants.HF_TOKEN_PATH} cannot be read: {reason}: set HF_TOKEN, or log in with "
            "`hf auth login`"
        ) from None  # the decoder's error holds the token
    if token is None:
        raise PublishError("no token for the Hub is set: set HF_TOKEN, or log in with `hf auth login`")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise PublishError(
            "the token for the Hub holds a forbidden character, such as a line break, a space or a letter with an "
            "accent: copy the token again into HF_TOKEN, or log in with `hf auth login`"
        )
