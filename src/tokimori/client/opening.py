"""From the settings to the store that they name."""

from pathlib import Path

from tokimori.clock import Clock
from tokimori.config.settings import DEFAULT, Loaded
from tokimori.errors import StoreError
from tokimori.ports.store import Store
from tokimori.stores.open import open_store


def store_of(loaded: Loaded, clock: Clock) -> Store:
    """The store, not yet connected; the folder of the default one is made. Raises `InvalidInput` and `StoreError`."""
    if loaded.origins["store"] == DEFAULT:
        make_state_dir(loaded.settings.state_dir)
    return open_store(loaded.settings.store, clock)


def make_state_dir(folder: Path) -> None:
    """Make the folder where output and the default store are kept. Raises `StoreError`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise StoreError(
            f"state_dir: the folder {folder} can't be made: {fault.strerror}",
            field="state_dir",
            value=str(folder),
            allowed="a folder that can be written",
        ) from None
