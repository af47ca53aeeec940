"""What holds for every test: properties are checked without an eye on the clock."""

from hypothesis import HealthCheck, settings

# A busy machine must not fail a property. The rest is inherited: hypothesis draws the same examples each time where
# it sees that it runs in CI, and new ones elsewhere.
settings.register_profile("untimed", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
settings.load_profile("untimed")
