"""The bars of verification, held on labelled claims over the sample course."""

from rag.embedding.local import LocalEmbedder
from scripts.measure_claims import has_something_new, measure, read_claims, shares


async def test_supported_sentences_stay_and_inventions_go() -> None:
    claims = await measure(read_claims(), LocalEmbedder.load(None))
    found = shares(claims)
    assert len(claims) >= 200
    assert found.supported_kept >= 0.95
    assert found.new_dropped >= 0.95
    assert found.unsupported_dropped >= 0.45


def test_what_is_new_is_found_by_plain_search() -> None:
    row = {
        "passage": "Nodes on Jazzy use `ros2 run` at 20 Hz.",
        "title": "Nodes",
        "breadcrumb": "Nodes > Running",
        "question": "How?",
    }
    assert not has_something_new(row | {"claim": "On Jazzy run `ros2 run` at 20 Hz."})
    for claim in ("On Humble it runs.", "It runs at 30 Hz.", "Use `ros2 start`.", "Set my_var."):
        assert has_something_new(row | {"claim": claim})
