"""Opens the clients of object stores, and retries their requests.

A client is the fsspec file system through which requests are sent. To open a client takes longer than a hundred
requests. So each process opens one client for each URL scheme (``s3`` or ``gs``) and each :class:`StorageSettings`, and
keeps it until the process ends. A forked process opens its own clients. Other packages read and write through
:mod:`groundtrace.storage.places`.
"""

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

from groundtrace.config.extras import require_extra
from groundtrace.config.settings import settings
from groundtrace.storage.errors import GS_CREDENTIALS, ObjectExists, StorageError, StoreUnavailable, names_of, typed

T = TypeVar("T")

SCHEMES: Final = {"s3": ("s3", "s3fs"), "gs": ("gs", "gcsfs")}
"""Maps each URL scheme to two names: the extra of our package for this scheme, and the Python module that it needs."""
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 4.0
CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 30.0
MAX_CONNECTIONS: Final = 64

_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _variable(name: str) -> str:
    if name and not _VARIABLE.fullmatch(name):  # the message does not show it: it may be the key itself
        raise ValueError("must be the name of an environment variable that holds the key, such as MY_KEY")
    return name


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError(
            "must be the URL of the store's server, with http or https, such as https://minio.example:9000"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "must not hold a user, password, query or fragment (#…): write only the server's URL, and give the store's "
            "keys in other environment variables"
        )
    return url


@settings
class StorageSettings:
    """Holds the settings by which this machine and Beam's workers connect to stores (``s3://`` and ``gs://``).

    If no setting is given, each machine uses the standard environment variables and files of the stores, such as
    AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS and STORAGE_EMULATOR_HOST. A config
    never holds a key. It only names the environment variables that hold the keys. Each process reads these variables
    when it connects.
    """

    endpoint_url: Annotated[str, AfterValidator(_endpoint), "s3://: the URL of the store (empty: AWS)"] = ""
    gs_endpoint_url: Annotated[str, AfterValidator(_endpoint), "gs://: the URL of the store (empty: Google)"] = ""
    region: Annotated[str, "s3://: the region of the bucket"] = ""
    anonymous: Annotated[bool, "send no credentials, for public data"] = False
    access_key_id_env: Annotated[
        str, AfterValidator(_variable), "s3://: the environment variable that holds the access key's id"
    ] = ""
    secret_access_key_env: Annotated[
        str, AfterValidator(_variable), "s3://: the environment variable that holds the secret access key"
    ] = ""
    retry_s: Annotated[PositiveFloat, "how long a request is retried while the store is unreachable"] = 30.0

    def __post_init__(self) -> None:
        if bool(self.access_key_id_env) != bool(self.secret_access_key_env):
            raise ValueError("only one of access_key_id_env and secret_access_key_env is set: set both, or neither")


STANDARD: Final = StorageSettings()


_GCSFS_BOUNDARY: Final = b"--==0=="

_clients: dict[tuple[int, str, StorageSettings, str], Any] = {}
_guard = threading.Lock()


def _after_fork() -> None:
    global _guard  # a lock that another thread held at the fork would never be free
    _guard = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork)


def client(scheme: str, settings: StorageSettings) -> Any:
    """Return this process's client for a store, which is an fsspec file system. It is opened at the first call.

    ``scheme`` is the scheme of the store's URLs, ``s3`` or ``gs``. Raises
    :class:`groundtrace.config.extras.MissingExtra` if the scheme's library is not installed. Raises
    :class:`StorageError` if credentials are missing, or if an environment variable for the connection is invalid or not
    set.
    """
    key = (os.getpid(), scheme, settings, endpoint_of(scheme, settings))
    with _guard:
        if key not in _clients:
            _check_endpoint(key[-1], _endpoint_variable(scheme))
            require_extra(SCHEMES[scheme][0], f"{scheme}://", SCHEMES[scheme][1])
            _clients[key] = _s3(settings) if scheme == "s3" else _gs(settings)
        return _clients[key]


def endpoint_of(scheme: str, settings: StorageSettings) -> str:
    """Return the URL of the store's server.

    The URL is read from the settings. If it is not set there, it is read from an environment variable. ``scheme`` is
    ``s3`` or ``gs``. The result is "" if the default server of the provider (AWS or Google) is used.
    """
    if scheme == "s3":
        return settings.endpoint_url or os.environ.get(_endpoint_variable(scheme), "")
    endpoint = settings.gs_endpoint_url or os.environ.get(_endpoint_variable(scheme), "")
    return f"http://{endpoint}" if endpoint and "://" not in endpoint else endpoint


def _endpoint_variable(scheme: str) -> str:
    """Return the name of the environment variable for the URL of a store's server; ``scheme`` is ``s3`` or ``gs``.

    The variable is used only if no setting holds the URL.
    """
    if scheme == "gs":
        return "STORAGE_EMULATOR_HOST"
    return "AWS_ENDPOINT_URL_S3" if os.environ.get("AWS_ENDPOINT_URL_S3") else "AWS_ENDPOINT_URL"


def _check_endpoint(url: str, variable: str) -> None:
    """Raise StorageError if the endpoint is not a URL, or if it contains a key.

    A key is refused because the error messages of the store's library would show it. ``variable`` is the environment
    variable that holds the URL. A URL from the settings has been checked already.
    """
    try:
        _endpoint(url)
    except ValueError as error:
        raise StorageError(
            f"cannot connect to the store, because the environment variable {variable} is wrong. It {error}"
        ) from None


def _s3(settings: StorageSettings) -> Any:
    import s3fs

    retries = {"total_max_attempts": 1, "mode": "standard"}  # persistently() retries, with a time limit of its own
    limits = {"max_pool_connections": MAX_CONNECTIONS, "connect_timeout": CONNECT_TIMEOUT_S}
    made = s3fs.S3FileSystem(
        anon=settings.anonymous,
        endpoint_url=settings.endpoint_url or None,
        key=_secret("access_key_id_env", settings),
        secret=_secret("secret_access_key_env", settings),
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
        """Sends requests as gcsfs does, but without the retries of gcsfs: each request is sent only once. The function
        :func:`persistently` retries the requests instead, with a time limit.
        """

        _request = GCSFileSystem._request.__wrapped__

    try:
        return Once(
            token="anon" if open_to_all else "google_default",
            endpoint_url=endpoint or None,
            use_listings_cache=False,
            skip_instance_cache=True,
        )
    except Exception as error:
        if names_of(error) & {"DefaultCredentialsError", "GoogleAuthError"}:
            raise StorageError(f"there are no credentials for Google Cloud Storage: {GS_CREDENTIALS}") from error
        raise


def _secret(setting: str, settings: StorageSettings) -> str | None:
    variable: str = getattr(settings, setting)
    if not variable:
        return None
    if not (value := os.environ.get(variable)):
        shown = f" {variable}" if variable.isupper() else ""  # a name in small letters may be the key itself
        what = setting.removesuffix("_env").replace("_", " ")
        raise StorageError(
            f"storage.{setting} names an environment variable{shown} that is not set: set the variable to the {what}"
        )
    return value


def writing(scheme: str, data: bytes) -> dict[str, Any]:
    """Return the extra keyword arguments with which the store's client must write ``data``; often empty.

    ``scheme`` is ``s3`` or ``gs``. The arguments avoid a defect of gcsfs, the client of ``gs``: gcsfs sends small data
    between two fixed boundary lines, and truncates data that contains the text of such a line. With these arguments, it
    sends such data in chunks, as it sends large data.
    """
    return {"chunksize": len(data)} if scheme == "gs" and _GCSFS_BOUNDARY in data else {}


def persistently(url: str, retry_s: float, call: Callable[[], T]) -> T:
    """Call the function ``call``, which sends a request to a store, until the store answers; return its result.

    ``retry_s`` is the number of seconds for which the call is repeated while the store is unreachable. If the store is
    unreachable at the first call, there is always one retry, even if this time has already passed. The reason is that
    one hanging connection may use up this time. ``url`` is the URL of the object; it appears only in messages.

    Raises FileNotFoundError if the object does not exist. Raises :class:`ObjectExists` if an object to create exists
    already. Raises :class:`groundtrace.storage.errors.BeyondObjectEnd` if the requested bytes begin after the object's
    end. Raises :class:`StorageError` for an error that the user can correct, :class:`StoreUnavailable` if the last
    retry fails, and OSError for any other error of the store.
    """
    end_s, pause_s, tries = time.monotonic() + retry_s, FIRST_PAUSE_S, 0
    while True:
        tries += 1
        try:
            return call()
        except (StorageError, ObjectExists):
            raise
        except Exception as error:
            found = typed(error, url)
            is_over = tries > 1 and time.monotonic() + pause_s > end_s
            if not isinstance(found, StoreUnavailable) or is_over:
                if found is error:  # raised from itself, it would make a cycle of causes
                    raise
                raise found from error
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, MAX_PAUSE_S)
