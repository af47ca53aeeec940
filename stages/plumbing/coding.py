"""Record types with their coder: who imports this module has all of them registered, later ones too.

Each is written by our own coder, of which a runner in another language knows nothing, so that it hands the bytes on.
Beam's row coder is one that such a runner reads itself, and Java's gets ours wrong: Python writes ``str | None`` as a
type that only Python knows.
"""

from apache_beam.coders.typecoders import registry

from schemas.coding import RECORD_MODULES, for_each_record
from stages.plumbing.packing import PackedCoder


def _register(kind: type) -> None:
    registry.register_row(kind)
    registry.register_coder(kind, PackedCoder)


for_each_record(_register)
RECORD_MODULES.add(__name__)
