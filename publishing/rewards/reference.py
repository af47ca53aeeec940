"""What another trainer hands back with a response: which row it answers, and what its model speaks.

Other trainers carry a string or a dictionary of each row to their reward, and no images. An exported row therefore
carries this reference as JSON, and the reward reads the row itself from the run's shards.
"""

import json
from dataclasses import asdict, dataclass

from schemas.errors import UserError

FIELDS = ("answer", "family", "id", "run")


class BadReference(UserError):
    """A reference that is not JSON of the documented form; the message says what it lacks."""


@dataclass(frozen=True)
class RowReference:
    """The row ``id`` of the run in the folder ``run``, asked of a model of that ``family``; ``answer`` is the gold one.

    ``family`` is a name of :mod:`inference.families.registry`; ``plain`` writes pixels of the original image.
    """

    id: str
    answer: str
    run: str
    family: str

    def text(self) -> str:
        """Returns the reference as one line of JSON with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)


def read_reference(text: str) -> RowReference:
    """Returns the reference that :meth:`RowReference.text` wrote. Raises BadReference for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadReference(f"the row's reference is not JSON: {text[:80]!r}: export the run again") from error
    fields = {name: found.get(name) for name in FIELDS} if isinstance(found, dict) else {}
    missing = [name for name in FIELDS if not isinstance(fields.get(name), str)]
    if missing:
        raise BadReference(f"the row's reference has no text {missing[0]!r}: {text[:80]!r}: export the run again")
    return RowReference(**{name: str(fields[name]) for name in FIELDS})
