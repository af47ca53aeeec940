"""Writes the documentation of a config: a reference in Markdown, and TOML with all defaults and comments.

Both are made only from the settings classes (one class for each section of the config). The types, bounds and meanings
of the keys are from the annotations; the texts about the sections are from the docstrings of the classes.
"""

import dataclasses
import functools
import json
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from groundtrace.config.fields import default_of, section_class

LINE_CHARS = 120
PLAIN = ("integer", "number", "text", "true or false", "list (text)")
"""The types that the TOML of :func:`commented_defaults` does not mention, because the default value shows them."""


@dataclass(frozen=True)
class ConfigKey:
    """Describes one key of a config, for the documentation of the config.

    Attributes:
        name: The key without its section, such as ``n``.
        takes: The type and the bounds of the value in words, such as "integer ≥ 1". The text is "" for the
            keys of default entries (:attr:`ConfigSection.entries`), which are shown as TOML, without types.
        default: The default value as TOML; "" if the key has no default.
        meaning: One line on what the key does; "" if there is none.
        required: Whether the user must set the key.
    """

    name: str
    takes: str
    default: str
    meaning: str
    required: bool = False


@dataclass(frozen=True)
class ConfigSection:
    """Describes one section of a config, for the documentation of the config.

    Attributes:
        path: The dotted path of the section, such as ``trace``; "" for the top level.
        text: The purpose of the section, in Markdown.
        keys: The keys of the section.
        entries: The default content of a section that maps names to values; ``()`` for all other sections. If each
            value is a group of settings, there is one entry for each default name: the section ``endpoints`` has the
            entry ``endpoints.colour`` for the default model server ``colour``. If each value is a single value, such as
            a text, there is only one entry. Its keys are all default names, with their values: ``policy = "coarse"``
            and ``judge = "colour"`` in the section ``roles``.
    """

    path: str
    text: str
    keys: tuple[ConfigKey, ...]
    entries: tuple["ConfigSection", ...] = ()


def config_reference(cls: type, level: int = 2, without: str = "", path: str = "") -> str:
    """Return the reference of a config as Markdown: a heading, the purpose and a table of the keys for each section.

    ``cls`` is the settings class of the config. ``level`` is the level of the headings: 2 gives ``##``. ``without`` is
    the name of a section to leave out, because another page documents it; "" leaves out no section. ``path`` is the
    dotted key of the section that ``cls`` describes; "" for a whole config.
    """
    parts = []
    for section in sections(cls, path):
        if without and section.path.split(".")[0] == without:
            continue
        parts.append(f"{'#' * level} {f'`[{section.path}]`' if section.path else 'Top level'}")
        parts.append(section.text)
        if section.keys:
            rows = ["| key | takes | default | meaning |", "|---|---|---|---|", *map(_row, section.keys)]
            parts.append("\n".join(rows))
        if section.entries:
            entries = "\n\n".join(map(_toml_entry, section.entries))
            parts.append(f"By default:\n\n```toml\n{entries}\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def commented_defaults(cls: type) -> str:
    """Return a config as TOML: every key with its default, and a comment on the key's meaning.

    The comment also states the key's type, unless the default shows the type. ``cls`` is the settings class of the
    config. Keys without a default are commented out. So are the keys of a section whose name the user chooses, such as
    ``[endpoints.NAME]``.
    """
    parts = [_toml_section(section) for section in sections(cls)]
    return "\n\n".join(part for part in parts if part) + "\n"


def sections(cls: type, path: str = "", holder: Any = None) -> Iterator[ConfigSection]:
    """Yield a description of each section of a config, in order. Each section comes before the sections inside it.

    ``cls`` is a settings class. ``path`` is the dotted key of the section that ``cls`` describes, such as ``trace``; ""
    for the whole config. A config may give a section other defaults than ``cls`` declares. ``holder`` is then an object
    of ``cls`` with these other defaults. If ``holder`` is None, the defaults that ``cls`` declares are used.
    """
    shape = _json_schema(cls)
    plain, annotated = typing.get_type_hints(cls), typing.get_type_hints(cls, include_extras=True)
    keys: list[ConfigKey] = []
    below: list[ConfigSection] = []
    for field in dataclasses.fields(cls):
        place = f"{path}.{field.name}".removeprefix(".")
        metadata = getattr(annotated[field.name], "__metadata__", ())
        meaning = next((each for each in metadata if isinstance(each, str)), "")
        section, _ = section_class(plain[field.name])
        takes = shape["properties"][field.name]
        default = default_of(field, holder)
        if isinstance(default, Mapping):
            below += _named(section, place, meaning, takes, default)
        elif section is not None:
            below += sections(section, place, default if isinstance(default, section) else None)
        else:
            required = default is dataclasses.MISSING
            shown = "" if required or default is None else json.dumps(default, ensure_ascii=False)
            keys.append(ConfigKey(field.name, _takes(takes, shape.get("$defs", {})), shown, meaning, required))
    yield ConfigSection(path, _prose(cls), tuple(keys))
    yield from below


@functools.cache
def _json_schema(cls: type) -> Mapping[str, Any]:
    """Return the JSON schema of the settings class ``cls``.

    The schema is cached, because a training run uses it again at each step, for its report train.html.
    """
    return TypeAdapter(cls).json_schema()


def _named(
    section: type | None, place: str, meaning: str, takes: Mapping[str, Any], default: Mapping[str, Any]
) -> Iterator[ConfigSection]:
    """Yield the descriptions of a settings field that is a mapping, such as ``endpoints``.

    The first result describes the field, with its default entries. If each value of the mapping is a group of settings,
    this result also describes the keys of the group, and the further results describe the sections inside the group.

    ``section`` is the settings class of the mapping's values; None if the values are single values, such as texts.
    ``place`` is the dotted key of the field, ``meaning`` is the line of text that describes the field, ``takes`` is the
    field's JSON schema, and ``default`` is the field's default value.
    """
    text = f"{meaning[:1].upper()}{meaning[1:]}." if meaning else ""
    if section is None:
        known = takes.get("propertyNames", {}).get("enum", ())
        text += f" Its keys are among {', '.join(f'`{name}`' for name in known)}." if known else ""
        entry = tuple(ConfigKey(name, "", json.dumps(value, ensure_ascii=False), "") for name, value in default.items())
        yield ConfigSection(place, text.strip(), (), (ConfigSection(place, "", entry),) if entry else ())
        return
    first, *rest = sections(section, f"{place}.NAME")
    entries = tuple(_entry(f"{place}.{name}", entry) for name, entry in default.items())
    yield dataclasses.replace(first, text=f"{text}\n\n{first.text}".strip(), entries=entries)
    yield from rest


def _entry(path: str, settings: Any) -> ConfigSection:
    """Return the section for one entry that a mapping of the config has by default.

    ``path`` is the dotted key of the entry, such as ``endpoints.colour`` for the entry ``colour`` of the mapping
    ``endpoints``. ``settings`` is the value of the entry. The section has only the keys whose values differ from the
    defaults of the value's class.
    """
    values = {field.name: (getattr(settings, field.name), field.default) for field in dataclasses.fields(settings)}
    keys = (
        ConfigKey(name, "", json.dumps(value, ensure_ascii=False), "")
        for name, (value, default) in values.items()
        if value != default
    )
    return ConfigSection(path, "", tuple(keys))


def _takes(shape: Mapping[str, Any], shapes: Mapping[str, Any]) -> str:
    """Describe in words which values a config key accepts, e.g. "integer, 1 to 8".

    ``shape`` is the JSON schema of the value. ``shapes`` holds the schemas to which ``$ref`` refers, by name.
    """
    if "$ref" in shape:
        return _takes(shapes[shape["$ref"].rpartition("/")[2]], shapes)
    if "anyOf" in shape:
        return " or ".join(_takes(each, shapes) for each in shape["anyOf"] if each.get("type") != "null")
    if "enum" in shape or "const" in shape:
        return ", ".join(f'`"{word}"`' for word in shape.get("enum", [shape.get("const")]))
    if "prefixItems" in shape:
        return f"list ({', '.join(_takes(each, shapes) for each in shape['prefixItems'])})"
    if shape["type"] == "array":
        return f"list ({_takes(shape['items'], shapes)})"
    words = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false", "object": "table"}
    return words[shape["type"]] + _bounds(shape)


def _bounds(shape: Mapping[str, Any]) -> str:
    if "minimum" in shape and "maximum" in shape:
        return f", {shape['minimum']:g} to {shape['maximum']:g}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {shape[name]:g}" for name, sign in signs.items() if name in shape]
    return (", not empty" if shape.get("minLength") else "") + (f" {' and '.join(bounds)}" if bounds else "")


def _prose(cls: type) -> str:
    """Convert the docstring of a settings class to Markdown."""
    text = re.sub(r":\w+:`([^`]*)`", r"`\1`", textwrap.dedent(f"    {cls.__doc__ or ''}")).replace("``", "`")
    return "\n\n".join(_unwrapped(paragraph) for paragraph in re.split(r"\n\s*\n", text.strip()))


def _unwrapped(paragraph: str) -> str:
    """Return a paragraph in one line, or each item of a bullet list in one line."""
    return "\n".join(" ".join(item.split()) for item in re.split(r"\n(?=\s*- )", paragraph))


def _row(key: ConfigKey) -> str:
    default = f"`{key.default}`" if key.default else "*required*" if key.required else "*left out*"
    cells = (f"`{key.name}`", key.takes, default, key.meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _toml_section(section: ConfigSection) -> str:
    """Write a section as TOML.

    If the user chooses the section's name, as in ``[endpoints.NAME]``, the section's keys are commented out. The
    default entries, such as ``[endpoints.colour]``, follow.
    """
    named = ".NAME" in section.path
    lines = [line for text in re.split("\n+", section.text) for line in _comment(text)]
    if section.path and (section.keys or not section.entries):
        lines.append(f"{'# ' if named else ''}[{section.path}]")
    for key in section.keys:
        off = "# " if named or key.required or not key.default else ""
        takes = "" if key.default and key.takes in PLAIN else f"({key.takes})".replace("`", "")
        line, comment = f"{off}{key.name} = {key.default or '…'}", " ".join(filter(None, [key.meaning, takes]))
        whole = f"{line}  # {comment}" if comment else line
        lines += [whole] if len(whole) <= LINE_CHARS else [*_comment(comment), line]
    if section.entries:
        lines += [*([""] if named else []), "\n\n".join(map(_toml_entry, section.entries))]
    return "\n".join(lines)


def _toml_entry(entry: ConfigSection) -> str:
    return "\n".join([f"[{entry.path}]", *(f"{key.name} = {key.default}" for key in entry.keys)])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, LINE_CHARS, initial_indent="# ", subsequent_indent="# ")
