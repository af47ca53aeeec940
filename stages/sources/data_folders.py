"""Opens data sets in a local folder with the Hugging Face library ``datasets``, which then reads only this folder.

The folder may come from a stranger. Its header (the YAML in ``README.md`` or ``.huggingface.yaml``), a link, or the
list of files of a saved data set can name any file of the user. The library would read this file as a part of the
data set, and the run would publish its text. So each data file must be inside the folder. There is one exception: in
the Hub's cache, a link may lead to a file in the folder ``blobs`` of the same data set
(:func:`groundtrace.schemas.safe_files.is_inside`).

The library reads a name with ``::`` as a chain of files, so it opens another file than the one with this name. For
example, for a file with the name ``a.csv::b.csv`` it opens ``a.csv``. Such names are also dangerous in a zip archive.
For example, an archive from a stranger holds a file with the name ``a::/home/me/b.docx/c.txt``. The library then
opens ``/home/me/b.docx``, a private file of the user, because a .docx file is a zip archive, and reads a file in it.
Therefore ``::`` is forbidden in the names of files, and in the names that an archive holds.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from groundtrace.schemas.safe_files import is_elsewhere, read_json, read_regular, refuse_special
from groundtrace.stages.sources.base import InputError, RowSettings
from groundtrace.stages.sources.header_keys import check_keys
from groundtrace.stages.sources.packed_files import refuse_packed

if TYPE_CHECKING:
    import datasets

STATE: Final = "state.json"
"""The file in which ``save_to_disk`` lists the data files of a data set."""
_SAVED: Final = (STATE, "dataset_dict.json")
"""The files by which ``save_to_disk`` describes a data set, or several splits of it."""
INFO: Final = "dataset_info.json"
"""The file with the columns of a data set that ``save_to_disk`` wrote."""
MAX_VALUES: Final = 1_000_000
"""The maximum number of values in a list or mapping by which a data set names its data files or its splits.

A list or mapping with more values is refused. Few data sets have more than some thousand files.
"""
_UNCHECKED: Final = ("harbor", "hdf5", "lance")
"""The library's names of formats that are refused, because their readers also open files that are not in the list of
data files. For example, an HDF5 file can name other files as its raw storage."""


def open_folder(folder: str, rows: RowSettings) -> "datasets.IterableDataset":
    """Open the split ``rows.split`` of the data set in a folder, and return it. No row is read yet.

    ``folder`` is an absolute path. ``rows.name`` is the name of the configuration; "" for the default one. A
    ``Dataset`` that ``save_to_disk`` wrote has no splits, so all its rows are used. Raises InputError if the data set
    names a file outside the folder. Raises the errors of ``datasets``, such as ValueError for a missing split.
    """
    import datasets

    saved = saved_split(folder, rows)
    if saved is not None:
        return saved.to_iterable_dataset()
    _check_header(Path(folder))
    builder = datasets.load_dataset_builder(folder, rows.name or None)
    if builder.name in _UNCHECKED:
        raise InputError(
            f"the folder {folder} cannot be an input, because its files have the format {builder.name}: convert them "
            "to Parquet"
        )
    files = [file for listed in (builder.config.data_files or {}).values() for file in listed]
    _check_names(files)
    media = _media_endings(builder)
    read = [file for file in files if PurePosixPath(file).suffix.lower() not in media]
    _check_files(Path(folder), read)
    refuse_packed(read, media)
    return builder.as_streaming_dataset(split=rows.split)  # pyright: ignore[reportReturnType] (one split is named)


def saved_split(folder: str, rows: RowSettings) -> "datasets.Dataset | None":
    """Return the rows of a data set that ``save_to_disk`` wrote, memory-mapped from its files; None for any other data
    set.

    ``folder`` is an absolute path. If the data set is a ``DatasetDict``, only its split ``rows.split`` is returned. If
    the data set is a ``Dataset``, it has no splits, and all its rows are returned. Raises ValueError if a
    ``DatasetDict`` lacks the split, and InputError if the data set names a file outside the folder.
    """
    import datasets

    if saved_files(Path(folder)) is None:
        return None
    saved = datasets.load_from_disk(folder, keep_in_memory=False)
    if isinstance(saved, datasets.DatasetDict):
        if rows.split not in saved:
            raise ValueError(f"the data set has no split {rows.split}: choose one of {sorted(map(str, saved))}")
        saved = saved[rows.split]
    return saved


def saved_files(folder: Path) -> list[Path] | None:
    """Return the files of a data set that ``save_to_disk`` wrote, in the order in which the data set lists them; None
    for any other data set.

    Raises InputError if a file is outside the folder, and UnsafeFile for a pipe or a device. The library opens the
    files of all splits before it returns the data set. So the files of all splits are checked and returned. JSON files
    of the data set list these files. It is no error here if a JSON file lacks its list, because the library refuses
    such a data set.
    """
    state, splits = (folder / name for name in _SAVED)
    parts, files = [folder] if state.is_file() else [], []
    _check_files(folder, [str(splits)])
    if splits.is_file():
        names = [*_texts(_value_of(splits, "splits"), splits)]
        _check_names(names)
        parts += [folder / name for name in names]
        files.append(splits)
    for part in parts:
        described = [part / state.name, part / INFO]
        _check_files(folder, map(str, described))
        named = [part / name for name in _texts(_value_of(part / state.name, "_data_files"), part / state.name)]
        _check_files(folder, map(str, named))
        files += [*described, *named]
    return files or None


def _value_of(file: Path, key: str) -> Any:
    """Return the value of a key in a JSON file. Returns None if the file does not hold an object with this key.

    Raises OSError if the file cannot be read, and ValueError if it is not JSON.
    """
    content = read_json(file)
    return content.get(key) if isinstance(content, dict) else None


def _check_header(folder: Path) -> None:
    """Raise InputError if the header of the data set names files outside the folder, or has a key or a value that is
    not allowed (:func:`groundtrace.stages.sources.header_keys.check_keys`).

    This check must come before the library ``datasets`` reads the folder. With such a header, the library would search
    the disk, or send requests, to find the data files.
    """
    for name, configs in _headers(folder):
        for config in filter(lambda each: isinstance(each, dict), configs if isinstance(configs, list) else []):
            check_keys(folder / name, config)
            for pattern in _texts([config.get("data_files"), config.get("data_dir")], folder / name):
                if _leaves(pattern):
                    raise InputError(
                        f"the file {folder / name} names data files outside its folder ({pattern!r} in 'configs'): "
                        "remove this entry, or correct it to a path inside the folder"
                    )


def _headers(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield for each header of the data set the name of its file and its value of ``configs``, which may be invalid.

    Raises InputError if the file of a header is a link to a file outside the folder. Raises UnsafeFile if the file has
    too many bytes, or if it is a pipe or a device. The library would open a pipe or a device.
    """
    import yaml
    from datasets import config
    from huggingface_hub import DatasetCard

    card, header = (folder / name for name in (config.REPOCARD_FILENAME, config.REPOYAML_FILENAME))
    _check_files(folder, [str(card), str(header)])
    if card.is_file():
        yield card.name, DatasetCard(read_regular(card).decode("utf-8-sig")).data.get("configs")
    if header.is_file():
        values = yaml.safe_load(read_regular(header).decode("utf-8"))
        yield header.name, values.get("configs") if isinstance(values, dict) else None


def _texts(value: Any, file: Path) -> Iterator[str]:
    """Yield all texts in nested lists and mappings. ``value`` was read from ``file``, which errors name.

    In YAML, a list can contain the same list several times, or contain itself. So a short file can have more texts than
    the memory can hold. Raises InputError for more than :data:`MAX_VALUES` values.
    """
    left, count = [value], 0
    while left:
        item = left.pop()
        count += 1
        if count + len(left) > MAX_VALUES:
            raise InputError(f"{file} lists more than {MAX_VALUES} data files or splits: shorten this list")
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict | list):
            left += item.values() if isinstance(item, dict) else item


def _leaves(pattern: str) -> bool:
    """Return whether a path or pattern in the header could name a file outside the data set's folder.

    The result is True if the pattern is an absolute path, has ``..`` as a part, contains ``::``, or is a URL, such as
    ``file:a``.
    """
    path = PurePosixPath(pattern)
    return (
        path.is_absolute() or ".." in path.parts or ":" in pattern.split("/")[0] or "://" in pattern or "::" in pattern
    )


def _media_endings(builder: "datasets.DatasetBuilder") -> tuple[str, ...]:
    """Return the endings of media files, such as ".png", if ``builder`` reads a folder of media; otherwise ().

    The library only lists media files and does not open them. So they need no check before the library reads the data
    set. Each of these files is the medium of a record. The later check of the record's media refuses a link to a file
    outside the folder.
    """
    from datasets.packaged_modules.folder_based_builder.folder_based_builder import FolderBasedBuilder

    return tuple(builder.EXTENSIONS) if isinstance(builder, FolderBasedBuilder) else ()


def _check_files(folder: Path, files: Iterable[str]) -> None:
    """Raise InputError for the first of the ``files`` that is outside the folder after all links are followed.

    Raises UnsafeFile for a pipe or a device, since the library ``datasets`` would wait for it.
    """
    for file in files:
        _check_names([file])
        if is_elsewhere(Path(file), folder):
            raise InputError(
                f"the data set in the folder {folder} has a data file outside this folder ({file}): copy the file into "
                "the folder, or remove it from the data set"
            )
        refuse_special(Path(file))


def _check_names(files: Iterable[str]) -> None:
    """Raise InputError for the first path that contains ``::`` or ``://``.

    The library ``datasets`` would not open the file with this path. It reads a path with ``::`` as a chain of files,
    and a path with ``://`` as a URL.
    """
    for file in files:
        if "::" in file or "://" in file:
            raise InputError(
                f"the path {file!r} has '::' or '://', so the package `datasets` would open another file: rename this "
                "file or folder"
            )
