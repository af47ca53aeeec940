"""Checks offline the front matter of a data card (the YAML block at its beginning, which the Hub reads).

The Hub itself checks the card of each run that is published. This module finds the same mistakes without the Hub, so
that a dry run reports them, too. The module also finds some mistakes that the Hub accepts, such as a config without
files. The allowed fields are those on the Hub's page about data set cards.
"""

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from groundtrace.publishing.front_matter import HUB_LICENCES
from groundtrace.schemas.yaml_text import read_yaml

TASKS = frozenset((
    "visual-question-answering", "image-text-to-text", "video-text-to-text", "question-answering", "image-to-text",
    "object-detection", "text-generation", "reinforcement-learning",
))  # fmt: skip
SIZES = frozenset((
    "n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B", "10B<n<100B",
    "100B<n<1T", "n>1T",
))  # fmt: skip
KNOWN = frozenset((
    "license", "license_name", "license_link", "pretty_name", "language", "task_categories", "task_ids",
    "size_categories", "tags", "configs", "dataset_info", "annotations_creators", "source_datasets", "viewer",
))  # fmt: skip
MAX_TAG_CHARS, MAX_NAME_CHARS = 64, 256


def problems_of(card: str, files: Sequence[str]) -> list[str]:
    """Return the problems in the front matter of a data card, one text each; empty if there are none.

    ``card`` is the text of the card. ``files`` are the paths of the files that will be published with it.
    """
    parts = card.split("---\n", 2)
    if len(parts) < 3 or parts[0]:
        return ["it does not begin with front matter between two lines of ---"]
    try:
        front = read_yaml(parts[1])
    except yaml.YAMLError as error:
        return [f"its front matter is not YAML: {' '.join(str(error).split())[:200]}"]
    if not isinstance(front, dict):
        return ["its front matter is not a mapping"]
    return [
        *(f"the field {name} is not documented" for name in sorted(map(str, set(front) - KNOWN))),
        *_fields(front, files),
    ]


def _fields(front: Mapping[str, Any], files: Sequence[str]) -> Iterator[str]:
    """Yield the problems in the fields of the front matter. ``files`` are the paths of the published files."""
    for name, allowed in (
        ("license", {*HUB_LICENCES, "other"}),
        ("task_categories", TASKS),
        ("size_categories", SIZES),
    ):
        yield from (f"{name}: {value!r} is unknown to the Hub" for value in _listed(front, name, allowed.__contains__))
    if front.get("license") == "other" and not isinstance(front.get("license_name"), str):
        yield "license: other needs a license_name"
    if not 0 < len(str(front.get("pretty_name") or "")) <= MAX_NAME_CHARS:
        yield f"pretty_name must have 1 to {MAX_NAME_CHARS} characters"
    too_long = _listed(front, "tags", lambda tag: isinstance(tag, str) and len(tag) <= MAX_TAG_CHARS)
    yield from (f"tags: {value!r} is not a text of at most {MAX_TAG_CHARS} characters" for value in too_long)
    yield from _configs(front.get("configs", []), files)


def _listed(front: Mapping[str, Any], name: str, is_right: Callable[[Any], bool]) -> list[Any]:
    """Return the wrong values of the field ``name`` of the front matter, which holds one value or a list of values.

    ``front`` is the front matter (the YAML block at the beginning of a data card). A value is wrong if it is not a
    text, or if ``is_right`` returns False for it.
    """
    value = front.get(name, [])
    values = value if isinstance(value, list) else [value]
    return [each for each in values if not isinstance(each, str) or not is_right(each)]


def _configs(configs: Any, files: Sequence[str]) -> Iterator[str]:
    """Yield the problems in the configs (named parts of a data set on the Hub). ``files`` are the paths of the
    published files.
    """
    if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
        yield "configs is not a list of mappings"
        return
    names = [config.get("config_name") for config in configs]
    if len(set(map(str, names))) < len(names):
        yield "configs: two have the same name"
    for config in configs:
        pattern = config.get("data_files")
        if not isinstance(pattern, str) or not fnmatch.filter(files, pattern):
            yield f"configs: {config.get('config_name')} matches no published file: {pattern!r}"
