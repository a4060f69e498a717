"""Output width must not depend on how the tests are run: a parallel test runner sets COLUMNS for its workers."""

import os

for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

from hypothesis import HealthCheck, settings  # noqa: E402

# The same examples every time and no deadline: a loaded machine must not fail a property.
settings.register_profile("repository", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repository")
