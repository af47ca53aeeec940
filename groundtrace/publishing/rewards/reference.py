"""What another trainer hands back with a response: which row it answers, and what its model speaks.

Other trainers carry a string or a dictionary of each row to their reward, and no images. An exported row therefore
carries this reference as JSON, and the reward reads the row itself from the run's shards.
"""

import json
from dataclasses import asdict, dataclass

from groundtrace.schemas.errors import UserError

COLUMN = "groundtrace"
"""The column of an exported row that holds its reference, in trainers that hand over columns."""
FIELDS = ("answer", "family", "id", "run")


class BadReference(UserError):
    """A reference that is not JSON of the documented form; the message says what it lacks."""


@dataclass(frozen=True)
class RowReference:
    """The row ``id`` of the run in the folder ``run``, asked of a model of that ``family``.

    ``answer`` is the gold one, by which a reference to another state of the run is found out; None where it is not
    said, as by a client that names a row by its id alone.

    ``family`` is a name of :mod:`groundtrace.inference.families.registry`; ``plain`` writes pixels of the original
    image. ``stream`` is the one that the row was asked in, of a row that is asked in several (iVGR §3.2); "" of all
    others.
    """

    id: str
    answer: str | None
    run: str
    family: str
    stream: str = ""

    def text(self) -> str:
        """Returns the reference as one line of JSON with sorted keys."""
        fields = {name: value for name, value in asdict(self).items() if value or name in FIELDS}
        return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def read_reference(text: str) -> RowReference:
    """Returns the reference that :meth:`RowReference.text` wrote. Raises BadReference for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadReference(f"the row's reference is not JSON: {text[:80]!r}: export the run again") from error
    return reference_of(found, text)


def reference_of(found: object, text: str) -> RowReference:
    """Returns the reference that parsed JSON holds, of which ``text`` shows the beginning. Raises BadReference."""
    given = {"stream": "", **found} if isinstance(found, dict) else {}
    fields: dict[str, str] = {}
    for name in (*FIELDS, "stream"):
        if not isinstance(value := given.get(name), str):
            raise BadReference(f"the row's reference has no text {name!r}: {text[:80]!r}: export the run again")
        fields[name] = value
    return RowReference(**fields)
