"""The clients of object stores: one of each kind in a process, its requests repeated for a while, its errors typed.

Only :mod:`schemas.storage` uses this. A client is kept for as long as its process lives, since opening one costs more
than a hundred requests; a process that was forked makes its own.
"""

import errno
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, PositiveFloat

from schemas.config import settings
from schemas.errors import UserError, causes
from schemas.extras import require_extra

T = TypeVar("T")

SCHEMES: Final = {"s3": ("s3", "s3fs"), "gs": ("gs", "gcsfs")}
"""The extra and the module that each scheme needs."""
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 4.0
CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 30.0
MAX_CONNECTIONS: Final = 64

_TRANSIENT_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
_TRANSIENT_CODES: Final = frozenset({"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling"})
_CREDENTIALS: Final = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
)
_SERVER_AWAY: Final = frozenset({"EndpointConnectionError", "ConnectionClosedError", "HTTPClientError"})
"""Base classes of the store's libraries whose errors say that nobody answered, by name: they may not be installed."""


_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _variable(name: str) -> str:
    if name and not _VARIABLE.fullmatch(name):  # the message does not show it: it may be the key itself
        raise ValueError("must be the name of an environment variable such as MY_KEY; the key itself stands there")
    return name


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must be a URL such as https://minio.example:9000")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or # part: keys come from environment variables")
    return url


@settings
class StorageSettings:
    """How ``s3://`` and ``gs://`` are reached, here and on workers.

    Without any of these the stores' own variables and files hold, such as AWS_ACCESS_KEY_ID, AWS_PROFILE,
    AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS and STORAGE_EMULATOR_HOST, on each machine its own. A key never
    stands in a config: the variables that are named here are read where the client is made.
    """

    endpoint_url: Annotated[str, AfterValidator(_endpoint), "s3://: where the store answers (empty: AWS)"] = ""
    gs_endpoint_url: Annotated[str, AfterValidator(_endpoint), "gs://: where the store answers (empty: Google)"] = ""
    region: Annotated[str, "s3://: the region of the bucket"] = ""
    anonymous: Annotated[bool, "send no credentials: for public data"] = False
    access_key_id_env: Annotated[
        str, AfterValidator(_variable), "s3://: the environment variable that holds the access key's id"
    ] = ""
    secret_access_key_env: Annotated[
        str, AfterValidator(_variable), "s3://: the environment variable that holds the secret access key"
    ] = ""
    retry_s: Annotated[PositiveFloat, "how long a request is repeated while the store is away"] = 30.0

    def __post_init__(self) -> None:
        if bool(self.access_key_id_env) != bool(self.secret_access_key_env):
            raise ValueError("access_key_id_env and secret_access_key_env belong together: set both")


STANDARD: Final = StorageSettings()


class StorageError(UserError, OSError):
    """A location that cannot be used as it is: no such bucket, no access, no credentials, or a name that is none."""

    def __str__(self) -> str:
        return str(self.args[0])


class StoreUnavailable(OSError):
    """The store did not serve a request for as long as it was repeated: it is away, or overloaded."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class Taken(Exception):
    """What was to be created only if it is absent is there."""


class BeyondItsEnd(Exception):
    """The bytes asked for begin behind the object's end."""


_GCSFS_BOUNDARY: Final = b"--==0=="

_clients: dict[tuple[int, str, StorageSettings, str], Any] = {}
_guard = threading.Lock()


def _after_fork() -> None:
    global _guard  # a lock that another thread held at the fork would never be free
    _guard = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork)


def client(scheme: str, settings: StorageSettings) -> Any:
    """This process's file system of fsspec for a scheme. Raises :class:`schemas.extras.MissingExtra`."""
    key = (os.getpid(), scheme, settings, endpoint_of(scheme, settings))
    with _guard:
        if key not in _clients:
            require_extra(SCHEMES[scheme][0], f"{scheme}://", SCHEMES[scheme][1])
            _clients[key] = _s3(settings) if scheme == "s3" else _gs(settings)
        return _clients[key]


def endpoint_of(scheme: str, settings: StorageSettings) -> str:
    """Where the store answers, as far as settings and variables say; "" for the maker's own."""
    if scheme == "s3":
        said = (os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        return settings.endpoint_url or next(filter(None, said), "")
    endpoint = settings.gs_endpoint_url or os.environ.get("STORAGE_EMULATOR_HOST", "")
    return f"http://{endpoint}" if endpoint and "://" not in endpoint else endpoint


def _s3(settings: StorageSettings) -> Any:
    import s3fs

    retries = {"total_max_attempts": 1, "mode": "standard"}  # persistently() repeats, with a bound of its own
    limits = {"max_pool_connections": MAX_CONNECTIONS, "connect_timeout": CONNECT_TIMEOUT_S}
    made = s3fs.S3FileSystem(
        anon=settings.anonymous,
        endpoint_url=settings.endpoint_url or None,
        key=_secret(settings.access_key_id_env),
        secret=_secret(settings.secret_access_key_env),
        client_kwargs={"region_name": settings.region} if settings.region else {},
        config_kwargs={"retries": retries, "read_timeout": READ_TIMEOUT_S, **limits},
        use_listings_cache=False,  # what others write is seen at once
        skip_instance_cache=True,
    )
    made.retries = 1
    return made


def _gs(settings: StorageSettings) -> Any:
    from gcsfs.core import GCSFileSystem

    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it logs each error that it raises, with a traceback
    endpoint = endpoint_of("gs", settings)
    open_to_all = settings.anonymous or endpoint.startswith("http://")  # a token is never sent in the clear

    class Once(GCSFileSystem):
        """Sends a request once: persistently() repeats, with a bound of its own."""

        _request = GCSFileSystem._request.__wrapped__

    try:
        return Once(
            token="anon" if open_to_all else "google_default",
            endpoint_url=endpoint or None,
            use_listings_cache=False,
            skip_instance_cache=True,
        )
    except Exception as error:
        if _names(error) & {"DefaultCredentialsError", "GoogleAuthError"}:
            raise StorageError(f"gs:// has no credentials: {_GS_CREDENTIALS}") from error
        raise


_GS_CREDENTIALS: Final = (
    "log in with `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS to a key file, "
    "or set storage.anonymous = true for public data"
)
_S3_CREDENTIALS: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or storage.anonymous = true for public data"
)


def _secret(variable: str) -> str | None:
    if not variable:
        return None
    if not (value := os.environ.get(variable)):
        raise StorageError(f"the environment variable {variable}, which [storage] names, is not set: set it")
    return value


def writing(scheme: str, data: bytes) -> dict[str, Any]:
    """How these bytes are written. gcsfs puts small ones between two lines of its own that always read the same: what
    holds such a line would be cut there, and is sent in the way of large ones.
    """
    return {"chunksize": len(data)} if scheme == "gs" and _GCSFS_BOUNDARY in data else {}


def persistently(url: str, retry_s: float, call: Callable[[], T]) -> T:
    """What ``call`` returns, which is called again while the store is away, for up to ``retry_s`` seconds.

    ``url`` is for messages. Raises FileNotFoundError, :class:`Taken`, :class:`StorageError` for what the user can mend,
    :class:`StoreUnavailable` when the time is up, and other OSErrors as they come.
    """
    end_s, pause_s = time.monotonic() + retry_s, FIRST_PAUSE_S
    while True:
        try:
            return call()
        except (StorageError, Taken):
            raise
        except Exception as error:
            found = typed(error, url)
            if not isinstance(found, StoreUnavailable) or time.monotonic() + pause_s > end_s:
                if found is error:  # from itself, it would begin a chain of causes without an end
                    raise
                raise found from error
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, MAX_PAUSE_S)


def typed(error: Exception, url: str) -> Exception:
    """The error of the store's library as one of ours; an error that is none of the store's as it is."""
    scheme, _, rest = url.partition("://")
    bucket, names = rest.partition("/")[0], frozenset(name for each in causes(error) for name in _names(each))
    status, code = _answer(error)
    said = " ".join(str(error).split())[:200].strip(", ") or type(error).__name__
    remedy = _S3_CREDENTIALS if scheme == "s3" else _GS_CREDENTIALS
    if names & {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound"}:
        return StorageError(f"{url}: there are no credentials for {scheme}:// ({said}): {remedy}")
    if code in _CREDENTIALS or status == 401 or "RefreshError" in names:
        return StorageError(f"{url}: the store refuses the credentials ({said}): {remedy}")
    if code == "NoSuchBucket":
        return StorageError(f"{url}: there is no bucket {bucket}: create it, or correct the name")
    if isinstance(error, FileExistsError) or status == 412 or code == "PreconditionFailed":
        return Taken(url)
    if isinstance(error, FileNotFoundError) or status == 404:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    if isinstance(error, PermissionError) or status == 403 or str(error).startswith("Forbidden"):
        return StorageError(f"{url}: access denied ({said}): give these credentials the right to read and write there")
    if names & {"ParamValidationError", "InvalidBucketName"} or code == "InvalidBucketName":
        return StorageError(f"{url}: {bucket!r} is no name of a bucket: correct it")
    if status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES or _is_away(error, names):
        return StoreUnavailable(errno.EIO, f"the store does not serve requests ({said})", url)
    if status == 416:
        return BeyondItsEnd(url)
    if isinstance(error, OSError) or status:
        return OSError(getattr(error, "errno", None) or errno.EIO, said, url)
    return error


def _is_away(error: Exception, names: frozenset[str]) -> bool:
    if names & _SERVER_AWAY or names & {"FSTimeoutError", "ClientConnectionError", "ClientPayloadError", "ProxyError"}:
        return True
    return isinstance(error, ConnectionError | TimeoutError) or "ConnectionError" in names


def _names(error: BaseException) -> frozenset[str]:
    """The names of the error's classes: those of libraries that may not be installed cannot be imported."""
    return frozenset(each.__name__ for each in type(error).__mro__)


def _answer(error: Exception) -> tuple[int, str]:
    """Status and error code of the store's answer, as far as the error has them."""
    for each in causes(error):
        response = getattr(each, "response", None)
        if isinstance(response, dict):  # of botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return int(status), str(response.get("Error", {}).get("Code", ""))
        code = getattr(each, "code", None)  # of gcsfs
        if "HttpError" in _names(each) and str(code).isdigit():
            return int(str(code)), ""
        status = getattr(each, "status", None)  # of aiohttp
        if "ClientResponseError" in _names(each) and isinstance(status, int):
            return status, ""
    return 0, ""
