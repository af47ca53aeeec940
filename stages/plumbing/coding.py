"""Record types as Beam rows: who imports this module has all of them registered, also those that are declared later."""

from apache_beam.coders.typecoders import registry

from schemas.coding import RECORD_MODULES, for_each_record

for_each_record(registry.register_row)
RECORD_MODULES.add(__name__)
