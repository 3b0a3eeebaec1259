"""A guard: a line of the package without which a promise does not hold; and the promises."""

from dataclasses import dataclass
from pathlib import Path

STORE_NAMES = {"memory": "memory", "sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB", "redis": "Redis"}
"""By the words by which tests of stores are told apart."""

_FOLDERS = {"memory": "memory", "sqlite": "sqlite", "postgres": "postgres", "mysql": "mariadb", "redis": "redis"}


@dataclass(frozen=True, slots=True)
class Guard:
    """Taken out: in the package's `files`, `text` is replaced by `without`, wherever it stands."""

    promise: str
    words: str
    files: str
    text: str
    without: str
    test: str
    stores: tuple[str, ...] = ()
    """Where the test is asked of several stores: those on which it fails."""

    @property
    def name(self) -> str:
        """Its words, and where it stands."""
        return f"{self.words} ({', '.join(STORE_NAMES[store] for store in self.stores)})" if self.stores else self.words

    @property
    def where(self) -> tuple[str, ...]:
        """The stores of which it is taken out; none where it stands elsewhere."""
        found = [store for folder, store in _FOLDERS.items() if f"stores/{folder}/" in self.files]
        return self.stores or tuple(found)

    def take_out(self, package: Path) -> int:
        """Take it out of a copy of the package; from how many files."""
        found = [path for path in package.glob(self.files) if self.text in path.read_text()]
        for path in found:
            path.write_text(path.read_text().replace(self.text, self.without))
        return len(found)


def contract(test: str) -> str:
    """A test of all stores."""
    return f"tests/contract/stores/{test}"


ONCE = "An occurrence becomes at most one run"
LEDGER = "Every occurrence ends as a run or a skip"
LOST_REPLY = "A lost reply strands nothing"
REFUSED = "One refused change hinders no other"
LIVE = "A live run is never stolen, a dead node's are taken over"
DEATH = "Death is final"
PROCESSES = "A dead or frozen node leaves no process behind"
NEIGHBOURS = "A run that kills its keeper does not take its neighbours along for ever"
NEVER = "A run that was begun is never begun again against its word"
STALE = "A stale worker changes nothing"
LIMIT = "A limit is never exceeded"
GATE = "After a pause, edit or delete nothing of the old definition is claimed"
NOBODY = "No node is special"
CLOCKS = "Clocks may be wrong"
NOBODY_IN = "Nobody gets in without the secret"
SHOWN_NOWHERE = "A secret of a job is shown nowhere, and used by no other job"
DOOR = "Whoever reaches the door takes no more than a stated room and time"
TOLD = "No end of a run is left out of the events"
NOTIFIED = "No notification is lost with its node, and none has two ids"
MESSAGES = "No message that was acknowledged is lost"
EDITORS = "Nothing is lost where several edit at the same time"
NOT_OURS = "What is somebody else's is left alone"
