"""A plugin of pytest: an example of hypothesis that fails is enough, and is not made smaller.

That takes up to minutes, and nobody reads the example of a mutant.
"""

from hypothesis import Phase, settings


def pytest_sessionstart() -> None:
    """Take the profile that the tests have loaded by now, without its last phases."""
    once = settings(settings(), phases=(Phase.explicit, Phase.generate))
    settings.register_profile("unshrunk", once)
    settings.load_profile("unshrunk")
