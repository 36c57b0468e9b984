"""The profiles of a sweep, each read once."""

from collections.abc import Mapping

from simcore.profile.store import StoredProfile, load_profile


class Profiles:
    """Profiles by the name that scenarios give."""

    def __init__(self, known: Mapping[str, StoredProfile] | None = None) -> None:
        self._known = dict(known or {})

    def __getitem__(self, name: str) -> StoredProfile:
        if name not in self._known:
            self._known[name] = load_profile(name)
        return self._known[name]
