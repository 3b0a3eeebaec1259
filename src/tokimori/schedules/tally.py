"""Number of bits that many large numbers have together."""


class Tally:
    """Counts the bits of numbers, each three of which become two first, as a full adder makes them.

    The one has the digits that are left over, the other those that count twice. To count the bits of a number of
    64 KiB takes ten times as long as one of these five steps.
    """

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        """Those of each row count twice as much as those of the one before."""

    def add(self, number: int, row: int = 0) -> None:
        """Add one more number, whose bits count 2**row times."""
        if row == len(self._rows):
            self._rows.append([])
        held = self._rows[row]
        held.append(number)
        if len(held) == 3:
            odd = held[0] ^ held[1]
            twice = held[0] & held[1] | odd & number
            held[:] = [odd ^ number]
            self.add(twice, row + 1)

    def bits(self) -> int:
        """Count the bits of all that were added."""
        return sum(number.bit_count() << row for row, held in enumerate(self._rows) for number in held)
