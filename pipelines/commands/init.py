"""Implements ``beam init``, which writes a config to start from.

The config names the input column that holds each field, such as the question. It also lists the columns that are not
used. The endpoint in the config is a model server on this machine. With ``--embedded``, the config has no endpoint, and
the embedded engine replaces all models. This engine is a part of Groundtrace without a neural network, and reads only
drawn shapes. Before ``beam run`` can use the config, the user may have to change the config:

- If the model is on another server, the user changes three lines.
- If no column was found for a required field, the config has a line in which the user writes the column's name.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from groundtrace.pipelines.running.plan.columns import (
    guess_columns,
    has_id_column,
    input_block,
    keep_lines,
    missing_fields,
    suggestions,
    unused_columns,
)
from groundtrace.pipelines.running.plan.inputs import check_questions, count_records, find_input, first_rows
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.text import counted, printable
from groundtrace.stages.sources.base import Input, RowSettings
from groundtrace.stages.sources.options import has_options
from groundtrace.stages.sources.shapes.base import OneRecordPerRow, Row, Shape
from groundtrace.stages.sources.shapes.registry import shape_of

_LETTER = re.compile(r"\W*[A-Z]\W*")
_MODELS = """# Correct these three lines if they differ for you: where your model is, its name, and its key.
[endpoints.model]
kind = "openai"                          # any server that speaks OpenAI's chat API, such as vLLM; or "gemini"
base_url = "http://localhost:8000/v1"    # 1: the server's URL ("" for gemini)
model = "Qwen/Qwen3-VL-8B-Instruct"      # 2: the model's name at the server
api_key_env = ""                         # 3: the environment variable that holds the key; "" if there is none
family = "qwen3-vl"                      # how the model writes points and boxes: docs/models.md lists the families

# One model in all roles. Better: another model as detector and judge, because it checks the others' work.
[roles]
policy = "model"      # answers the questions: its pass rate is their difficulty
teacher = "model"     # names what to point at and writes the traces
pointer = "model"     # finds the points
detector = "model"    # finds boxes, to check the points
judge = "model"       # reads the reasoning
segmenter = ""        # none: boxes replace masks

# `beam config` prints every other setting with its default."""
_EMBEDDED = """# No model server: the embedded engine has all roles. It reads drawn shapes, not photographs.
# For a config with a model server, run `beam init` without --embedded.
# `beam config` prints every other setting with its default."""

_LEFT_OPEN = re.compile(r'^# (\w+) = "…"', re.MULTILINE)
"""Matches a line of the config for a field, such as the answer, for which no column was found."""
_UNREAD = re.compile(r"^# (not read: .*)$", re.MULTILINE)
"""Matches the line of the config on files of the input's folder that are not read."""


def init(parsed: argparse.Namespace, _: Sequence[str] = ()) -> int:
    """Write a config for an input to the file ``--output``, or print it, and return the exit code, which is 0.

    ``parsed`` holds the parsed arguments of the command line. The second argument is not used. Raises UserError for an
    input that cannot be read, and for a file that already exists or cannot be written.
    """
    text = starting_config(parsed.input, parsed.output or "my.toml", parsed.embedded)
    if parsed.output is None:
        sys.stdout.write(text)
        return 0
    try:
        with Path(parsed.output).open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise UserError(f"{parsed.output} already exists: name another file, or remove it") from error
    except OSError as error:
        raise UserError(f"cannot write {parsed.output}: {error.strerror or error}: choose another --output") from error
    if note := re.search(_UNREAD, text):
        print(note[1])
    left = [*re.findall(_LEFT_OPEN, text)]
    steps = [f"fill in {' and '.join(filter(None, [', '.join(left[:-1]), left[-1]]))}"] if left else []
    if not parsed.embedded:
        steps.append("correct base_url, model and api_key_env if your server is another")
    now = f"{', and '.join(steps)}, then: " if steps else ""
    print(f"{parsed.output}: {now}{_command('validate', parsed.input, parsed.output)}")
    return 0


def starting_config(data: str, name: str, embedded: bool = False) -> str:
    """Return a config for an input, as TOML text with comments.

    ``data`` names the input: a file, a folder or the id of a data set. ``name`` is the file to which the config will be
    written; the example commands in the config's comments contain this name. If ``embedded`` is True, the config names
    no model server. The embedded engine (a part of Groundtrace without a neural network) then replaces all models.
    Raises :class:`groundtrace.stages.sources.base.InputError` for an input that cannot be read.
    """
    found = find_input(data)
    check_questions(found, RowSettings())
    total = count_records(found.sources)
    records = "an unknown number of records" if total is None else counted(total, "record")
    lines = [
        f"# {printable(found.name)}: {records}, {', '.join(sorted({source.kind for source in found.sources}))}",
        *([f"# {printable(found.unread_note)}"] if found.unread else []),
        f"# columns: {', '.join(map(printable, sorted(found.columns))) or 'not known before they are read'}",
        "#",
        f"#   {_command('validate', data, name)}",
        f"#   {_command('preview', data, name)} --output runs/look",
        f"#   {_command('run', data, name)} --output runs/mine",
        "",
        _EMBEDDED if embedded else _MODELS,
        "",
        *_block(found),
    ]
    return "\n".join(lines) + "\n"


def _block(found: Input) -> list[str]:
    """Return the config lines on the input.

    The first lines depend on the layout of the input's rows:

    - If the layout is a special one (``shape``), such as the conversations of LLaVA, the lines name this layout.
    - If each row is one record, the lines list the columns that are not used. If necessary, a further line sets how the
      choices of a question are read (:func:`_choice_lines`). If the input must have ids, but no column can hold them,
      a line sets ``number_ids``.

    The last lines name the column that holds each field, or set the field to a constant, e.g. the same licence for all
    rows.
    """
    first = first_rows(found)
    shape = shape_of(found.columns, first)
    are_rows = all(source.kind != "jsonl" for source in found.sources)
    guessed = guess_columns(found.columns, first)
    fields = missing_fields(found.columns, RowSettings(shape=shape.name), are_rows)
    is_numbered = "id" in fields and "id" not in guessed and not has_id_column(found.columns, first)
    if is_numbered:
        fields = missing_fields(found.columns, RowSettings(number_ids=True), are_rows)
    optional = [name for name in ("id", "choices") if name not in shape.gives and guessed.get(name, name) != name]
    wanted, source = dict.fromkeys([*fields, *optional]), Path(found.name).name or found.name
    if shape.name != OneRecordPerRow.name:  # such a shape reads other columns than those of the fields
        return [*_shape_lines(found, shape, first), *input_block(found.columns, wanted, source)]
    unused = unused_columns(found.columns, first)
    suggested = suggestions(unused)
    kept = keep_lines(unused, suggested, lacks_answer="answer" in fields and "answer" not in guessed)
    block = input_block(found.columns, wanted, source, suggested, first)
    if not wanted:
        block = ["# The records have every field under its own name: nothing to map.", *block]
    numbered = ["number_ids = true  # no column holds ids: they are row-1, row-2, …"] if is_numbered else []
    inner = [*kept[1:], *numbered, *_choice_lines(first, guessed)]
    return [*kept[:1], *(["[input]", *inner, ""] if inner else []), *block]


def _choice_lines(first: Sequence[Row], guessed: Mapping[str, str]) -> list[str]:
    """Return the config line that is needed to read the choices of the questions; an empty list if none is needed.

    ``first`` holds the first rows of the input. ``guessed`` maps fields to the columns that seem to hold them. A line
    is needed in two cases:

    - The choices are lines of the question's text, such as ``A. cat``. The line sets ``choices_in_text``: the lines of
      the text become choices.
    - The choices are in a column, and every answer is a letter. The line sets ``answer_is`` to ``letter``: the answer B
      means the second choice.
    """

    def values(field: str) -> list[str]:
        return [value for row in first if isinstance(value := row.get(guessed.get(field, field)), str)]

    if not any(row.get(guessed.get("choices", "choices")) for row in first):
        if any(has_options(text) for text in values("question")):
            return ['choices_in_text = true  # "A. cat" lines become choices, and an answer B the one it names']
    elif (answers := values("answer")) and all(_LETTER.fullmatch(answer) for answer in answers):
        return ['answer_is = "letter"  # an answer B names the second choice']
    return []


def _shape_lines(found: Input, shape: Shape, first: Sequence[Row]) -> list[str]:
    lines = [f"# It looks like {shape.title}: docs/inputs.md describes how it is read.", "[input]"]
    return [*lines, f'shape = "{shape.name}"', *shape.template(found.columns, first, found.folder), ""]


def _command(command: str, data: str, name: str) -> str:
    return f"beam {command} grounded_cot --input {shlex.quote(printable(data))} --config {shlex.quote(name)}"
