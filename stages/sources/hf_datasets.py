"""Reads data sets with the Hugging Face library ``datasets``: from the Hub by their id, or from a folder.

A name that begins with ``hf://`` always names a data set on the Hub (:mod:`groundtrace.stages.sources.hub_sets`). The
library may read any file below a folder, so no run may write its outputs there. Images are bytes in the rows, or paths
of files in the data set itself.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import RawRecord
from groundtrace.schemas.safe_files import is_inside
from groundtrace.stages.sources.base import Format, Input, InputError, NothingHere, RowSettings, Source
from groundtrace.stages.sources.data_folders import open_folder, saved_split
from groundtrace.stages.sources.folder_digest import folder_digest
from groundtrace.stages.sources.hub_names import SCHEME, may_be_hub_id
from groundtrace.stages.sources.hub_sets import HubSet, as_asked, hub_set
from groundtrace.stages.sources.rows import row_records
from groundtrace.storage.places import Place, RemotePath
from groundtrace.vision.decode import DEFAULT_LIMITS
from groundtrace.vision.media import MediaStore

if TYPE_CHECKING:
    import datasets

HUB_TIMEOUT_S = 5
"""The timeout for the Hub's first response, in each of two attempts."""
_CHATTY = ("huggingface_hub", "huggingface_hub.utils._http", "datasets")


class DataSets(Format):
    """Implements the input format of all data sets that the Hugging Face library ``datasets`` can read.

    This format is tried last, because any name can be the id of a data set.
    """

    name = "datasets"
    is_read_whole = True

    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """Return the data set in a folder or on the Hub as an input with one source.

        ``rows`` holds the settings by which rows become records. ``name`` is the name as the user typed it, and
        ``path`` the same name as a path. Raises NothingHere if ``name`` cannot name a data set, or if the folder is
        empty. Raises InputError if the data set cannot be read, or lacks the split or the configuration that the
        settings name.
        """
        if name.startswith(SCHEME):
            columns, records, identity = _known(name, rows)
            return Input(name, (Source(self.name, name, records=records),), name, identity, columns)
        if isinstance(path, RemotePath):
            raise NothingHere("the library `datasets` cannot read a folder in a remote store: copy it to this machine")
        root = str(path.resolve())
        if path.is_file():
            raise NothingHere(
                f"a {path.suffix} file cannot be an input" if path.suffix else "the file cannot be an input"
            )
        is_here = path.is_dir()
        if is_here and not any(path.iterdir()):
            raise NothingHere("the folder is empty")
        if not is_here and not may_be_hub_id(name):
            raise NothingHere("the name is not the id of a Hugging Face data set")
        found = root if is_here else name
        columns, records, identity = _known(found, rows)
        source = Source(self.name, found, records=records)
        return Input(name, (source,), root, identity, columns)  # an id's root is not a folder: its rows name no file

    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """Yield one record (a question with media and answer) for each row of the split that the setting ``rows.split``
        names.

        ``source`` is the part of the input to read. ``rows`` holds the settings by which rows become records. Images
        that a row contains as bytes are written to ``store``.
        """
        return row_records(_rows(source.path, rows), source, rows, store)


DATA_SETS = DataSets()


def open_data_set(path: str, rows: RowSettings) -> "datasets.IterableDataset":
    """Open one split of a data set, and return it. No row is read yet.

    ``path`` is the absolute path of a folder, the id of a data set on the Hub, or a name with ``hf://``. The setting
    ``rows.split`` is the name of the split, and ``rows.name`` is the name of the configuration. If ``path`` is a name
    with ``hf://`` that contains a configuration, ``rows.name`` is not used. Raises InputError if a data set in a folder
    names a file outside the folder. Raises the errors of ``datasets``, such as ValueError for a missing split or
    configuration.
    """
    import datasets

    if Path(path).is_absolute():
        return open_folder(path, rows)
    if path.startswith(SCHEME):
        on_hub = hub_set(path)
        name, revision = on_hub.config or rows.name or None, on_hub.revision or None
        return datasets.load_dataset(on_hub.id, name, split=rows.split, revision=revision, streaming=True)
    return datasets.load_dataset(path, rows.name or None, split=rows.split, streaming=True)


def own_image(value: Any, data_set: str) -> Any:
    """Return the value of an image column in a form that can be read later.

    ``value`` is a cell, or a list of cells, whose form is ``{"bytes", "path"}``. ``data_set`` is the data set's folder
    or id. An image with bytes stays unchanged, and so does a value of another form. For an image that is given only by
    its path, there are three cases:

    - The path of a file in the data set's folder becomes relative to this folder.
    - The bytes of a file in the data set's archive or on the Hub are read.
    - Any other path stays unchanged, so that the later check of the record's media refuses it. Otherwise a malicious
      row could name a private file, and the run would publish this file.
    """
    if isinstance(value, list):
        return [own_image(item, data_set) for item in value]
    if not isinstance(value, Mapping) or set(value) != {"bytes", "path"}:
        return value
    path = value["path"]
    if value["bytes"] is not None or not isinstance(path, str):
        return value
    folder = data_set.rstrip("/") + "/"
    if path.startswith(folder):
        return {"bytes": None, "path": path.removeprefix(folder)}
    archive = path.removeprefix("zip://").partition("::")[2] if path.startswith("zip://") else ""
    return {"bytes": _read_url(path), "path": path} if _is_inside(archive or path, data_set) else value


def _known(name: str, rows: RowSettings) -> tuple[frozenset[str], int | None, str]:
    """Return the names of a data set's columns, the number of its rows, and a digest that identifies its content.

    ``name`` is the absolute path of a folder, the id of a data set on the Hub, or a name with ``hf://``.
    If the columns are not known without reading rows, the first item is empty. If the number of rows is not known
    without reading rows, the second item is None. Raises InputError or NothingHere if the data set cannot be opened.
    """
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.CRITICAL)  # its retries would be logged before our one-line error
    try:
        saved = saved_split(name, rows) if Path(name).is_absolute() else None
        if saved is not None:
            return frozenset(saved.features), saved.num_rows, folder_digest(Path(name))
        if not Path(name).is_absolute():
            _reach_hub()
        opened = open_data_set(name, rows)
        splits = opened.info.splits or {}
        count = splits[rows.split].num_examples if rows.split in splits else None
        identity = folder_digest(Path(name)) if Path(name).is_absolute() else _hub_digest(name)
        return frozenset(opened.features or ()), count or None, identity  # 0 means an unknown number
    except UserError:
        raise
    except Exception as error:  # the library raises many kinds, its own and its HTTP client's
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if reason.startswith("Config name is missing") and name.startswith(SCHEME):
            reason = f"it has several configs: name one, as in {name}/rl"
        if isinstance(error, ValueError):
            chosen = f"input.split = {rows.split!r}" + (f" and input.name = {rows.name!r}" if rows.name else "")
            raise InputError(
                f"the data set {name} cannot be read with {chosen} ({reason}): correct input.split, input.name or "
                "--input"
            ) from error
        if Path(name).is_absolute():
            raise NothingHere(f"the package `datasets` cannot read the folder: {reason}") from error
        raise InputError(
            f"{name} is neither a file, nor a folder, nor a reachable data set on the Hub ({reason}): correct --input"
        ) from error


def _hub_digest(name: str) -> str:
    """Return a digest that identifies the content of a data set on the Hub, as 64 hexadecimal digits.

    ``name`` is the data set's id, or a name with ``hf://``. The digest is made of the id, the configuration in the name
    and the commit to which the revision leads. So all spellings of a name give the same digest, and a new commit gives
    another one. In offline mode the commit is unknown, and the revision is used in its place. Raises the errors of
    ``huggingface_hub`` if the Hub does not return the commit.
    """
    from huggingface_hub import HfApi, constants

    on_hub = hub_set(name) if name.startswith(SCHEME) else HubSet(name)
    commit = on_hub.revision
    if not constants.is_offline_mode():
        commit = HfApi().dataset_info(on_hub.id, revision=commit or None, timeout=HUB_TIMEOUT_S).sha or commit
    return hashlib.sha256(f"hf://{on_hub.id}/{on_hub.config}@{commit}".encode()).hexdigest()


def _reach_hub() -> None:
    """Raise ConnectionError if the Hub does not respond in time.

    Without this check, and without a network, the library would retry for half a minute, and then wrongly report that
    the data set does not exist. In offline mode the check is skipped, and the data set is read from the library's
    cache.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import http_backoff

    if constants.is_offline_mode():
        return
    try:
        http_backoff("HEAD", constants.ENDPOINT, max_retries=1, retry_on_status_codes=(), timeout=HUB_TIMEOUT_S)
    except Exception as error:  # errors of its HTTP client, whose classes differ between versions
        raise ConnectionError(f"the Hub at {constants.ENDPOINT} does not answer: {error}") from error


def _rows(path: str, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
    loaded = open_data_set(path, rows)
    images = {name for name, feature in (loaded.features or {}).items() if _is_of_images(feature)}
    if loaded.features:
        # A decoder would open the path or URL of a cell, at any depth: any file of the user, or a stranger's server.
        loaded = loaded.decode(False)
    data_set = hub_set(path).id if path.startswith(SCHEME) else path
    for row in _each(loaded, path):
        read = {name: own_image(value, data_set) if name in images else value for name, value in row.items()}
        yield as_asked(read) if path.startswith(SCHEME) else read


def _is_of_images(feature: Any) -> bool:
    import datasets

    item = feature.feature if isinstance(feature, datasets.List) else feature
    return isinstance(item, datasets.Image)


def _each(loaded: "datasets.IterableDataset", path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of the opened data set ``loaded``. ``path`` is its local folder, or its name on the Hub.

    Raises InputError if the data set is a local folder, and one of its files cannot be read. For a data set on the Hub,
    the errors of the library are raised unchanged.
    """
    try:
        yield from loaded
    except Exception as error:  # the errors of pandas, pyarrow and the library itself
        if not Path(path).is_absolute():
            raise  # an error of the connection to the Hub
        reason = (str(error).strip().splitlines() or [""])[0]
        raise InputError(
            f"a file in the folder {path} cannot be read; it may be empty ({type(error).__name__}: {reason}): find "
            "this file, and correct or remove it, or set --input to one file"
        ) from error


def _is_inside(path: str, data_set: str) -> bool:
    """Return whether a path names a file in the data set's folder or in its repository on the Hub.

    ``path`` is an absolute path, or a URL such as ``hf://datasets/ORG/NAME@REVISION/a.png``. ``data_set`` is the data
    set's folder or id. The result is False for a path with ``..`` or ``::``.
    """
    if "::" in path or ".." in path.split("/"):
        return False
    local = PurePosixPath(data_set).is_absolute() and path.startswith(data_set.rstrip("/") + "/")
    local = local and is_inside(Path(path).resolve(), Path(data_set).resolve())
    return local or bool(re.match(rf"hf://datasets/{re.escape(data_set)}(@[^/]+)?/", path))


def _read_url(url: str) -> bytes | None:
    """Return the bytes of the file ``url`` on the Hub or in an archive; None if it does not exist.

    If the file is larger than an image may be, only its beginning is read: one byte more than allowed, so that the
    later check of the image refuses it.
    """
    import fsspec

    try:
        files, path = fsspec.url_to_fs(url)
        with files.open(path, "rb") as stream:
            return stream.read(DEFAULT_LIMITS.max_bytes + 1)
    except (FileNotFoundError, KeyError):
        return None
