"""`python -m tests.cluster [seconds]`: every trouble, one after the other, as a table."""

import sys
import tempfile
from pathlib import Path

from tests.cluster.fault_table import table
from tests.cluster.proof import prove
from tests.cluster.trouble import TROUBLES


def main(seconds: float) -> int:
    """Whether all promises held."""
    proofs = []
    for trouble in TROUBLES:
        with tempfile.TemporaryDirectory(prefix="tokimori-fleet-") as folder:
            proofs.append(prove(trouble, Path(folder), jobs=200, writers=10, seconds=seconds, freeze=20))
        sys.stderr.write(f"{proofs[-1].row()}\n" + "".join(f"  {fault.text}\n" for fault in proofs[-1].faults[:20]))
    sys.stdout.write(table([proof.row() for proof in proofs]) + "\n")
    return int(any(proof.faults for proof in proofs))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
