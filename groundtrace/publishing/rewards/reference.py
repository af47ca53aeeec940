"""Defines the reference by which the reward of another trainer finds the row that a response answers.

Other trainers pass a string or a dictionary of each row to their reward, but no images. So an exported row holds a
reference as JSON, and the reward reads the row from the run's shards. The reference also names the family of the
trained model: models of a family write coordinates in the same form.
"""

import json
from dataclasses import asdict, dataclass

from groundtrace.schemas.errors import UserError

COLUMN = "groundtrace"
"""The name of the column that holds the reference of an exported row, as JSON text (:class:`RowReference`).

The reference names the row and its run. Trainers that pass columns to a reward pass this column.
"""
FIELDS = ("answer", "family", "id", "run")


class BadReference(UserError):
    """Raised if a text is not a valid reference to a row, or if it does not match its row.

    The message states the reason.
    """


@dataclass(frozen=True)
class RowReference:
    """Refers to a row of a run, so that a reward can find it.

    Attributes:
        id: the id of the row.
        answer: the gold answer. It differs from the row's answer if the reference was made for another version of the
            run. It is None if a client names a row only by its id.
        run: the path of the run folder.
        family: the family of the model that responds to the row, a name in
            :mod:`groundtrace.inference.families.registry`. Models of a family write coordinates in the same form; those
            of the family ``plain`` write pixels of the original image.
        stream: which of the row's prompts was used, if the row has several (iVGR §3.2 calls them streams); else "".
    """

    id: str
    answer: str | None
    run: str
    family: str
    stream: str = ""

    def text(self) -> str:
        """Return the reference, which names a row and its run, as one line of JSON with sorted keys. An exported row
        holds the reference in this form.
        """
        fields = {name: value for name, value in asdict(self).items() if value or name in FIELDS}
        return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def read_reference(text: str) -> RowReference:
    """Parse the JSON text of a reference, which names a row and its run. Raises BadReference for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadReference(f"the row's reference is not JSON: {text[:80]!r}: export the run again") from error
    return reference_of(found, text)


def reference_of(found: object, text: str) -> RowReference:
    """Return the reference that a parsed JSON object holds. It names the run and the row that a response answers.

    ``found`` is the parsed JSON, and ``text`` is the JSON text, which the error message quotes. Raises BadReference if
    ``found`` lacks a field of a reference, such as ``id``.
    """
    given = {"stream": "", **found} if isinstance(found, dict) else {}
    fields: dict[str, str] = {}
    for name in (*FIELDS, "stream"):
        if not isinstance(value := given.get(name), str):
            raise BadReference(
                f"the row's reference must be a JSON object with a text in the field {name!r}, got {text[:80]!r}: "
                "export the run again"
            )
        fields[name] = value
    return RowReference(**fields)
