"""Loads and fills the versioned prompt files of this folder, and of folders that pipelines add.

A prompt is a file ``NAME.vN.yaml``. It has the fields id, version, purpose, paper, variables, media (names of the
places for images), system (text of the system turn), user and reply_schema (JSON schema of the reply). ``user`` is a
list of ``text`` and ``media`` parts in the order in which the model gets them. A released version is never edited: a
change needs a new version. If no code sends a version any more, the version is retired: its file is deleted. Its name,
digest and purpose are kept in ``retired.json``, because older rows name this version in their column ``lineage``, which
lists the prompts and models that made a row.
"""

import functools
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import jinja2
import jinja2.meta
import yaml

from groundtrace.grading.messages import MediaPart, Part, TextPart
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.yaml_text import read_yaml

_FIELDS = {"id", "version", "purpose", "paper", "variables", "media", "system", "user", "reply_schema"}
_TEMPLATES = jinja2.Environment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
)


class PromptError(UserError):
    """Raised if a prompt file is malformed or missing, or if a prompt is filled with the wrong variables or media."""


@dataclass(frozen=True)
class RenderedPrompt:
    """Holds a prompt whose variables and media slots (places for images) are filled, ready to send to a model.

    ``name`` and ``sha256`` identify the prompt file (:class:`Prompt`). ``system`` is the text of the system turn, and
    ``user`` the text and media parts of the user turn in order. ``reply_schema`` is the JSON schema of the reply as
    text; None if the reply is free text. ``variables`` holds the values with which the prompt was filled, as (name,
    value) pairs sorted by name.
    """

    name: str
    sha256: str
    system: str
    user: tuple[Part, ...]
    reply_schema: str | None
    variables: tuple[tuple[str, str], ...]

    def variable(self, name: str) -> str:
        """Return the value of the variable ``name``. Raises KeyError if the prompt has no variable of this name."""
        return dict(self.variables)[name]

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Return the media parts of the user turn (images and frames), in order."""
        return tuple(part for part in self.user if isinstance(part, MediaPart))


@dataclass(frozen=True)
class Prompt:
    """Holds the content of one prompt file, before its variables and media slots (places for images) are filled.

    Attributes:
        name: the prompt's id and version, e.g. "judge_pair.v1".
        sha256: the digest of the file's bytes.
        purpose: a sentence about what the prompt is for.
        paper: the paper, and its section, on which the prompt is based.
        variables: the names of the variables that the texts use.
        media: the names of the media slots, i.e. the places where images or frames are inserted.
        system: the template of the system turn.
        user: the parts of the user turn in order, as (kind, value) pairs. For the kind "text", the value is a template.
            For "media", it is the name of a media slot.
        reply_schema: the JSON schema of the reply as text; None if the reply is free text.
    """

    name: str
    sha256: str
    purpose: str
    paper: str
    variables: tuple[str, ...]
    media: tuple[str, ...]
    system: str
    user: tuple[tuple[str, str], ...]
    reply_schema: str | None

    def render(self, media: Mapping[str, Sequence[Part]] | None = None, **variables: str) -> RenderedPrompt:
        """Fill the prompt with variables and media, and return the result.

        ``media`` maps the name of each media slot (place for images) to the parts that are inserted there; None is the
        same as an empty mapping. The parts may include texts between the media. These texts are used unchanged.
        ``variables`` gives each variable's value by name.

        Raises :class:`PromptError` if a variable or media slot of the prompt gets no value, or if a name is not in the
        prompt. The message states the name.
        """
        media = media or {}
        called = "render() must be called with"
        _require_exactly(self.name, called, "variables", set(self.variables), set(variables))
        _require_exactly(self.name, called, "media", set(self.media), set(media))
        parts: list[Part] = []
        for kind, value in self.user:
            if kind == "media":
                parts.extend(media[value])
            else:
                parts.append(TextPart(_fill(value, variables)))
        return RenderedPrompt(
            name=self.name,
            sha256=self.sha256,
            system=_fill(self.system, variables),
            user=tuple(parts),
            reply_schema=self.reply_schema,
            variables=tuple(sorted(variables.items())),
        )


@dataclass(frozen=True)
class RetiredPrompt:
    """Describes a prompt version that no code sends any more.

    ``sha256`` is the digest of the prompt's file, and ``purpose`` describes the use of the prompt. ``revision`` is a
    commit of this repository that still contains the file.
    """

    sha256: str
    purpose: str
    revision: str


_compiled = functools.cache(_TEMPLATES.from_string)


def _fill(template: str, variables: dict[str, str]) -> str:
    return (_compiled(template).render(variables) if "{" in template else template).strip()


def _require_exactly(prompt: str, rule: str, field: str, declared: set[str], given: set[str]) -> None:
    """Raise PromptError if the names ``given`` differ from the names ``declared``.

    ``declared`` are the names in the field ``field`` of the prompt's file, e.g. in ``variables``. ``prompt`` is the
    prompt's name, for the message. ``rule`` is the beginning of the message's sentence, e.g. "`user` must use".
    """
    if declared != given:
        wrong = [f"{name!r} of this list is missing" for name in sorted(declared - given)]
        wrong += [f"{name!r} is not in this list" for name in sorted(given - declared)]
        raise PromptError(
            f"prompt {prompt}: {rule} exactly the names in the list `{field}` of the prompt's file, but "
            f"{' and '.join(wrong)}: correct the names that are used, or this list"
        )


_FOLDERS: list[Path] = []
"""Further prompt folders, such as those of a user's own pipelines."""


def add_prompt_folder(folder: Path) -> None:
    """Let :func:`load_prompt` also find the prompt files in ``folder``, e.g. those of a user's own pipelines.

    A folder that was added before is ignored. Raises :class:`PromptError` if a file in it has the name of another
    prompt.
    """
    if folder in _FOLDERS:
        return
    taken = sorted(set(_names(folder)) & {*prompt_names(), *retired_prompts()})
    if taken:
        raise PromptError(
            f"{folder / taken[0]}.yaml: Groundtrace or another recipe has or had a prompt of this name: rename this "
            "file, and change the id or version in it to match"
        )
    _FOLDERS.append(folder)


def forget_prompts(folders: Collection[Path] = ()) -> None:
    """Let :func:`load_prompt` read the present files of all prompts, and find no more prompts in ``folders``."""
    load_prompt.cache_clear()
    _FOLDERS[:] = [folder for folder in _FOLDERS if folder not in folders]


@functools.cache
def load_prompt(name: str) -> Prompt:
    """Return the prompt with the given name, e.g. "judge_pair.v1".

    Raises :class:`PromptError` if the file does not exist, if the prompt is retired, or if a field is missing or
    unknown. Also raises PromptError if the texts of the file do not use exactly the variables and media slots (places
    for images) in its fields ``variables`` and ``media``.
    """
    for folder in (resources.files("groundtrace.prompts"), *_FOLDERS):
        file = folder.joinpath(f"{name}.yaml")
        if file.is_file():
            return parse_prompt(name, file.read_bytes())
    if retired := retired_prompts().get(name):
        newer = _newest_version(name.rpartition(".v")[0])
        raise PromptError(
            f"the prompt {name} was removed: use {newer}, or copy prompts/{name}.yaml from Groundtrace's Git revision "
            f"{retired.revision[:12]} and give the copy another id"
        )
    raise PromptError(f"there is no prompt {name!r}; use one of {', '.join(prompt_names())}")


def _newest_version(id: str) -> str:
    """Return the name of the newest version of the prompt with this id, such as "judge_answer.v3" for "judge_answer".

    The prompt is one of Groundtrace itself.
    """
    names = _names(resources.files("groundtrace.prompts"))
    return max((each for each in names if each.startswith(f"{id}.v")), key=lambda each: int(each[len(id) + 2 :]))


@functools.cache
def retired_prompts() -> dict[str, RetiredPrompt]:
    """Return the prompt versions that were released and are no longer sent. A key is a name, e.g. "judge_answer.v2"."""
    retired = json.loads(resources.files("groundtrace.prompts").joinpath("retired.json").read_text("utf-8"))
    return {name: RetiredPrompt(**fields) for name, fields in retired.items()}


def purpose_of(name: str, sha256: str) -> str:
    """Return the purpose of a prompt that a row names in its column ``lineage``. Returns "" for an unknown prompt.

    ``name`` is the prompt's name and version, and ``sha256`` the digest of its file. The row has them in the column
    ``lineage``, which lists the prompts and models that made the row. A retired prompt is unknown if ``sha256`` is not
    the digest in ``retired.json``. For other prompts, ``sha256`` is not compared. A prompt of a user's pipeline is
    unknown if this pipeline is not loaded here.
    """
    if retired := retired_prompts().get(name):
        return retired.purpose if retired.sha256 == sha256 else ""
    try:
        return load_prompt(name).purpose
    except PromptError:
        return ""


def prompt_names() -> list[str]:
    """Return the sorted names of all prompt files, e.g. "judge_pair.v1". Retired prompts are not included."""
    return sorted(name for folder in (resources.files("groundtrace.prompts"), *_FOLDERS) for name in _names(folder))


def _names(folder: Traversable) -> list[str]:
    return [file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")]


def parse_prompt(name: str, data: bytes) -> Prompt:
    """Return the prompt that the bytes of a prompt file describe.

    ``name`` is the file's name without ``.yaml``; the id and version in the file must match it. ``data`` holds the
    file's bytes. Raises :class:`PromptError` if the content is invalid, as :func:`load_prompt` does.
    """
    try:
        return _parse(name, data)
    except (yaml.YAMLError, jinja2.TemplateError) as error:
        wrong = (
            "the file is not YAML"
            if isinstance(error, yaml.YAMLError)
            else "a text in the file is not a Jinja template"
        )
        raise PromptError(f"prompt {name}: {wrong} ({' '.join(str(error).split())}): correct the file") from error


def _parse(name: str, data: bytes) -> Prompt:
    fields = read_yaml(data)
    if not isinstance(fields, dict) or set(fields) != _FIELDS:
        raise PromptError(f"prompt {name}: the file must have exactly the fields {sorted(_FIELDS)}")
    if f"{fields['id']}.v{fields['version']}" != name:
        raise PromptError(
            f"prompt {name}: the id and version in the file give the name {fields['id']}.v{fields['version']}, which "
            "is not the name of the file: rename the file, or correct the id or the version"
        )
    if not isinstance(fields["user"], list):
        raise PromptError(
            f"prompt {name}: the field `user` must be a list of entries `text: TEXT` or `media: NAME`, got "
            f"{fields['user']!r:.80}"
        )
    user = tuple(_user_part(name, part) for part in fields["user"])
    if not isinstance(fields["system"], str):
        raise PromptError(f"prompt {name}: the field `system` must be a text")
    used = _used_variables(fields["system"], *(value for kind, value in user if kind == "text"))
    media = {value for kind, value in user if kind == "media"}
    _require_exactly(name, "`system` and `user` must use", "variables", set(fields["variables"]), used)
    _require_exactly(name, "`user` must use", "media", set(fields["media"]), media)
    schema = fields["reply_schema"]
    return Prompt(
        name=name,
        sha256=hashlib.sha256(data).hexdigest(),
        purpose=fields["purpose"],
        paper=fields["paper"],
        variables=tuple(fields["variables"]),
        media=tuple(fields["media"]),
        system=fields["system"],
        user=user,
        reply_schema=None if schema is None else json.dumps(schema, sort_keys=True, separators=(",", ":")),
    )


def _user_part(name: str, part: object) -> tuple[str, str]:
    """Return the kind (``text`` or ``media``) and the value of ``part``, a part of the user turn in a prompt file.

    ``name`` is the name of the prompt, for errors. Raises PromptError if the part has another form.
    """
    pairs = list(part.items()) if isinstance(part, dict) else []
    if len(pairs) != 1 or pairs[0][0] not in ("text", "media") or not isinstance(pairs[0][1], str):
        raise PromptError(
            f"prompt {name}: each entry under `user` must be `text: TEXT` or `media: NAME`, got {part!r:.80}"
        )
    return pairs[0]


def _used_variables(*templates: str) -> set[str]:
    return set().union(*(jinja2.meta.find_undeclared_variables(_TEMPLATES.parse(text)) for text in templates))
