"""The drive models that an admin vouches for, and the results as they are with his word."""

from __future__ import annotations

from typing import Dict, Iterable, Optional, Tuple

from ...core.ports import Done
from ...core.verdict.plp.trust import TrustedModel, TrustedModels, lifted
from ...core.verdict.result import Result
from ..storing.archive import Archive

# The name under which it is stored.
TRUSTED = "plp-trust"


class Trust:
    """Guarded by the engine's lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._models: Dict[str, TrustedModel] = {}

    def load(self) -> None:
        """Take up what was stored."""
        found = self._archive.trusted_models()
        self._models = {item.drive_model: item for item in found.items}

    def all(self) -> Tuple[TrustedModel, ...]:
        """Every trusted drive model, by name."""
        return tuple(self._models[name] for name in sorted(self._models))

    def of(self, drive_model: str) -> Optional[TrustedModel]:
        """The word for one drive model, or None."""
        return self._models.get(drive_model)

    def add(self, item: TrustedModel) -> None:
        """Trust a drive model; a newer reason replaces the older one."""
        self._models[item.drive_model] = item

    def remove(self, drive_model: str) -> None:
        """Trust it no more."""
        del self._models[drive_model]

    def put(self, done: Done) -> None:
        """Store all of them."""
        self._archive.put_trusted_models(TrustedModels(self.all()), done)

    def lifted(self, results: Iterable[Result]) -> Tuple[Result, ...]:
        """Results as they are with what is vouched for."""
        if not self._models:
            return tuple(results)
        return tuple(lifted(result, self._models.keys()) for result in results)
