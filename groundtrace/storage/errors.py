"""Converts the errors of the libraries for S3 and Google Cloud Storage into errors of this package.

The message of a converted error has one line, and names the URL.
"""

import errno
import os
from typing import Final

from groundtrace.schemas.errors import UserError, causes
from groundtrace.schemas.text import without_password

_TRANSIENT_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
_TRANSIENT_CODES: Final = frozenset({"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling"})
_CREDENTIALS: Final = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
)
_SERVER_AWAY: Final = frozenset(
    {
        "EndpointConnectionError",
        "ConnectionClosedError",
        "HTTPClientError",
        "IncompleteReadError",
        "FlexibleChecksumError",
        "ChecksumError",
    }
)
"""The names of the libraries' error classes that mean: the store did not answer, or the received data is damaged.

The classes are given by name, since the libraries may not be installed.
"""

GS_CREDENTIALS: Final = (
    "log in with `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS to a key file, "
    "or set storage.anonymous = true for public data"
)
S3_CREDENTIALS: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or storage.anonymous = true for public data"
)


class StorageError(UserError, OSError):
    """Raised if a local path or a URL of a store cannot be used, for a reason that the user can correct.

    Examples of such reasons are a missing bucket, denied access, missing or refused credentials, and an invalid name.
    """

    def __str__(self) -> str:
        return str(self.args[0])


class StoreUnavailable(OSError):
    """Raised if the store did not answer a request, even after retries, because it is unreachable or overloaded."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class ObjectExists(Exception):
    """Raised if an object (a file in a store) could not be created, because its name exists already."""


class BeyondObjectEnd(Exception):
    """Raised if the first byte that a read requests is after the end of the object (a file in a store)."""


def typed(error: Exception, url: str) -> Exception:
    """Convert an error of a store's library, and return the new error without raising it.

    ``url`` is the URL of the requested object; it appears in the message. The class of the new error is

    - StorageError if the user can correct the cause, such as missing credentials or a missing bucket;
    - StoreUnavailable if the store is unreachable or overloaded;
    - FileNotFoundError if the object does not exist;
    - ObjectExists if an object to create exists already;
    - BeyondObjectEnd if a read begins after the end of the object;
    - OSError for any other OSError, and for any other error with the HTTP status of a store's response.

    An error outside these cases, for example a TypeError, is returned unchanged.
    """
    scheme, _, rest = url.partition("://")
    bucket, names = rest.partition("/")[0], frozenset(name for each in causes(error) for name in names_of(each))
    status, code = _answer(error)
    message = without_password(" ".join(str(error).split()))[:200].strip(", ") or type(error).__name__
    remedy = S3_CREDENTIALS if scheme == "s3" else GS_CREDENTIALS
    if names & {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound"}:
        return StorageError(f"{url}: there are no credentials for {scheme}:// ({message}): {remedy}")
    if code in _CREDENTIALS or status == 401 or "RefreshError" in names:
        return StorageError(f"{url}: the store refuses the credentials ({message}): {remedy}")
    if code == "NoSuchBucket":
        return StorageError(f"{url}: there is no bucket {bucket}: create it, or correct the name")
    if isinstance(error, FileExistsError) or status == 412 or code == "PreconditionFailed":
        return ObjectExists(url)
    if isinstance(error, FileNotFoundError) or status == 404:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    if isinstance(error, PermissionError) or status == 403 or str(error).startswith("Forbidden"):
        return StorageError(
            f"{url}: access is denied ({message}): give these credentials the right to read and write in this bucket"
        )
    if names & {"ParamValidationError", "InvalidBucketName"} or code == "InvalidBucketName":
        return StorageError(f"{url}: {bucket!r} is not the name of a bucket: correct the URL")
    if status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES or _is_away(error, names):
        return StoreUnavailable(errno.EIO, f"the store does not serve requests ({message}): try again later", url)
    if status == 416:
        return BeyondObjectEnd(url)
    if "BotoCoreError" in names or str(error).startswith("Invalid endpoint"):
        return StorageError(
            f"{url}: access to {scheme}:// is not set up correctly ({message}): correct the store's environment "
            "variables or configuration files"
        )
    if isinstance(error, OSError) or status:
        return OSError(getattr(error, "errno", None) or errno.EIO, message, url)
    return error


def _is_away(error: Exception, names: frozenset[str]) -> bool:
    if names & _SERVER_AWAY or names & {"FSTimeoutError", "ClientConnectionError", "ClientPayloadError", "ProxyError"}:
        return True
    return isinstance(error, ConnectionError | TimeoutError) or "ConnectionError" in names


def names_of(error: BaseException) -> frozenset[str]:
    """Return the names of the error's class and of all its base classes.

    With these names, an error of a library can be recognised without importing the library, which may not be installed.
    """
    return frozenset(each.__name__ for each in type(error).__mro__)


def _answer(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and the error code of the store's response, e.g. (404, "NoSuchKey").

    The status is 0 and the code is "" if the error does not contain them.
    """
    for each in causes(error):
        response = getattr(each, "response", None)
        if isinstance(response, dict):  # of botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return int(status), str(response.get("Error", {}).get("Code", ""))
        code = getattr(each, "code", None)  # of gcsfs
        if "HttpError" in names_of(each) and str(code).isdigit():
            return int(str(code)), ""
        status = getattr(each, "status", None)  # of aiohttp
        if "ClientResponseError" in names_of(each) and isinstance(status, int):
            return status, ""
    return 0, ""
