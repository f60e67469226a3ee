"""Every error Footnote raises on purpose; its message is one sentence for whoever runs it.

FootnoteError
├── SettingsError        a setting is missing or contradicts another
│   └── DataFolderInUse  another process has the data folder
├── CourseError          an unknown course, an unreadable course folder, a bad course.toml
├── IngestionError       a whole ingestion run cannot go on
├── EmbeddingError       the embedder cannot be loaded or its provider failed
├── IndexingError        the vector index cannot be opened, read or written
├── RerankingError       the reranker's provider failed; the search goes on without it
├── AnsweringError       the language model's provider failed
├── EvaluationError      a questions file cannot be used
└── StoreUnavailable     Redis cannot be reached

"I don't know" is an answer, not an error.
"""


class FootnoteError(Exception):
    """The root: whoever catches it may show its message to the operator."""


class SettingsError(FootnoteError):
    """A setting is missing or contradicts another."""


class DataFolderInUse(SettingsError):
    """Another process has the data folder, whose engines do not share."""


class CourseError(FootnoteError):
    """An unknown course, an unreadable course folder or a bad course.toml."""


class IngestionError(FootnoteError):
    """A whole ingestion run cannot go on; a single bad file is only reported."""


class EmbeddingError(FootnoteError):
    """The embedder cannot be loaded, or its provider failed."""


class IndexingError(FootnoteError):
    """The vector index cannot be opened, read or written."""


class RerankingError(FootnoteError):
    """The reranker's provider failed; the search goes on without it."""


class EvaluationError(FootnoteError):
    """A questions file cannot be used."""


class AnsweringError(FootnoteError):
    """The language model's provider failed."""


class StoreUnavailable(FootnoteError):
    """Redis cannot be reached."""
