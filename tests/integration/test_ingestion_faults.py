from pathlib import Path

from tests.integration.ingestion_faults import Campaign


def test_killed_at_random_moments_an_ingestion_is_repaired_by_the_next(tmp_path: Path) -> None:
    with Campaign(tmp_path, seed=1) as campaign:
        campaign.run(rounds=3)
    assert campaign.killed + campaign.finished >= 3
