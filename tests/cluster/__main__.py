"""`python -m tests.cluster [seconds]`: every trouble, and then every fault of every store, each as a table."""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.cluster.fault_table import table
from tests.cluster.proof import Proof, prove, prove_store
from tests.cluster.store_faults import FAULTS
from tests.cluster.trouble import TROUBLES


def main(seconds: float) -> int:
    """Whether all promises held."""
    troubles = [partial(prove, trouble, jobs=200, writers=10, seconds=seconds, freeze=20) for trouble in TROUBLES]
    faults = [partial(prove_store, *fault, jobs=20, before=seconds / 20, seconds=seconds / 10) for fault in FAULTS]
    proofs = [[_proof_of(part) for part in parts] for parts in (troubles, faults)]
    for part in proofs:
        sys.stdout.write(table([proof.row() for proof in part]) + "\n\n")
    return int(any(proof.faults for part in proofs for proof in part))


def _proof_of(prove_in: Callable[[Path], Proof]) -> Proof:
    with tempfile.TemporaryDirectory(prefix="tokimori-fleet-") as folder:
        proof = prove_in(Path(folder))
    sys.stderr.write(f"{proof.row()}\n" + "".join(f"  {fault.text}\n" for fault in proof.faults[:20]))
    return proof


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
