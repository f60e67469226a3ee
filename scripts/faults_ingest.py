"""A long campaign of killed ingestions: many seeds, each with a course and an index of its own."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.integration.ingestion_faults import Campaign


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where to work; one in memory is faster")
    args = parser.parse_args()
    killed = 0
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        with (
            tempfile.TemporaryDirectory(dir=args.folder) as folder,
            Campaign(Path(folder), seed) as campaign,
        ):
            campaign.run(args.rounds)
        killed += campaign.killed
        sys.stdout.write(
            f"seed {seed}: {campaign.killed} killed, {campaign.finished} finished first\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"{killed} kills, every index whole again after one run.\n")


if __name__ == "__main__":
    main()
