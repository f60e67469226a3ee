"""The course core: ingest, retrieve, gate, answer, cite. Knows no platform, no web and no Redis."""
