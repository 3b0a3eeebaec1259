"""From the settings to the store that they name."""

from tokimori.clock import Clock
from tokimori.config.settings import DEFAULT, Loaded
from tokimori.errors import StoreError
from tokimori.ports.store import Store
from tokimori.stores.open import open_store


def store_of(loaded: Loaded, clock: Clock) -> Store:
    """The store, not yet connected; the folder of the default one is made. Raises `InvalidInput` and `StoreError`."""
    if loaded.origins["store"] == DEFAULT:
        folder = loaded.settings.state_dir
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as fault:
            raise StoreError(
                f"the folder {folder} of the store can't be made: {fault.strerror}",
                field="state_dir",
                value=str(folder),
                allowed="a folder that can be written; or name a store with --store or TOKIMORI_STORE",
            ) from None
    return open_store(loaded.settings.store, clock)
