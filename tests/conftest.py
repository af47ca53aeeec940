"""What holds for every test: properties are checked without an eye on the clock, and nothing is looked at twice."""

import atexit
import gc
import sys
import weakref
from typing import Any

from hypothesis import HealthCheck, settings

# A busy machine must not fail a property. The rest is inherited: hypothesis draws the same examples each time where
# it sees that it runs in CI, and new ones elsewhere.
settings.register_profile("untimed", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Take off what each of the hundreds of small pipelines and the collector would do over again."""
    if userstate := sys.modules.get("apache_beam.transforms.userstate"):
        _remember_specs(userstate)
    gc.collect()
    gc.freeze()  # what was loaded for the tests stays to the end
    atexit.register(gc.unfreeze)  # else extension modules report what they hold as leaked


def _remember_specs(userstate: Any) -> None:
    """Beam reads the signatures of all methods of each DoFn eight times and more while it builds and runs a pipeline,
    a quarter of the time of a small one; here once, as they do not change.
    """
    look, seen = userstate.get_dofn_specs, {}

    def get_dofn_specs(dofn: Any) -> tuple[set[Any], set[Any]]:
        known, specs = seen.get(id(dofn), (lambda: None, ()))
        if known() is not dofn:
            specs = look(dofn)
            seen[id(dofn)] = weakref.ref(dofn), specs
        states, timers = specs
        return set(states), set(timers)

    userstate.get_dofn_specs = get_dofn_specs
